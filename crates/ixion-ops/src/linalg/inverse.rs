//! Matrix inverses.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};
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

square_to_square!(Inverse);

by_lapack!(Inverse: |layer, inputs, outputs, limits| T => {
    put_matrices(&mut outputs[0], &each(&inputs[0], limits, |a| lapack::inverse::<T>(&a))?)
});

impl Layer for InverseEx {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [])])
    }
}

by_lapack!(InverseEx: |layer, inputs, outputs, limits| T => {
    let results = each(&inputs[0], limits, |a| match lapack::inverse::<T>(&a) {
        Err(Fault::Singular(row)) if !layer.check_errors => Ok((lapack::nothing(a.dim()), row)),
        result => result.map(|inverse| (inverse, 0)),
    })?;
    put_matrices(&mut outputs[0], results.iter().map(|result| &result.0))?;
    put(&mut outputs[1], results.iter().map(|result| result.1 as i32))
});

impl Layer for TensorInverse {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
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
}

by_lapack!(TensorInverse: |layer, inputs, outputs, limits| T => {
    let all = inputs[0].to_tensor()?;
    let n = all.shape().dims().iter().take(layer.ind).product::<usize>();
    put_matrices(&mut outputs[0], &each(&all.reshape(&[n, n])?.view(), limits, |a| lapack::inverse::<T>(&a))?)
});
