//! Creating tensors: filled with a value or a range, windows, identity matrices, stored in the file, or random.

pub mod constant;
pub mod counted;
pub mod filled;
pub mod matrices;
pub mod random;
pub mod ranges;
pub mod windows;

operators! { of constant, filled, matrices, random, ranges, windows }
