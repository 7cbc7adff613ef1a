//! Reductions and cumulative operations along axes.

pub mod along_axes;
pub mod difference;
pub mod distance;
pub mod extremes;
pub mod median;
pub mod running;
pub mod scan;
pub mod trapezoid;

operators! { of along_axes, difference, distance, extremes, median, running, scan, trapezoid; category Elementwise }
