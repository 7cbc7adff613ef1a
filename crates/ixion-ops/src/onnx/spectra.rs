//! Fourier transforms, and their window functions.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{ElementType, Flag};
use super::lowering::Source;
use crate::conversion::{ViewAsComplex, ViewAsReal};
use crate::fourier::spectrum::{Centred, ShortTime};
use crate::fourier::transforms::{Fft, Ifft, Irfft, Rfft};
use crate::layout::axes::Transpose;
use crate::layout::padding::PaddingMode;
use crate::layout::reshaping::Unsqueeze;
use crate::layout::slicing::{Indices, RankStays, Select};
use crate::op::{
    CpuLayer, FieldValue, Io, Layer, LayerError, NO_KEY, OperatorReader, Result, TensorMeta, Weight,
};
use crate::support::arguments::{InputCount, ParamOrInput};
use ixion_tensor::{DType, Dim, Layout, TensorView, resolve_axis};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `DFT` (since 17): the discrete Fourier transform of …×1 real or …×2 complex values along an axis, as …×2 values.
    pub struct Dft for "DFT" {
        /// The axis; a negative one counts from the end. Since version 20, it is an input.
        axis: Option<i64> = None,
        /// Whether the transform is inverse.
        inverse: Flag = Flag::of(0),
        /// Whether only the first half of the spectrum of a real signal is stored: in the output, or with `inverse` in
        /// the input.
        onesided: Flag = Flag::of(0),
        /// Number of inputs: the length of the signal may follow, since version 20 then the axis.
        inputs: InputCount,
        /// Length of the input's last axis, as the file records it.
        parts: PartCount,
    }
}

crate::operator! {
    /// `STFT` (since 17): short-time Fourier transform. N×L×1 real or N×L×2 complex values are cut into frames,
    /// multiplied by a window and transformed, into N×frames×frequencies×2 values.
    pub struct Stft for "STFT" {
        /// Whether only the first half of the frequencies is kept.
        onesided: Flag = Flag::of(1),
        /// Distance between the starts of adjacent frames.
        frame_step: ParamOrInput<Vec<i64>>,
        /// Number of inputs: the window and the length of a frame may follow.
        inputs: InputCount,
        /// Length of the input's last axis, as the file records it.
        parts: PartCount,
    }
}

/// The length of the input's last axis, as the file records it. Not a parameter: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartCount(Option<i64>);

impl FieldValue for PartCount {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let len = match reader.input_shape(0).and_then(<[_]>::last) {
            Some(ixion_pnnx::Dim::Fixed(len)) => i64::try_from(*len).ok(),
            _ => None,
        };
        Ok(Some(Self(len)))
    }
}

/// A single value, which must be known before shapes are inferred.
fn known(what: &str, decomposition: &Decomposition, source: Source) -> Result<i64> {
    match decomposition.meta(source)?.values() {
        Some([value]) if value.fixed().is_some() => Ok(value.fixed().unwrap_or_default()),
        _ => Err(LayerError::Unsupported(format!("{what} must be a single known value"))),
    }
}

/// A length as PyTorch's operators take it, at least 1.
fn length(key: &'static str, found: i64) -> Result<usize> {
    let len = usize::try_from(found).ok().filter(|len| *len > 0);
    len.ok_or_else(|| LayerError::invalid(key, found, "it must be at least 1"))
}

/// A tensor whose last axis holds real and imaginary parts, as one without that axis; and whether it is complex.
fn numbers(decomposition: &mut Decomposition, x: Source, parts: PartCount) -> Result<(Source, bool)> {
    let len = decomposition.meta(x)?.dims().last().and_then(Dim::fixed);
    if len.is_none() {
        decomposition.depend_on_sizes();
    }
    match len.or(parts.0) {
        Some(1) => {
            let (dim, index) = (-1, ParamOrInput::Value(Indices::One(0)));
            Ok((decomposition.then(Select { dim, index, stays: RankStays(false) }, &[x])?, false))
        }
        Some(2) => Ok((decomposition.then(ViewAsComplex {}, &[x])?, true)),
        _ => {
            Err(LayerError::shape("the last axis", "length 1 (real) or 2 (complex)", decomposition.meta(x)?))
        }
    }
}

