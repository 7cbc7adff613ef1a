//! Fourier transforms, as a pass along each axis.

use super::axes::collapsed;
use super::family::{Family, Member};
use super::fourier_library::{self as library, Pass, unit};
use super::movement::copy_as;
use super::prelude::*;
use super::rows::without_axis;
use super::support::{int, metas, shape};
use crate::cuda::Tf32;
use crate::cuda::device::Info;
use crate::kernels::fourier::Direction;
use crate::op::CpuLayer;
use crate::ops::fourier::transforms::{
    Fft, Fft2, Fftn, Hfft, Hfft2, Hfftn, Ifft, Ifft2, Ifftn, Ihfft, Ihfft2, Ihfftn, Irfft, Irfft2, Irfftn,
    Kind, Rfft, Rfft2, Rfftn, Transform, complex, precision,
};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Transforms::<Fft>(Fft::transform),
    &Transforms::<Fft2>(Fft2::transform),
    &Transforms::<Fftn>(Fftn::transform),
    &Transforms::<Ifft>(Ifft::transform),
    &Transforms::<Ifft2>(Ifft2::transform),
    &Transforms::<Ifftn>(Ifftn::transform),
    &Transforms::<Rfft>(Rfft::transform),
    &Transforms::<Rfft2>(Rfft2::transform),
    &Transforms::<Rfftn>(Rfftn::transform),
    &Transforms::<Irfft>(Irfft::transform),
    &Transforms::<Irfft2>(Irfft2::transform),
    &Transforms::<Irfftn>(Irfftn::transform),
    &Transforms::<Hfft>(Hfft::transform),
    &Transforms::<Hfft2>(Hfft2::transform),
    &Transforms::<Hfftn>(Hfftn::transform),
    &Transforms::<Ihfft>(Ihfft::transform),
    &Transforms::<Ihfft2>(Ihfft2::transform),
    &Transforms::<Ihfftn>(Ihfftn::transform),
];

/// Layers that are a [`Transform`] of their first input.
struct Transforms<L>(fn(&L, &[TensorMeta]) -> Result<Transform>);

impl<L: CpuLayer + Clone + 'static> Family for Transforms<L> {
    type Layer = L;
}

impl<L: CpuLayer + Clone + 'static> Member<Transforms<L>> {
    /// The transform of inputs like these, with the first one; `None` if there is none.
    fn transform<'i>(&self, inputs: &'i [TensorMeta]) -> Option<(Transform, &'i TensorMeta)> {
        (self.entry.0)(&self.layer, inputs).ok().zip(inputs.first())
    }
}

impl<L: CpuLayer + Clone + 'static> CudaLayer for Member<Transforms<L>> {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16 | DType::C32);
        formats.get(position).is_some_and(|format| is_plain(format) && !is_half(format.dtype))
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        let [input] = inputs else {
            return Err(LayerError::Unsupported("the length must be a parameter, not an input".to_owned()));
        };
        check(&(self.entry.0)(&self.layer, inputs)?, input)
    }

    fn suits(&self, device: &Info, _: Tf32, inputs: &[TensorMeta], _: &[TensorMeta]) -> bool {
        self.transform(inputs).is_some_and(|(transform, input)| suits(&transform, input, device))
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        self.transform(inputs).map_or(0, |(transform, input)| workspace(&transform, input))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let transform = (self.entry.0)(&self.layer, &metas(io.inputs))?;
        run(&transform, &io.inputs[0], &io.outputs[0], io.context)
    }
}

/// The maximum shared memory of a block in bytes.
const MAX_SHARED: usize = 48 * 1024;

/// The shared memory of a block in bytes for rows of this length: the row, its second buffer and the roots of unity.
fn shared(dtype: DType, length: usize) -> usize {
    let size = if matches!(dtype, DType::F64 | DType::C128) { 16 } else { 8 };
    length.saturating_mul(3 * size)
}

/// The passes of a transform, in order.
fn passes(transform: &Transform) -> Option<Vec<Pass>> {
    let lens = transform.lens.iter().map(|len| usize::try_from(len.fixed()?).ok());
    let lens: Vec<usize> = lens.collect::<Option<_>>()?;
    let mut passes: Vec<Pass> = transform
        .axes
        .iter()
        .zip(lens)
        .map(|(&axis, length)| Pass { axis, length, output_length: length, is_hermitian: false })
        .collect();
    match transform.kind {
        Kind::Complex => {}
        // Real input is transformed along the last axis first; real output is produced along the last axis last.
        Kind::FromReal => {
            let mut last = passes.pop()?;
            last.output_length = last.length / 2 + 1;
            passes.insert(0, last);
        }
        Kind::ToReal => passes.last_mut()?.is_hermitian = true,
    }
    Some(passes)
}

