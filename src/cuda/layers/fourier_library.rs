//! Fourier transforms along one axis by a library of the device, if it has one: signals of any length.
//!
//! The library requires signals at equal distances, and overwrites the input of complex-to-real transforms: tensors with
//! another layout, or that are still needed, are copied.

use super::axes::collapsed;
use super::movement::copy_as;
use super::prelude::*;
use super::rows::without_axis;
use super::support::{kernel_shape, shape, strides};
use crate::cuda::device::{LibraryWork, SignalLayout, TransformKind, TransformWork};
use crate::kernels::fourier::Direction;
use crate::ops::fourier::transforms::complex;

/// A transform along one axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) axis: usize,
    /// The length of a transformed row, and of the result.
    pub(super) length: usize,
    pub(super) output_length: usize,
    pub(super) is_hermitian: bool,
}

/// The source for these element types.
pub(super) fn unit(from: DType, to: DType) -> Unit {
    let is_double = matches!(to, DType::F64 | DType::C128);
    Unit::new("fourier.cu", include_str!("../kernels/fourier.cu"))
        .define("X", from.name())
        .define("Y", to.name())
        .define("R", if is_double { "double" } else { "float" })
}

/// The kind of a pass, and whether it is in double precision; `None` if libraries do not support it.
fn kind(pass: &Pass, from: DType, to: DType, direction: Direction) -> Option<(TransformKind, bool)> {
    let is_double = matches!(to, DType::F64 | DType::C128);
    let real = if is_double { DType::F64 } else { DType::F32 };
    let is_forward = direction == Direction::Forward;
    let kind = match (from == real, to == real) {
        (false, false) if from == to => TransformKind::Complex { is_forward },
        (true, false) if is_forward && pass.output_length == pass.length / 2 + 1 => TransformKind::FromReal,
        (false, true) if !is_forward && pass.is_hermitian && from == complex(to) => TransformKind::ToReal,
        _ => return None,
    };
    Some((kind, is_double))
}

/// Returns true if a library can do a pass over tensors of these types, with `input_length` elements along its axis.
pub(super) fn is_supported(
    pass: &Pass,
    [from, to]: [DType; 2],
    input_length: usize,
    direction: Direction,
) -> bool {
    kind(pass, from, to, direction).is_some() && input_length >= read_length(pass) && pass.length > 0
}

/// The number of elements that are read of each signal.
fn read_length(pass: &Pass) -> usize {
    if pass.is_hermitian { pass.length / 2 + 1 } else { pass.length }
}

/// The bytes of scratch memory for copies of tensors with these lengths before and after the pass. Contiguous tensors are
/// copied only if their signals are not at equal distances, or always with `must_copy`, when the pass needs the library.
pub(super) fn workspace(pass: &Pass, dtype: DType, [before, after]: [&[usize]; 2], must_copy: bool) -> usize {
    let is_equidistant = |dims: &[usize]| {
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
    let of_input =
        bytes(before, read_length(pass), must_copy || pass.is_hermitian || !is_equidistant(before));
    of_input.saturating_add(bytes(after, pass.output_length, must_copy || !is_equidistant(after)))
}

/// The layout of the signals along an axis; `None` if they are not at equal distances, or not aligned for complex numbers.
fn signal_layout(tensor: &DeviceTensor<'_>, axis: usize) -> Result<Option<SignalLayout>> {
    let (outer, stride) = without_axis(tensor.layout(), axis)?;
    let (dims, by) = collapsed(&[outer]);
    let is_double = matches!(tensor.dtype(), DType::F64 | DType::C128);
    if !tensor.is_aligned(if is_double { 16 } else { 8 }) {
        return Ok(None);
    }
    let len = tensor.shape().get(axis).copied().unwrap_or(1);
    let distance = match (dims.rank, by.first()) {
        // A single signal needs a distance, too.
        (0, _) => usize::try_from(stride.max(1)).ok().map(|stride| stride.saturating_mul(len)),
        (1, Some(by)) => usize::try_from(by.by[0]).ok(),
        _ => None,
    };
    Ok(distance
        .zip(usize::try_from(stride).ok())
        .map(|(distance, stride)| SignalLayout { stride: stride.max(1), distance }))
}

/// A tensor in scratch memory with the axes of another, in which the signals are contiguous, one after the other.
fn contiguous_signals<'a>(
    tensor: &DeviceTensor<'_>,
    axis: usize,
    len: usize,
    context: &mut CudaContext<'a>,
) -> Result<DeviceTensor<'a>> {
    let mut dims = tensor.shape().to_vec();
    dims.get_mut(axis).into_iter().for_each(|dim| *dim = len);
    let scratch = context.scratch(tensor.dtype(), shape(&dims)?)?;
    let (mut by, mut next) = (vec![0; dims.len()], len);
    for (at, dim) in dims.iter().enumerate().rev().filter(|(at, _)| *at != axis) {
        by[at] = next;
        next = next.saturating_mul(*dim);
    }
    by.get_mut(axis).into_iter().for_each(|by| *by = 1);
    Ok(scratch.with_axes(&dims, &by)?)
}

/// Multiplies all elements of a tensor by a factor.
fn scale(y: &DeviceTensor<'_>, factor: f64, context: &mut CudaContext<'_>) -> Result<()> {
    let count = y.num_elements();
    let arguments = [
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(count as i64),
        Argument::Double(factor),
    ];
    context.run(&unit(y.dtype(), y.dtype()), "scale", Grid::over(count), &arguments)
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
) -> Result<bool> {
    let input_length = x.shape().get(pass.axis).copied().unwrap_or(1);
    let types = [x.dtype(), y.dtype()];
    let signals = x.num_elements().checked_div(input_length).unwrap_or(0);
    let is_available = context.device().info().libraries.transforms.is_some();
    if !is_available || !is_supported(pass, types, input_length, direction) || signals == 0 {
        return Ok(false);
    }
    let Some((kind, is_double)) = kind(pass, types[0], types[1], direction) else { return Ok(false) };
    let mut from = x.narrow(pass.axis, 0, read_length(pass))?;
    let (mut to, mut output) = (*y, signal_layout(y, pass.axis)?);
    let mut input = signal_layout(&from, pass.axis)?.filter(|_| kind != TransformKind::ToReal);
    let bytes = |tensor: &DeviceTensor<'_>| scratch_bytes(tensor.dtype(), tensor.num_elements());
    let needed =
        [(&input, &from), (&output, &to)].map(|(layout, it)| if layout.is_none() { bytes(it) } else { 0 });
    if context.scratch_left() < needed.iter().sum() {
        return Ok(false);
    }
    if input.is_none() {
        let copied = contiguous_signals(&from, pass.axis, read_length(pass), context)?;
        copy_as(&from, &copied, context)?;
        (from, input) = (copied, signal_layout(&copied, pass.axis)?);
    }
    if output.is_none() {
        to = contiguous_signals(y, pass.axis, pass.output_length, context)?;
        output = signal_layout(&to, pass.axis)?;
    }
    let Some((input, output)) = input.zip(output) else { return Ok(false) };
    let work = TransformWork { kind, is_double, length: pass.length, batches: signals, input, output };
    let first = if kind == TransformKind::ToReal { Argument::Write(from) } else { Argument::Read(from) };
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
