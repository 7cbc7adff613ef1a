//! Resampling to another size: interpolate and upsample.

mod int8;
pub mod upsample;

use crate::op::{
    CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorFormat, TensorMeta, exactly,
    state,
};
use crate::pooling;
use crate::support::arguments::ParamOrInput;
use crate::support::choices::{choices, per_axis};
use crate::support::float;
use crate::support::float::with_real;
use crate::support::shape_cache::ShapeCache;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::Float;
use ixion_kernels::naive::{Divisor, Interpolation, Resampling};
use ixion_kernels::pool::{self, PoolShape};
use ixion_kernels::resample::{self, ByteResampler, PixelResampler, Resampler};
use ixion_tensor::{DType, Dim, Format, Limits, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

choices! {
    /// An interpolation algorithm.
    pub enum Mode {
        /// The element at or before each sample position.
        Nearest = "nearest",
        /// The element whose centre is nearest to each sample position.
        NearestExact = "nearest-exact",
        /// Linear interpolation of N×C×L inputs, from 2 elements.
        Linear = "linear",
        /// Bilinear interpolation of N×C×H×W inputs, from 4 elements.
        Bilinear = "bilinear",
        /// Trilinear interpolation of N×C×D×H×W inputs, from 8 elements.
        Trilinear = "trilinear",
        /// Bicubic convolution interpolation of N×C×H×W inputs, from 16 elements.
        Bicubic = "bicubic",
        /// Filtering of N×C×H×W inputs with a windowed sinc function of three lobes on each side, always against aliasing.
        Lanczos = "lanczos",
        /// The mean of each region, like adaptive average pooling.
        Area = "area",
    }
}

crate::operator! {
    /// `torch.nn.functional.interpolate` and `torch.nn.Upsample`: resamples the spatial axes of an N×C×… input to another size.
    pub struct Interpolate for "F.interpolate", "F.upsample", "nn.Upsample" {
        /// Spatial size of the output, or one length for all axes.
        size: Option<ParamOrInput<Vec<i64>>> = None,
        /// Scale factors of the spatial axes, instead of `size`.
        scale_factor: Option<Vec<f64>> = None,
        /// The interpolation algorithm.
        mode: Mode = Mode::Nearest,
        /// Whether the centres of the corner elements of input and output are aligned, instead of their outer edges.
        align_corners: Option<bool> = None,
        /// Whether sample positions are computed from the two sizes even if `scale_factor` is given.
        recompute_scale_factor: Option<bool> = None,
        /// Whether to filter against aliasing when an axis becomes shorter: modes `bilinear`, `bicubic` and `lanczos`.
        antialias: bool = false,
        /// State prepared for the last shapes.
        resizing: Resizing,
    }
    validate |layer| {
        let is_filter = matches!(layer.mode, Mode::Bilinear | Mode::Bicubic | Mode::Lanczos);
        if layer.antialias && !is_filter {
            let reason = "only the modes bilinear, bicubic and lanczos filter; set it to False";
            return Err(LayerError::invalid("antialias", "True", reason));
        }
        if layer.mode == Mode::Lanczos && !layer.antialias {
            let reason = "mode lanczos always filters; set it to True";
            return Err(LayerError::invalid("antialias", "False", reason));
        }
        layer.resize().check()
    }
}

crate::operator! {
    /// `torch.nn.UpsamplingNearest2d` and `torch.nn.functional.upsample_nearest`: [`Interpolate`] with mode `nearest`.
    pub struct UpsampleNearest for "F.upsample_nearest", "nn.UpsamplingNearest2d" {
        /// Spatial size of the output, or one length for all axes.
        size: Option<ParamOrInput<Vec<i64>>> = None,
        /// Scale factors of the spatial axes, instead of `size`.
        scale_factor: Option<Vec<f64>> = None,
        /// State prepared for the last shapes.
        resizing: Resizing,
    }
    validate |layer| { layer.resize().check() }
}

crate::operator! {
    /// `torch.nn.UpsamplingBilinear2d` and `torch.nn.functional.upsample_bilinear`: [`Interpolate`] with mode `bilinear`
    /// and aligned corners.
    pub struct UpsampleBilinear for "F.upsample_bilinear", "nn.UpsamplingBilinear2d" {
        /// Spatial size of the output, or one length for both axes.
        size: Option<ParamOrInput<Vec<i64>>> = None,
        /// Scale factors of the spatial axes, instead of `size`.
        scale_factor: Option<Vec<f64>> = None,
        /// State prepared for the last shapes.
        resizing: Resizing,
    }
    validate |layer| { layer.resize().check() }
}

/// What a layer keeps between runs: the state for an input and an output, and their scales if they are quantised.
#[derive(Debug, Clone, Default)]
pub struct Resizing {
    ready: ShapeCache<(Sizes, Prepared)>,
    scales: Option<[f32; 2]>,
}

state! { Resizing }

impl Resizing {
    /// Stores the scales.
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) {
        let scale = |metas: &[TensorMeta]| metas.first().and_then(TensorMeta::scale);
        self.scales = scale(inputs).zip(scale(outputs)).map(<[f32; 2]>::from);
    }
}

