//! Matrix inverses.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{LayerError, Result, TensorMeta};
use ixion_tensor::{DType, Dim};

crate::operator! {
    /// `torch.linalg.inv`: the inverse of each square matrix. A singular matrix is an error. Needs the feature `linalg`.
    pub struct Inverse for "aten::linalg_inv", "aten::inverse" {}
}

crate::operator! {
    /// `torch.linalg.inv_ex`: the inverse of each square matrix, and 0; for a singular matrix, NaN and the row, counted from 1,
    /// that shows it. Needs the feature `linalg`.
    pub struct InverseEx for "aten::linalg_inv_ex" {
        /// Whether a singular matrix is an error.
        check_errors: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.tensorinv`: the inverse of a tensor that is interpreted as a matrix: its first axes are the rows, the
    /// others the columns. Needs the feature `linalg`.
    pub struct TensorInverse for "aten::linalg_tensorinv" {
        /// The number of axes that are rows.
        ind: usize = 2,
    }
}

impl MatrixOperator for Inverse {
    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        put_matrices(&mut io.outputs[0], &each(&io.inputs[0], limits, |a| lapack::inverse::<T>(&a))?)
    }
}

impl MatrixOperator for InverseEx {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let results = each(&io.inputs[0], limits, |a| match lapack::inverse::<T>(&a) {
            Err(Fault::Singular(row)) if !self.check_errors => Ok((lapack::nothing(a.dim()), row)),
            result => result.map(|inverse| (inverse, 0)),
        })?;
        put_matrices(&mut io.outputs[0], results.iter().map(|result| &result.0))?;
        put(&mut io.outputs[1], results.iter().map(|result| result.1 as i32))
    }
}

impl MatrixOperator for TensorInverse {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dims = inputs[0].dims();
        let Some((rows, columns)) = dims.split_at_checked(self.ind).filter(|_| self.ind > 0) else {
            return Err(LayerError::invalid(
                "ind",
                self.ind,
                format!("expected a number from 1 to {}", dims.len()),
            ));
        };
        let count = |dims: &[Dim]| dims.iter().cloned().fold(Dim::Fixed(1), |all, dim| all * dim);
        Stack::of_square(&[TensorMeta::new(inputs[0].dtype(), [count(rows), count(columns)])], 0)?;
        Ok(vec![inputs[0].with_dims([columns, rows].concat())])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let all = io.inputs[0].to_tensor()?;
        let n = all.shape().dims().iter().take(self.ind).product::<usize>();
        let inverses = each(&all.reshape(&[n, n])?.view(), limits, |a| lapack::inverse::<T>(&a))?;
        put_matrices(&mut io.outputs[0], &inverses)
    }
}

operators! { by_lapack => Inverse, InverseEx, TensorInverse }
