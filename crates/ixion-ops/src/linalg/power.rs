//! Powers and exponentials of matrices. They are computed by products; only negative powers need an inverse.

use super::layer::{MatrixElement, MatrixOperator, by_elimination};
use super::stack::{each, put_matrices};
use crate::op::{Io, Result};
use ixion_kernels::matrix::{self, Fault};
use ixion_tensor::Limits;
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

impl MatrixPower {
    /// The base of the power: the matrix, or its inverse for a negative exponent.
    fn base<T: MatrixElement>(&self, a: &ArrayView2<'_, T>) -> Result<Array2<T>, Fault> {
        #[cfg(feature = "linalg")]
        if self.n < 0 {
            return ixion_kernels::lapack::inverse(a);
        }
        Ok(a.to_owned())
    }
}

impl MatrixOperator for MatrixPower {
    fn needs_lapack(&self) -> bool {
        self.n < 0
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let exponent = self.n.unsigned_abs();
        let power = |a: ArrayView2<'_, T>| Ok(matrix::power(&self.base(&a)?, exponent, limits)?);
        put_matrices(&mut io.outputs[0], &each(&io.inputs[0], limits, power)?)
    }
}

impl MatrixOperator for MatrixExp {
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let exponential = |a: ArrayView2<'_, T>| Ok(matrix::exponential(&a.to_owned(), limits)?);
        put_matrices(&mut io.outputs[0], &each(&io.inputs[0], limits, exponential)?)
    }
}

operators! { by_elimination => MatrixPower, MatrixExp }
