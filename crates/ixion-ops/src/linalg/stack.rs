//! Tensors as stacks of matrices: checks of their shapes, and iteration over the matrices.

use crate::op::{LayerError, Result, TensorMeta};
use crate::support::broadcast::broadcast;
use ixion_kernels::matrix::{Fault, Field};
use ixion_tensor::{DType, Dim, Element, Limits, Shape, TensorView, TensorViewMut};
use ndarray::{Array2, ArrayView2, ArrayViewD, Axis, Ix2, ShapeError};

/// The shape of a stack of matrices: batch axes, then rows and columns.
pub(super) struct Stack<'a> {
    pub(super) batch: &'a [Dim],
    pub(super) rows: &'a Dim,
    pub(super) columns: &'a Dim,
    pub(super) dtype: DType,
}

pub(super) fn wrong_type(what: &str, found: DType) -> LayerError {
    LayerError::dtype(what, "f32, f64, c64 and c128", found)
}

/// Checks that the element type is one that matrices are computed in.
pub(crate) fn check_type(input: &TensorMeta) -> Result<()> {
    match input.dtype() {
        DType::F32 | DType::F64 | DType::C64 | DType::C128 => Ok(()),
        found => Err(wrong_type("the input", found)),
    }
}

impl<'a> Stack<'a> {
    /// An input as a stack of matrices.
    pub(super) fn of(inputs: &'a [TensorMeta], position: usize) -> Result<Self> {
        let input = inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
        let what = if position == 0 { "the input".to_owned() } else { format!("input {position}") };
        let dtype = input.dtype();
        if !matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
            return Err(wrong_type(&what, dtype));
        }
        if let Some(first) = inputs.first().filter(|first| first.dtype() != dtype) {
            return Err(LayerError::dtype(what, format!("{}, like the first input", first.dtype()), dtype));
        }
        let [batch @ .., rows, columns] = input.dims() else {
            return Err(LayerError::shape(what, "at least two axes", input));
        };
        Ok(Self { batch, rows, columns, dtype })
    }

    /// As [`Stack::of`], for matrices that must be square.
    pub(super) fn of_square(inputs: &'a [TensorMeta], position: usize) -> Result<Self> {
        let stack = Self::of(inputs, position)?;
        if stack.rows.differs(stack.columns) {
            let what = if position == 0 { "the input".to_owned() } else { format!("input {position}") };
            return Err(LayerError::shape(what, "square matrices", &inputs[position]));
        }
        Ok(stack)
    }

    /// The smaller of rows and columns.
    pub(super) fn rank(&self) -> Dim {
        self.rows.clone().min(self.columns.clone())
    }

    /// A tensor with the batch axes, followed by these.
    pub(super) fn each<'d>(&self, dtype: DType, dims: impl IntoIterator<Item = &'d Dim>) -> TensorMeta {
        TensorMeta::new(dtype, self.batch.iter().cloned().chain(dims.into_iter().cloned()))
    }

    /// A tensor of the stack's shape.
    pub(super) fn meta(&self) -> TensorMeta {
        self.each(self.dtype, [self.rows, self.columns])
    }
}

/// The batch axes of two stacks, broadcast.
pub(super) fn common_batch(a: &Stack<'_>, b: &Stack<'_>) -> Result<Vec<Dim>> {
    broadcast(a.batch, b.batch)
}

/// Resolves axes that may count from the end.
///
/// # Errors
/// Returns an error if an axis is out of range; [`LayerError::InvalidParameter`] if an axis is named twice.
pub(super) fn distinct_axes(key: &'static str, dims: &[i64], rank: usize) -> Result<Vec<usize>> {
    let axes = ixion_tensor::resolve_axes(dims, rank)?;
    match axes.iter().enumerate().find(|(at, axis)| axes[..*at].contains(axis)) {
        Some((at, _)) => {
            Err(LayerError::invalid(key, format!("{dims:?}"), format!("axis {} is named twice", dims[at])))
        }
        None => Ok(axes),
    }
}

/// The batch axes of an input, and its numbers of rows and columns.
pub(super) fn lens<'a>(input: &'a TensorView<'_>) -> Result<(&'a [usize], [usize; 2])> {
    match input.shape().dims() {
        [batch @ .., rows, columns] => Ok((batch, [*rows, *columns])),
        _ => Err(LayerError::shape("the input", "at least two axes", input.shape())),
    }
}

/// A view of an input, broadcast to these batch axes. Nothing is copied: copies of one matrix for all could be large.
fn expanded<'a>(input: &TensorView<'a>, batch: &[usize]) -> Result<TensorView<'a>> {
    let (_, [rows, columns]) = lens(input)?;
    let shape = Shape::new(&[batch, &[rows, columns]].concat())?;
    Ok(input.with_layout(input.layout().expand(&shape)?)?)
}

/// The matrix at an index, counted in row-major order of the batch axes.
fn matrix<'a, T>(all: &ArrayViewD<'a, T>, index: usize) -> Result<ArrayView2<'a, T>> {
    let (mut view, mut rest) = (all.clone(), index);
    for axis in (0..all.ndim().saturating_sub(2)).rev() {
        let len = all.len_of(Axis(axis)).max(1);
        view = view.index_axis_move(Axis(axis), rest % len);
        rest /= len;
    }
    let matrix = view.into_dimensionality::<Ix2>().map_err(misfit)?;
    if matrix.is_empty() {
        // ndarray cannot copy an empty view with a broadcast axis: in a debug build it panics.
        return ArrayView2::from_shape(matrix.raw_dim(), &[]).map_err(misfit);
    }
    Ok(matrix)
}

fn misfit(error: ShapeError) -> LayerError {
    LayerError::Unsupported(error.to_string())
}

