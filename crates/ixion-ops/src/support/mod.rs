//! Code that operators of several families share.

pub mod arguments;
pub mod broadcast;
pub mod choices;
pub mod epilogue;
pub mod float;
pub mod int8;
pub(crate) mod number;
pub(crate) mod order;
pub mod packed;
pub mod packed_weights;
pub(crate) mod pairs;
pub(crate) mod promotion;
pub(crate) mod rows;
pub mod rules;
pub mod shape_cache;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod views;
pub(crate) mod weights;