impl Dft {
    /// The length of the signal and the axis. PNNX writes these inputs without names and leaves out absent ones.
    fn given(&self, decomposition: &Decomposition) -> Result<(Option<i64>, usize)> {
        let rank = decomposition.rank(X)?;
        let at = |position: usize| {
            known("the length and the axis of a transform", decomposition, Source::Input(position))
        };
        let signed = i64::try_from(rank).unwrap_or(0);
        let (len, axis) = match (self.axis, self.inputs.0) {
            (Some(axis), 1) => (None, axis),
            (Some(axis), _) => (Some(at(1)?), axis),
            (None, 3) => (Some(at(1)?), at(2)?),
            // The default was once the first axis after the batch, and is now the last signal axis; with three axes
            // both are axis 1.
            (None, 1) if rank == 3 => (None, 1),
            (None, 2) if at(1)? < signed - 1 => (None, at(1)?),
            (None, 2) if rank == 3 => (Some(at(1)?), 1),
            _ => {
                let reason =
                    "the file does not specify the axis of the transform; give it as an input or as `axis`";
                return Err(LayerError::Unsupported(reason.to_owned()));
            }
        };
        let axis = resolve_axis(axis, rank)?;
        match axis + 1 < rank {
            true => Ok((len, axis)),
            false => Err(LayerError::invalid("axis", axis, "the last axis holds real and imaginary parts")),
        }
    }
}

impl Decompose for Dft {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("n", "dft_length")]
    }

    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        Some(1..=3)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (len, axis) = self.given(decomposition)?;
        let dtype = decomposition.dtype(X)?;
        // In f32, frequencies that a signal does not have would get noise as large as its rounding.
        let is_wide = dtype == DType::F32 && !self.inverse.0;
        let wide = if is_wide { decomposition.cast(X, DType::F64)? } else { X };
        let (x, is_complex) = numbers(decomposition, wide, self.parts)?;
        let (n, dim, norm) = (len.map(ParamOrInput::Value), i64::try_from(axis).ok(), None);
        let spectrum = match (self.inverse.0, self.onesided.0, is_complex) {
            (false, true, true) => {
                let reason = "the spectrum of complex numbers has two different halves";
                return Err(LayerError::invalid("onesided", 1, reason));
            }
            (false, true, false) => decomposition.then(Rfft { n, dim, norm }, &[x])?,
            (false, false, _) => decomposition.then(Fft { n, dim, norm }, &[x])?,
            (true, false, _) => decomposition.then(Ifft { n, dim, norm }, &[x])?,
            (true, true, _) => {
                let signal = decomposition.then(Irfft { n, dim, norm }, &[x])?;
                let signal = decomposition.then(Unsqueeze { dim: vec![-1] }, &[signal])?;
                return Ok(vec![decomposition.cast(signal, dtype)?]);
            }
        };
        let spectrum = decomposition.then(ViewAsReal {}, &[spectrum])?;
        Ok(vec![decomposition.cast(spectrum, dtype)?])
    }
}

