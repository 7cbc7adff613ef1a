//! Image resampling, grids and regions of interest.

pub mod grid;
pub mod interpolation;
pub mod regions;

operators! { of grid, interpolation, regions }
