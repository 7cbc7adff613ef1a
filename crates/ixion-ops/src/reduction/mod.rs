//! Reductions and cumulative operations along axes.

pub mod along_axes;
pub mod by_shape;
pub mod difference;
pub mod distance;
pub mod extremes;
pub mod gradient;
pub mod histogram;
pub mod matrices;
pub mod median;
pub mod mode;
pub mod quantiles;
pub mod running;
pub mod scan;
pub mod segments;
pub mod trapezoid;

operators! {
    of along_axes, by_shape, difference, distance, extremes, gradient, histogram, matrices, median, mode, quantiles,
    running, scan, segments, trapezoid;
    category Elementwise
}
