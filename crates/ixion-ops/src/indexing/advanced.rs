//! Advanced indexing with tensors and masks, such as `x[[0, 2], :, mask]`, for reading and writing.

mod items;
mod places;

use super::by_index::{view_with_axis, with_axis};
use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcasts};
use crate::support::delegation::Delegating;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::elementwise::Program;
use ixion_kernels::mask;
use ixion_pnnx::Function;
use ixion_tensor::{
    Complex, DType, Element, Limits, Scalar, Shape, Tensor, TensorView, TensorViewMut, resolve_axis,
    with_bits,
};
use places::{Places, indexed_dims};
use std::ops::RangeInclusive;

pub use items::{Indices, Item, Items};

crate::operator! {
    /// `torch.Tensor.__getitem__` with lists, tensors and masks: advanced indexing, with one item of `expr` per axis. `None`
    /// selects the whole axis, a list or tensor of integers selects these indices, and a mask of n axes covers n axes. All
    /// indices are broadcast to one shape, whose axes replace the indexed axes at the first of them, or come first if the
    /// indexed axes are not adjacent.
    pub struct Index for "Tensor.index" {
        /// The items of the index, or an input of stacked index tensors, one for each of the first axes.
        expr: Items,
    }
}

crate::operator! {
    /// `torch.Tensor.index_put`: a copy of the input with `values` at the given indices.
    pub struct IndexPut for "Tensor.index_put" {
        /// The items of the index, as for `Tensor.index`.
        indices: Items,
        /// The values to write: a number, or a tensor that is broadcast.
        values: TensorOrScalar,
        /// Whether the values are added to the input's elements instead of replacing them.
        accumulate: bool = false,
    }
}

crate::operator! {
    /// `torch.index_fill`: a copy of the input filled with a number at the given indices of one axis. A tensor without axes is a
    /// vector of one element.
    pub struct IndexFill for "torch.index_fill", "Tensor.index_fill", "aten::index_fill" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices, a vector.
        index: InputIndex,
        /// The number.
        value: TensorOrScalar,
    }
}

crate::operator! {
    /// `torch.index_add`: adds `alpha` times the slices of `source` to the input, at the given indices of one axis. A tensor
    /// without axes is a vector of one element.
    pub struct IndexAdd for "torch.index_add", "Tensor.index_add", "aten::index_add" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices, a vector.
        index: InputIndex,
        /// The slices to add, as many along the axis as there are indices.
        source: InputIndex,
        /// Factor of `source`.
        alpha: Scalar = Scalar::Int(1),
    }
}

impl Index {
    fn fill(
        places: &Places,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        if !input.layout().is_contiguous() {
            return Self::fill(places, &input.to_tensor()?.view(), output, limits);
        }
        if !output.layout().is_contiguous() {
            let mut result = Tensor::empty(output.dtype(), &places.result)?;
            Self::fill(places, input, &mut result.view_mut()?, limits)?;
            return Ok(output.copy_from(&result.view())?);
        }
        limits.check_deadline()?;
        with_bits!(input.dtype(), B => {
            let (from, to) = (input.bits_slice::<B>()?, output.bits_slice::<B>()?);
            let mut parts = to.chunks_exact_mut(places.block.max(1));
            places.blocks().for_each(|start| match (parts.next(), from.get(start..)) {
                (Some([to]), Some([from, ..])) => *to = *from,
                (Some(to), Some(from)) => to.copy_from_slice(&from[..to.len()]),
                _ => {}
            });
        });
        Ok(())
    }
}

impl Layer for Index {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (shape, axes) = self.expr.shape(inputs)?;
        Ok(vec![inputs[0].with_dims(indexed_dims(&inputs[0], shape, &axes)?)])
    }

    /// Index inputs may be masks, which select a number of elements that depends on their values.
    fn is_data_dependent(&self) -> bool {
        self.field_inputs() > 0
    }
}

impl CpuLayer for Index {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        let places = Places::new(&self.expr.values(io.inputs, limits)?, io.inputs[0].shape(), limits)?;
        Self::fill(&places, &io.inputs[0], &mut io.outputs[0], limits)
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let limits = context.limits();
        if let Some((before, mask)) = self.expr.only_mask(inputs)? {
            return Ok(vec![taken(&inputs[0], before, &mask, limits)?]);
        }
        let places = Places::new(&self.expr.values(inputs, limits)?, inputs[0].shape(), limits)?;
        let bytes = (places.result.num_elements() as u64).saturating_mul(inputs[0].dtype().size() as u64);
        limits.check_tensor("the indexed elements", bytes)?;
        let mut output = Tensor::empty(inputs[0].dtype(), &places.result)?;
        Self::fill(&places, &inputs[0], &mut output.view_mut()?, limits)?;
        Ok(vec![output])
    }
}

