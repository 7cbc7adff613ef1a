//! Fourier transforms along one axis by a library of the device, if it has one: signals of any length.
//!
//! The library requires signals at equal distances, and overwrites the input of complex-to-real transforms: tensors with
//! another layout, or that are still needed, are copied.

use super::axes::collapsed;
use super::fourier::{Pass, unit};
use super::movement::copy_as;
use super::rows::without_axis;
use super::support::{shape, strides};
use crate::cuda::device::{
    Argument, DeviceTensor, Grid, LibraryWork, SignalPlace, TransformWork, Transformed,
};
use crate::cuda::{CudaContext, scratch_bytes};
use crate::kernels::fourier::Direction;
use crate::op::LayerError;
use crate::ops::fourier::transforms::complex;
use crate::tensor::{DType, Layout};

/// The kind of a pass, and whether it is in double precision; `None` if libraries do not support it.
fn kind(pass: &Pass, from: DType, to: DType, direction: Direction) -> Option<(Transformed, bool)> {
    let is_double = matches!(to, DType::F64 | DType::C128);
    let real = if is_double { DType::F64 } else { DType::F32 };
    let is_forward = direction == Direction::Forward;
    let kind = match (from == real, to == real) {
        (false, false) if from == to => Transformed::Complex { is_forward },
        (true, false) if is_forward && pass.output_length == pass.length / 2 + 1 => Transformed::FromReal,
        (false, true) if !is_forward && pass.is_mirrored && from == complex(to) => Transformed::ToReal,
        _ => return None,
    };
    Some((kind, is_double))
}

/// Returns true if a library can do a pass over tensors of these types, with `given` elements along its axis.
pub(super) fn is_known(pass: &Pass, [from, to]: [DType; 2], given: usize, direction: Direction) -> bool {
    kind(pass, from, to, direction).is_some() && given >= read(pass) && pass.length > 0
}

/// The number of elements that are read of each signal.
fn read(pass: &Pass) -> usize {
    if pass.is_mirrored { pass.length / 2 + 1 } else { pass.length }
}

/// The bytes of scratch memory for copies of tensors with these lengths before and after the pass. Contiguous tensors are
/// copied only if their signals are not at equal distances, or always with `must_copy`, when the pass needs the library.
pub(super) fn workspace(pass: &Pass, dtype: DType, [before, after]: [&[usize]; 2], must_copy: bool) -> usize {
    let is_one_apart = |dims: &[usize]| {
        let is_one = |dims: Option<&[usize]>| dims.unwrap_or_default().iter().all(|len| *len == 1);
        is_one(dims.get(..pass.axis)) || is_one(dims.get(pass.axis + 1..))
    };
    let others = |dims: &[usize]| {
        let others = dims.iter().enumerate().filter(|(axis, _)| *axis != pass.axis);
        others.fold(1, |all: usize, (_, len)| all.saturating_mul(*len))
    };
    let bytes = |dims: &[usize], len: usize, is_copied: bool| {
        if is_copied { scratch_bytes(complex(dtype), others(dims).saturating_mul(len)) } else { 0 }
    };
    let of_input = bytes(before, read(pass), must_copy || pass.is_mirrored || !is_one_apart(before));
    of_input.saturating_add(bytes(after, pass.output_length, must_copy || !is_one_apart(after)))
}

/// The layout of the signals along an axis; `None` if they are not at equal distances, or not aligned for complex numbers.
fn place(tensor: &DeviceTensor<'_>, axis: usize) -> Result<Option<SignalPlace>, LayerError> {
    let (outer, step) = without_axis(tensor.layout(), axis)?;
    let (dims, by) = collapsed(&[outer]);
    let is_double = matches!(tensor.dtype(), DType::F64 | DType::C128);
    if !tensor.is_aligned(if is_double { 16 } else { 8 }) {
        return Ok(None);
    }
    let len = tensor.shape().get(axis).copied().unwrap_or(1);
    let between = match (dims.rank, by.first()) {
        // A single signal needs a distance, too.
        (0, _) => usize::try_from(step.max(1)).ok().map(|step| step.saturating_mul(len)),
        (1, Some(by)) => usize::try_from(by.by[0]).ok(),
        _ => None,
    };
    Ok(between
        .zip(usize::try_from(step).ok())
        .map(|(between, step)| SignalPlace { step: step.max(1), between }))
}

