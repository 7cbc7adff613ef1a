//! Tensors out of nothing: filled, counted, stored, random.

pub mod constant;
pub mod filled;
pub mod random;
