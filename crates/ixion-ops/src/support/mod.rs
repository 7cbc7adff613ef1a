//! Code that operators of several families share.

pub mod arguments;
pub mod broadcast;
pub mod choices;
pub(crate) mod delegation;
pub(crate) mod dynamic;
#[doc(hidden)]
pub mod epilogue;
pub mod float;
pub(crate) mod halves;
#[doc(hidden)]
pub mod int8;
pub(crate) mod number;
pub(crate) mod order;
#[doc(hidden)]
pub mod packed;
#[doc(hidden)]
pub mod packed_weights;
pub(crate) mod pairs;
pub(crate) mod promotion;
pub(crate) mod rows;
#[doc(hidden)]
pub mod rules;
#[doc(hidden)]
pub mod shape_cache;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod views;
pub(crate) mod weights;
