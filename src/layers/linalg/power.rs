//! Powers and the exponential of matrices: products do it, but for the inverse that a negative power wants.

use super::available;
use super::stack::{Stack, each, put_matrices};
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
#[cfg(feature = "linalg")]
use crate::kernels::lapack;
use crate::kernels::matrix;
use crate::tensor::{TensorView, TensorViewMut};
use std::convert::Infallible;

crate::operator! {
    /// `torch.linalg.matrix_power`: square matrices multiplied by themselves so many times; a negative number takes the
    /// inverse, and needs the feature `linalg`.
    pub struct MatrixPower for "aten::linalg_matrix_power", "aten::matrix_power" {
        /// How many times.
        n: i64,
    }
}

crate::operator! {
    /// `torch.linalg.matrix_exp`: the exponential of square matrices, Σ Aⁿ/n!.
    pub struct MatrixExp for "aten::linalg_matrix_exp", "aten::matrix_exp" {}
}

impl Layer for MatrixPower {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![Stack::of_square(inputs, 0)?.meta()])
    }
}

impl CpuLayer for MatrixPower {
    fn initialize(&mut self) -> Result<(), LayerError> {
        if self.n < 0 { available() } else { Ok(()) }
    }

    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (exponent, limits) = (self.n.unsigned_abs(), context.limits());
        if self.n >= 0 {
            return with_field!(inputs[0].dtype(), T => {
                let power = |a: ndarray::ArrayView2<'_, T>| Ok(matrix::power(&a.to_owned(), exponent));
                put_matrices(&mut outputs[0], &each::<T, _, Infallible>(&inputs[0], limits, power)?)
            });
        }
        available()?;
        #[cfg(feature = "linalg")]
        return with_field!(inputs[0].dtype(), T => {
            let power = |a: ndarray::ArrayView2<'_, T>| Ok(matrix::power(&lapack::inverse(&a)?, exponent));
            put_matrices(&mut outputs[0], &each::<T, _, lapack::Fault>(&inputs[0], limits, power)?)
        });
        #[cfg(not(feature = "linalg"))]
        Ok(())
    }
}

impl Layer for MatrixExp {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![Stack::of_square(inputs, 0)?.meta()])
    }
}

impl CpuLayer for MatrixExp {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_field!(inputs[0].dtype(), T => {
            let exponential = |a: ndarray::ArrayView2<'_, T>| Ok(matrix::exponential(&a.to_owned()));
            put_matrices(&mut outputs[0], &each::<T, _, Infallible>(&inputs[0], context.limits(), exponential)?)
        })
    }
}
