//! Fourier transforms.

#[cfg(feature = "fourier")]
pub mod spectrum;
#[cfg(feature = "fourier")]
pub mod transforms;
