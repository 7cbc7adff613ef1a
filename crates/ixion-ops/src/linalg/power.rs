//! Powers and exponentials of matrices. They are computed by products; only negative powers need an inverse.

use super::available;
use super::stack::{each, put_matrices};
use crate::op::{CpuLayer, ForwardContext, LayerError};
#[cfg(feature = "linalg")]
use ixion_kernels::lapack;
#[cfg(not(feature = "linalg"))]
use ixion_kernels::matrix::Field;
use ixion_kernels::matrix::{self, Fault};
use ixion_tensor::{TensorView, TensorViewMut};
use ndarray::{Array2, ArrayView2};

crate::operator! {
    /// `torch.linalg.matrix_power`: the n-th power of each square matrix. A negative power is that of the inverse and needs the
    /// feature `linalg`.
    pub struct MatrixPower for "aten::linalg_matrix_power", "aten::matrix_power" {
        /// The exponent.
        n: i64,
    }
}

crate::operator! {
    /// `torch.linalg.matrix_exp`: the exponential of each square matrix, Σ Aⁿ/n!.
    pub struct MatrixExp for "aten::linalg_matrix_exp", "aten::matrix_exp" {}
}

square_to_square!(MatrixPower MatrixExp);

impl MatrixPower {
    /// The base of the power: the matrix, or its inverse for a negative exponent.
    #[cfg(feature = "linalg")]
    fn base<T: lapack::Element>(&self, a: &ArrayView2<'_, T>) -> Result<Array2<T>, Fault> {
        if self.n < 0 { lapack::inverse(a) } else { Ok(a.to_owned()) }
    }

    /// The base of the power.
    #[cfg(not(feature = "linalg"))]
    fn base<T: Field>(&self, a: &ArrayView2<'_, T>) -> Result<Array2<T>, Fault> {
        Ok(a.to_owned())
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
        self.initialize()?;
        let (exponent, limits) = (self.n.unsigned_abs(), context.limits());
        with_field!(inputs[0].dtype(), T => {
            let power = |a: ArrayView2<'_, T>| Ok(matrix::power(&self.base(&a)?, exponent, limits)?);
            put_matrices(&mut outputs[0], &each(&inputs[0], limits, power)?)
        })
    }
}

by_matrices!(MatrixExp: |layer, inputs, outputs, limits| T => {
    let exponential = |a: ArrayView2<'_, T>| Ok(matrix::exponential(&a.to_owned(), limits)?);
    put_matrices(&mut outputs[0], &each(&inputs[0], limits, exponential)?)
});