impl Layer for IndexPut {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (shape, axes) = self.indices.shape(inputs)?;
        let dims = indexed_dims(&inputs[0], shape, &axes)?;
        if !broadcasts(self.values.dims(inputs), &dims) {
            let wanted = format!("a shape that broadcasts to {}", inputs[0].with_dims(dims));
            let found = match self.values {
                TensorOrScalar::Input(position) => inputs[position].to_string(),
                TensorOrScalar::Number(_) => "a number".to_owned(),
            };
            return Err(LayerError::shape("the values", wanted, found));
        }
        self.values.check_fits(inputs[0].dtype())?;
        if let TensorOrScalar::Input(position) = self.values
            && inputs[position].dtype() != inputs[0].dtype()
        {
            let (what, wanted) = ("the values".to_owned(), inputs[0].dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: inputs[position].dtype() });
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for IndexPut {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, limits) = (&io.inputs[0], io.context.limits());
        let places = Places::new(&self.indices.values(io.inputs, limits)?, input.shape(), limits)?;
        if places.result.num_elements() == 0 {
            return Ok(io.outputs[0].copy_from(input)?);
        }
        let values = self.values.converted(io.inputs, input.dtype())?;
        let values = values.expanded(&places.result)?;
        let bytes = (places.result.num_elements() as u64).saturating_mul(size_of::<f64>() as u64);
        limits.check_tensor("the values of index_put", bytes)?;
        let output = &mut io.outputs[0];
        let result = match (self.accumulate, input.dtype()) {
            (false, _) => replaced(&places, input, &values)?,
            (true, DType::F32) => return add_into::<f32>(&places, input, &values, output, |a, b| a + b),
            (true, DType::F64) => return add_into::<f64>(&places, input, &values, output, |a, b| a + b),
            (true, DType::I64) => return add_into(&places, input, &values, output, i64::wrapping_add),
            (true, DType::F16 | DType::Bf16) => added::<f32>(&places, input, &values, |a, b| a + b)?,
            // A bool is true if it or any of the values is.
            (true, DType::Bool) => added::<i64>(&places, input, &values, |a, b| a | b)?,
            (true, DType::C32 | DType::C64 | DType::C128) => {
                added::<Complex<f64>>(&places, input, &values, |a, b| a + b)?
            }
            (true, _) => added::<i64>(&places, input, &values, i64::wrapping_add)?,
        };
        Ok(output.copy_from(&result.view())?)
    }
}

/// The input with values written at the given places; if a place repeats, the last value is kept.
fn replaced(places: &Places, input: &TensorView<'_>, values: &TensorView<'_>) -> Result<Tensor> {
    let (mut result, values) = (input.to_tensor()?, values.to_tensor()?);
    let mut view = result.view_mut()?;
    with_bits!(input.dtype(), B => {
        let (to, from) = (view.bits_slice::<B>()?, values.view().bits_slice::<B>()?);
        for (from, start) in from.chunks_exact(places.block.max(1)).zip(places.blocks()) {
            to.get_mut(start..start + places.block).unwrap_or_default().copy_from_slice(from);
        }
    });
    Ok(result)
}

/// The input with values added at the given places, in order and in the wide type `T`.
fn added<T: Element>(
    places: &Places,
    input: &TensorView<'_>,
    values: &TensorView<'_>,
    add: impl Fn(T, T) -> T,
) -> Result<Tensor> {
    let (mut sums, values) = (input.cast(T::DTYPE)?, values.cast(T::DTYPE)?);
    add_at(places, values.slice::<T>()?, sums.view_mut()?.slice::<T>()?, add);
    Ok(sums.cast(input.dtype())?)
}

/// As [`added`], in the type of the elements, which are written to the output. The function is `Copy` because calls through a
/// reference are not inlined.
fn add_into<T: Element>(
    places: &Places,
    input: &TensorView<'_>,
    values: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    add: impl Fn(T, T) -> T + Copy,
) -> Result<()> {
    let values = Plain::of(values)?;
    write_plain(output, &mut |output| {
        output.copy_from(input)?;
        add_at(places, values.view().slice::<T>()?, output.slice::<T>()?, add);
        Ok(())
    })
}

/// Adds values to the sums at the given places, in order.
fn add_at<T: Element>(places: &Places, values: &[T], sums: &mut [T], add: impl Fn(T, T) -> T) {
    for (values, start) in values.chunks_exact(places.block.max(1)).zip(places.blocks()) {
        let sums = sums.get_mut(start..start + places.block).unwrap_or_default();
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum = add(*sum, value));
    }
}

