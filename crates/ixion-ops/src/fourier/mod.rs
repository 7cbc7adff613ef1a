//! Fourier transforms.

pub mod spectrum;
pub mod transforms;

operators! { of spectrum, transforms }
