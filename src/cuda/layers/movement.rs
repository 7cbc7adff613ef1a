//! Operators that move elements: concatenation, shuffles, flips, rolls and repetition.

use super::copy::{copy, element};
use super::epilogue::kernel_shape;
use super::kernel_builder::{KernelBuilder, no_kernel};
use super::product::metas;
use super::reshaping::{copy_bytes, copy_in_order, reshaped};
use super::support::{input, int, is_any_dtype, is_real, row_major, shape, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, is_plain};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::layout::concatenation::{Cat, Stack};
use crate::ops::layout::movement::{FlipColumns, FlipRows};
use crate::ops::layout::repetition::{Flip, Repeat, RepeatInterleave, Roll, Tile};
use crate::ops::layout::shuffling::{ChannelShuffle, PixelShuffle, PixelUnshuffle, Shuffle};
use crate::ops::layout::slicing::SliceCopy;
use crate::ops::layout::stacking::{ColumnStack, DStack, HStack, VStack};
use crate::ops::support::arguments::ParamOrInput as Given;

/// Copies elements, converting them if the target has another type.
pub(super) fn copy_as(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    if from.dtype() == to.dtype() {
        return copy(from, to, context);
    }
    let metas = metas(&[*from]);
    let mut kernel = KernelBuilder::new(&metas);
    let value = kernel.input(0, to.dtype()).ok_or_else(no_kernel)?;
    kernel.map(to.dtype(), &value).ok_or_else(no_kernel)?.run(&[*from], to, context)
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
) -> Result<(), LayerError> {
    let unit = Unit::new("flip_roll_repeat.cu", include_str!("../kernels/flip_roll_repeat.cu"))
        .define("T", element(x.dtype()));
    let kernel = context.kernel(&unit, "flip_roll_repeat")?;
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
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

/// Implements a layer of tensors of any type.
macro_rules! movements {
    ($($layer:ident |$this:ident, $inputs:ident, $y:ident, $context:ident| $run:expr;)*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_any_dtype(position, &row_major(formats))
            }

            fn forward(
                &mut self,
                $inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                $context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let ($this, $y) = (&*self, &outputs[0]);
                let _ = $this;
                $run
            }
        }
    )*};
}

movements! {
    PixelShuffle |layer, inputs, y, context| shuffle(layer, &inputs[0], y, context);
    PixelUnshuffle |layer, inputs, y, context| shuffle(layer, &inputs[0], y, context);
    ChannelShuffle |layer, inputs, y, context| shuffle(layer, &inputs[0], y, context);
    Flip |layer, inputs, y, context| {
        let mut movements = vec![Movement::Identity; y.shape().len()];
        for &dim in &layer.dims {
            let axis = y.shape().axis(dim)?;
            movements.get_mut(axis).into_iter().for_each(|movement| *movement = Movement::Flipped);
        }
        move_elements(&movements, &inputs[0], y, context)
    };
    FlipColumns |_layer, inputs, y, context| move_elements(&[Movement::Identity, Movement::Flipped], &inputs[0], y, context);
    FlipRows |_layer, inputs, y, context| move_elements(&[Movement::Flipped], &inputs[0], y, context);
    Repeat |_layer, inputs, y, context| repeat(&inputs[0], y, context);
    Tile |_layer, inputs, y, context| repeat(&inputs[0], y, context);
}

/// Splits axes, permutes them and merges them again.
fn shuffle(
    layer: &dyn Shuffle,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    if y.num_elements() == 0 {
        return Ok(());
    }
    let (split, order) = layer.split(x.shape());
    if let Some(layout) = x.layout().reshape(&shape(&split)?)? {
        let from = x.with_layout(layout.permute(&order)?)?;
        return copy_in_order(&from, y, context);
    }
    // View the output with the axes of the split input, permuted back.
    let permuted: Vec<usize> = order.iter().filter_map(|&axis| split.get(axis).copied()).collect();
    let mut back = order.clone();
    order
        .iter()
        .enumerate()
        .for_each(|(at, &axis)| back.get_mut(axis).into_iter().for_each(|slot| *slot = at));
    let fault = || LayerError::Unsupported("the axes of the output cannot be split".to_owned());
    let layout = y.layout().reshape(&shape(&permuted)?)?.ok_or_else(fault)?;
    copy_in_order(x, &y.with_layout(layout.permute(&back)?)?, context)
}

/// Repeats all axes to the lengths of the output.
fn repeat(
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let mut layout = *x.layout();
    while layout.shape().len() < y.shape().len() {
        layout = layout.unsqueeze(0)?;
    }
    move_elements(&vec![Movement::Repeated; y.shape().len()], &x.with_layout(layout)?, y, context)
}

/// Concatenates inputs along an axis.
fn concatenate<'a>(
    inputs: impl Iterator<Item = Result<DeviceTensor<'a>, LayerError>>,
    axis: usize,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let mut start = 0;
    for input in inputs {
        let input = input?;
        // Empty vectors are left out, whatever the shapes of the others.
        if input.shape().dims() == [0] {
            continue;
        }
        let len = input.shape().get(axis).copied().unwrap_or(0);
        let part = y.with_layout(y.layout().narrow(axis, start, len)?)?;
        copy_as(&input, &part, context)?;
        start += len;
    }
    Ok(())
}

