//! Linear systems.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::{Stack, distinct_axes};
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::broadcast;
use ixion_tensor::{DType, Dim};

crate::operator! {
    /// `torch.linalg.solve`: solves A·X = B, or X·A = B, for square A. B may consist of vectors, with one axis less than A. A
    /// singular matrix is an error. Needs the feature `linalg`.
    pub struct Solve for "aten::linalg_solve" {
        /// The right-hand sides.
        other as "B": InputIndex,
        /// Whether to solve A·X = B; else X·A = B.
        left: bool = true,
    }
}

crate::operator! {
    /// `torch.linalg.solve_ex`: as `torch.linalg.solve`, and 0 for each matrix; for a singular matrix, NaN and the row, counted
    /// from 1, that shows it. Needs the feature `linalg`.
    pub struct SolveEx for "aten::linalg_solve_ex" {
        /// The right-hand sides.
        other as "B": InputIndex,
        /// Whether to solve A·X = B; else X·A = B.
        left: bool = true,
        /// Whether a singular matrix is an error.
        check_errors: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.tensorsolve`: solves A·X = B, where the first axes of A are those of B and the others become those of X.
    /// Needs the feature `linalg`.
    pub struct TensorSolve for "aten::linalg_tensorsolve" {
        /// The right-hand side.
        other: InputIndex,
        /// Axes of A to move to the end first.
        dims: Option<Vec<i64>> = None,
    }
}

/// Returns true if the right-hand sides are vectors: one for all matrices, or one for each.
///
/// # Errors
/// [`LayerError::Unsupported`] if that depends on unknown lengths.
pub(super) fn is_vector(a: &[Dim], b: &[Dim]) -> Result<bool> {
    if b.len() == 1 || a.len() != b.len() + 1 || a.iter().zip(b).any(|(a, b)| a.differs(b)) {
        return Ok(b.len() == 1);
    }
    if a.starts_with(b) {
        return Ok(true);
    }
    let (a, b) = (&a[..b.len()], b);
    Err(LayerError::Unsupported(format!(
        "it must be known whether {b:?} equals {a:?}: if so, B consists of vectors"
    )))
}

/// The right-hand sides as matrices: vectors become columns.
pub(super) fn as_columns(b: &TensorMeta, is_vector: bool) -> TensorMeta {
    if is_vector { b.with_dims(b.dims().iter().cloned().chain([Dim::Fixed(1)])) } else { b.clone() }
}

/// The shape of X.
fn unknowns(inputs: &[TensorMeta], other: usize, left: bool) -> Result<TensorMeta> {
    let a = Stack::of_square(inputs, 0)?;
    let b = inputs.get(other).ok_or_else(|| LayerError::missing_input(other, inputs.len()))?;
    let is_vector = is_vector(inputs[0].dims(), b.dims())?;
    if is_vector && !left {
        return Err(LayerError::invalid("left", "False", "expected True, because B consists of vectors"));
    }
    let pair = [inputs[0].clone(), as_columns(b, is_vector)];
    let sides = Stack::of(&pair, 1)?;
    let len = if left { sides.rows } else { sides.columns };
    if a.rows.differs(len) {
        let wanted = format!("{} {}, like A", a.rows, if left { "rows" } else { "columns" });
        return Err(LayerError::shape("B", wanted, b));
    }
    let ends =
        if is_vector { vec![sides.rows.clone()] } else { vec![sides.rows.clone(), sides.columns.clone()] };
    Ok(b.with_dims(broadcast(a.batch, sides.batch)?.into_iter().chain(ends)))
}

/// An input with its vectors as columns.
#[cfg(feature = "linalg")]
pub(super) fn columns_of<'a>(b: &TensorView<'a>, is_vector: bool) -> Result<TensorView<'a>> {
    let rank = b.shape().rank();
    Ok(if is_vector { b.with_layout(b.layout().unsqueeze(rank)?)? } else { *b })
}

#[cfg(feature = "linalg")]
pub(super) fn lens_as_dims(view: &TensorView<'_>) -> Vec<Dim> {
    view.shape().iter().map(|&len| Dim::from(len)).collect()
}

/// The factors of a matrix, or the row that shows that it is singular.
#[cfg(feature = "linalg")]
type Apart<T> = Result<lapack::Factors<T>, usize>;

/// Factorises each matrix, once for all its right-hand sides.
#[cfg(feature = "linalg")]
fn apart<T: lapack::Element>(
    a: &TensorView<'_>,
    (left, singular): (bool, bool),
    limits: &Limits,
) -> Result<Vec<Apart<T>>> {
    // x·A = B is Aᵀ·xᵀ = Bᵀ.
    each(a, limits, |a| match lapack::Factors::of(&if left { a } else { a.reversed_axes() }) {
        Err(Fault::Singular(row)) if singular => Ok(Err(row)),
        factors => factors.map(Ok),
    })
}

/// The X of each right-hand side; NaN for singular matrices.
#[cfg(feature = "linalg")]
fn solutions<T: lapack::Element>(
    factors: &[Apart<T>],
    [a, b]: [&TensorView<'_>; 2],
    shape: &[usize],
    left: bool,
    limits: &Limits,
) -> Result<Vec<ndarray::Array2<T>>> {
    let is_vector = is_vector(&lens_as_dims(a), &lens_as_dims(b))?;
    let (b, ends) = (columns_of(b, is_vector)?, if is_vector { 1 } else { 2 });
    let batch = &shape[..shape.len().saturating_sub(ends)];
    each_pair([a, &b], batch, limits, |which, _, b| match &factors[which] {
        Ok(factors) if left => factors.solve(&b, limits),
        Ok(factors) => Ok(factors.solve(&b.t(), limits)?.reversed_axes()),
        Err(_) => Ok(lapack::nothing(b.dim())),
    })
}

impl MatrixOperator for Solve {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![unknowns(inputs, self.other.0, self.left)?])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (shape, pair) = (*io.outputs[0].shape(), [&io.inputs[0], &io.inputs[self.other.0]]);
        let factors = apart::<T>(pair[0], (self.left, false), limits)?;
        put_matrices(&mut io.outputs[0], &solutions(&factors, pair, &shape, self.left, limits)?)
    }
}

impl MatrixOperator for SolveEx {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let info = Stack::of_square(inputs, 0)?.each(DType::I32, []);
        Ok(vec![unknowns(inputs, self.other.0, self.left)?, info])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (shape, pair) = (*io.outputs[0].shape(), [&io.inputs[0], &io.inputs[self.other.0]]);
        let factors = apart::<T>(pair[0], (self.left, !self.check_errors), limits)?;
        put_matrices(&mut io.outputs[0], &solutions(&factors, pair, &shape, self.left, limits)?)?;
        let rows = factors.iter().map(|factors| factors.as_ref().map_or_else(|row| *row as i32, |_| 0));
        put(&mut io.outputs[1], rows)
    }
}

impl TensorSolve {
    /// The order of the axes of A.
    fn order(&self, rank: usize) -> Result<Vec<usize>> {
        let moved = distinct_axes("dims", self.dims.as_deref().unwrap_or_default(), rank)?;
        Ok((0..rank).filter(|axis| !moved.contains(axis)).chain(moved.iter().copied()).collect())
    }
}

impl MatrixOperator for TensorSolve {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let b = &inputs[self.other.0];
        let order = self.order(inputs[0].rank())?;
        let dims: Vec<Dim> = order.iter().map(|&axis| inputs[0].dims()[axis].clone()).collect();
        let Some((rows, columns)) = dims.split_at_checked(b.rank()) else {
            return Err(LayerError::shape("the input", "the axes of B and those of X", &inputs[0]));
        };
        let count = |dims: &[Dim]| dims.iter().cloned().fold(Dim::Fixed(1), |all, dim| all * dim);
        let pair = [
            TensorMeta::new(inputs[0].dtype(), [count(rows), count(columns)]),
            TensorMeta::new(b.dtype(), [count(b.dims()), Dim::Fixed(1)]),
        ];
        let (a, sides) = (Stack::of_square(&pair, 0)?, Stack::of(&pair, 1)?);
        if a.rows.differs(sides.rows) {
            return Err(LayerError::shape("B", format!("{} elements, one for each row of A", a.rows), b));
        }
        Ok(vec![inputs[0].with_dims(columns.to_vec())])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let order = self.order(io.inputs[0].shape().rank())?;
        let a = io.inputs[0].with_layout(io.inputs[0].layout().permute(&order)?)?.to_tensor()?;
        let b = io.inputs[self.other.0].to_tensor()?;
        let n = b.shape().num_elements();
        let (a, b) = (a.reshape(&[n, n])?, b.reshape(&[n, 1])?);
        let x = each_pair([&a.view(), &b.view()], &[], limits, |_, a, b| lapack::solve::<T>(&a, &b, limits))?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

operators! { by_lapack => Solve, SolveEx, TensorSolve }
