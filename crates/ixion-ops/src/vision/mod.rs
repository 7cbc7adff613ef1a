//! Image resampling, grids, regions of interest, and the boxes of detectors.

pub mod detection;
pub mod grid;
pub mod interpolation;
pub mod region_pooling;
pub mod regions;
pub mod suppression;

operators! { of detection, grid, interpolation, region_pooling, regions, suppression }