/// The parameters of an operator of this family.
#[derive(Debug)]
pub struct Resize<'a> {
    size: Option<&'a ParamOrInput<Vec<i64>>>,
    factors: Option<&'a [f64]>,
    /// The interpolation algorithm, which also determines how many spatial axes the input may have.
    pub mode: Mode,
    /// Whether the centres of the corner elements of input and output are aligned, instead of their outer edges; false for
    /// [`Mode::Nearest`], [`Mode::NearestExact`] and [`Mode::Area`].
    pub align_corners: bool,
    /// Whether sample positions are computed from the factors, if given.
    pub keeps_factors: bool,
    /// Whether the interpolation is a filter against aliasing.
    pub antialias: bool,
}

impl Resize<'_> {
    /// Supports images with the channels last whose pixels are copied or interpolated between four of them.
    fn supports_int8(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let has_kernel = match self.mode {
            Mode::Nearest | Mode::NearestExact => true,
            Mode::Bilinear => !self.antialias,
            Mode::Linear | Mode::Trilinear | Mode::Bicubic | Mode::Lanczos | Mode::Area => false,
        };
        has_kernel && formats.get(position) == Some(&TensorFormat::quantized().channels_last())
    }

    fn check(&self) -> Result<()> {
        self.check_corners()?;
        match (self.size, self.factors) {
            (Some(_), None) => Ok(()),
            (None, Some(factors)) if factors.iter().all(|&factor| is_scale(factor)) => Ok(()),
            (None, Some(factors)) => {
                Err(LayerError::invalid("scale_factor", format!("{factors:?}"), NOT_POSITIVE))
            }
            _ => Err(LayerError::Unsupported(
                "exactly one of `size` and `scale_factor` must be given".to_owned(),
            )),
        }
    }

    /// Checks that the mode can align corners, if that is wanted.
    fn check_corners(&self) -> Result<()> {
        if self.align_corners && matches!(self.mode, Mode::Nearest | Mode::NearestExact | Mode::Area) {
            let reason = format!("mode {:?} has no corners to align", self.mode);
            return Err(LayerError::invalid("align_corners", "True", reason));
        }
        Ok(())
    }

    /// The number of resampled axes.
    fn axes(&self, input: &TensorMeta) -> Result<usize> {
        let takes_bytes = !matches!(self.mode, Mode::Linear | Mode::Trilinear | Mode::Area);
        if !(takes_bytes && input.dtype() == DType::U8) {
            float::check("the input", input)?;
        }
        let (least, most) = match self.mode {
            Mode::Linear => (1, 1),
            Mode::Bilinear | Mode::Bicubic | Mode::Lanczos => (2, 2),
            Mode::Trilinear => (3, 3),
            Mode::Nearest | Mode::NearestExact | Mode::Area => (1, 3),
        };
        let axes = input.rank().checked_sub(2).filter(|axes| (least..=most).contains(axes));
        let wanted =
            if least == most { (least + 2).to_string() } else { format!("{} to {}", least + 2, most + 2) };
        let axes = axes
            .ok_or_else(|| LayerError::shape("the input", format!("{wanted} axes for this mode"), input))?;
        match input.dims()[2..].iter().any(|len| *len == 0usize) {
            true => {
                Err(LayerError::shape("the input", "an element along each axis after the channels", input))
            }
            false => Ok(axes),
        }
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        let axes = self.axes(input)?;
        let sizes = match self.size {
            Some(size) => per_axis("size", &size.dims(inputs)?, axes)?,
            None => {
                let scaled = self.factors(axes)?.into_iter().zip(&input.dims()[2..]);
                scaled.map(|(factor, len)| grown(len, factor)).collect::<Result<_, _>>()?
            }
        };
        if let Some(size) = sizes.iter().find(|size| size.fixed().is_some_and(|size| size < 1)) {
            return Err(LayerError::shape("an axis of the output", "at least one element", size));
        }
        Ok(vec![input.with_dims(input.dims()[..2].iter().cloned().chain(sizes))])
    }

    /// The scale factor of each of `axes` spatial axes; empty if the size of the output is given instead.
    ///
    /// # Errors
    /// Returns an error if there are neither one nor `axes` scale factors.
    pub fn factors(&self, axes: usize) -> Result<Vec<f64>> {
        self.factors.map_or(Ok(Vec::new()), |factors| per_axis("scale_factor", factors, axes))
    }

    /// Prepares the state that runs of these sizes share.
    fn prepared(&self, sizes: &Sizes, limits: &Limits) -> Result<Prepared> {
        let Sizes { input, output, dtype, lanes } = sizes;
        let positions = output[2..].iter().fold(0u64, |sum, &len| sum.saturating_add(len as u64));
        limits.check_tensor("the weights of an interpolation", positions.saturating_mul(WEIGHT_BYTES))?;
        let (lens, sizes) = (&input[2..], &output[2..]);
        let factors = if self.keeps_factors { self.factors(lens.len())? } else { Vec::new() };
        let interpolation = match self.mode {
            Mode::Nearest => Interpolation::Nearest,
            Mode::NearestExact => Interpolation::NearestExact,
            Mode::Linear | Mode::Bilinear | Mode::Trilinear => Interpolation::Linear,
            Mode::Bicubic => Interpolation::Cubic,
            Mode::Lanczos => Interpolation::Lanczos,
            Mode::Area => {
                let shape = PoolShape::adaptive(lens, sizes);
                let shape = if *lanes == 1 { Some(shape) } else { shape.with_lanes(*lanes) };
                let missing = || {
                    LayerError::Unsupported(
                        "mode `area` of three axes is not supported for blocked channels".to_owned(),
                    )
                };
                return shape.map(Prepared::Area).ok_or_else(missing);
            }
        };
        // For images, PyTorch copies axes that keep or double their length, regardless of the factor.
        let copies = self.mode == Mode::Nearest && lens.len() == 2;
        let even = |len: usize, size: usize| copies && (size == len || size == len.saturating_mul(2));
        let resampling = |axis: usize| Resampling {
            interpolation,
            align_corners: self.align_corners,
            antialias: self.antialias,
            len: lens[axis],
            outputs: sizes[axis],
            factor: factors.get(axis).copied().filter(|_| !even(lens[axis], sizes[axis])),
        };
        let axes: Vec<Resampling> = (0..lens.len()).map(resampling).collect();
        let taps = |axis: &Resampling| (axis.outputs as u64).saturating_mul(axis.most_taps() as u64);
        let taps = axes.iter().map(taps).fold(0, u64::saturating_add);
        limits.check_tensor("the weights of a filter", taps.saturating_mul(TAP_BYTES))?;
        Ok(match (axes.as_slice(), float::computed_size(*dtype)) {
            ([rows, columns], _) if *dtype == DType::I8 => {
                Prepared::Pixels(PixelResampler::new(rows, columns).ok_or_else(int8::missing)?)
            }
            ([columns, rows], _) if self.rounds_to_bytes(*dtype) => {
                Prepared::Bytes(ByteResampler::new(columns, rows))
            }
            (axes, 4) => Prepared::Single(Resampler::new(axes, *lanes)),
            (axes, _) => Prepared::Double(Resampler::new(axes, *lanes)),
        })
    }

    /// Returns true if the results are bytes that are computed, and not copied.
    fn rounds_to_bytes(&self, dtype: DType) -> bool {
        dtype == DType::U8 && !matches!(self.mode, Mode::Nearest | Mode::NearestExact)
    }

    /// The number of bytes of scratch memory for tensors of these shapes.
    fn workspace(&self, dtype: DType, input: &[usize], output: &[usize], lanes: usize) -> usize {
        match (input, output) {
            (&[batch, channels, height, width], &[_, _, rows, columns]) if self.rounds_to_bytes(dtype) => {
                let planes = batch.saturating_mul(channels);
                ByteResampler::scratch_len(planes, [height, width], [rows, columns])
            }
            _ => scratch_len(self.mode, input, output, lanes).saturating_mul(float::computed_size(dtype)),
        }
    }

    fn run(
        &self,
        resizing: &mut Resizing,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        let lanes = lanes_of(input.layout().format());
        let key = Sizes { input: *input.shape(), output: *output.shape(), dtype: input.dtype(), lanes };
        let len = scratch_len(self.mode, &key.input, &key.output, lanes);
        let scales = resizing.scales;
        let prepared = resizing.ready.of(key, |sizes| self.prepared(sizes, context.limits()))?;
        let layout = output.layout().unrolled()?;
        let input = &input.with_layout(input.layout().unrolled()?)?;
        let output = &mut output.reborrow().with_layout(layout)?;
        match prepared {
            Prepared::Pixels(resampler) => int8::run(resampler, scales, (input, output), context.limits()),
            Prepared::Area(shape) => with_real!(input.dtype(), T => {
                let input = float::read::<T>(input)?;
                let (scratch, limits) = context.scratch_and_limits(shape.scratch_len())?;
                float::write::<T>(output, |output| {
                    Ok(pool::avg_pool(shape, Divisor::Elements, &input, output, scratch, limits)?)
                })
            }),
            Prepared::Single(resampler) => resample(resampler, input, output, context, len),
            Prepared::Double(resampler) => resample(resampler, input, output, context, len),
            Prepared::Bytes(resampler) => {
                let len = self.workspace(input.dtype(), input.shape(), output.shape(), lanes);
                let (scratch, limits) = context.scratch_and_limits::<u8>(len)?;
                let input = Plain::of(input)?;
                write_plain(output, &mut |output| {
                    Ok(resampler.run(input.view().slice()?, output.slice()?, scratch, limits)?)
                })
            }
        }
    }
}

