//! Reversing, shifting and repeating elements: flip, roll, repeat, tile, repeat_interleave.

use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::delegation::delegating;
use crate::support::views::{Plain, axis_of, write_plain};
use ixion_tensor::{
    DType, Dim, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut, resolve_axes, resolve_axis,
    with_bits,
};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.flip`: reverses the order of the elements along some axes.
    pub struct Flip for "torch.flip", "aten::flip" {
        /// The axes to reverse; negative values count from the end.
        dims: Vec<i64>,
    }
}

crate::operator! {
    /// `torch.roll`: shifts the elements along axes; elements shifted past one end reappear at the other.
    pub struct Roll for "torch.roll", "aten::roll" {
        /// The number of positions by which each of `dims` is shifted towards its end; negative values shift towards its start.
        shifts: ParamOrInput<Vec<i64>>,
        /// The axes; negative values count from the end. If absent, elements are shifted as in the flattened input.
        dims: Option<Vec<i64>> = None,
    }
}

crate::operator! {
    /// `torch.Tensor.repeat`: repeats the input along each axis.
    pub struct Repeat for "Tensor.repeat", "aten::repeat" {
        /// The number of repetitions along each axis. There must be at least as many as the input has axes; new axes are added
        /// in front.
        sizes: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `torch.tile`: repeats the input along each axis.
    pub struct Tile for "torch.tile", "aten::tile" {
        /// The number of repetitions along each of the last axes. If there are more than the input has axes, new axes are added
        /// in front.
        dims: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `torch.repeat_interleave`: repeats each element along an axis.
    pub struct RepeatInterleave for "torch.repeat_interleave", "aten::repeat_interleave" {
        /// The number of repetitions: one for all elements, or an input with one for each element.
        repeats: Repeats,
        /// The axis; a negative value counts from the end. If absent, the input is flattened first.
        dim: Option<i64> = None,
        /// The length of the output's axis, if known. The repetitions must add up to it.
        output_size: Option<usize> = None,
    }
}

/// A number of repetitions for all elements, or an input.
type Repeats = ParamOrInput<i64>;

impl Layer for Flip {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        for (i, &dim) in self.dims.iter().enumerate() {
            let axis = resolve_axis(dim, inputs[0].rank())?;
            let twice = |&other: &i64| resolve_axis(other, inputs[0].rank()).is_ok_and(|other| other == axis);
            if self.dims[..i].iter().any(twice) {
                let found = format!("{:?}", self.dims);
                return Err(LayerError::invalid("dims", found, "it names an axis twice"));
            }
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Flip {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = resolve_axes(&self.dims, io.inputs[0].shape().rank())?;
        Ok(io.outputs[0].copy_reversed(&io.inputs[0], &axes)?)
    }
}

impl Roll {
    /// The axis and the shift of each step. Without `dims`, there is one step along axis 0 of the flattened input.
    pub fn steps(&self, inputs: &[TensorMeta]) -> Result<Vec<(usize, Dim)>> {
        let (rank, shifts) = (inputs[0].rank(), self.shifts.dims(inputs)?);
        let dims = self.dims.as_deref().unwrap_or_default();
        let axes = if dims.is_empty() { vec![0] } else { resolve_axes(dims, rank)? };
        if axes.len() == shifts.len() {
            return Ok(axes.into_iter().zip(shifts).collect());
        }
        let reason = match dims {
            [] => "without `dims`, expected one shift".to_owned(),
            dims => format!("expected one shift for each of the {} axes in `dims`", dims.len()),
        };
        Err(LayerError::invalid("shifts", format!("{shifts:?}"), reason))
    }

    /// Returns true if the input is rolled as a vector of all elements, because `dims` is absent or empty.
    pub fn is_flat(&self) -> bool {
        self.dims.as_ref().is_none_or(Vec::is_empty)
    }
}

impl Layer for Roll {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.steps(inputs)?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Roll {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let metas = TensorMeta::of_all(io.inputs);
        let number = |(axis, shift): (usize, Dim)| (axis, shift.fixed().unwrap_or(0));
        let steps: Vec<(usize, i64)> = self.steps(&metas)?.into_iter().map(number).collect();
        if self.is_flat() {
            let input = Plain::of(&io.inputs[0])?;
            let count = io.inputs[0].num_elements();
            let (from, line) = (input.view(), Shape::new(&[count])?);
            let from = from.with_layout(Layout::contiguous(line).with_offset(from.layout().offset()))?;
            let shift = steps.first().map_or(0, |(_, shift)| places(*shift, count));
            return write_plain(&mut io.outputs[0], &mut |output| {
                let layout = Layout::contiguous(line).with_offset(output.layout().offset());
                rolled(&from, &mut output.reborrow().with_layout(layout)?, &[shift])
            });
        }
        let shape = io.inputs[0].shape();
        let mut shifts = vec![0; shape.rank()];
        for (axis, shift) in steps {
            if let Some(total) = shifts.get_mut(axis) {
                *total = (*total + places(shift, shape[axis])) % shape[axis];
            }
        }
        rolled(&io.inputs[0], &mut io.outputs[0], &shifts)
    }
}

/// Writes the input shifted by this number of positions along each axis. Each shifted axis consists of two parts that are
/// swapped, so that n shifted axes make 2ⁿ blocks.
fn rolled(input: &TensorView<'_>, output: &mut TensorViewMut<'_>, shifts: &[usize]) -> Result<()> {
    let moving: Vec<usize> = (0..shifts.len()).filter(|&axis| shifts[axis] > 0).collect();
    for parts in 0..1usize << moving.len() {
        let (mut from, mut to) = (*input.layout(), *output.layout());
        for (bit, &axis) in moving.iter().enumerate() {
            let (shift, len) = (shifts[axis], input.shape()[axis]);
            let wraps = parts >> bit & 1 == 1;
            let (source, target, len) = if wraps { (len - shift, 0, shift) } else { (0, shift, len - shift) };
            (from, to) = (from.narrow(axis, source, len)?, to.narrow(axis, target, len)?);
        }
        output.reborrow().with_layout(to)?.copy_from(&input.with_layout(from)?)?;
    }
    Ok(())
}

/// A shift modulo the length of the axis.
pub fn places(shift: i64, len: usize) -> usize {
    let len = i64::try_from(len).unwrap_or(i64::MAX).max(1);
    usize::try_from(shift.rem_euclid(len)).unwrap_or(0)
}

/// The dimensions after repeating. If there are more counts than axes, new axes of length 1 are added in front.
fn repeated(input: &TensorMeta, counts: &[Dim], key: &'static str) -> Result<Vec<Dim>> {
    if counts.iter().any(|count| count.fixed().is_some_and(|count| count < 0)) {
        return Err(LayerError::invalid(key, format!("{counts:?}"), "it must not be negative"));
    }
    let rank = counts.len().max(input.rank());
    let padded = |dims: &[Dim]| -> Vec<Dim> {
        let missing = rank - dims.len();
        std::iter::repeat_n(Dim::Fixed(1), missing).chain(dims.iter().cloned()).collect()
    };
    Ok(padded(input.dims()).into_iter().zip(padded(counts)).map(|(dim, count)| dim * count).collect())
}

/// Repeats the input along each axis to fill the output.
fn repeat(input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
    if output.num_elements() == 0 {
        return Ok(());
    }
    let missing = output.shape().rank().saturating_sub(input.shape().rank());
    let lens = std::iter::repeat_n(1, missing).chain(input.shape().iter().copied());
    let axes = repeated_axes(lens.zip(output.shape().iter().copied()));
    let input = Plain::of(input)?;
    write_plain(output, &mut |output| {
        let input = input.view();
        with_bits!(input.dtype(), B => {
            repeat_axes(input.bits_slice::<B>()?, &axes, output.bits_slice::<B>()?);
        });
        Ok(())
    })
}

/// The length of each axis and how often it is repeated, given its lengths before and after. An axis after one that is not
/// repeated is merged with it if it is not repeated either.
fn repeated_axes(lens: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut axes: Vec<(usize, usize)> = Vec::new();
    for (len, wanted) in lens.filter(|&lens| lens != (1, 1)) {
        match (axes.last_mut(), wanted / len.max(1)) {
            (Some((outer, 1)), 1) => *outer *= len,
            (_, count) => axes.push((len, count)),
        }
    }
    // What is not repeated at the end is copied together with the last repeated axis.
    if let [.., (len, _), (inner, 1)] = axes.as_mut_slice() {
        *len *= *inner;
        axes.pop();
    }
    axes
}

/// Repeats an array along each axis, of which the length and the number of repetitions are given.
fn repeat_axes<B: Copy>(input: &[B], axes: &[(usize, usize)], output: &mut [B]) {
    match axes {
        [] => output.copy_from_slice(input),
        [(_, count)] => repeat_blocks(input, input.len(), *count, output),
        [(len, count), inner @ ..] => {
            let end = output.len() / (*count).max(1);
            let Some(once) = output.get_mut(..end) else { return };
            if let [(block, count)] = inner {
                repeat_blocks(input, *block, *count, once);
            } else {
                let (from, to) = (input.len() / (*len).max(1), end / (*len).max(1));
                let pairs = input.chunks_exact(from.max(1)).zip(once.chunks_exact_mut(to.max(1)));
                pairs.for_each(|(from, to)| repeat_axes(from, inner, to));
            }
            repeat_start(output, end);
        }
    }
}

/// Writes each block of elements `count` times.
fn repeat_blocks<B: Copy>(values: &[B], block: usize, count: usize, output: &mut [B]) {
    // Usually the count is a small number: pass it as a constant.
    match (block, count) {
        (_, 1) => output.copy_from_slice(values),
        (1, 2) => repeat_times::<B, 2>(values, output),
        (1, 3) => repeat_times::<B, 3>(values, output),
        (1, 4) => repeat_times::<B, 4>(values, output),
        (1, _) => {
            let groups = output.chunks_exact_mut(count.max(1));
            groups.zip(values).for_each(|(group, &value)| group.fill(value));
        }
        _ => {
            let groups = output.chunks_exact_mut((block * count).max(1));
            values.chunks_exact(block.max(1)).zip(groups).for_each(|(from, to)| fill_with(from, to));
        }
    }
}

/// Writes each element `N` times.
fn repeat_times<B: Copy, const N: usize>(values: &[B], output: &mut [B]) {
    let (groups, _) = output.as_chunks_mut::<N>();
    groups.iter_mut().zip(values).for_each(|(group, &value)| *group = [value; N]);
}

/// Fills the output with copies of a block.
fn fill_with<B: Copy>(block: &[B], output: &mut [B]) {
    let Some(first) = output.get_mut(..block.len()) else { return };
    first.copy_from_slice(block);
    repeat_start(output, block.len());
}

/// Fills a slice with copies of its first `filled` elements.
fn repeat_start<B: Copy>(slice: &mut [B], mut filled: usize) {
    while (1..slice.len()).contains(&filled) {
        let more = filled.min(slice.len() - filled);
        slice.copy_within(..more, filled);
        filled += more;
    }
}

/// Repeats each block of `inner` elements by the count of its place along an axis.
fn repeat_each<B: Copy>(
    values: &[B],
    counts: &[usize],
    inner: usize,
    output: &mut [B],
    limits: &Limits,
) -> Result<()> {
    if let Some(&count) = counts.first().filter(|&first| counts.iter().all(|count| count == first)) {
        repeat_blocks(values, inner, count, output);
        return Ok(());
    }
    let total: usize = counts.iter().sum();
    let rows = values.chunks_exact((counts.len() * inner).max(1));
    for (row, mut rest) in rows.zip(output.chunks_exact_mut((total * inner).max(1))) {
        limits.check_deadline()?;
        for (block, &count) in row.chunks_exact(inner.max(1)).zip(counts) {
            let Some((these, others)) = rest.split_at_mut_checked(count * inner) else { break };
            match block {
                [value] => these.fill(*value),
                block => fill_with(block, these),
            }
            rest = others;
        }
    }
    Ok(())
}

/// Repeats the input along each axis.
#[derive(Debug, Clone)]
struct Repetition {
    key: &'static str,
    counts: ParamOrInput<Vec<i64>>,
    /// The smallest number of counts.
    least: usize,
}

impl Layer for Repetition {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let counts = self.counts.dims(inputs)?;
        if counts.len() < self.least {
            let wanted = format!("at most {} axes", counts.len());
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        Ok(vec![inputs[0].with_dims(repeated(&inputs[0], &counts, self.key)?)])
    }
}

impl CpuLayer for Repetition {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        repeat(&io.inputs[0], &mut io.outputs[0])
    }
}

delegating! {
    Repeat |layer, rank| Repetition { key: "sizes", counts: layer.sizes.clone(), least: rank };
    Tile |layer| Repetition { key: "dims", counts: layer.dims.clone(), least: 0 };
}

impl RepeatInterleave {
    /// The number of repetitions of each element along the axis.
    fn counts(&self, inputs: &[TensorView<'_>], len: usize) -> Result<Vec<usize>> {
        let number = |value: i64| {
            let negative = |_| LayerError::invalid("repeats", value, "it must not be negative");
            usize::try_from(value).map_err(negative)
        };
        match self.repeats {
            ParamOrInput::Value(value) => Ok(vec![number(value)?; len]),
            ParamOrInput::Input(position) => {
                let counts = inputs[position].cast(DType::I64)?.to_vec::<i64>()?;
                let counts: Vec<usize> = counts.into_iter().map(number).collect::<Result<_, _>>()?;
                match counts.as_slice() {
                    [count] => Ok(vec![*count; len]),
                    _ if counts.len() == len => Ok(counts),
                    _ => {
                        let wanted = format!("1 or {len} elements");
                        Err(LayerError::shape("the input `repeats`", wanted, counts.len()))
                    }
                }
            }
        }
    }

    /// Checks the length of the axis against `output_size`.
    fn check_size(&self, len: &Dim) -> Result<()> {
        match self.output_size {
            Some(size) if len.fixed().is_some() && *len != size => {
                Err(LayerError::invalid("output_size", size, format!("the repetitions add up to {len}")))
            }
            _ => Ok(()),
        }
    }

    fn axis(&self, input: &TensorMeta) -> Result<Option<usize>> {
        self.dim.map(|dim| axis_of(dim, input)).transpose()
    }

    fn fill(
        &self,
        input: &TensorView<'_>,
        counts: &[usize],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        // The axis may be long even so, if an empty input is repeated many times.
        if output.num_elements() == 0 {
            return Ok(());
        }
        let inner: usize = match self.dim.map(|dim| input.shape().axis(dim)).transpose()? {
            Some(axis) => input.shape().iter().skip(axis + 1).product(),
            None => 1,
        };
        let input = Plain::of(input)?;
        write_plain(output, &mut |output| {
            let input = input.view();
            with_bits!(input.dtype(), B => {
                repeat_each(input.bits_slice::<B>()?, counts, inner, output.bits_slice::<B>()?, limits)?;
            });
            Ok(())
        })
    }
}

impl Layer for RepeatInterleave {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = self.axis(&inputs[0])?;
        let len = axis.map_or_else(|| inputs[0].num_elements(), |axis| inputs[0].dims()[axis].clone());
        let len = match &self.repeats {
            ParamOrInput::Value(..0) => {
                let found = format!("{:?}", self.repeats);
                return Err(LayerError::invalid("repeats", found, "it must not be negative"));
            }
            ParamOrInput::Value(count) => {
                let len = len * *count;
                self.check_size(&len)?;
                len
            }
            ParamOrInput::Input(_) => self.output_size.map_or_else(|| Dim::fresh("repeated"), Dim::from),
        };
        let mut dims = if axis.is_some() { inputs[0].dims().to_vec() } else { vec![Dim::Fixed(0)] };
        dims[axis.unwrap_or(0)] = len;
        Ok(vec![inputs[0].with_dims(dims)])
    }

    fn is_data_dependent(&self) -> bool {
        self.field_inputs() > 0
    }
}

impl CpuLayer for RepeatInterleave {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axis = self.axis(&TensorMeta::of(&io.inputs[0]))?;
        let len = axis.map_or(io.inputs[0].num_elements(), |axis| io.inputs[0].shape()[axis]);
        let counts = self.counts(io.inputs, len)?;
        self.fill(&io.inputs[0], &counts, &mut io.outputs[0], io.context.limits())
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let input = &inputs[0];
        let axis = self.axis(&TensorMeta::of(input))?;
        let len = axis.map_or(input.num_elements(), |axis| input.shape()[axis]);
        let counts = self.counts(inputs, len)?;
        let total = counts.iter().fold(0, |total: usize, &count| total.saturating_add(count));
        self.check_size(&Dim::from(total))?;
        let mut shape = if axis.is_some() { input.shape().to_vec() } else { vec![0] };
        shape[axis.unwrap_or(0)] = total;
        let bytes =
            shape.iter().fold(input.dtype().size() as u64, |bytes, &dim| bytes.saturating_mul(dim as u64));
        context.limits().check_tensor("the repeated elements", bytes)?;
        let mut output = Tensor::zeros(input.dtype(), &shape)?;
        self.fill(input, &counts, &mut output.view_mut()?, context.limits())?;
        Ok(vec![output])
    }
}

operators! { Flip: moves(Along), Roll: moves(Along), Repeat: moves(Moved), Tile: moves(Moved), RepeatInterleave }

#[cfg(test)]
mod tests;
