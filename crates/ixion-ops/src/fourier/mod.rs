//! Fourier transforms.

pub mod frequencies;
pub mod spectrum;
pub mod transforms;

operators! { of frequencies, spectrum, transforms }
