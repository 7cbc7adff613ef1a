//! Least-squares solutions of linear systems.

use super::layer::{MatrixOperator, by_lapack};
use super::solve::{as_columns, is_vector};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::broadcast;
use crate::support::choices::choices;
use ixion_tensor::{DType, Dim};

choices! {
    /// The routine that PyTorch calls. It determines which outputs are not empty.
    pub enum LeastSquaresDriver {
        /// QR, for matrices of full rank: no ranks, no singular values.
        Gels = "gels",
        /// QR with pivoting: no residuals, no singular values.
        Gelsy = "gelsy",
        /// Singular values, by divide and conquer.
        Gelsd = "gelsd",
        /// Singular values.
        Gelss = "gelss",
    }
}

crate::operator! {
    /// `torch.linalg.lstsq`: the X that minimises ‖A·X − B‖, of minimal norm if there are several. Outputs: X; the squared
    /// residuals, if A has more rows than columns (NaN for a matrix without full rank); the ranks; the singular values. It is
    /// computed from singular values, whatever the driver. Needs the feature `linalg`.
    pub struct LeastSquares for "aten::linalg_lstsq" {
        /// The right-hand sides.
        other as "b": InputIndex,
        /// Singular values up to `rcond` times the largest count as 0. By default the larger of rows and columns times the
        /// precision of the element type.
        rcond: Option<f64> = None,
        /// The routine that determines which outputs are not empty; by default `gelsy`.
        driver: Option<LeastSquaresDriver> = None,
    }
}

impl LeastSquares {
    fn driver(&self) -> LeastSquaresDriver {
        self.driver.unwrap_or(LeastSquaresDriver::Gelsy)
    }
}

impl MatrixOperator for LeastSquares {
    const OUTPUTS: usize = 4;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (a, b) = (Stack::of(inputs, 0)?, &inputs[self.other.0]);
        let is_vector = is_vector(inputs[0].dims(), b.dims())?;
        let pair = [inputs[0].clone(), as_columns(b, is_vector)];
        let sides = Stack::of(&pair, 1)?;
        if a.rows.differs(sides.rows) {
            return Err(LayerError::shape("b", format!("{} rows, like A", a.rows), b));
        }
        let batch = broadcast(a.batch, sides.batch)?;
        let whole = Stack { batch: &batch, ..sides };
        let x = if is_vector { vec![a.columns] } else { vec![a.columns, whole.columns] };
        let nothing = |dtype| TensorMeta::new(dtype, [Dim::Fixed(0)]);
        let real = a.dtype.real();
        let is_tall = match (a.rows.fixed(), a.columns.fixed()) {
            (Some(rows), Some(columns)) => rows > columns,
            _ => {
                let reason = "it must be known whether A has more rows than columns";
                return Err(LayerError::Unsupported(reason.to_owned()));
            }
        };
        let has_left_over = is_tall && self.driver() != LeastSquaresDriver::Gelsy;
        let left_over = if has_left_over { whole.each(real, [whole.columns]) } else { nothing(real) };
        let whole_of_a = Stack { batch: &batch, ..Stack::of(inputs, 0)? };
        let (rank, values) = match self.driver() {
            LeastSquaresDriver::Gels => (nothing(DType::I64), nothing(real)),
            LeastSquaresDriver::Gelsy => (whole_of_a.each(DType::I64, []), nothing(real)),
            _ => (whole_of_a.each(DType::I64, []), whole_of_a.each(real, [&a.rank()])),
        };
        Ok(vec![whole.each(a.dtype, x), left_over, rank, values])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        use super::solve::{columns_of, lens_as_dims};
        let (a, b) = (&io.inputs[0], &io.inputs[self.other.0]);
        let is_vector = is_vector(&lens_as_dims(a), &lens_as_dims(b))?;
        let (shape, ends) = (*io.outputs[0].shape(), if is_vector { 1 } else { 2 });
        let batch = &shape[..shape.len().saturating_sub(ends)];
        let parts = each(a, limits, |a| lapack::svd::<T>(&a, false, limits))?;
        let found = each_pair([a, &columns_of(b, is_vector)?], batch, limits, |which, a, b| {
            Ok(lapack::least_squares((&a, &parts[which]), &b, self.rcond))
        })?;
        put_matrices(&mut io.outputs[0], found.iter().map(|found| &found.x))?;
        put(&mut io.outputs[1], found.iter().flat_map(|found| found.left_over.iter().copied()))?;
        put(&mut io.outputs[2], found.iter().map(|found| found.rank as i64))?;
        put(&mut io.outputs[3], found.iter().flat_map(|found| found.s.iter().copied()))
    }
}

operators! { by_lapack => LeastSquares }
