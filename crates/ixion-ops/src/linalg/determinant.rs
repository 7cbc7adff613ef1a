//! Determinants.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};

crate::operator! {
    /// `torch.linalg.det`: the determinant of each square matrix; 1 for an empty matrix. Needs the feature `linalg`.
    pub struct Det for "aten::linalg_det", "aten::det" {}
}

crate::operator! {
    /// `torch.linalg.slogdet`: the sign of the determinant (a complex one is divided by its absolute value), and the logarithm
    /// of its absolute value; 0 and -inf for a singular matrix. Needs the feature `linalg`.
    pub struct SignAndLogDet for "aten::linalg_slogdet", "aten::slogdet" {}
}

crate::operator! {
    /// `torch.logdet`: the logarithm of the determinant; NaN if it is negative, -inf for a singular matrix. Needs the feature
    /// `linalg`.
    pub struct LogDet for "aten::logdet" {}
}

macro_rules! of_square_matrices {
    ($($name:ident)+) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let stack = Stack::of_square(inputs, 0)?;
                Ok(vec![stack.each(stack.dtype, [])])
            }
        }
    )+};
}

of_square_matrices!(Det LogDet);

impl Layer for SignAndLogDet {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, []), stack.each(stack.dtype.real(), [])])
    }
}

by_lapack!(Det: |layer, inputs, outputs, limits| T => {
    put(&mut outputs[0], each(&inputs[0], limits, |a| lapack::determinant::<T>(&a))?)
});

by_lapack!(SignAndLogDet: |layer, inputs, outputs, limits| T => {
    let parts = each(&inputs[0], limits, |a| lapack::log_determinant::<T>(&a))?;
    put(&mut outputs[0], parts.iter().map(|part| part.0))?;
    put(&mut outputs[1], parts.iter().map(|part| part.1))
});

by_lapack!(LogDet: |layer, inputs, outputs, limits| T => {
    use ndarray_linalg::Scalar;
    let parts = each(&inputs[0], limits, |a| lapack::log_determinant::<T>(&a))?;
    put(&mut outputs[0], parts.iter().map(|(sign, log)| Scalar::ln(*sign).add_real(*log)))
});