impl Pass {
    fn run(
        self,
        x: &DeviceTensor<'_>,
        y: &DeviceTensor<'_>,
        direction: Direction,
        factor: f64,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        if library::run(&self, x, y, (direction, factor), context)? {
            return Ok(());
        }
        if shared(y.dtype(), self.length) > MAX_SHARED {
            let reason = format!("signals of length {} are not supported by the library", self.length);
            return Err(LayerError::Unsupported(reason));
        }
        let is_radix_2 = self.length.is_power_of_two();
        let unit = unit(x.dtype(), y.dtype())
            .define("SIGN", if direction == Direction::Forward { "-1.0" } else { "1.0" })
            .define("HERMITIAN", u8::from(self.is_hermitian))
            .define("RADIX_2", u8::from(is_radix_2));
        let ((x_outer, x_by), (y_outer, y_by)) =
            (without_axis(x.layout(), self.axis)?, without_axis(y.layout(), self.axis)?);
        let (outer, outer_strides): (KernelShape, _) = collapsed(&[x_outer, y_outer]);
        let of = |at: usize| outer_strides.get(at).copied().unwrap_or_else(KernelStrides::default);
        let rows = x_outer.shape().num_elements();
        let stored_length = if self.is_hermitian { self.length / 2 + 1 } else { self.length };
        let input_length = x.shape().get(self.axis).copied().unwrap_or(1).min(stored_length);
        let arguments = [
            Argument::Read(*x),
            Argument::Strides(of(0)),
            Argument::Long(x_by),
            Argument::Write(*y),
            Argument::Strides(of(1)),
            Argument::Long(y_by),
            Argument::Shape(outer),
            Argument::Long(rows as i64),
            Argument::Int(int(input_length)?),
            Argument::Int(int(self.length)?),
            Argument::Int(int(self.output_length)?),
            Argument::Double(factor),
        ];
        let threads = self.length.clamp(1, 256).next_multiple_of(32) as u32;
        let grid = Grid { shared: shared(y.dtype(), self.length) as u32, ..Grid::of(rows, threads) };
        context.run(&unit, "transform", grid, &arguments)
    }
}

/// The shapes after each pass; all tensors but the last are in scratch memory.
fn shapes(passes: &[Pass], input: &[usize]) -> Vec<Vec<usize>> {
    let mut dims = input.to_vec();
    let shape = |pass: &Pass| {
        dims.get_mut(pass.axis).into_iter().for_each(|dim| *dim = pass.output_length);
        dims.clone()
    };
    passes.iter().map(shape).collect()
}

fn check(transform: &Transform, input: &TensorMeta) -> Result<()> {
    let unsupported = |reason: &str| LayerError::Unsupported(reason.to_owned());
    let passes = passes(transform).ok_or_else(|| unsupported("signals of unknown lengths"))?;
    precision(input.dtype())?;
    match passes.is_empty() {
        true => Err(unsupported("a transform without axes")),
        false => Ok(()),
    }
}

/// A pass, with the lengths of the tensors before and after it.
type Step = (Pass, [Vec<usize>; 2]);

/// The passes of a transform and its precision; `None` if there is no transform of an input like this.
fn steps(transform: &Transform, input: &TensorMeta) -> Option<(Vec<Step>, DType)> {
    let (passes, dims) = (passes(transform)?, input.shape().ok()?.to_vec());
    let after = shapes(&passes, &dims);
    let before = std::iter::once(dims).chain(after.clone());
    let lengths = before.zip(after).map(|(before, after)| [before, after]);
    Some((passes.into_iter().zip(lengths).collect(), precision(input.dtype()).ok()?))
}

/// Returns true if the rows of each pass fit the shared memory of a block, or a library can do the pass.
fn suits(transform: &Transform, input: &TensorMeta, device: &Info) -> bool {
    let Some((steps, dtype)) = steps(transform, input) else { return false };
    let last = steps.len().saturating_sub(1);
    steps.iter().enumerate().all(|(at, (pass, [before, _]))| {
        let from = if at == 0 { input.dtype() } else { complex(dtype) };
        let to = if at == last && pass.is_hermitian { dtype } else { complex(dtype) };
        let input_length = before.get(pass.axis).copied().unwrap_or(1);
        let is_supported = library::is_supported(pass, [from, to], input_length, transform.direction);
        shared(dtype, pass.length) <= MAX_SHARED || (device.libraries.transforms.is_some() && is_supported)
    })
}

fn workspace(transform: &Transform, input: &TensorMeta) -> usize {
    let Some((steps, dtype)) = steps(transform, input) else { return 0 };
    let copies = steps.iter().map(|(pass, [before, after])| {
        let is_long = shared(dtype, pass.length) > MAX_SHARED;
        library::workspace(pass, dtype, [before, after], is_long)
    });
    let between = steps.iter().rev().skip(1).map(|(_, [_, after])| {
        scratch_bytes(complex(dtype), after.iter().copied().fold(1, usize::saturating_mul))
    });
    copies.chain(between).fold(0, usize::saturating_add)
}

fn run(
    transform: &Transform,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let passes = passes(transform).unwrap_or_default();
    let elements: f64 = passes.iter().map(|pass| pass.length as f64).product();
    let factor = transform.norm.factor(elements, transform.direction);
    let between = shapes(&passes, x.shape().dims());
    let Some(last) = passes.len().checked_sub(1) else { return copy_as(x, y, context) };
    let mut from = *x;
    for (position, (pass, dims)) in passes.iter().zip(&between).enumerate() {
        if position == last {
            return pass.run(&from, y, transform.direction, factor, context);
        }
        let to = context.scratch(complex(precision(x.dtype())?), shape(dims)?)?;
        pass.run(&from, &to, transform.direction, 1.0, context)?;
        from = to;
    }
    Ok(())
}