/// The elements where a mask is true, from each block of the axes before those that it covers.
fn taken(input: &TensorView<'_>, before: usize, mask: &TensorView<'_>, limits: &Limits) -> Result<Tensor> {
    let (shape, covered) = (*input.shape(), mask.shape().dims());
    let after = before + covered.len();
    if shape.get(before..after) != Some(covered) {
        let wanted = format!("the lengths of the axes from {before} on of {shape}");
        return Err(LayerError::shape("the mask", wanted, mask.shape()));
    }
    let truths = Converted::of(mask, DType::Bool)?;
    let truths = truths.view();
    let plain = Plain::of(&truths)?;
    let plain = plain.view();
    let truths = plain.slice::<bool>()?;
    let result = Shape::new(&[&shape[..before], &[mask::count(truths)], &shape[after..]].concat())?;
    let bytes = (result.num_elements() as u64).saturating_mul(input.dtype().size() as u64);
    limits.check_tensor("the indexed elements", bytes)?;
    limits.check_deadline()?;
    let (input, mut output) = (Plain::of(input)?, Tensor::empty(input.dtype(), &result)?);
    let (input, mut view) = (input.view(), output.view_mut()?);
    with_bits!(input.dtype(), B => {
        let (from, to) = (input.bits_slice::<B>()?, view.bits_slice::<B>()?);
        mask::take_where(from, truths, shape[after..].iter().product(), to);
    });
    Ok(output)
}

/// An [`IndexPut`] at the indices of one axis. Input and indices may lack axes: they are vectors of one element then.
#[derive(Debug, Clone)]
struct AlongAxis {
    put: IndexPut,
    index: usize,
}

impl AlongAxis {
    fn new(
        dim: i64,
        rank: usize,
        index: InputIndex,
        values: TensorOrScalar,
        accumulate: bool,
    ) -> Result<Self> {
        let axis = resolve_axis(dim, rank)?;
        let mut items = vec![Item::Whole; axis];
        items.push(Item::Input(index.0));
        let put = IndexPut { indices: Items::Listed(items), values, accumulate };
        Ok(Self { put, index: index.0 })
    }
}

impl Layer for AlongAxis {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut vectors = inputs.to_vec();
        for position in [0, self.index] {
            vectors[position] = with_axis(&inputs[position]);
        }
        self.put.infer(&vectors)?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for AlongAxis {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut vectors = io.inputs.to_vec();
        for position in [0, self.index] {
            vectors[position] = view_with_axis(&io.inputs[position])?;
        }
        if io.inputs[0].shape().rank() > 0 {
            return self.put.forward(&mut Io::new(&vectors, io.outputs, &mut io.context));
        }
        let layout = io.outputs[0].layout().unsqueeze(0)?;
        let mut outputs = [io.outputs[0].reborrow().with_layout(layout)?];
        self.put.forward(&mut Io::new(&vectors, &mut outputs, &mut io.context))
    }
}

impl Delegating for IndexFill {
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer> {
        AlongAxis::new(self.dim, rank, self.index, self.value, false)
    }
}

impl IndexAdd {
    fn put(&self, rank: usize) -> Result<AlongAxis> {
        AlongAxis::new(self.dim, rank, self.index, TensorOrScalar::Input(self.source.0), true)
    }
}

impl Layer for IndexAdd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.put(inputs[0].rank())?.infer(inputs)
    }
}

impl CpuLayer for IndexAdd {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut put = self.put(io.inputs[0].shape().rank())?;
        if self.alpha == Scalar::Int(1) {
            return put.forward(io);
        }
        let source = &io.inputs[self.source.0];
        let mut program = Program::default();
        let value = program.input(0, source.dtype());
        let alpha = program.constant(self.alpha, source.dtype());
        let product = program.apply(Function::Mul, source.dtype(), value, alpha);
        let mut scaled = Tensor::empty(source.dtype(), source.shape())?;
        program.run(product, &[*source], &mut scaled.view_mut()?, io.context.limits())?;
        let mut inputs = io.inputs.to_vec();
        inputs[self.source.0] = scaled.view();
        put.forward(&mut Io::new(&inputs, io.outputs, &mut io.context))
    }
}

operators! {
    Index: moves(Moved), IndexPut: writes(Replaces), IndexFill: writes(Replaces), IndexAdd: writes(Combines);
    lists "Tensor.index", "Tensor.index_put"
}

#[cfg(test)]
mod tests;
