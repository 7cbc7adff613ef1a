//! Determinants.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{Result, TensorMeta};

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

impl MatrixOperator for Det {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        put(&mut io.outputs[0], each(&io.inputs[0], limits, |a| lapack::determinant::<T>(&a))?)
    }
}

impl MatrixOperator for SignAndLogDet {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, []), stack.each(stack.dtype.real(), [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let parts = each(&io.inputs[0], limits, |a| lapack::log_determinant::<T>(&a))?;
        put(&mut io.outputs[0], parts.iter().map(|part| part.0))?;
        put(&mut io.outputs[1], parts.iter().map(|part| part.1))
    }
}

impl MatrixOperator for LogDet {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        use ndarray_linalg::Scalar;
        let parts = each(&io.inputs[0], limits, |a| lapack::log_determinant::<T>(&a))?;
        put(&mut io.outputs[0], parts.iter().map(|(sign, log)| Scalar::ln(*sign).add_real(*log)))
    }
}

operators! { by_lapack => Det, SignAndLogDet, LogDet }
