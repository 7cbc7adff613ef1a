//! Element-wise layers in int8: functions of one tensor by a table, and sums and products of two.

use super::last::with_channels_last;
use super::{bytes, bytes_last, quantization, write_last};
use crate::op::{ForwardContext, Result, TensorFormat, TensorMeta, state};
use crate::quantized::write;
use ixion_kernels::quantized::{BytePairs, ByteTable};
use ixion_tensor::{DType, Format, Layout, Limits, Shape, TensorView, TensorViewMut};
use std::borrow::Cow;
use std::sync::Arc;

/// A layer's state for int8: its function as a table, if its tensors are quantised. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct Lookup(Option<Arc<ByteTable>>);

state! { Lookup }

/// What a layer computes if its tensors are quantised.
#[derive(Debug, Clone, Default)]
pub enum Pointwise {
    /// They are not.
    #[default]
    Nothing,
    /// A function of its only input.
    Function(Lookup),
    /// The sum or the product of its two inputs.
    Pairs(BytePairs),
}

state! { Pointwise }

/// Returns true if a layer whose first input is quantised may have the tensor at a position in its format: all tensors are
/// quantised, and in the same order.
pub(crate) fn are_alike(position: usize, formats: &[TensorFormat]) -> bool {
    let first = formats.first().filter(|format| format.is_quantized);
    first.is_some() && formats.get(position) == first
}

/// Whether a layer of one input supports the tensor at a position: plain, or quantised like the others.
pub(crate) fn supports(position: usize, formats: &[TensorFormat]) -> bool {
    let is_plain = |format: &TensorFormat| format.format == Format::Plain && !format.is_quantized;
    let (first, format) = (formats.first(), formats.get(position));
    are_alike(position, formats) || (first.is_some_and(is_plain) && format.is_some_and(is_plain))
}

impl Lookup {
    /// The table of a function for tensors with the steps of these, if they have any. The function replaces numbers by its
    /// results.
    ///
    /// # Errors
    /// Returns the error of the function.
    pub(crate) fn of(
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
        function: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        let step = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::step);
        let Some((from, to)) = step(inputs).zip(step(outputs)) else { return Ok(Self::default()) };
        let (from, to) = (quantization(from), quantization(to));
        let mut numbers = ByteTable::values().map(|q| from.load(q));
        function(&mut numbers)?;
        Ok(Self(Some(Arc::new(ByteTable::new(numbers.map(|x| to.store(x)))))))
    }

    /// Computes an int8 output. Returns false, and does nothing, if the layer's tensors are not quantised.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed.
    pub(crate) fn run(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<bool> {
        let Some(table) = self.table(input.dtype()) else { return Ok(false) };
        let is_last = is_last(output.layout());
        let input = ordered(input, is_last)?;
        write_ordered(output, is_last, |output| Ok(table.run(Some(&input), output, limits)?))?;
        Ok(true)
    }

    /// As [`Lookup::run`], in place.
    ///
    /// # Errors
    /// As [`Lookup::run`].
    pub(crate) fn run_in_place(&self, data: &mut TensorViewMut<'_>, limits: &Limits) -> Result<bool> {
        let Some(table) = self.table(data.dtype()) else { return Ok(false) };
        change(data, |data| Ok(table.run(None, data, limits)?))?;
        Ok(true)
    }

    fn table(&self, dtype: DType) -> Option<&ByteTable> {
        self.0.as_deref().filter(|_| dtype == DType::I8)
    }
}

/// The size of the scratch memory for [`run_pairs`], for an output like this.
pub(crate) fn pairs_workspace(output: &TensorMeta) -> usize {
    let channels = output.dims().get(1).and_then(|len| usize::try_from(len.fixed()?).ok());
    BytePairs::scratch_len(channels.unwrap_or(0)).saturating_mul(size_of::<f32>())
}

