//! Linear equations.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::{Stack, distinct_axes};
use crate::op::{Layer, LayerError, TensorMeta};
use crate::ops::support::arguments::Operand;
use crate::ops::support::broadcast::broadcast;
use crate::tensor::{DType, Dim};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.linalg.solve`: the x with A·x = B, or x·A = B. B may be vectors, of as many axes as A less one. A singular
    /// matrix is an error. Needs the feature `linalg`.
    pub struct Solve for "aten::linalg_solve" {
        /// The right-hand sides.
        other as "B": Operand,
        /// Whether A stands on the left of x.
        left: bool = true,
    }
}

crate::operator! {
    /// `torch.linalg.solve_ex`: as `torch.linalg.solve`, and 0 for each matrix; of a singular one NaN and the row, counted
    /// from 1, that shows it. Needs the feature `linalg`.
    pub struct SolveEx for "aten::linalg_solve_ex" {
        /// The right-hand sides.
        other as "B": Operand,
        /// Whether A stands on the left of x.
        left: bool = true,
        /// Whether a singular matrix is an error.
        check_errors: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.tensorsolve`: the x with A·x = B, where the first axes of A are those of B and the others become those
    /// of x. Needs the feature `linalg`.
    pub struct TensorSolve for "aten::linalg_tensorsolve" {
        /// The right-hand side.
        other: Operand,
        /// Axes of A that are moved behind the others first.
        dims: Option<Vec<i64>> = None,
    }
}

/// Whether right-hand sides are vectors: one for all matrices, or one for each.
///
/// # Errors
/// [`LayerError::Unsupported`] where that depends on lengths that are not known.
pub(super) fn is_vector(a: &[Dim], b: &[Dim]) -> Result<bool, LayerError> {
    if b.len() == 1 || a.len() != b.len() + 1 || a.iter().zip(b).any(|(a, b)| a.differs(b)) {
        return Ok(b.len() == 1);
    }
    if a.starts_with(b) {
        return Ok(true);
    }
    let (a, b) = (&a[..b.len()], b);
    Err(LayerError::Unsupported(format!("whether {b:?} is {a:?}, and B vectors, must be known")))
}

/// The right-hand sides as matrices: vectors become columns.
pub(super) fn as_columns(b: &TensorMeta, is_vector: bool) -> TensorMeta {
    if is_vector { b.with_dims(b.dims().iter().cloned().chain([Dim::Fixed(1)])) } else { b.clone() }
}

/// The shape of x.
fn unknowns(inputs: &[TensorMeta], other: usize, left: bool) -> Result<TensorMeta, LayerError> {
    let a = Stack::of_square(inputs, 0)?;
    let b = inputs.get(other).ok_or_else(|| LayerError::missing_input(other, inputs.len()))?;
    let is_vector = is_vector(inputs[0].dims(), b.dims())?;
    if is_vector && !left {
        return Err(LayerError::invalid("left", "False", "vectors stand on the right of a matrix"));
    }
    let pair = [inputs[0].clone(), as_columns(b, is_vector)];
    let sides = Stack::of(&pair, 1)?;
    let len = if left { sides.rows } else { sides.columns };
    if a.rows.differs(len) {
        let wanted = format!("{} {} as A has", a.rows, if left { "rows" } else { "columns" });
        return Err(LayerError::shape("B", wanted, b));
    }
    let ends =
        if is_vector { vec![sides.rows.clone()] } else { vec![sides.rows.clone(), sides.columns.clone()] };
    Ok(b.with_dims(broadcast(a.batch, sides.batch)?.into_iter().chain(ends)))
}

/// An input with its vectors as columns.
#[cfg(feature = "linalg")]
pub(super) fn columns_of<'a>(b: &TensorView<'a>, is_vector: bool) -> Result<TensorView<'a>, LayerError> {
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

/// Takes each matrix apart, once for all its right-hand sides.
#[cfg(feature = "linalg")]
fn apart<T: lapack::Element>(
    a: &TensorView<'_>,
    (left, singular): (bool, bool),
    limits: &crate::Limits,
) -> Result<Vec<Apart<T>>, LayerError> {
    // x·A = B is Aᵀ·xᵀ = Bᵀ.
    each(a, limits, |a| match lapack::Factors::of(&if left { a } else { a.reversed_axes() }) {
        Err(Fault::Singular(row)) if singular => Ok(Err(row)),
        factors => factors.map(Ok),
    })
}

