//! Resize, with all of ONNX's ways to say which place of the input a place of the output looks at.

use super::fields::Flag;
use super::recipe::{Recipe, Source};
use super::resampling::{Cubic, Places, Resample, Rounding, Taps};
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::support::arguments::{Argument, InputCount};
use crate::ops::support::choices::choices;
use crate::ops::vision::interpolation::grown;
use crate::tensor::{DType, Dim, resolve_axes};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

choices! {
    /// How elements are mixed.
    pub enum Mode {
        /// One element.
        Nearest = "nearest",
        /// Two elements along each axis.
        Linear = "linear",
        /// Four elements along each axis.
        Cubic = "cubic",
    }
}

choices! {
    /// What `sizes` says where it would change the ratio of the axes.
    pub enum Policy {
        /// The lengths of the axes.
        Stretch = "stretch",
        /// The most that they may be.
        NotLarger = "not_larger",
        /// The least that they may be.
        NotSmaller = "not_smaller",
    }
}

crate::operator! {
    /// `Resize` (since 11): axes resampled to other lengths.
    pub struct Resize for "Resize" {
        /// Whether elements are mixed from more places where the output is smaller.
        antialias: Flag = Flag::of(0),
        /// The axes that `roi`, `scales` and `sizes` speak of; all where absent. They may count from the end.
        axes: Option<Vec<i64>> = None,
        /// Which place of the input a place of the output looks at.
        coordinate_transformation_mode: Places = Places::HalfPixel,
        /// The coefficient of the cubic.
        cubic_coeff_a: f64 = -0.75,
        /// Whether places outside of the input count for nothing, instead of as the edge.
        exclude_outside: Flag = Flag::of(0),
        /// What stands outside of the input, for places of `tf_crop_and_resize`.
        extrapolation_value: f64 = 0.0,
        /// What `sizes` says where it would change the ratio of the axes.
        keep_aspect_ratio_policy: Policy = Policy::Stretch,
        /// How elements are mixed.
        mode: Mode = Mode::Nearest,
        /// Which of two elements is the nearest.
        nearest_mode: Rounding = Rounding::PreferFloor,
        /// Where the part of the input begins, then where it ends, as shares of the axes, for `tf_crop_and_resize`.
        roi: Option<Vec<f64>> = None,
        /// By how much axes grow.
        scales: Option<Vec<f64>> = None,
        /// How long axes become; else an input of integers. An input of floats before it is `roi`.
        sizes: Option<Vec<i64>> = None,
        /// How many inputs there are.
        inputs: InputCount,
    }
    validate |resize| {
        match &resize.scales {
            Some(scales) if scales.iter().any(|scale| *scale <= 0.0 || !scale.is_finite()) => {
                Err(LayerError::invalid("scales", format!("{scales:?}"), "a scale must be above 0"))
            }
            _ => Ok(()),
        }
    }
}

/// What is done to one axis.
struct Axis {
    len: Dim,
    scale: Option<f64>,
}

impl Resize {
    /// The sources of the part and of the lengths, which are told apart by their types.
    fn sources(&self, recipe: &Recipe) -> Result<(Option<Source>, Option<Source>), LayerError> {
        let (mut roi, mut sizes) = (None, None);
        for position in 1..recipe.inputs().len() {
            let source = Source::Input(position);
            match recipe.dtype(source)? {
                DType::I64 => sizes = Some(source),
                _ if roi.is_none() && self.coordinate_transformation_mode == Places::Part => {
                    roi = Some(source)
                }
                _ => {
                    let wanted = "`scales` as a constant, for it decides the output's shape,";
                    return Err(LayerError::shape(format!("input {position}"), wanted, recipe.meta(source)?));
                }
            }
        }
        Ok((roi, sizes))
    }

    /// The lengths that `sizes` gives to axes of these lengths.
    fn fitted(&self, lens: &[Dim], sizes: Vec<Dim>) -> Result<Vec<Axis>, LayerError> {
        let plain = |sizes: Vec<Dim>| sizes.into_iter().map(|len| Axis { len, scale: None }).collect();
        if self.keep_aspect_ratio_policy == Policy::Stretch {
            return Ok(plain(sizes));
        }
        let pairs =
            lens.iter().zip(&sizes).map(|(len, size)| Some((len.fixed()? as f64, size.fixed()? as f64)));
        let Some(pairs) = pairs.collect::<Option<Vec<(f64, f64)>>>() else {
            let reason = "lengths must be known where the ratio is kept".to_owned();
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

impl Translate for Resize {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=4
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let meta = recipe.meta(X)?.clone();
        let axes = match &self.axes {
            Some(axes) => resolve_axes(axes, meta.rank())?,
            None => (0..meta.rank()).collect(),
        };
        let (roi, sizes) = self.sources(recipe)?;
        let lens: Vec<Dim> = axes.iter().filter_map(|axis| meta.dims().get(*axis).cloned()).collect();
        let sizes = match (sizes, &self.sizes) {
            (Some(Source::Input(at)), _) => Some(Argument::<Vec<i64>>::Input(at).dims(recipe.inputs())?),
            (_, sizes) => sizes.as_ref().map(|sizes| sizes.iter().copied().map(Dim::Fixed).collect()),
        };
        let made = match (sizes, &self.scales) {
            (Some(sizes), _) if sizes.len() == lens.len() => self.fitted(&lens, sizes)?,
            (None, Some(scales)) if scales.len() == lens.len() => {
                let grow =
                    |(len, scale): (&Dim, &f64)| Ok(Axis { len: grown(len, *scale)?, scale: Some(*scale) });
                lens.iter().zip(scales).map(grow).collect::<Result<_, LayerError>>()?
            }
            _ => {
                let wanted = format!("`sizes` or `scales`, a number for each of {} axes", lens.len());
                return Err(LayerError::Unsupported(format!("{wanted}, are needed")));
            }
        };
        if let Some(roi) = &self.roi
            && roi.len() != 2 * axes.len()
            && self.coordinate_transformation_mode == Places::Part
        {
            let reason = format!("two numbers for each of {} axes are needed", axes.len());
            return Err(LayerError::invalid("roi", format!("{roi:?}"), reason));
        }
        let a = self.cubic_coeff_a;
        let layer = Resample {
            axes: axes.into_iter().zip(made).map(|(axis, made)| (axis, made.len, made.scale)).collect(),
            places: self.coordinate_transformation_mode,
            taps: match self.mode {
                Mode::Nearest => Taps::Nearest(self.nearest_mode),
                Mode::Linear => Taps::Linear,
                Mode::Cubic => Taps::Cubic(Cubic { a }),
            },
            is_smooth: self.antialias.0 && self.mode != Mode::Nearest,
            leaves_outside: self.exclude_outside.0,
            outside: self.extrapolation_value,
            roi: self.roi.clone(),
        };
        let sources: Vec<Source> = std::iter::once(X).chain(roi).collect();
        Ok(vec![recipe.step(layer, &sources)?])
    }
}

operators! { entry => Resize }