/// Computes an int8 output from two tensors, which are broadcast; without a first one, from itself.
///
/// # Errors
/// Returns an error if a tensor is not int8 or cannot be broadcast to the shape of the output, or if the deadline has passed.
pub(crate) fn run_pairs(
    pairs: &BytePairs,
    (first, second): (Option<&TensorView<'_>>, &TensorView<'_>),
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    if output.num_elements() == 0 {
        return Ok(());
    }
    // Sums and products are the same in both orders.
    if let Some(smaller) = first.filter(|first| first.shape() != output.shape())
        && second.shape() == output.shape()
    {
        let [a, b] = pairs.operands;
        let swapped = BytePairs { operands: [b, a], ..*pairs };
        return run_ordered(&swapped, (Some(second), smaller), output, context);
    }
    run_ordered(pairs, (first, second), output, context)
}

fn run_ordered(
    pairs: &BytePairs,
    (first, second): (Option<&TensorView<'_>>, &TensorView<'_>),
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let (shape, is_last) = (*output.shape(), is_last(output.layout()));
    let first = first.map(|first| ordered(&expanded(first, &shape)?, is_last)).transpose()?;
    let first = first.as_deref();
    let channels = channels(second, &shape).filter(|_| is_last);
    let compute = |output: &mut [i8]| -> Result<()> {
        let Some(channels) = channels else {
            let second = ordered(&expanded(second, &shape)?, is_last)?;
            return Ok(pairs.run((first, &second), output, context.limits())?);
        };
        let second = ordered(second, is_last)?;
        let (scratch, limits) = context.scratch_and_limits::<f32>(BytePairs::scratch_len(channels))?;
        Ok(pairs.run_by_channel((first, &second), channels, output, scratch, limits)?)
    };
    match first {
        Some(_) => write_ordered(output, is_last, compute),
        None => change(output, compute),
    }
}

/// The number of channels of a tensor that has one element for each of them, or for each of a sample, and is broadcast.
fn channels(tensor: &TensorView<'_>, shape: &Shape) -> Option<usize> {
    let [_, channels, places @ ..] = tensor.shape().dims() else { return None };
    let is_broadcast = tensor.shape().rank() == shape.rank() && tensor.shape() != shape;
    (is_broadcast && places.iter().all(|&len| len == 1)).then_some(*channels)
}

fn expanded<'a>(tensor: &TensorView<'a>, shape: &Shape) -> Result<TensorView<'a>> {
    Ok(tensor.with_layout(tensor.layout().expand(shape)?)?)
}

/// Returns true if elements are computed with the channels last: most tensors that are not row-major are stored so.
fn is_last(layout: &Layout) -> bool {
    layout.shape().rank() > 2 && !layout.is_contiguous()
}

/// All elements of an int8 tensor, copied if they are in another order.
fn ordered<'a>(tensor: &TensorView<'a>, is_last: bool) -> Result<Cow<'a, [i8]>> {
    if is_last { bytes_last(tensor) } else { bytes(tensor) }
}

/// Lets `fill` write all elements in this order.
fn write_ordered(
    output: &mut TensorViewMut<'_>,
    is_last: bool,
    fill: impl FnOnce(&mut [i8]) -> Result<()>,
) -> Result<()> {
    if is_last { write_last(output, fill) } else { write::<i8>(output, fill) }
}

/// Lets `work` change all elements, in the order of [`is_last`].
fn change(data: &mut TensorViewMut<'_>, work: impl FnOnce(&mut [i8]) -> Result<()>) -> Result<()> {
    let layout = *data.layout();
    let layout = if is_last(&layout) { with_channels_last(&layout)? } else { layout };
    let mut data = data.reborrow().with_layout(layout)?;
    if layout.is_contiguous() {
        return work(data.slice::<i8>()?);
    }
    let mut values = data.as_view().to_vec::<i8>()?;
    work(&mut values)?;
    Ok(data.copy_from(&TensorView::from_slice(&values, Layout::contiguous(*data.shape()))?)?)
}