/// The x of each right-hand side; NaN for singular matrices.
#[cfg(feature = "linalg")]
fn solutions<T: lapack::Element>(
    factors: &[Apart<T>],
    [a, b]: [&TensorView<'_>; 2],
    shape: &[usize],
    left: bool,
    limits: &crate::Limits,
) -> Result<Vec<ndarray::Array2<T>>, LayerError> {
    let is_vector = is_vector(&lens_as_dims(a), &lens_as_dims(b))?;
    let (b, ends) = (columns_of(b, is_vector)?, if is_vector { 1 } else { 2 });
    let batch = &shape[..shape.len().saturating_sub(ends)];
    each_pair([a, &b], batch, limits, |which, _, b| match &factors[which] {
        Ok(factors) if left => factors.solve(&b, limits),
        Ok(factors) => Ok(factors.solve(&b.t(), limits)?.reversed_axes()),
        Err(_) => Ok(lapack::nothing(b.dim())),
    })
}

impl Layer for Solve {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![unknowns(inputs, self.other.0, self.left)?])
    }
}

by_lapack!(Solve: |layer, inputs, outputs, limits| T => {
    let (shape, pair) = (*outputs[0].shape(), [&inputs[0], &inputs[layer.other.0]]);
    let factors = apart::<T>(pair[0], (layer.left, false), limits)?;
    put_matrices(&mut outputs[0], &solutions(&factors, pair, &shape, layer.left, limits)?)
});

impl Layer for SolveEx {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let info = Stack::of_square(inputs, 0)?.each(DType::I32, []);
        Ok(vec![unknowns(inputs, self.other.0, self.left)?, info])
    }
}

by_lapack!(SolveEx: |layer, inputs, outputs, limits| T => {
    let (shape, pair) = (*outputs[0].shape(), [&inputs[0], &inputs[layer.other.0]]);
    let factors = apart::<T>(pair[0], (layer.left, !layer.check_errors), limits)?;
    put_matrices(&mut outputs[0], &solutions(&factors, pair, &shape, layer.left, limits)?)?;
    put(&mut outputs[1], factors.iter().map(|factors| factors.as_ref().map_or_else(|row| *row as i32, |_| 0)))
});

impl TensorSolve {
    /// The order of the axes of A.
    fn order(&self, rank: usize) -> Result<Vec<usize>, LayerError> {
        let moved = distinct_axes("dims", self.dims.as_deref().unwrap_or_default(), rank)?;
        Ok((0..rank).filter(|axis| !moved.contains(axis)).chain(moved.iter().copied()).collect())
    }
}

impl Layer for TensorSolve {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let b = &inputs[self.other.0];
        let order = self.order(inputs[0].rank())?;
        let dims: Vec<Dim> = order.iter().map(|&axis| inputs[0].dims()[axis].clone()).collect();
        let Some((rows, columns)) = dims.split_at_checked(b.rank()) else {
            return Err(LayerError::shape("the input", "the axes of B and those of x", &inputs[0]));
        };
        let count = |dims: &[Dim]| dims.iter().cloned().fold(Dim::Fixed(1), |all, dim| all * dim);
        let pair = [
            TensorMeta::new(inputs[0].dtype(), [count(rows), count(columns)]),
            TensorMeta::new(b.dtype(), [count(b.dims()), Dim::Fixed(1)]),
        ];
        let (a, sides) = (Stack::of_square(&pair, 0)?, Stack::of(&pair, 1)?);
        if a.rows.differs(sides.rows) {
            return Err(LayerError::shape("B", format!("{} elements, as A has rows", a.rows), b));
        }
        Ok(vec![inputs[0].with_dims(columns.to_vec())])
    }
}

by_lapack!(TensorSolve: |layer, inputs, outputs, limits| T => {
    let order = layer.order(inputs[0].shape().rank())?;
    let a = inputs[0].with_layout(inputs[0].layout().permute(&order)?)?.to_tensor()?;
    let b = inputs[layer.other.0].to_tensor()?;
    let n = b.shape().num_elements();
    let (a, b) = (a.reshape(&[n, n])?, b.reshape(&[n, 1])?);
    put_matrices(&mut outputs[0], &each_pair([&a.view(), &b.view()], &[], limits, |_, a, b| {
        lapack::solve::<T>(&a, &b, limits)
    })?)
});