impl Decompose for Stft {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("n_fft", "frame_length"), ("hop_length", "frame_step"), ("win_length", "frame_length")]
    }

    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        let least = 1 + self.frame_step.num_inputs();
        Some(least + 1..=least + 2)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let step = match self.frame_step.dims(decomposition.inputs())?.as_slice() {
            [step] => step.fixed(),
            _ => None,
        };
        let Some(step) = step else {
            return Err(LayerError::Unsupported("`frame_step` must be a single known value".to_owned()));
        };
        let (mut window, mut frame) = (None, None);
        for position in 1 + self.frame_step.num_inputs()..self.inputs.0 {
            let source = Source::Input(position);
            match decomposition.dtype(source)?.is_float() {
                true => window = Some(source),
                false => frame = Some(known("`frame_length`", decomposition, source)?),
            }
        }
        let of_window = window.map(|window| decomposition.meta(window)).transpose()?;
        let of_window = of_window.and_then(|meta| meta.num_elements().fixed());
        let Some(frame) = frame.or(of_window) else {
            let reason = "expected `frame_length` or a window of known length";
            return Err(LayerError::Unsupported(reason.to_owned()));
        };
        let (x, _) = numbers(decomposition, X, self.parts)?;
        let layer = ShortTime {
            n_fft: length("frame_length", frame)?,
            hop_length: Some(length("frame_step", step)?),
            win_length: None,
            window: window.map(|_| Weight::Input(1)),
            center: Centred(false),
            pad_mode: PaddingMode::Constant,
            normalized: false,
            onesided: Some(self.onesided.0),
            return_complex: Some(true),
            align_to_window: None,
        };
        let sources: Vec<Source> = [Some(x), window].into_iter().flatten().collect();
        let spectra = decomposition.then(layer, &sources)?;
        let turned = decomposition.then(Transpose { dim0: -2, dim1: -1 }, &[spectra])?;
        Ok(vec![decomposition.then(ViewAsReal {}, &[turned])?])
    }
}

/// A cosine-sum window over one period; the input is its length.
#[derive(Debug, Clone)]
struct Cosines {
    /// The coefficients of 1, cos x and cos 2x.
    factors: [f64; 3],
    /// Whether the period ends one element after the last (periodic), instead of at the last (symmetric).
    is_periodic: bool,
    dtype: DType,
}

impl Layer for Cosines {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let len = ParamOrInput::<i64>::Input(0).dim(inputs)?;
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
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let len = io.outputs[0].num_elements();
        io.context.limits().check_tensor("the values of a window", (len as u64).saturating_mul(8))?;
        let period = if self.is_periodic { len } else { len.saturating_sub(1) };
        let step = std::f64::consts::TAU / period.max(1) as f64;
        let [one, cosine, double] = self.factors;
        let at = |place: usize| {
            let x = place as f64 * step;
            one + cosine * x.cos() + double * (2.0 * x).cos()
        };
        let values: Vec<f64> = (0..len).map(at).collect();
        let layout = Layout::contiguous(*io.outputs[0].shape());
        Ok(io.outputs[0].cast_from(&TensorView::from_slice(&values, layout)?)?)
    }
}

macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal of $factors:expr;)*) => {
        $(
            crate::operator! {
                $(#[doc = $doc])*
                pub struct $name for $op_type {
                    /// Element type of the output, as its ONNX number.
                    output_datatype: ElementType = ElementType(DType::F32),
                    /// Whether the period ends one element after the last (periodic), instead of at the last
                    /// (symmetric).
                    periodic: Flag = Flag::of(1),
                }
            }

            impl Decompose for $name {
                fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
                    let (is_periodic, dtype) = (self.periodic.0, self.output_datatype.0);
                    Ok(vec![decomposition.step(Cosines { factors: $factors, is_periodic, dtype }, &[X])?])
                }
            }
        )*

        operators! { entry => $($name,)* Dft, Stft }
    };
}

windows! {
    /// `HannWindow` (since 17): ½ − ½ cos x over one period. The input is the length.
    HannWindow for "HannWindow" of [0.5, -0.5, 0.0];

    /// `HammingWindow` (since 17): 25/46 − 21/46 cos x over one period. The input is the length.
    HammingWindow for "HammingWindow" of [25.0 / 46.0, -21.0 / 46.0, 0.0];

    /// `BlackmanWindow` (since 17): 0.42 − ½ cos x + 0.08 cos 2x over one period. The input is the length.
    BlackmanWindow for "BlackmanWindow" of [0.42, -0.5, 0.08];
}
