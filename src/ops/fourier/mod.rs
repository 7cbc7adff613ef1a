//! Fourier transforms.

pub mod spectrum;
pub mod transforms;
