//! Operators that move elements: concatenation, shuffles, flips, rolls and repetition.

use super::codegen::element;
use super::copy::copy;
use super::kernel_builder::{no_kernel, write_operand};
use super::prelude::*;
use super::reshaping::{copy_bytes, copy_in_order, flattened, reshaped};
use super::support::{
    input, int, is_any_dtype, is_any_dtype_in_any_order, is_real, kernel_shape, metas, row_major, shape,
    strides,
};
use super::transposition::transpose;
use crate::ops::layout::concatenation::{Cat, Stack};
use crate::ops::layout::movement::{FlipColumns, FlipRows};
use crate::ops::layout::repetition::{Flip, Repeat, RepeatInterleave, Roll, Tile, places};
use crate::ops::layout::shuffling::{ChannelShuffle, PixelShuffle, PixelUnshuffle, Shuffle};
use crate::ops::layout::slicing::SliceCopy;
use crate::ops::layout::stacking::{ColumnStack, DStack, HStack, VStack};
use crate::ops::support::arguments::ParamOrInput as Given;
use crate::ops::support::broadcast::TensorOrScalar;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Cat>::new(can_be_concatenated, |layer, io| concatenate(layer.dim, |_, _| Vec::new(), io)),
    &Simple::<Stack>::new(can_be_concatenated, |layer, io| concatenate(layer.dim, |axis, _| vec![axis], io)),
    &Simple::<HStack>::new(can_be_concatenated, |_, io| stack(HStack::cat, HStack::new_axes, io)),
    &Simple::<VStack>::new(can_be_concatenated, |_, io| stack(VStack::cat, VStack::new_axes, io)),
    &Simple::<DStack>::new(can_be_concatenated, |_, io| stack(DStack::cat, DStack::new_axes, io)),
    &Simple::<ColumnStack>::new(can_be_concatenated, |_, io| {
        stack(ColumnStack::cat, ColumnStack::new_axes, io)
    }),
    &Simple::<PixelShuffle>::new(is_any_dtype_in_any_order, shuffle),
    &Simple::<PixelUnshuffle>::new(is_any_dtype_in_any_order, shuffle),
    &Simple::<ChannelShuffle>::new(is_any_dtype_in_any_order, shuffle),
    &Simple::<Flip>::new(is_any_dtype_in_any_order, |layer, io| flip(&layer.dims, io)),
    &Simple::<FlipColumns>::new(is_any_dtype_in_any_order, |_, io| flip(&[1], io)),
    &Simple::<FlipRows>::new(is_any_dtype_in_any_order, |_, io| flip(&[0], io)),
    &Simple::<Repeat>::new(is_any_dtype_in_any_order, |_, io| repeat(io)),
    &Simple::<Tile>::new(is_any_dtype_in_any_order, |_, io| repeat(io)),
    &Own::<Roll>::ENTRY,
    &Own::<RepeatInterleave>::ENTRY,
    &Own::<SliceCopy>::ENTRY,
];

/// Copies elements, converting them if the target has another type.
pub(super) fn copy_as(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    if from.dtype() == to.dtype() {
        return copy(from, to, context);
    }
    let are_floats = from.dtype().is_float() && to.dtype().is_float();
    if are_floats && transpose(from, to, context)? {
        return Ok(());
    }
    write_operand(TensorOrScalar::Input(0), &[*from], to, context)
}

/// The movement of the elements along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Movement {
    Identity,
    Flipped,
    /// Rolled towards the end by this number of positions.
    Rolled(usize),
    /// The axis is repeated as a whole.
    Repeated,
    /// Each element is repeated this number of times.
    RepeatInterleaved(usize),
}

/// Writes elements that are moved along the axes.
fn move_elements(
    movements: &[Movement],
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let unit = Unit::new("flip_roll_repeat.cu", include_str!("../kernels/flip_roll_repeat.cu"))
        .define("T", element(x.dtype()));
    let (mut kinds, mut parameters) = (KernelShape::default(), KernelShape::default());
    for ((kind, parameter), movement) in kinds.dims.iter_mut().zip(&mut parameters.dims).zip(movements) {
        (*kind, *parameter) = match movement {
            Movement::Identity => (0, 0),
            Movement::Flipped => (1, 0),
            Movement::Rolled(by) => (2, int(*by)?),
            Movement::Repeated => (3, 0),
            Movement::RepeatInterleaved(times) => (4, int(*times)?),
        };
    }
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Shape(kernel_shape(x.shape())),
        Argument::Shape(kinds),
        Argument::Shape(parameters),
        Argument::Long(y.num_elements() as i64),
    ];
    context.run(&unit, "flip_roll_repeat", Grid::over(y.num_elements()), &arguments)
}

/// Reverses the order of the elements along some axes.
fn flip(dims: &[i64], io: &mut CudaIo<'_, '_>) -> Result<()> {
    let y = &io.outputs[0];
    let mut movements = vec![Movement::Identity; y.shape().len()];
    for &dim in dims {
        let axis = y.shape().axis(dim)?;
        movements.get_mut(axis).into_iter().for_each(|movement| *movement = Movement::Flipped);
    }
    move_elements(&movements, &io.inputs[0], y, io.context)
}

