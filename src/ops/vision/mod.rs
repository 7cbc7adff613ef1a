//! Resampling of pictures and feature maps.

pub mod grid;
pub mod interpolation;
pub mod regions;
