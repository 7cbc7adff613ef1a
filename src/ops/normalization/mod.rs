//! Normalization.

pub mod channels;
pub mod last_axes;
