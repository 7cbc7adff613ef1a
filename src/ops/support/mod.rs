//! What operators of several families share.

pub mod arguments;
pub mod broadcast;
pub mod choices;
pub mod epilogue;
pub mod float;
pub mod int8;
pub(in crate::ops) mod number;
pub(in crate::ops) mod order;
pub mod packed;
pub(in crate::ops) mod pairs;
pub mod ready;
pub(in crate::ops) mod rows;
pub mod rules;
pub mod stored;
#[cfg(test)]
pub(crate) mod testing;
pub(in crate::ops) mod views;
pub(in crate::ops) mod weights;
