//! Linear algebra: the operators of `torch.linalg`.
//!
//! Powers, exponentials, triangular systems, LU and LDL are always available. All other factorisations (determinants,
//! inverses, linear systems, QR, singular values, eigenvalues) use LAPACK and need the feature `linalg`; without it, these
//! operators infer their shapes but cannot run.
//!
//! A tensor is a stack of matrices along its last two axes.

use crate::op::LayerError;

/// Runs a block with `$T` bound to the element type: one of the types that matrices are computed in.
macro_rules! with_field {
    ($dtype:expr, $T:ident => $body:expr) => {
        ixion_tensor::__with_type!(
            $dtype, $T => $body;
            F32 => f32, F64 => f64, C64 => $crate::tensor::Complex<f32>, C128 => $crate::tensor::Complex<f64>;
            else found => Err($crate::linalg::stack::wrong_type("the input", found))
        )
    };
}

/// Implements [`Layer`](crate::op::Layer) for layers that compute a matrix of the same size from each square
/// matrix.
macro_rules! square_to_square {
    ($($name:ident)+) => {$(
        impl $crate::op::Layer for $name {
            fn infer(
                &self,
                inputs: &[$crate::op::TensorMeta],
            ) -> Result<Vec<$crate::op::TensorMeta>, $crate::op::LayerError> {
                Ok(vec![$crate::linalg::stack::Stack::of_square(inputs, 0)?.meta()])
            }
        }
    )+};
}

/// Implements [`CpuLayer`](crate::op::CpuLayer) for a layer that computes with matrices; the block is generic over the element
/// type.
macro_rules! by_matrices {
    ($name:ident: |$layer:ident, $inputs:ident, $outputs:ident, $limits:ident| $T:ident => $body:expr) => {
        impl $crate::op::CpuLayer for $name {
            fn forward(
                &mut self,
                $inputs: &[$crate::tensor::TensorView<'_>],
                $outputs: &mut [$crate::tensor::TensorViewMut<'_>],
                context: &mut $crate::op::ForwardContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                let ($layer, $limits) = (&*self, context.limits());
                let _ = $layer;
                with_field!($inputs[0].dtype(), $T => $body)
            }
        }
    };
}

/// As `by_matrices!`, for a layer that uses LAPACK: the block is only compiled with the feature `linalg`.
macro_rules! by_lapack {
    ($name:ident: |$layer:ident, $inputs:ident, $outputs:ident, $limits:ident| $T:ident => $body:expr) => {
        impl $crate::op::CpuLayer for $name {
            fn initialize(&mut self) -> Result<(), $crate::op::LayerError> {
                $crate::linalg::available()
            }

            fn forward(
                &mut self,
                $inputs: &[$crate::tensor::TensorView<'_>],
                $outputs: &mut [$crate::tensor::TensorViewMut<'_>],
                context: &mut $crate::op::ForwardContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                #[cfg(feature = "linalg")]
                {
                    let ($layer, $limits) = (&*self, context.limits());
                    let _ = $layer;
                    with_field!($inputs[0].dtype(), $T => $body)
                }
                #[cfg(not(feature = "linalg"))]
                {
                    let _ = ($inputs, $outputs, context);
                    $crate::linalg::available()
                }
            }
        }
    };
}

/// Imports for the blocks of `by_lapack!`.
#[cfg(feature = "linalg")]
mod blocks {
    pub(super) use super::stack::{each, each_pair, lens, put, put_matrices};
    pub(super) use ixion_kernels::lapack::{self, Fault, Singular};
    pub(super) use ixion_tensor::{Scalar, TensorView};
}

mod cholesky;
mod determinant;
mod eigen;
mod inverse;
mod ldl;
mod least_squares;
mod lu;
pub(crate) mod order;
mod power;
mod qr;
mod reflection;
mod singular;
mod solve;
mod stack;
mod triangular;
mod vandermonde;

pub use cholesky::{Cholesky, CholeskyEx};
pub use determinant::{Det, LogDet, SignAndLogDet};
pub use eigen::{Eig, Eigh, Eigvals, Eigvalsh};
pub use inverse::{Inverse, InverseEx, TensorInverse};
pub use ldl::{LdlFactor, LdlFactorEx, LdlSolve};
pub use least_squares::LeastSquares;
pub use lu::{Lu, LuFactor, LuFactorEx, LuSolve, LuSolveOfSides, LuUnpack};
pub use power::{MatrixExp, MatrixPower};
pub use qr::Qr;
pub use reflection::HouseholderProduct;
pub use singular::{
    Cond, MatrixRank, NuclearNorm, PseudoInverse, PseudoInverseOfTolerances, Svd, SvdOfThin, SvdVals,
};
pub use solve::{Solve, SolveEx, TensorSolve};
pub use triangular::{CholeskyInverse, CholeskySolve, SolveTriangular, TriangularSolve};
pub use vandermonde::{PowersOfEach, Vander};

pub(super) use singular::{SingularNorm, with_last};
pub(super) use stack::check_type;

/// Checks that LAPACK is available.
///
/// # Errors
/// If it is not, an error that states how to get it.
pub(super) fn available() -> Result<(), LayerError> {
    if cfg!(feature = "linalg") {
        return Ok(());
    }
    let how = "cargo build --release --features linalg, with OpenBLAS installed";
    Err(LayerError::Unsupported(format!(
        "this operator needs LAPACK, but Ixion was built without the feature `linalg`: {how}"
    )))
}

operators! {
    Cholesky, CholeskyEx, CholeskyInverse, CholeskySolve, Cond, Det, Eig, Eigh, Eigvals, Eigvalsh, HouseholderProduct,
    Inverse, InverseEx, LdlFactor, LdlFactorEx, LdlSolve, LeastSquares, LogDet, Lu, LuFactor, LuFactorEx, LuSolve,
    LuSolveOfSides, LuUnpack, MatrixExp, MatrixPower, MatrixRank, NuclearNorm, PowersOfEach, PseudoInverse,
    PseudoInverseOfTolerances, Qr, SignAndLogDet, Solve, SolveEx, SolveTriangular, Svd, SvdOfThin, SvdVals,
    TensorInverse, TensorSolve, TriangularSolve, Vander;
    overload "aten::linalg_matrix_rank"(input, atol, hermitian) of 3,
        "aten::linalg_pinv"(input, rtol, hermitian) of 3,
        "aten::nuclear_norm"(input, keepdim) of 2
}

#[cfg(test)]
mod tests;
