//! `Resize`, with all of ONNX's coordinate transformations.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Flag;
use super::lowering::Source;
use super::resampling::{CoordinateMode, Cubic, Resample, Rounding, Taps};
use crate::op::{LayerError, Result};
use crate::support::arguments::{InputCount, ParamOrInput};
use crate::support::choices::choices;
use crate::vision::interpolation::grown;
use ixion_tensor::{DType, Dim, resolve_axes};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

choices! {
    /// The interpolation.
    pub enum Mode {
        /// The nearest element.
        Nearest = "nearest",
        /// Linear, from two elements along each axis.
        Linear = "linear",
        /// Cubic, from four elements along each axis.
        Cubic = "cubic",
    }
}

choices! {
    /// The meaning of `sizes` if it would change the aspect ratio.
    pub enum Policy {
        /// The exact lengths of the axes.
        Stretch = "stretch",
        /// Upper bounds of the lengths.
        NotLarger = "not_larger",
        /// Lower bounds of the lengths.
        NotSmaller = "not_smaller",
    }
}

crate::operator! {
    /// `Resize` (since 11): axes resampled to other lengths by interpolation.
    pub struct Resize for "Resize" {
        /// Whether the interpolation kernel widens if the output is smaller than the input (antialiasing).
        antialias: Flag = Flag::of(0),
        /// Axes that `roi`, `scales` and `sizes` refer to; all if absent. Negative ones count from the end.
        axes: Option<Vec<i64>> = None,
        /// The mapping from output to input positions.
        coordinate_transformation_mode: CoordinateMode = CoordinateMode::HalfPixel,
        /// Coefficient of the cubic kernel.
        cubic_coeff_a: f64 = -0.75,
        /// Whether elements outside the input are excluded, instead of clamped to the edge.
        exclude_outside: Flag = Flag::of(0),
        /// Value of output positions that map outside the input, for `tf_crop_and_resize`.
        extrapolation_value: f64 = 0.0,
        /// The meaning of `sizes` if it would change the aspect ratio.
        keep_aspect_ratio_policy: Policy = Policy::Stretch,
        /// The interpolation.
        mode: Mode = Mode::Nearest,
        /// The rounding of positions to the nearest element.
        nearest_mode: Rounding = Rounding::PreferFloor,
        /// Start of the region on each axis, then its end on each axis, as fractions of the axes, for
        /// `tf_crop_and_resize`.
        roi: Option<Vec<f64>> = None,
        /// Scale factors of the axes.
        scales: Option<Vec<f64>> = None,
        /// Output lengths of the axes, as a parameter or an integer input. A float input before it is `roi`.
        sizes: Option<Vec<i64>> = None,
        /// Number of inputs.
        inputs: InputCount,
    }
    validate |resize| {
        match &resize.scales {
            Some(scales) if scales.iter().any(|scale| *scale <= 0.0 || !scale.is_finite()) => {
                Err(LayerError::invalid("scales", format!("{scales:?}"), "scales must be finite and above 0"))
            }
            _ => Ok(()),
        }
    }
}

/// The output length of one axis, and its scale if given.
struct Axis {
    len: Dim,
    scale: Option<f64>,
}

impl Resize {
    /// The sources of `roi` and `sizes`, which are told apart by their element types.
    fn sources(&self, decomposition: &Decomposition) -> Result<(Option<Source>, Option<Source>)> {
        let (mut roi, mut sizes) = (None, None);
        for position in 1..decomposition.inputs().len() {
            let source = Source::Input(position);
            match decomposition.dtype(source)? {
                DType::I64 => sizes = Some(source),
                _ if roi.is_none()
                    && self.coordinate_transformation_mode == CoordinateMode::CropAndResize =>
                {
                    roi = Some(source)
                }
                _ => {
                    let wanted = "`scales` as a constant (it determines the output shape)";
                    return Err(LayerError::shape(
                        format!("input {position}"),
                        wanted,
                        decomposition.meta(source)?,
                    ));
                }
            }
        }
        Ok((roi, sizes))
    }