/// Returns true if tensors can be concatenated: all of the same type, or of types that kernels convert.
fn can_be_concatenated(position: usize, formats: &[TensorFormat]) -> bool {
    let formats = &row_major(formats);
    let same = formats.iter().all(|format| is_plain(format) && format.dtype == formats[0].dtype);
    same || is_real(position, formats)
}

macro_rules! concatenations {
    ($($layer:ident |$this:ident, $x:ident, $rank:ident| $axes:expr, along $axis:expr;)*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                can_be_concatenated(position, formats)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let ($this, y) = (&*self, &outputs[0]);
                let _ = $this;
                let $rank = inputs[0].shape().len();
                let axis = y.shape().axis($axis)?;
                let parts = inputs.iter().map(|$x| {
                    let axes: Vec<usize> = $axes;
                    let mut layout = *$x.layout();
                    for new in axes {
                        layout = layout.unsqueeze(if new == usize::MAX { axis } else { new })?;
                    }
                    Ok($x.with_layout(layout)?)
                });
                concatenate(parts, axis, y, context)
            }
        }
    )*};
}

concatenations! {
    Cat |layer, _x, _rank| Vec::new(), along layer.dim;
    Stack |layer, _x, _rank| vec![usize::MAX], along layer.dim;
    HStack |_layer, x, rank| Self::new_axes(x.shape().len()).to_vec(), along Self::cat(rank).dim;
    VStack |_layer, x, rank| Self::new_axes(x.shape().len()).to_vec(), along Self::cat(rank).dim;
    DStack |_layer, x, rank| Self::new_axes(x.shape().len()).to_vec(), along Self::cat(rank).dim;
    ColumnStack |_layer, x, rank| Self::new_axes(x.shape().len()).to_vec(), along Self::cat(rank).dim;
}

impl CudaLayer for Roll {
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.is_flat() { copy_bytes(inputs.first()) } else { 0 }
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && matches!(self.shifts, Given::Value(_))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, y) = (&inputs[0], &outputs[0]);
        if y.num_elements() == 0 {
            return Ok(());
        }
        let axis_shifts = self.steps(&metas(inputs))?;
        let all = [y.num_elements()];
        let (x, y) = match self.is_flat() {
            true => (reshaped(x, &all, context)?, flattened(y)?),
            false => (*x, *y),
        };
        let mut shifts = vec![0usize; y.shape().len()];
        for (axis, shift) in axis_shifts {
            if let (Some(total), Some(&len)) = (shifts.get_mut(axis), y.shape().get(axis)) {
                *total = (*total + crate::ops::layout::repetition::places(shift.fixed().unwrap_or(0), len))
                    % len.max(1);
            }
        }
        let movements: Vec<Movement> = shifts.into_iter().map(Movement::Rolled).collect();
        move_elements(&movements, &x, &y, context)
    }
}

/// A contiguous tensor as a vector.
fn flattened<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>, LayerError> {
    let fault = || LayerError::Unsupported("the tensor must be contiguous".to_owned());
    let layout = tensor.layout().reshape(&shape(&[tensor.num_elements()])?)?.ok_or_else(fault)?;
    Ok(tensor.with_layout(layout)?)
}

impl CudaLayer for RepeatInterleave {
    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        if self.dim.is_none() { copy_bytes(inputs.first()) } else { 0 }
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats) && matches!(self.repeats, Given::Value(_))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let Given::Value(times) = self.repeats else { return Err(no_kernel()) };
        let times = usize::try_from(times).unwrap_or(0);
        let all = [inputs[0].num_elements()];
        let x = if self.dim.is_some() { inputs[0] } else { reshaped(&inputs[0], &all, context)? };
        let mut movements = vec![Movement::Identity; x.shape().len()];
        let axis = x.shape().axis(self.dim.unwrap_or(0))?;
        movements
            .get_mut(axis)
            .into_iter()
            .for_each(|movement| *movement = Movement::RepeatInterleaved(times.max(1)));
        move_elements(&movements, &x, &outputs[0], context)
    }
}

impl CudaLayer for SliceCopy {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        can_be_concatenated(position, formats) && self.is_of_file()
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let y = &outputs[0];
        copy(&inputs[0], y, context)?;
        let metas: Vec<TensorMeta> = metas(inputs);
        let part = y.with_layout(self.part(&metas, *y.layout())?)?;
        let source = input(inputs, self.src.0)?;
        let source = source.with_layout(source.layout().expand(part.shape())?)?;
        copy_as(&source, &part, context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Cat>();
    layers.register::<Stack>();
    layers.register::<HStack>();
    layers.register::<VStack>();
    layers.register::<DStack>();
    layers.register::<ColumnStack>();
    layers.register::<PixelShuffle>();
    layers.register::<PixelUnshuffle>();
    layers.register::<ChannelShuffle>();
    layers.register::<Flip>();
    layers.register::<FlipColumns>();
    layers.register::<FlipRows>();
    layers.register::<Repeat>();
    layers.register::<Tile>();
    layers.register::<Roll>();
    layers.register::<RepeatInterleave>();
    layers.register::<SliceCopy>();
}