/// Splits axes, permutes them and merges them again.
fn shuffle<L: Shuffle>(layer: &L, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    if y.num_elements() == 0 {
        return Ok(());
    }
    let (split, order) = layer.split(x.shape());
    if let Some(layout) = x.layout().reshape(&shape(&split)?)? {
        let from = x.with_layout(layout.permute(&order)?)?;
        return copy_in_order(&from, y, io.context);
    }
    // View the output with the axes of the split input, permuted back.
    let permuted: Vec<usize> = order.iter().filter_map(|&axis| split.get(axis).copied()).collect();
    let mut back = order.clone();
    for (at, &axis) in order.iter().enumerate() {
        back.get_mut(axis).into_iter().for_each(|slot| *slot = at);
    }
    let fault = || LayerError::Unsupported("the axes of the output cannot be split".to_owned());
    let layout = y.layout().reshape(&shape(&permuted)?)?.ok_or_else(fault)?;
    copy_in_order(x, &y.with_layout(layout.permute(&back)?)?, io.context)
}

/// Repeats all axes to the lengths of the output.
fn repeat(io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (mut x, y) = (io.inputs[0], &io.outputs[0]);
    while x.shape().len() < y.shape().len() {
        x = x.unsqueeze(0)?;
    }
    move_elements(&vec![Movement::Repeated; y.shape().len()], &x, y, io.context)
}

/// Concatenates the inputs along an axis, after axes of length 1 are inserted in each: those that `new_axes` returns for the
/// axis and the rank of the input.
fn concatenate(
    dim: i64,
    new_axes: impl Fn(usize, usize) -> Vec<usize>,
    io: &mut CudaIo<'_, '_>,
) -> Result<()> {
    let y = &io.outputs[0];
    let axis = y.shape().axis(dim)?;
    let mut start = 0;
    for input in io.inputs {
        let mut input = *input;
        for new in new_axes(axis, input.shape().len()) {
            input = input.unsqueeze(new)?;
        }
        // Empty vectors are left out, whatever the shapes of the others.
        if input.shape().dims() == [0] {
            continue;
        }
        let len = input.shape().get(axis).copied().unwrap_or(0);
        copy_as(&input, &y.narrow(axis, start, len)?, io.context)?;
        start += len;
    }
    Ok(())
}

/// As [`concatenate`], given the concatenation and the new axes for a rank.
fn stack(
    cat: fn(usize) -> Cat,
    new_axes: fn(usize) -> &'static [usize],
    io: &mut CudaIo<'_, '_>,
) -> Result<()> {
    let rank = io.inputs[0].shape().len();
    concatenate(cat(rank).dim, |_, rank| new_axes(rank).to_vec(), io)
}

/// Returns true if tensors can be concatenated: all of the same type, or of types that kernels convert.
fn can_be_concatenated(position: usize, formats: &[TensorFormat]) -> bool {
    let formats = &row_major(formats);
    let same = formats.iter().all(|format| is_plain(format) && format.dtype == formats[0].dtype);
    same || is_real(position, formats)
}

impl CudaLayer for Roll {
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.is_flat() { copy_bytes(inputs.first()) } else { 0 }
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && matches!(self.shifts, Given::Value(_))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (&io.inputs[0], &io.outputs[0]);
        if y.num_elements() == 0 {
            return Ok(());
        }
        let axis_shifts = self.steps(&metas(io.inputs))?;
        let all = [y.num_elements()];
        let (x, y) = match self.is_flat() {
            true => (reshaped(x, &all, io.context)?, flattened(y)?),
            false => (*x, *y),
        };
        let mut shifts = vec![0usize; y.shape().len()];
        for (axis, shift) in axis_shifts {
            if let (Some(total), Some(&len)) = (shifts.get_mut(axis), y.shape().get(axis)) {
                *total = (*total + places(shift.fixed().unwrap_or(0), len)) % len.max(1);
            }
        }
        let movements: Vec<Movement> = shifts.into_iter().map(Movement::Rolled).collect();
        move_elements(&movements, &x, &y, io.context)
    }
}

impl CudaLayer for RepeatInterleave {
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.dim.is_none() { copy_bytes(inputs.first()) } else { 0 }
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && matches!(self.repeats, Given::Value(_))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let Given::Value(times) = self.repeats else { return Err(no_kernel()) };
        let times = usize::try_from(times).unwrap_or(0);
        let all = [io.inputs[0].num_elements()];
        let x = if self.dim.is_some() { io.inputs[0] } else { reshaped(&io.inputs[0], &all, io.context)? };
        let mut movements = vec![Movement::Identity; x.shape().len()];
        let axis = x.shape().axis(self.dim.unwrap_or(0))?;
        movements
            .get_mut(axis)
            .into_iter()
            .for_each(|movement| *movement = Movement::RepeatInterleaved(times.max(1)));
        move_elements(&movements, &x, &io.outputs[0], io.context)
    }
}

impl CudaLayer for SliceCopy {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        can_be_concatenated(position, formats) && self.is_of_file()
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let y = &io.outputs[0];
        copy(&io.inputs[0], y, io.context)?;
        let part = y.with_layout(self.part(&metas(io.inputs), *y.layout())?)?;
        let source = input(io.inputs, self.src.0)?.expand(part.shape())?;
        copy_as(&source, &part, io.context)
    }
}