fn resample<T: Float>(
    resampler: &Resampler<T>,
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
    len: usize,
) -> Result<()> {
    let input = float::read::<T>(input)?;
    let (scratch, limits) = context.scratch_and_limits(len)?;
    float::write::<T>(output, |output| Ok(resampler.run(&input, output, scratch, limits)?))
}

/// The number of elements of scratch memory: the intermediate result between axes, or a row of the input.
fn scratch_len(mode: Mode, input: &[usize], output: &[usize], lanes: usize) -> usize {
    if matches!(mode, Mode::Nearest | Mode::NearestExact) {
        return 0;
    }
    // The last block of channels may be partly filled.
    let channels = input.get(1).map_or(1, |channels| channels.div_ceil(lanes).saturating_mul(lanes));
    let outer = input.first().map_or(1, |batch| batch.saturating_mul(channels));
    let between = match (input.get(2..), output.get(2..)) {
        (Some(lens), Some(sizes)) if lens.len() == sizes.len() => resample::scratch_len(outer, lens, sizes),
        _ => 0,
    };
    between.max(input.last().copied().unwrap_or(1)).max(lanes)
}

/// The number of channels stored together at each position of a format.
fn lanes_of(format: Format) -> usize {
    match format {
        Format::Blocked { block, .. } => block.into(),
        Format::Plain | Format::ChannelsLast => 1,
    }
}

