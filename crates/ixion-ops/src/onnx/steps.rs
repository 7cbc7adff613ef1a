//! Steps that no PyTorch operator covers: reshaping to symbolic lengths, indices, reversed sequences, determinants.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::broadcast::Converted;
use crate::support::views::{view_layers, write_plain};
use ixion_tensor::{
    DType, Dim, Layout, LimitError, Limits, Shape, TensorError, TensorView, resolve_axis, with_bits,
};
use std::ops::RangeInclusive;

/// Reshapes a tensor, in row-major order. Lengths may be symbolic.
#[derive(Debug, Clone)]
pub(super) struct Reshape(pub(super) Vec<Dim>);

impl Layer for Reshape {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = inputs[0].with_dims(self.0.clone());
        if inputs[0].num_elements().differs(&output.num_elements()) {
            return Err(LayerError::shape(
                "the input",
                format!("as many elements as {output} has"),
                &inputs[0],
            ));
        }
        Ok(vec![match inputs[0].values() {
            Some(values) if output.rank() < 2 => output.with_values(values.to_vec()),
            _ => output,
        }])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        Ok(inputs[0].reshape(shape)?.map(|layout| View { input: 0, layout }))
    }
}

/// Repeats axes of length 1, and adds axes before the others.
#[derive(Debug, Clone)]
pub(super) struct Broadcast(pub(super) Vec<Dim>);

impl Layer for Broadcast {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = inputs[0].with_dims(self.0.clone());
        let mut pairs = self.0.iter().rev().zip(inputs[0].dims().iter().rev());
        if inputs[0].rank() > output.rank()
            || pairs.any(|(wanted, len)| *len != 1usize && len.differs(wanted))
        {
            return Err(LayerError::shape(
                "the input",
                format!("a shape that can be broadcast to {output}"),
                &inputs[0],
            ));
        }
        Ok(vec![output])
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: 0, layout: inputs[0].expand(shape)? }))
    }
}

view_layers!(Reshape, Broadcast);

/// Converts negative indices of an axis of the second input, which count from its end, to non-negative ones, as i64.
#[derive(Debug, Clone)]
pub(super) struct WrapIndices {
    /// The axis of the second input.
    pub(super) axis: usize,
}

/// An index counted from the beginning.
///
/// # Errors
/// [`TensorError::OutOfRange`] if the index is out of range.
fn wrap_index(index: i64, len: usize) -> Result<i64> {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    match if index < 0 { index.saturating_add(signed) } else { index } {
        place if (0..signed).contains(&place) => Ok(place),
        _ => Err(TensorError::OutOfRange { what: "index", index, len }.into()),
    }
}

impl Layer for WrapIndices {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = inputs[0].with_dtype(DType::I64);
        let len = inputs[1].dims().get(self.axis).cloned().unwrap_or(Dim::Fixed(1));
        let wrapped = |index: &Dim| match index.fixed() {
            Some(index) if index < 0 => len.clone() + index,
            _ => index.clone(),
        };
        let values = inputs[0].values().map(|values| values.iter().map(wrapped).collect());
        Ok(vec![match values {
            Some(values) => output.with_values(values),
            None => output,
        }])
    }
}

impl CpuLayer for WrapIndices {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let len = io.inputs[1].shape().get(self.axis).copied().unwrap_or(1);
        let indices = Converted::of(&io.inputs[0], DType::I64)?;
        let indices = indices.view().array::<i64>()?;
        for (output, &index) in io.outputs[0].array::<i64>()?.iter_mut().zip(indices) {
            *output = wrap_index(index, len)?;
        }
        Ok(())
    }
}

/// Converts multi-dimensional indices …×k of the second input to flat ones: indices into the k axes that follow the
/// first `batch` axes, which both inputs share.
#[derive(Debug, Clone)]
pub(super) struct LinearIndex {
    /// The number of leading batch axes that both inputs share.
    pub(super) batch: usize,
}

impl Layer for LinearIndex {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dims = inputs[0].dims().split_last().map(|(_, dims)| dims.to_vec()).unwrap_or_default();
        Ok(vec![TensorMeta::new(DType::I64, dims)])
    }
}

impl CpuLayer for LinearIndex {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (shape, lens) = (*io.inputs[0].shape(), *io.inputs[1].shape());
        let depth = shape.last().copied().unwrap_or(0);
        let batches: usize = shape.iter().take(self.batch).product();
        let lens: Vec<usize> = lens.iter().copied().skip(self.batch).take(depth).collect();
        let per_batch: usize = lens.iter().product();
        let rows = io.outputs[0].num_elements();
        let indices = Converted::of(&io.inputs[0], DType::I64)?;
        let indices = indices.view().to_vec::<i64>()?;
        let mut output = io.outputs[0].array::<i64>()?;
        for (row, output) in output.iter_mut().enumerate() {
            let first = (row / (rows / batches.max(1)).max(1)) * per_batch;
            let index = indices.get(row * depth..(row + 1) * depth).unwrap_or_default();
            let mut place = 0usize;
            for (&index, &len) in index.iter().zip(&lens) {
                place = place * len + wrap_index(index, len)? as usize;
            }
            *output = (first + place) as i64;
        }
        Ok(())
    }
}

/// Reverses the first elements of each sequence in a batch; the second input holds their number for each sequence. The
/// first two axes are time and batch, in either order.
#[derive(Debug, Clone)]
pub(super) struct ReverseSequences {
    /// The axis of time, 0 or 1.
    pub(super) time: usize,
}

