//! Code that operators of several families share.

pub mod arguments;
pub mod broadcast;
pub mod choices;
pub mod epilogue;
pub mod float;
pub mod int8;
pub(in crate::ops) mod number;
pub(in crate::ops) mod order;
pub mod packed;
pub mod packed_weights;
pub(in crate::ops) mod pairs;
pub(in crate::ops) mod rows;
pub mod rules;
pub mod shape_cache;
#[cfg(test)]
pub(crate) mod testing;
pub(in crate::ops) mod views;
pub(in crate::ops) mod weights;