/// State prepared for the shapes of an input and an output.
#[derive(Debug)]
pub enum Prepared {
    /// Regions whose elements are averaged.
    Area(PoolShape),
    /// Weights in single precision.
    Single(Resampler<f32>),
    /// Weights in double precision.
    Double(Resampler<f64>),
    /// Weights in fixed-point numbers, for bytes.
    Bytes(ByteResampler),
    /// Weights for quantised pixels.
    Pixels(PixelResampler),
}

/// The key of a prepared state.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    input: Shape,
    output: Shape,
    dtype: DType,
    /// The number of channels stored together at each position.
    lanes: usize,
}

/// Why a scale factor is refused.
const NOT_POSITIVE: &str = "a scale factor must be positive";

fn is_scale(factor: f64) -> bool {
    factor > 0.0 && factor.is_finite()
}

/// The maximum number of bytes of weights that a kernel keeps per position of an axis, unless it filters.
const WEIGHT_BYTES: u64 = 96;

/// The maximum number of bytes that a kernel keeps per weight, while it prepares them.
const TAP_BYTES: u64 = 48;

/// ⌊length · factor⌋; for a symbolic length, the factor must be a fraction of small numbers.
pub(crate) fn grown(len: &Dim, factor: f64) -> Result<Dim> {
    if let Some(len) = len.fixed() {
        return Ok(Dim::Fixed((len as f64 * factor).floor() as i64));
    }
    let mut denominator = 1i64;
    while (factor * denominator as f64).fract() != 0.0 && denominator < 1 << 16 {
        denominator *= 2;
    }
    let numerator = factor * denominator as f64;
    if numerator.fract() == 0.0 && numerator < f64::from(1 << 30) {
        return Ok((len.clone() * numerator as i64).floor_div(denominator));
    }
    Err(LayerError::Unsupported(format!(
        "the length {len} must be known before it is multiplied by {factor}"
    )))
}

