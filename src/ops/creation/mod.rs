//! Tensors that are filled, counted, stored or random.

pub mod constant;
pub mod filled;
pub mod random;

operators! { of constant, filled, random }
