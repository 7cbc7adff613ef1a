//! Creating tensors: filled with a value or a range, stored in the file, or random.

pub mod constant;
pub mod filled;
pub mod random;

operators! { of constant, filled, random }