fn failed(index: usize, count: usize, fault: Fault) -> LayerError {
    if let Fault::Limit(error) = fault {
        return error.into();
    }
    let which = if count == 1 { "the matrix".to_owned() } else { format!("matrix {index} of {count}") };
    LayerError::Unsupported(format!("{which} cannot be computed: {fault}"))
}

/// Checks the memory of this number of results against the limits, without what each of them owns.
pub(super) fn check_results<R>(count: usize, limits: &Limits) -> Result<()> {
    checked(count, size_of::<R>(), limits)?;
    Ok(())
}

/// Returns `count` if that number of results of `size` bytes is within the limits.
fn checked(count: usize, size: usize, limits: &Limits) -> Result<usize> {
    let bytes = (count as u64).saturating_mul(size as u64);
    limits.check_tensor("the results of all matrices", bytes)?;
    Ok(count)
}

/// The number of matrices of an input, if a result of `size` bytes for each is within the limits.
fn checked_count(input: &TensorView<'_>, size: usize, limits: &Limits) -> Result<usize> {
    checked(lens(input)?.0.iter().product(), size, limits)
}

/// The results of a function for each matrix of an input.
pub(super) fn each<T: Field, R>(
    input: &TensorView<'_>,
    limits: &Limits,
    mut function: impl FnMut(ArrayView2<'_, T>) -> Result<R, Fault>,
) -> Result<Vec<R>> {
    let mut results = Vec::with_capacity(checked_count(input, size_of::<R>(), limits)?);
    visit(input, limits, &mut |matrix| {
        results.push(function(matrix)?);
        Ok(())
    })?;
    Ok(results)
}

/// Calls a function for each matrix of an input.
fn visit<T: Field>(
    input: &TensorView<'_>,
    limits: &Limits,
    function: &mut dyn FnMut(ArrayView2<'_, T>) -> Result<(), Fault>,
) -> Result<()> {
    let (all, count) = (input.array::<T>()?, lens(input)?.0.iter().product());
    for index in 0..count {
        limits.check_deadline()?;
        function(matrix(&all, index)?).map_err(|fault| failed(index, count, fault))?;
    }
    Ok(())
}

/// The index of a matrix in its own stack, given its index after the stack was broadcast to `batch`.
fn place(own: &[usize], batch: &[usize], index: usize) -> usize {
    let (mut rest, mut place, mut step) = (index, 0, 1);
    for (&len, &all) in own.iter().rev().zip(batch.iter().rev()) {
        place += if len > 1 { rest % all.max(1) * step } else { 0 };
        (rest, step) = (rest / all.max(1), step * len);
    }
    place
}

/// The results of a function for each pair of matrices of two inputs, which are broadcast to these batch axes. The function
/// also gets the index of the first input's matrix, because the same matrix may occur several times.
pub(super) fn each_pair<T: Field, R>(
    inputs: [&TensorView<'_>; 2],
    batch: &[usize],
    limits: &Limits,
    mut function: impl FnMut(usize, ArrayView2<'_, T>, ArrayView2<'_, T>) -> Result<R, Fault>,
) -> Result<Vec<R>> {
    let count = checked(batch.iter().product(), size_of::<R>(), limits)?;
    let mut results = Vec::with_capacity(count);
    visit_pairs(inputs, batch, limits, &mut |which, a, b| {
        results.push(function(which, a, b)?);
        Ok(())
    })?;
    Ok(results)
}

/// A function that is called for each pair of matrices.
type OfPair<'f, T> = dyn FnMut(usize, ArrayView2<'_, T>, ArrayView2<'_, T>) -> Result<(), Fault> + 'f;

fn visit_pairs<T: Field>(
    inputs: [&TensorView<'_>; 2],
    batch: &[usize],
    limits: &Limits,
    function: &mut OfPair<'_, T>,
) -> Result<()> {
    let own = lens(inputs[0])?.0;
    let (a, b) = (expanded(inputs[0], batch)?, expanded(inputs[1], batch)?);
    let (a, b, count) = (a.array::<T>()?, b.array::<T>()?, batch.iter().product());
    for index in 0..count {
        limits.check_deadline()?;
        let result = function(place(own, batch, index), matrix(&a, index)?, matrix(&b, index)?);
        result.map_err(|fault| failed(index, count, fault))?;
    }
    Ok(())
}

/// Writes elements to an output in row-major order.
pub(super) fn put<T: Element>(
    output: &mut TensorViewMut<'_>,
    numbers: impl IntoIterator<Item = T>,
) -> Result<()> {
    let mut numbers = numbers.into_iter();
    fill(output, &mut || numbers.next())
}

fn fill<T: Element>(output: &mut TensorViewMut<'_>, next: &mut dyn FnMut() -> Option<T>) -> Result<()> {
    for to in &mut output.array::<T>()? {
        let Some(number) = next() else { break };
        *to = number;
    }
    Ok(())
}

/// Writes matrices to an output, in order.
pub(super) fn put_matrices<'m, T: Element>(
    output: &mut TensorViewMut<'_>,
    matrices: impl IntoIterator<Item = &'m Array2<T>>,
) -> Result<()> {
    put(output, matrices.into_iter().flat_map(|matrix| matrix.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_matrices_keep_their_index() {
        let places = |own: &[usize], batch: &[usize]| -> Vec<usize> {
            (0..batch.iter().product()).map(|index| place(own, batch, index)).collect()
        };
        assert_eq!(places(&[], &[2, 2]), [0, 0, 0, 0]);
        assert_eq!(places(&[2], &[2, 2]), [0, 1, 0, 1]);
        assert_eq!(places(&[2, 1], &[2, 3]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(places(&[2, 3], &[2, 3]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(places(&[1, 3], &[0, 3]), [0usize; 0]);
    }
}
