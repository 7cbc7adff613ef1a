//! Fourier transforms, and the windows that go with them.

use super::fields::{ElementType, Flag};
use super::recipe::{Recipe, Source};
use super::translated::{Translate, entry};
use crate::op::{
    CpuLayer, FieldValue, ForwardContext, Layer, LayerError, NO_KEY, OperatorReader, TensorMeta, Weight,
};
use crate::ops::conversion::{ViewAsComplex, ViewAsReal};
use crate::ops::fourier::spectrum::ShortTime;
use crate::ops::fourier::transforms::{Fft, Ifft, Irfft, Rfft};
use crate::ops::layout::axes::Transpose;
use crate::ops::layout::padding::PaddingMode;
use crate::ops::layout::reshaping::Unsqueeze;
use crate::ops::layout::slicing::{Indices, RankStays, Select};
use crate::ops::support::arguments::{Argument, InputCount};
use crate::pnnx;
use crate::tensor::{DType, Dim, Layout, TensorView, TensorViewMut, resolve_axis};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `DFT` (since 17): the spectrum of …×1 real or …×2 complex numbers along an axis, as …×2 numbers.
    pub struct Dft for "DFT" {
        /// The axis; may count from the end. Since 20 it is an input.
        axis: Option<i64> = None,
        /// Whether it is the signal of a spectrum.
        inverse: Flag = Flag::of(0),
        /// Whether only the first half of the spectrum of real numbers is there: as the result, or with `inverse` as the
        /// input.
        onesided: Flag = Flag::of(0),
        /// How many inputs there are: the length of the signal may follow, since 20 then the axis.
        inputs: InputCount,
        /// How long the last axis is as the file records it.
        parts: PartCount,
    }
}

crate::operator! {
    /// `STFT` (since 17): N×L×1 real or N×L×2 complex numbers cut into frames, multiplied by a window and transformed, as
    /// N×frames×frequencies×2 numbers.
    pub struct Stft for "STFT" {
        /// Whether only the first half of the frequencies is kept.
        onesided: Flag = Flag::of(1),
        /// From one frame to the next.
        frame_step: Argument<Vec<i64>>,
        /// How many inputs there are: the window and the length of a frame may follow.
        inputs: InputCount,
        /// How long the last axis is as the file records it.
        parts: PartCount,
    }
}

/// How long the last axis of the input is, as the file records it. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartCount(Option<i64>);

impl FieldValue for PartCount {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        let len = match reader.input_shape(0).and_then(<[_]>::last) {
            Some(pnnx::Dim::Fixed(len)) => i64::try_from(*len).ok(),
            _ => None,
        };
        Ok(Some(Self(len)))
    }
}

/// One number, which must be known before shapes are.
fn known(what: &str, recipe: &Recipe, source: Source) -> Result<i64, LayerError> {
    match recipe.meta(source)?.values() {
        Some([value]) if value.fixed().is_some() => Ok(value.fixed().unwrap_or_default()),
        _ => Err(LayerError::Unsupported(format!("{what} must be one number that is known"))),
    }
}

/// A length that an operator of PyTorch takes.
fn length(key: &'static str, found: i64) -> Result<usize, LayerError> {
    let len = usize::try_from(found).ok().filter(|len| *len > 0);
    len.ok_or_else(|| LayerError::invalid(key, found, "it must be at least 1"))
}

/// The numbers of a tensor whose last axis holds their parts.
fn numbers(recipe: &mut Recipe, x: Source, parts: PartCount) -> Result<(Source, bool), LayerError> {
    match recipe.meta(x)?.dims().last().and_then(Dim::fixed).or(parts.0) {
        Some(1) => {
            let (dim, index) = (-1, Argument::Value(Indices::One(0)));
            Ok((recipe.then(Select { dim, index, stays: RankStays(false) }, &[x])?, false))
        }
        Some(2) => Ok((recipe.then(ViewAsComplex {}, &[x])?, true)),
        _ => Err(LayerError::shape("the last axis", "1 or 2 parts of numbers", recipe.meta(x)?)),
    }
}

impl Dft {
    /// The length of the signal and the axis, which PNNX writes without names. What is absent is left out.
    fn given(&self, recipe: &Recipe) -> Result<(Option<i64>, usize), LayerError> {
        let rank = recipe.rank(X)?;
        let at = |position: usize| {
            known("the length and the axis of a transform", recipe, Source::Input(position))
        };
        let signed = i64::try_from(rank).unwrap_or(0);
        let (len, axis) = match (self.axis, self.inputs.0) {
            (Some(axis), 1) => (None, axis),
            (Some(axis), _) => (Some(at(1)?), axis),
            (None, 3) => (Some(at(1)?), at(2)?),
            // The first axis but the batch was the usual one once, and is the last one now.
            (None, 1) if rank == 3 => (None, 1),
            (None, 2) if at(1)? < signed - 1 => (None, at(1)?),
            (None, 2) if rank == 3 => (Some(at(1)?), 1),
            _ => {
                let reason =
                    "the file does not tell the axis of the transform; give it as an input or `axis`";
                return Err(LayerError::Unsupported(reason.to_owned()));
            }
        };
        let axis = resolve_axis(axis, rank)?;
        match axis + 1 < rank {
            true => Ok((len, axis)),
            false => Err(LayerError::invalid("axis", axis, "the last axis holds the parts of numbers")),
        }
    }
}