impl Layer for ReverseSequences {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [first, second, ..] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "at least two axes", &inputs[0]));
        };
        let batch = if self.time == 0 { second } else { first };
        if !inputs[1].may_have_dims(std::slice::from_ref(batch)) {
            let wanted = format!("a vector of {batch} elements");
            return Err(LayerError::shape("the lengths of the sequences", wanted, &inputs[1]));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for ReverseSequences {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[0])?;
        let steps = io.inputs[0].shape().get(self.time).copied().unwrap_or(0);
        let lens = Converted::of(&io.inputs[1], DType::I64)?;
        for (sequence, &len) in lens.view().array::<i64>()?.iter().enumerate() {
            let Some(len) = usize::try_from(len).ok().filter(|len| *len <= steps) else {
                let (what, len) = ("length of a sequence", (len, steps));
                return Err(TensorError::OutOfRange { what, index: len.0, len: len.1 }.into());
            };
            for step in 0..len {
                io.context.limits().check_deadline()?;
                let at = |layout: &Layout, step: usize| {
                    layout.select(self.time, step).and_then(|layout| layout.select(0, sequence))
                };
                let from = io.inputs[0].with_layout(at(io.inputs[0].layout(), len - 1 - step)?)?;
                let to = at(io.outputs[0].layout(), step)?;
                io.outputs[0].reborrow().with_layout(to)?.copy_from(&from)?;
            }
        }
        Ok(())
    }
}

/// One-hot encoding: each index becomes a new axis, with the second of two values at the index and the first one
/// elsewhere.
#[derive(Debug, Clone)]
pub(super) struct OneHotEncode {
    /// Position of the new axis in the output; a negative one counts from the end.
    pub(super) axis: i64,
    /// Its length.
    pub(super) depth: Dim,
}

impl Layer for OneHotEncode {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if !inputs[1].may_have_dims(&[Dim::Fixed(2)]) {
            return Err(LayerError::shape("the values", "two elements", &inputs[1]));
        }
        if self.depth.fixed().is_some_and(|depth| depth < 0) {
            return Err(LayerError::invalid("depth", &self.depth, "it must be at least 0"));
        }
        let axis = resolve_axis(self.axis, inputs[0].rank() + 1)?;
        let mut dims = inputs[0].dims().to_vec();
        dims.insert(axis, self.depth.clone());
        Ok(vec![inputs[1].with_dims(dims)])
    }
}

impl CpuLayer for OneHotEncode {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axis = resolve_axis(self.axis, io.outputs[0].shape().rank())?;
        let depth = io.outputs[0].shape().get(axis).copied().unwrap_or(0);
        let indices = Converted::of(&io.inputs[0], DType::I64)?;
        let indices = indices.view().to_vec::<i64>()?;
        let inner: usize = io.outputs[0].shape().iter().skip(axis + 1).product();
        let place = |(lane, index): (usize, i64)| {
            let place = usize::try_from(wrap_index(index, depth).ok()?).ok()?;
            Some((lane / inner * depth + place) * inner + lane % inner)
        };
        let places: Vec<usize> = indices.into_iter().enumerate().filter_map(place).collect();
        let values = io.inputs[1].to_tensor()?;
        write_plain(&mut io.outputs[0], &mut |output| {
            with_bits!(output.dtype(), B => {
                let values = values.view();
                let values = values.bits_slice::<B>()?;
                let value = |place: usize| values.get(place).copied().unwrap_or_default();
                let elements = output.bits_slice::<B>()?;
                elements.fill(value(0));
                for &place in &places {
                    if let Some(element) = elements.get_mut(place) {
                        *element = value(1);
                    }
                }
            });
            Ok(())
        })?;
        Ok(())
    }
}

/// The determinants of square matrices, by Gaussian elimination in f64.
#[derive(Debug, Clone)]
pub(super) struct Determinant;

/// The determinant of a matrix of n rows, which is overwritten.
fn determinant(matrix: &mut [f64], n: usize, limits: &Limits) -> Result<f64, LimitError> {
    let mut product = 1.0;
    for column in 0..n {
        limits.check_deadline()?;
        let size = |row: &usize| matrix[row * n + column].abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        if pivot != column {
            (0..n).for_each(|at| matrix.swap(pivot * n + at, column * n + at));
            product = -product;
        }
        let divisor = matrix[column * n + column];
        product *= divisor;
        if divisor == 0.0 {
            return Ok(0.0);
        }
        for row in column + 1..n {
            let factor = matrix[row * n + column] / divisor;
            for at in column..n {
                matrix[row * n + at] -= factor * matrix[column * n + at];
            }
        }
    }
    Ok(product)
}

impl Layer for Determinant {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        match inputs[0].dims() {
            [dims @ .., rows, columns] if !rows.differs(columns) && inputs[0].dtype().is_float() => {
                Ok(vec![inputs[0].with_dims(dims.to_vec())])
            }
            _ => Err(LayerError::shape("the input", "square matrices of floats", &inputs[0])),
        }
    }
}

impl CpuLayer for Determinant {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let n = io.inputs[0].shape().last().copied().unwrap_or(0);
        let mut matrices = io.inputs[0].to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?;
        let mut values = vec![1.0; io.outputs[0].num_elements()];
        for (value, matrix) in values.iter_mut().zip(matrices.chunks_exact_mut((n * n).max(1))) {
            *value = determinant(matrix, n, io.context.limits())?;
        }
        let layout = Layout::contiguous(*io.outputs[0].shape());
        Ok(io.outputs[0].cast_from(&TensorView::from_slice(&values, layout)?)?)
    }
}
