//! CPU kernels on arrays and slices, independent of graphs, layers and the names of parameters in files.
//!
//! [`naive`] holds short, obviously correct kernels on ndarray views. The course teaches them, and the fast kernels are
//! tested against them. The other modules work on slices and numbers.

pub mod activation;
pub mod anchors;
pub mod attention;
pub mod blocked;
mod columns;
pub mod conv;
pub mod conv_transpose;
pub mod deformable;
pub mod distance;
pub mod elementwise;
pub mod elimination;

/// The types that kernels compute in.
pub mod float {
    pub use ixion_tensor::Float;
}
pub mod folding;
#[cfg(feature = "fourier")]
pub mod fourier;
pub mod gemm;
pub mod grid;
mod isa;
mod lanes;
#[cfg(feature = "linalg")]
pub mod lapack;
pub mod mask;
pub mod math;
pub mod matrix;
pub mod naive;
pub mod narrow;
pub mod norm;
pub mod packed;
pub mod parallel;
pub mod pool;
pub mod quantization;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod reflection;
pub mod reformat;
pub mod region_pool;
pub mod regions;
pub mod resample;
pub mod softmax;
pub mod strided;
pub mod suppression;
pub mod symmetric;
pub mod take;
#[cfg(test)]
mod testing;
mod transpose;
pub mod window;

pub use isa::{Isa, gain_of_pairs, isa, isa_name, multiplies_bytes, multiplies_pairs};
pub use ixion_tensor::{Float, widest};

// A dependency that no code names would not be linked, and neither would LAPACK, which it brings in.
#[cfg(feature = "linalg")]
use ndarray_linalg as _;