impl Translate for Dft {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("n", "dft_length")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=3
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (len, axis) = self.given(recipe)?;
        let (x, is_complex) = numbers(recipe, X, self.parts)?;
        let (n, dim, norm) = (len.map(Argument::Value), i64::try_from(axis).ok(), None);
        let spectrum = match (self.inverse.0, self.onesided.0, is_complex) {
            (false, true, true) => {
                let reason = "the spectrum of complex numbers has two different halves";
                return Err(LayerError::invalid("onesided", 1, reason));
            }
            (false, true, false) => recipe.then(Rfft { n, dim, norm }, &[x])?,
            (false, false, _) => recipe.then(Fft { n, dim, norm }, &[x])?,
            (true, false, _) => recipe.then(Ifft { n, dim, norm }, &[x])?,
            (true, true, _) => {
                let signal = recipe.then(Irfft { n, dim, norm }, &[x])?;
                return Ok(vec![recipe.then(Unsqueeze { dim: vec![-1] }, &[signal])?]);
            }
        };
        Ok(vec![recipe.then(ViewAsReal {}, &[spectrum])?])
    }
}

impl Translate for Stft {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("n_fft", "frame_length"), ("hop_length", "frame_step"), ("win_length", "frame_length")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=4
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let step = match self.frame_step.dims(recipe.inputs())?.as_slice() {
            [step] => step.fixed(),
            _ => None,
        };
        let Some(step) = step else {
            return Err(LayerError::Unsupported("`frame_step` must be one number that is known".to_owned()));
        };
        let (mut window, mut frame) = (None, None);
        for position in 1 + self.frame_step.num_inputs()..self.inputs.0 {
            let source = Source::Input(position);
            match recipe.dtype(source)?.is_float() {
                true => window = Some(source),
                false => frame = Some(known("`frame_length`", recipe, source)?),
            }
        }
        let of_window = window.map(|window| recipe.meta(window)).transpose()?;
        let of_window = of_window.and_then(|meta| meta.num_elements().fixed());
        let Some(frame) = frame.or(of_window) else {
            let reason = "`frame_length`, or a window of known length, is needed";
            return Err(LayerError::Unsupported(reason.to_owned()));
        };
        let (x, _) = numbers(recipe, X, self.parts)?;
        let layer = ShortTime {
            n_fft: length("frame_length", frame)?,
            hop_length: Some(length("frame_step", step)?),
            win_length: None,
            window: window.map(|_| Weight::Input(1)),
            center: false,
            pad_mode: PaddingMode::Constant,
            normalized: false,
            onesided: Some(self.onesided.0),
            return_complex: Some(true),
            align_to_window: None,
        };
        let sources: Vec<Source> = [Some(x), window].into_iter().flatten().collect();
        let spectra = recipe.then(layer, &sources)?;
        let turned = recipe.then(Transpose { dim0: -2, dim1: -1 }, &[spectra])?;
        Ok(vec![recipe.then(ViewAsReal {}, &[turned])?])
    }
}

/// Sums of cosines over one period, as long as the only number of the input says.
#[derive(Debug, Clone)]
struct Cosines {
    /// What 1, cos x and cos 2x are multiplied by.
    factors: [f64; 3],
    /// Whether the period ends with the first element after the last one, instead of the last one.
    is_periodic: bool,
    dtype: DType,
}

impl Layer for Cosines {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let len = Argument::<i64>::Input(0).dim(inputs)?;
        if len.fixed().is_some_and(|len| len < 0) {
            return Err(LayerError::invalid("size", len, "it must be at least 0"));
        }
        if !self.dtype.is_float() {
            return Err(LayerError::dtype("a window", "floats", self.dtype));
        }
        Ok(vec![TensorMeta::new(self.dtype, [len])])
    }
}

impl CpuLayer for Cosines {
    fn forward(
        &mut self,
        _: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let len = outputs[0].num_elements();
        context.limits().check_tensor("the numbers of a window", (len as u64).saturating_mul(8))?;
        let period = if self.is_periodic { len } else { len.saturating_sub(1) };
        let step = std::f64::consts::TAU / period.max(1) as f64;
        let [one, cosine, double] = self.factors;
        let at = |place: usize| {
            let x = place as f64 * step;
            one + cosine * x.cos() + double * (2.0 * x).cos()
        };
        let values: Vec<f64> = (0..len).map(at).collect();
        let layout = Layout::contiguous(*outputs[0].shape());
        Ok(outputs[0].cast_from(&TensorView::from_slice(&values, layout)?)?)
    }
}

macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal of $factors:expr;)*) => {
        $(
            crate::operator! {
                $(#[doc = $doc])*
                pub struct $name for $op_type {
                    /// The element type, by its number.
                    output_datatype: ElementType = ElementType(DType::F32),
                    /// Whether the period ends with the first element after the last one, instead of the last one.
                    periodic: Flag = Flag::of(1),
                }
            }

            impl Translate for $name {
                fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
                    let (is_periodic, dtype) = (self.periodic.0, self.output_datatype.0);
                    Ok(vec![recipe.step(Cosines { factors: $factors, is_periodic, dtype }, &[X])?])
                }
            }
        )*

        operators! { entry => $($name,)* Dft, Stft }
    };
}

windows! {
    /// `HannWindow` (since 17): ½ − ½ cos x over one period, of a length that is the input.
    HannWindow for "HannWindow" of [0.5, -0.5, 0.0];

    /// `HammingWindow` (since 17): 25/46 − 21/46 cos x over one period, of a length that is the input.
    HammingWindow for "HammingWindow" of [25.0 / 46.0, -21.0 / 46.0, 0.0];

    /// `BlackmanWindow` (since 17): 0.42 − ½ cos x + 0.08 cos 2x over one period, of a length that is the input.
    BlackmanWindow for "BlackmanWindow" of [0.42, -0.5, 0.08];
}
