//! Short, obviously correct kernels on ndarray views.
//!
//! The course teaches them, and every faster kernel is tested against them. Nothing here is tuned.

mod arithmetic;
mod attention;
mod closeness;
mod conv;
mod conv2d;
mod deformable;
mod distance;
mod elementwise;
mod folding;
mod fourier;
mod grid;
mod halves;
mod interpolate;
mod mask;
mod matmul;
mod norm;
mod order;
mod pad;
mod pool;
mod quantized;
mod recurrent;
mod reduce;
mod regions;
mod softmax;
mod solve;
#[cfg(test)]
mod tensors;

pub use arithmetic::{add, axpy, sigmoid, subtract};
pub use attention::attention;
pub use closeness::{all_close, is_close};
pub use conv::{conv, conv_transpose};
pub use conv2d::{conv_group, conv2d};
pub use deformable::{Deforming, around, bilinear, deform_conv2d};
pub use distance::distances;
pub use elementwise::{Step, binary, calculate, unary};
pub use folding::{fold, unfold};
pub use fourier::fourier;
pub use grid::{GridMode, GridPadding, Sampling, Taps, affine_grid, grid_sample, normalized};
pub use halves::f16_bits;
pub use interpolate::{Interpolation, Resampling, interpolate};
pub use mask::nonzero;
pub use matmul::matmul;
pub use norm::{local_response_norm, root_mean_square, standardize};
pub use order::{fill, flatten, reshape};
pub use pad::{PadMode, pad, pad_constant, pad_source};
pub use pool::{Divisor, adaptive_avg_pool, adaptive_max_pool, adaptive_range, avg_pool, lp_pool, max_pool};
pub use quantized::{int8_conv2d, int8_linear, int8_matmul, int8_pairs};
pub use recurrent::recurrent;
pub use reduce::{arg_max, arg_min, log_sum_exp, norm, product, sum, variance};
pub use regions::{RegionAlign, Samples, between, region_align};
pub use softmax::{log_softmax, softmax};
pub use solve::{solve, solve_upper};
