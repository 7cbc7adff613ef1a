//! Short-time Fourier transforms and spectrograms.

use super::{Frames, Normalization, check_window, frame_norm, norm, precision};
use crate::fourier::transforms::{complex, read_complex};
use crate::layout::padding::PaddingMode;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use ixion_kernels::fourier::{Direction, Plan};
use ixion_tensor::{Complex, DType, Dim, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.stft`: the short-time Fourier transform of an L or N×L signal, real or complex: the spectra of overlapping frames
    /// that are multiplied by a window. Output: (N×)frequencies×frames complex numbers, or their real and imaginary parts along
    /// one more axis.
    pub struct ShortTime for "torch.stft" {
        /// The length of a frame, which is the size of its Fourier transform.
        n_fft: usize,
        /// The distance between adjacent frames; `n_fft` / 4 by default.
        hop_length: Option<usize> = None,
        /// The length of the window; `n_fft` by default.
        win_length: Option<usize> = None,
        /// The window function; ones by default.
        window: Option<Weight> = None,
        /// Whether frame t is centred at element t·`hop_length` instead of starting there.
        center: bool = true,
        /// How the signal is padded at both ends for centred frames.
        pad_mode: PaddingMode = PaddingMode::Reflect,
        /// Whether the spectra are divided by √`n_fft`.
        normalized: bool = false,
        /// Whether only the first half of the frequencies is kept; by default for real signals.
        onesided: Option<bool> = None,
        /// Whether the output is complex; by default for complex signals.
        return_complex: Option<bool> = None,
        /// Whether frames start where windows do; only supported for windows of length `n_fft`, for which it has no effect.
        align_to_window: Option<bool> = None,
    }
    validate |layer| {
        let frames = Frames::new(layer.n_fft, layer.hop_length, layer.win_length)?;
        if layer.align_to_window == Some(true) && frames.window != frames.len {
            let reason = "only supported for windows of length `n_fft`";
            return Err(LayerError::invalid("align_to_window", "True", reason));
        }
        Ok(())
    }
}

crate::operator! {
    /// `torchaudio.functional.spectrogram`: the spectrogram of a …×L signal: the spectra of overlapping frames that are
    /// multiplied by a window, as powers of magnitudes or as complex numbers. Output: …×frequencies×frames.
    pub struct Spectrogram for "torchaudio.functional.spectrogram" {
        /// The window function.
        window: Weight,
        /// The number of zeros added at both ends of the signal.
        pad: usize = 0,
        /// The length of a frame, which is the size of its Fourier transform.
        n_fft: usize,
        /// The distance between adjacent frames.
        hop_length: usize,
        /// The length of the window.
        win_length: usize,
        /// The exponent of the magnitudes, such as 2 for power; `None` for complex numbers.
        power: Option<f64> = None,
        /// The normalisation of the spectra.
        normalized: Normalization = Normalization::No,
        /// Whether frame t is centred at element t·`hop_length` instead of starting there.
        center: bool = true,
        /// How the signal is padded at both ends for centred frames.
        pad_mode: PaddingMode = PaddingMode::Reflect,
        /// Whether only the first half of the frequencies is kept.
        onesided: bool = true,
        /// Accepted for compatibility; deprecated and without effect.
        return_complex: Option<bool> = None,
    }
    validate |layer| { Frames::new(layer.n_fft, Some(layer.hop_length), Some(layer.win_length)).map(drop) }
}

/// The form in which a spectrum is returned.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Complex,
    Parts,
    Power(f64),
}

/// A transform of the last axis of a signal.
struct Cut<'a> {
    frames: Frames,
    window: Option<&'a Weight>,
    /// The number of zeros added at both ends before any other padding.
    pad: usize,
    center: bool,
    mode: PaddingMode,
    by_frame: bool,
    by_window: bool,
    onesided: bool,
    form: Form,
}

impl Cut<'_> {
    /// The number of elements added at each end for centred frames.
    fn margin(&self) -> usize {
        if self.center { self.frames.len / 2 } else { 0 }
    }

    fn infer(&self, inputs: &[TensorMeta], axes: RangeInclusive<usize>) -> Result<TensorMeta> {
        let input = &inputs[0];
        let window = self.window.map(|window| window.meta(inputs)).transpose()?;
        check_window(self.frames, window.as_ref())?;
        let precision = precision(input.dtype(), window.map(|window| window.dtype()))?;
        let [batch @ .., len] = input.dims() else {
            return Err(LayerError::shape("the input", "at least one axis", input));
        };
        if !axes.contains(&input.rank()) {
            return Err(LayerError::shape("the input", "L or N×L", input));
        }
        if self.onesided && input.dtype().is_complex() {
            return Err(LayerError::invalid(
                "onesided",
                "True",
                "the spectrum of complex numbers has two different halves",
            ));
        }
        let (len, margin) = (len.clone() + self.pad.saturating_mul(2), self.margin());
        if let Some(fixed) = len.fixed() {
            let fits = match self.mode {
                PaddingMode::Reflect => fixed > margin as i64,
                PaddingMode::Circular => fixed >= margin as i64,
                _ => fixed > 0,
            };
            if !fits || fixed.saturating_add(2 * margin as i64) < self.frames.len as i64 {
                let wanted = format!("a longer signal for frames of {}", self.frames.len);
                return Err(LayerError::shape("the input", wanted, input));
            }
        }
        let count = (len + 2 * margin - self.frames.len).floor_div(self.frames.hop) + 1;
        let spectrum = [Dim::from(self.frames.frequencies(self.onesided)), count];
        let mut dims: Vec<Dim> = batch.iter().cloned().chain(spectrum).collect();
        if self.form == Form::Parts {
            dims.push(2.into());
        }
        let dtype = if self.form == Form::Complex { complex(precision) } else { precision };
        Ok(TensorMeta::new(dtype, dims))
    }

    fn run(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let shape = *output.shape();
        let axes = if self.form == Form::Parts { shape.rank() - 1 } else { shape.rank() };
        let (frequencies, count) = (shape[axes - 2], shape[axes - 1]);
        let elements = shape[..axes].iter().fold(1u64, |n, &len| n.saturating_mul(len as u64));
        limits.check_tensor(
            "a short-time spectrum",
            elements.saturating_mul(size_of::<Complex<f64>>() as u64),
        )?;
        let window = self.frames.read(self.window, inputs)?;
        let window: Vec<f64> = window.iter().map(|&x| x * self.factor(&window)).collect();
        let sources = self.sources(inputs[0].shape().last().copied().unwrap_or(0), limits)?;
        let signal = read_complex(&inputs[0])?;
        let mut plan = Plan::new(self.frames.len, Direction::Forward);
        let zero = Complex::new(0.0, 0.0);
        let mut frame = vec![zero; self.frames.len];
        let mut spectra = Vec::with_capacity(usize::try_from(elements).unwrap_or(0));
        let len = inputs[0].shape().last().copied().unwrap_or(0);
        for row in signal.chunks_exact(len.max(1)) {
            for t in 0..count {
                limits.check_deadline()?;
                let from = &sources[t * self.frames.hop..][..self.frames.len];
                for ((to, from), &factor) in frame.iter_mut().zip(from).zip(&window) {
                    *to = from.map_or(zero, |index| row[index]) * factor;
                }
                plan.run(&mut frame);
                spectra.extend_from_slice(&frame[..frequencies]);
            }
        }
        self.write(spectra, axes, output)
    }

    /// The factor of all elements.
    fn factor(&self, window: &[f64]) -> f64 {
        let by_frame = frame_norm(self.by_frame).factor(self.frames.len as f64, Direction::Forward);
        if self.by_window { by_frame / norm(window) } else { by_frame }
    }

    /// The index of the signal's element at each position after padding; `None` for zeros.
    fn sources(&self, len: usize, limits: &Limits) -> Result<Vec<Option<usize>>> {
        let (inner, margin) = (len.saturating_add(self.pad.saturating_mul(2)), self.margin());
        let total = inner.saturating_add(2 * margin);
        limits.check_tensor("a padded signal", (total as u64).saturating_mul(16))?;
        let zeros = std::iter::repeat_n(None, self.pad);
        let padded: Vec<Option<usize>> = zeros.clone().chain((0..len).map(Some)).chain(zeros).collect();
        if margin == 0 {
            return Ok(padded);
        }
        let Some(mode) = self.mode.mirror() else {
            let zeros = std::iter::repeat_n(None, margin);
            return Ok(zeros.clone().chain(padded).chain(zeros).collect());
        };
        let places = mode.sources(inner, margin as i64, margin as i64);
        let places = places
            .ok_or_else(|| LayerError::shape("the input", "a longer signal for these frames", inner))?;
        Ok(places.into_iter().map(|place| padded[place]).collect())
    }

    /// Writes spectra, stored frame by frame, as frequencies×frames.
    fn write(&self, spectra: Vec<Complex<f64>>, axes: usize, output: &mut TensorViewMut<'_>) -> Result<()> {
        let mut dims = output.shape().to_vec();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        dims.swap(axes - 2, axes - 1);
        order.swap(axes - 2, axes - 1);
        let tensor = match self.form {
            Form::Complex => Tensor::from_vec(spectra, &dims)?,
            Form::Parts => Tensor::from_vec(
                spectra.iter().flat_map(|value| [value.re, value.im]).collect::<Vec<f64>>(),
                &dims,
            )?,
            Form::Power(power) => {
                let raised = spectra.iter().map(|value| match power {
                    1.0 => value.norm(),
                    2.0 => value.norm_sqr(),
                    _ => value.norm().powf(power),
                });
                Tensor::from_vec(raised.collect::<Vec<f64>>(), &dims)?
            }
        };
        let layout = Layout::contiguous(Shape::new(&dims)?).permute(&order)?;
        Ok(output.cast_from(&tensor.view().with_layout(layout)?)?)
    }
}

impl ShortTime {
    fn cut(&self, input: DType) -> Result<Cut<'_>> {
        let is_complex = input.is_complex();
        let form = if self.return_complex.unwrap_or(is_complex) { Form::Complex } else { Form::Parts };
        Ok(Cut {
            frames: Frames::new(self.n_fft, self.hop_length, self.win_length)?,
            window: self.window.as_ref(),
            pad: 0,
            center: self.center,
            mode: self.pad_mode,
            by_frame: self.normalized,
            by_window: false,
            onesided: self.onesided.unwrap_or(!is_complex),
            form,
        })
    }
}

impl Layer for ShortTime {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![self.cut(inputs[0].dtype())?.infer(inputs, 1..=2)?])
    }
}

impl Spectrogram {
    fn cut(&self) -> Result<Cut<'_>> {
        Ok(Cut {
            frames: Frames::new(self.n_fft, Some(self.hop_length), Some(self.win_length))?,
            window: Some(&self.window),
            pad: self.pad,
            center: self.center,
            mode: self.pad_mode,
            by_frame: self.normalized.by_frame(),
            by_window: self.normalized.by_window(),
            onesided: self.onesided,
            form: self.power.map_or(Form::Complex, Form::Power),
        })
    }
}

impl Layer for Spectrogram {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![self.cut()?.infer(inputs, 1..=ixion_tensor::MAX_RANK)?])
    }
}

impl CpuLayer for ShortTime {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (cut, output) = (self.cut(io.inputs[0].dtype())?, &mut io.outputs[0]);
        cut.run(io.inputs, output, io.context.limits())
    }
}

impl CpuLayer for Spectrogram {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (cut, output) = (self.cut()?, &mut io.outputs[0]);
        cut.run(io.inputs, output, io.context.limits())
    }
}
