//! Cholesky factorisation.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};
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

square_to_square!(Cholesky);

by_lapack!(Cholesky: |layer, inputs, outputs, limits| T => {
    put_matrices(&mut outputs[0], &each(&inputs[0], limits, |a| lapack::cholesky::<T>(&a, layer.upper))?)
});

impl Layer for CholeskyEx {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [])])
    }
}

by_lapack!(CholeskyEx: |layer, inputs, outputs, limits| T => {
    let results = each(&inputs[0], limits, |a| match lapack::cholesky::<T>(&a, layer.upper) {
        Err(Fault::NotPositive(row)) if !layer.check_errors => Ok((lapack::nothing(a.dim()), row)),
        result => result.map(|factor| (factor, 0)),
    })?;
    put_matrices(&mut outputs[0], results.iter().map(|result| &result.0))?;
    put(&mut outputs[1], results.iter().map(|result| result.1 as i32))
});
