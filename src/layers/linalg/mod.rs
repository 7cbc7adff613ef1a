//! Linear algebra: the operators of `torch.linalg`.
//!
//! Powers, exponentials and triangular systems are always there. What takes matrices apart (determinants, inverses,
//! equations, QR, singular values, eigenvalues) is done by LAPACK, with the feature `linalg`; without it these operators have
//! a shape and cannot run.
//!
//! A tensor is a stack of matrices, which lie along its last two axes.

use crate::graph::{LayerError, Registry, RegistryError};

/// Calls a block with a type for each element type that matrices are computed in.
macro_rules! with_field {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::tensor::DType::C64 => {
                type $T = $crate::tensor::Complex<f32>;
                $body
            }
            $crate::tensor::DType::C128 => {
                type $T = $crate::tensor::Complex<f64>;
                $body
            }
            found => Err($crate::layers::linalg::stack::wrong_type("the input", found)),
        }
    };
}

/// Implements [`CpuLayer`](crate::graph::CpuLayer) for a layer that LAPACK computes: the block is there with the feature
/// `linalg` alone.
macro_rules! by_lapack {
    ($name:ident: |$layer:ident, $inputs:ident, $outputs:ident, $limits:ident| $T:ident => $body:expr) => {
        impl $crate::graph::CpuLayer for $name {
            fn initialize(&mut self) -> Result<(), $crate::graph::LayerError> {
                $crate::layers::linalg::available()
            }

            fn forward(
                &mut self,
                $inputs: &[$crate::tensor::TensorView<'_>],
                $outputs: &mut [$crate::tensor::TensorViewMut<'_>],
                context: &mut $crate::graph::ForwardContext<'_>,
            ) -> Result<(), $crate::graph::LayerError> {
                #[cfg(feature = "linalg")]
                {
                    let ($layer, $limits) = (&*self, context.limits());
                    let _ = $layer;
                    with_field!($inputs[0].dtype(), $T => $body)
                }
                #[cfg(not(feature = "linalg"))]
                {
                    let _ = ($inputs, $outputs, context);
                    $crate::layers::linalg::available()
                }
            }
        }
    };
}

/// What the blocks of `by_lapack!` are written with.
#[cfg(feature = "linalg")]
mod blocks {
    pub(super) use super::stack::{each, each_pair, lens, put, put_matrices};
    pub(super) use crate::kernels::lapack::{self, Fault, Singular};
    pub(super) use crate::tensor::{Scalar, TensorView};
}

mod cholesky;
mod determinant;
mod eigen;
mod inverse;
mod least_squares;
mod power;
mod qr;
mod singular;
mod solve;
mod stack;
mod triangular;

pub use cholesky::{Cholesky, CholeskyEx};
pub use determinant::{Det, LogDet, SignAndLogDet};
pub use eigen::{Eig, Eigh, Eigvals, Eigvalsh};
pub use inverse::{Inverse, InverseEx, TensorInverse};
pub use least_squares::LeastSquares;
pub use power::{MatrixExp, MatrixPower};
pub use qr::Qr;
pub use singular::{
    Cond, MatrixRank, NuclearNorm, PseudoInverse, PseudoInverseOfTolerances, Svd, SvdOfThin, SvdVals,
};
pub use solve::{Solve, SolveEx, TensorSolve};
pub use triangular::{CholeskyInverse, CholeskySolve, SolveTriangular, TriangularSolve};

pub(super) use singular::{SingularNorm, with_last};
pub(super) use stack::check_type;

/// Whether LAPACK is there.
///
/// # Errors
/// Where it is not: how to get it.
pub(super) fn available() -> Result<(), LayerError> {
    if cfg!(feature = "linalg") {
        return Ok(());
    }
    let how = "cargo build --release --features linalg, with OpenBLAS installed";
    Err(LayerError::Unsupported(format!(
        "it needs LAPACK, but Ixion was built without the feature `linalg`: {how}"
    )))
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Cholesky>()?;
    registry.register::<CholeskyEx>()?;
    registry.register::<CholeskyInverse>()?;
    registry.register::<CholeskySolve>()?;
    registry.register::<Cond>()?;
    registry.register::<Det>()?;
    registry.register::<Eig>()?;
    registry.register::<Eigh>()?;
    registry.register::<Eigvals>()?;
    registry.register::<Eigvalsh>()?;
    registry.register::<Inverse>()?;
    registry.register::<InverseEx>()?;
    registry.register::<LeastSquares>()?;
    registry.register::<LogDet>()?;
    registry.register::<MatrixExp>()?;
    registry.register::<MatrixPower>()?;
    registry.register::<MatrixRank>()?;
    registry.register::<NuclearNorm>()?;
    registry.register::<PseudoInverse>()?;
    registry.register::<PseudoInverseOfTolerances>()?;
    registry.register::<Qr>()?;
    registry.register::<SignAndLogDet>()?;
    registry.register::<Solve>()?;
    registry.register::<SolveEx>()?;
    registry.register::<SolveTriangular>()?;
    registry.register::<Svd>()?;
    registry.register::<SvdOfThin>()?;
    registry.register::<SvdVals>()?;
    registry.register::<TensorInverse>()?;
    registry.register::<TensorSolve>()?;
    registry.register::<TriangularSolve>()
}

#[cfg(test)]
mod tests;