impl Interpolate {
    /// The parameters; `align_corners` and `recompute_scale_factor` are false if absent.
    pub fn resize(&self) -> Resize<'_> {
        Resize {
            size: self.size.as_ref(),
            factors: self.scale_factor.as_deref(),
            mode: self.mode,
            align_corners: self.align_corners.unwrap_or(false),
            keeps_factors: !self.recompute_scale_factor.unwrap_or(false),
            antialias: self.antialias,
        }
    }
}

impl UpsampleNearest {
    /// The parameters of [`Interpolate`] with [`Mode::Nearest`], which samples by the scale factors, if given.
    pub fn resize(&self) -> Resize<'_> {
        let (size, factors) = (self.size.as_ref(), self.scale_factor.as_deref());
        let (mode, align_corners) = (Mode::Nearest, false);
        Resize { size, factors, mode, align_corners, keeps_factors: true, antialias: false }
    }
}

impl UpsampleBilinear {
    /// The parameters of [`Interpolate`] with [`Mode::Bilinear`] and aligned corners.
    pub fn resize(&self) -> Resize<'_> {
        let (size, factors) = (self.size.as_ref(), self.scale_factor.as_deref());
        let (mode, align_corners) = (Mode::Bilinear, true);
        Resize { size, factors, mode, align_corners, keeps_factors: true, antialias: false }
    }
}

macro_rules! resizing_layers {
    ($($name:ident),+) => {$(
        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                exactly(1 + self.field_inputs())
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.resize().infer(inputs)
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let mut resizing = std::mem::take(&mut self.resizing);
                let result = self.resize().run(&mut resizing, &io.inputs[0], &mut io.outputs[0], &mut io.context);
                self.resizing = resizing;
                result
            }

            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                if formats.first().is_some_and(|first| first.is_quantized) {
                    return self.field_inputs() == 0 && self.resize().supports_int8(position, formats);
                }
                let is_plain = |format: &TensorFormat| format.format == Format::Plain;
                let fits = |format: &TensorFormat| !self.resize().rounds_to_bytes(format.dtype) || is_plain(format);
                pooling::supports(2, position, formats) && formats.first().is_some_and(fits)
            }

            fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
                self.resizing.configure(inputs, outputs);
                pooling::configure(2, inputs)
            }

            fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
                let shape = |metas: &[TensorMeta]| metas.first().and_then(|meta| meta.shape().ok());
                let (Some(input), Some(output)) = (shape(inputs), shape(outputs)) else { return 0 };
                if inputs[0].scale().is_some() {
                    return 0;
                }
                let lanes = lanes_of(inputs[0].format());
                self.resize().workspace(inputs[0].dtype(), &input, &output, lanes)
            }
        }
    )+};
}

resizing_layers!(Interpolate, UpsampleNearest, UpsampleBilinear);

operators! {
    Interpolate: when_quantized(ByMode(&[("nearest", Moves), ("nearest-exact", Moves)], &InFloats(Unscaled))),
    UpsampleNearest: moves(Moved), UpsampleBilinear: when_quantized(InFloats(Unscaled)); of upsample; category Shape;
    overload "aten::upsample_nearest1d"(input, output_size, scale_factors),
        "aten::upsample_nearest2d"(input, output_size, scale_factors) of 3,
        "aten::upsample_nearest2d"(input, output_size, scales_h, scales_w),
        "aten::upsample_nearest3d"(input, output_size, scale_factors) of 3,
        "aten::upsample_nearest3d"(input, output_size, scales_d, scales_h, scales_w),
        "aten::_upsample_nearest_exact1d"(input, output_size, scale_factors),
        "aten::_upsample_nearest_exact2d"(input, output_size, scale_factors) of 3,
        "aten::_upsample_nearest_exact2d"(input, output_size, scales_h, scales_w),
        "aten::_upsample_nearest_exact3d"(input, output_size, scale_factors) of 3,
        "aten::_upsample_nearest_exact3d"(input, output_size, scales_d, scales_h, scales_w),
        "aten::upsample_bilinear2d"(input, output_size, align_corners, scales_h, scales_w) of 5,
        "aten::upsample_bicubic2d"(input, output_size, align_corners, scales_h, scales_w) of 5,
        "aten::upsample_trilinear3d"(input, output_size, align_corners, scales_d, scales_h, scales_w) of 6,
        "aten::_upsample_bilinear2d_aa"(input, output_size, align_corners, scales_h, scales_w) of 5,
        "aten::_upsample_bicubic2d_aa"(input, output_size, align_corners, scales_h, scales_w) of 5,
        "aten::_upsample_lanczos2d_aa"(input, output_size, align_corners, scales_h, scales_w) of 5
}

#[cfg(test)]
mod tests;