/// A tensor in scratch memory with the axes of another, in which the signals are contiguous, one after the other.
fn rows<'a>(
    tensor: &DeviceTensor<'_>,
    axis: usize,
    len: usize,
    context: &mut CudaContext<'a>,
) -> Result<DeviceTensor<'a>, LayerError> {
    let mut dims = tensor.shape().to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = len);
    let room = context.scratch(tensor.dtype(), shape(&dims)?)?;
    let (mut by, mut next) = (vec![0; dims.len()], len);
    for (at, dim) in dims.iter().enumerate().rev().filter(|(at, _)| *at != axis) {
        by[at] = next;
        next = next.saturating_mul(*dim);
    }
    by.get_mut(axis).into_iter().for_each(|by| *by = 1);
    Ok(room.with_layout(Layout::strided(shape(&dims)?, &by, room.layout().offset())?)?)
}

/// Multiplies all elements of a tensor by a factor.
fn scale(y: &DeviceTensor<'_>, factor: f64, context: &mut CudaContext<'_>) -> Result<(), LayerError> {
    let kernel = context.kernel(&unit(y.dtype(), y.dtype()), "scale")?;
    let count = y.num_elements();
    let arguments = [
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(super::epilogue::kernel_shape(y.shape())),
        Argument::Long(count as i64),
        Argument::Double(factor),
    ];
    context.launch(&kernel, Grid::over(count), &arguments)
}

/// Does a pass by a library; returns false if no library can.
///
/// # Errors
/// Those of the library, and of the kernels for copies and scaling.
pub(super) fn run(
    pass: &Pass,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    (direction, factor): (Direction, f64),
    context: &mut CudaContext<'_>,
) -> Result<bool, LayerError> {
    let given = x.shape().get(pass.axis).copied().unwrap_or(1);
    let types = [x.dtype(), y.dtype()];
    let signals = x.num_elements().checked_div(given).unwrap_or(0);
    let is_there = context.device().info().libraries.transforms.is_some();
    if !is_there || !is_known(pass, types, given, direction) || signals == 0 {
        return Ok(false);
    }
    let Some((kind, is_double)) = kind(pass, types[0], types[1], direction) else { return Ok(false) };
    let mut from = x.with_layout(x.layout().narrow(pass.axis, 0, read(pass))?)?;
    let (mut to, mut output) = (*y, place(y, pass.axis)?);
    let mut input = place(&from, pass.axis)?.filter(|_| kind != Transformed::ToReal);
    let bytes = |tensor: &DeviceTensor<'_>| scratch_bytes(tensor.dtype(), tensor.num_elements());
    let needed =
        [(&input, &from), (&output, &to)].map(|(place, it)| if place.is_none() { bytes(it) } else { 0 });
    if context.scratch_left() < needed.iter().sum() {
        return Ok(false);
    }
    if input.is_none() {
        let copied = rows(&from, pass.axis, read(pass), context)?;
        copy_as(&from, &copied, context)?;
        (from, input) = (copied, place(&copied, pass.axis)?);
    }
    if output.is_none() {
        to = rows(y, pass.axis, pass.output_length, context)?;
        output = place(&to, pass.axis)?;
    }
    let Some((input, output)) = input.zip(output) else { return Ok(false) };
    let work = TransformWork { kind, is_double, length: pass.length, batches: signals, input, output };
    let first = if kind == Transformed::ToReal { Argument::Write(from) } else { Argument::Read(from) };
    if !context.call(&LibraryWork::Transform(work), &[first, Argument::Write(to)])? {
        return Ok(false);
    }
    if to.layout() != y.layout() {
        copy_as(&to, y, context)?;
    }
    if factor != 1.0 {
        scale(y, factor, context)?;
    }
    Ok(true)
}