    /// The output axes that `sizes` gives for axes of these lengths.
    fn fitted(&self, lens: &[Dim], sizes: Vec<Dim>) -> Result<Vec<Axis>> {
        let plain = |sizes: Vec<Dim>| sizes.into_iter().map(|len| Axis { len, scale: None }).collect();
        if self.keep_aspect_ratio_policy == Policy::Stretch {
            return Ok(plain(sizes));
        }
        let pairs =
            lens.iter().zip(&sizes).map(|(len, size)| Some((len.fixed()? as f64, size.fixed()? as f64)));
        let Some(pairs) = pairs.collect::<Option<Vec<(f64, f64)>>>() else {
            let reason = "`keep_aspect_ratio_policy` needs axes of known lengths".to_owned();
            return Err(LayerError::Unsupported(reason));
        };
        let ratios = pairs.iter().map(|(len, size)| size / len);
        let scale = match self.keep_aspect_ratio_policy {
            Policy::NotLarger => ratios.fold(f64::INFINITY, f64::min),
            _ => ratios.fold(0.0, f64::max),
        };
        let len = |len: &f64| Dim::Fixed((scale * len).round() as i64);
        Ok(pairs.iter().map(|(old, _)| Axis { len: len(old), scale: Some(scale) }).collect())
    }
}

impl Decompose for Resize {
    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        Some(1..=4)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let meta = decomposition.meta(X)?.clone();
        let axes = match &self.axes {
            Some(axes) => resolve_axes(axes, meta.rank())?,
            None => (0..meta.rank()).collect(),
        };
        let (roi, sizes) = self.sources(decomposition)?;
        let lens: Vec<Dim> = axes.iter().filter_map(|axis| meta.dims().get(*axis).cloned()).collect();
        let sizes = match (sizes, &self.sizes) {
            (Some(Source::Input(at)), _) => {
                Some(ParamOrInput::<Vec<i64>>::Input(at).dims(decomposition.inputs())?)
            }
            (_, sizes) => sizes.as_ref().map(|sizes| sizes.iter().copied().map(Dim::Fixed).collect()),
        };
        let resized = match (sizes, &self.scales) {
            (Some(sizes), _) if sizes.len() == lens.len() => self.fitted(&lens, sizes)?,
            (None, Some(scales)) if scales.len() == lens.len() => {
                let grow =
                    |(len, scale): (&Dim, &f64)| Ok(Axis { len: grown(len, *scale)?, scale: Some(*scale) });
                lens.iter().zip(scales).map(grow).collect::<Result<_>>()?
            }
            _ => {
                let wanted =
                    format!("expected `sizes` or `scales` with a value for each of {} axes", lens.len());
                return Err(LayerError::Unsupported(wanted));
            }
        };
        if let Some(roi) = &self.roi
            && roi.len() != 2 * axes.len()
            && self.coordinate_transformation_mode == CoordinateMode::CropAndResize
        {
            let reason = format!("expected two values for each of {} axes", axes.len());
            return Err(LayerError::invalid("roi", format!("{roi:?}"), reason));
        }
        let a = self.cubic_coeff_a;
        let layer = Resample {
            axes: axes
                .into_iter()
                .zip(resized)
                .map(|(axis, resized)| (axis, resized.len, resized.scale))
                .collect(),
            coordinates: self.coordinate_transformation_mode,
            taps: match self.mode {
                Mode::Nearest => Taps::Nearest(self.nearest_mode),
                Mode::Linear => Taps::Linear,
                Mode::Cubic => Taps::Cubic(Cubic { a }),
            },
            antialias: self.antialias.0 && self.mode != Mode::Nearest,
            exclude_outside: self.exclude_outside.0,
            outside: self.extrapolation_value,
            roi: self.roi.clone(),
        };
        let sources: Vec<Source> = std::iter::once(X).chain(roi).collect();
        Ok(vec![decomposition.step(layer, &sources)?])
    }
}

operators! { entry => Resize; category Shape }
