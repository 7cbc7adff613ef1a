//! Linear algebra: the operators of `torch.linalg`.
//!
//! Powers, exponentials, triangular systems, LU and LDL are always available. All other factorisations (determinants,
//! inverses, linear systems, QR, singular values, eigenvalues) use LAPACK and need the feature `linalg`; without it, these
//! operators infer their shapes but cannot run.
//!
//! A tensor is a stack of matrices along its last two axes.

/// Imports for computations with LAPACK.
#[cfg(feature = "linalg")]
mod with_lapack {
    pub(super) use super::layer::MatrixElement;
    pub(super) use super::stack::{each, each_pair, lens, put, put_matrices};
    pub(super) use crate::op::Io;
    pub(super) use ixion_kernels::lapack::{self, Fault, Singular};
    pub(super) use ixion_tensor::{Complex, Limits, Shape, TensorView};
}

mod cholesky;
mod determinant;
mod eigen;
mod inverse;
mod layer;
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

pub(super) use layer::available;
pub(super) use singular::{SingularNorm, with_last};
pub(super) use stack::check_type;

operators! {
    PowersOfEach, Vander;
    of cholesky, determinant, eigen, inverse, ldl, least_squares, lu, power, qr, reflection, singular, solve, triangular;
    overload "aten::linalg_matrix_rank"(input, tol, hermitian) of 3,
        "aten::linalg_pinv"(input, rtol, hermitian) of 3,
        "aten::nuclear_norm"(input, keepdim) of 2
}

#[cfg(test)]
mod tests;
