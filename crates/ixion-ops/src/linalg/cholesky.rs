//! Cholesky factorisation.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{Result, TensorMeta};
use ixion_tensor::DType;

crate::operator! {
    /// `torch.linalg.cholesky`: the Cholesky factor of each positive definite matrix: the lower triangular L with A = L·Lᴴ, or
    /// the upper triangular U with A = Uᴴ·U. Only that triangle of A is read. A matrix that is not positive definite is an
    /// error. Needs the feature `linalg`.
    pub struct Cholesky for "aten::linalg_cholesky", "aten::cholesky" {
        /// Whether to read and return the upper triangle.
        upper: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.cholesky_ex`: the Cholesky factor of each matrix, and 0; for a matrix that is not positive definite, NaN
    /// and the row, counted from 1, that shows it. Needs the feature `linalg`.
    pub struct CholeskyEx for "aten::linalg_cholesky_ex" {
        /// Whether to read and return the upper triangle.
        upper: bool = false,
        /// Whether a matrix that is not positive definite is an error.
        check_errors: bool = false,
    }
}

impl MatrixOperator for Cholesky {
    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let factors = each(&io.inputs[0], limits, |a| lapack::cholesky::<T>(&a, self.upper))?;
        put_matrices(&mut io.outputs[0], &factors)
    }
}

impl MatrixOperator for CholeskyEx {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let results = each(&io.inputs[0], limits, |a| match lapack::cholesky::<T>(&a, self.upper) {
            Err(Fault::NotPositive(row)) if !self.check_errors => Ok((lapack::nothing(a.dim()), row)),
            result => result.map(|factor| (factor, 0)),
        })?;
        put_matrices(&mut io.outputs[0], results.iter().map(|result| &result.0))?;
        put(&mut io.outputs[1], results.iter().map(|result| result.1 as i32))
    }
}

operators! { by_lapack => Cholesky, CholeskyEx }
