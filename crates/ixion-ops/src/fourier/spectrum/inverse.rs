//! Inverse short-time Fourier transforms.

use super::{Frames, Normalization, check_window, frame_norm, norm, precision};
use crate::fourier::transforms::complex;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::ParamOrInput;
use ixion_kernels::fourier::{Direction, Plan, RealPlan};
use ixion_tensor::{Complex, DType, Dim, Limits, Tensor, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.istft`: the inverse short-time Fourier transform of (N×)frequencies×frames complex spectra. The frames are
    /// transformed back, multiplied by the window, overlapped and added, and divided by the sum of the squared windows.
    /// Output: (N×)L.
    pub struct InverseShortTime for "torch.istft", "aten::istft" {
        /// The length of a frame, which is the size of its Fourier transform.
        n_fft: usize,
        /// The distance between adjacent frames; `n_fft` / 4 by default.
        hop_length: Option<usize> = None,
        /// The length of the window; `n_fft` by default.
        win_length: Option<usize> = None,
        /// The window function; ones by default.
        window: Option<Weight> = None,
        /// Whether frames were centred: half a frame is cut off at both ends of the signal.
        center: bool = true,
        /// Whether the spectra were divided by √`n_fft`.
        normalized: bool = false,
        /// Whether the input only has the first half of the frequencies; by default derived from its shape.
        onesided: Option<bool> = None,
        /// The length of the output; by default everything that the frames cover.
        length: Option<ParamOrInput<i64>> = None,
        /// Whether the output is complex, which requires all frequencies.
        return_complex: bool = false,
    }
    validate |layer| { Frames::new(layer.n_fft, layer.hop_length, layer.win_length).map(drop) }
}

crate::operator! {
    /// `torchaudio.functional.inverse_spectrogram`: the …×L signal of a …×frequencies×frames complex spectrogram.
    pub struct InverseSpectrogram for "torchaudio.functional.inverse_spectrogram" {
        /// The window function.
        window: Weight,
        /// The length of the output; by default everything that the frames cover.
        length: Option<usize> = None,
        /// Padding at both ends of the signal, which is cut off if `length` is given.
        pad: usize = 0,
        /// The length of a frame, which is the size of its Fourier transform.
        n_fft: usize,
        /// The distance between adjacent frames.
        hop_length: usize,
        /// The length of the window.
        win_length: usize,
        /// The normalisation of the spectra.
        normalized: Normalization = Normalization::No,
        /// Whether frames were centred: half a frame is cut off at both ends of the signal.
        center: bool = true,
        /// Whether the input only has the first half of the frequencies.
        onesided: bool = true,
    }
    validate |layer| { Frames::new(layer.n_fft, Some(layer.hop_length), Some(layer.win_length)).map(drop) }
}

/// The reconstruction of a signal.
struct Join<'a> {
    frames: Frames,
    window: Option<&'a Weight>,
    /// The number of elements cut off at the beginning.
    start: usize,
    /// The number of elements cut off at the end if no length is given.
    end: usize,
    length: Option<Dim>,
    by_frame: bool,
    by_window: bool,
    onesided: Option<bool>,
    is_complex: bool,
}

impl Join<'_> {
    fn infer(&self, inputs: &[TensorMeta], axes: RangeInclusive<usize>) -> Result<TensorMeta> {
        let input = &inputs[0];
        if !input.dtype().is_complex() {
            return Err(LayerError::dtype("the input", "complex numbers", input.dtype()));
        }
        let window = self.window.map(|window| window.meta(inputs)).transpose()?;
        check_window(self.frames, window.as_ref())?;
        let precision = precision(input.dtype(), window.map(|window| window.dtype()))?;
        let ([batch @ .., frequencies, count], true) = (input.dims(), axes.contains(&input.rank())) else {
            return Err(LayerError::shape("the input", "frequencies×frames or N×frequencies×frames", input));
        };
        let onesided = self.onesided(frequencies);
        let wanted = self.frames.frequencies(onesided);
        if frequencies.fixed().is_some_and(|found| usize::try_from(found) != Ok(wanted)) {
            return Err(LayerError::shape("the number of frequencies", wanted, input));
        }
        if onesided && self.is_complex {
            return Err(LayerError::invalid(
                "return_complex",
                "True",
                "a complex output needs all frequencies",
            ));
        }
        let whole = (count.clone() - 1) * self.frames.hop + self.frames.len;
        let len = match &self.length {
            Some(length) if length.fixed().is_some_and(|length| length < 1) => {
                return Err(LayerError::invalid("length", length, "it must be at least 1"));
            }
            Some(length) => length.clone(),
            None => whole - self.start - self.end,
        };
        if count.fixed().is_some_and(|count| count < 1) || len.fixed().is_some_and(|len| len < 1) {
            return Err(LayerError::shape("the frames", "an element of the output", input));
        }
        let dtype = if self.is_complex { complex(precision) } else { precision };
        Ok(TensorMeta::new(dtype, batch.iter().cloned().chain([len])))
    }

    fn onesided(&self, frequencies: &Dim) -> bool {
        self.onesided
            .unwrap_or(frequencies.fixed().is_none_or(|found| usize::try_from(found) != Ok(self.frames.len)))
    }

    fn run(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        let (input, shape) = (*inputs[0].shape(), *output.shape());
        let (frequencies, count) = (input[input.rank() - 2], input[input.rank() - 1]);
        let length = shape.last().copied().unwrap_or(0);
        let whole = (count.saturating_sub(1)).saturating_mul(self.frames.hop).saturating_add(self.frames.len);
        let held =
            whole.saturating_mul(2).saturating_add(shape.num_elements()).saturating_add(input.num_elements());
        limits.check_tensor(
            "a signal of frames",
            (held as u64).saturating_mul(size_of::<Complex<f64>>() as u64),
        )?;
        let window = self.frames.read(self.window, inputs)?;
        let envelope = self.envelope(&window, count, whole);
        let kept = self.start..self.start.saturating_add(length).min(whole);
        if envelope.get(kept.clone()).is_some_and(|kept| kept.iter().any(|sum| sum.abs() <= 1e-11)) {
            let reason =
                "the squared windows sum to 0 at some element, where the signal cannot be reconstructed";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        let factor = self.factor(&window);
        let window: Vec<f64> = window.iter().map(|&x| x * factor).collect();
        let zero = Complex::new(0.0, 0.0);
        let spectra = inputs[0].cast(DType::C128)?;
        let mut back = Back::new(self.frames.len, self.is_complex);
        let mut signals = Vec::with_capacity(shape.num_elements());
        let mut sum = vec![zero; whole];
        for spectra in spectra.slice::<Complex<f64>>()?.chunks_exact((frequencies * count).max(1)) {
            sum.fill(zero);
            for t in 0..count {
                limits.check_deadline()?;
                let frame = back.frame(spectra.iter().skip(t).step_by(count).copied());
                let places = sum[t * self.frames.hop..].iter_mut().zip(frame).zip(&window);
                places.for_each(|((sum, value), &factor)| *sum += *value * factor);
            }
            let kept = kept.clone().filter_map(|at| Some(*sum.get(at)? * (1.0 / envelope.get(at)?)));
            signals.extend(kept.chain(std::iter::repeat(zero)).take(length));
        }
        if self.is_complex {
            return Ok(output.cast_from(&Tensor::from_vec(signals, &shape)?.view())?);
        }
        let real: Vec<f64> = signals.iter().map(|value| value.re).collect();
        Ok(output.cast_from(&Tensor::from_vec(real, &shape)?.view())?)
    }

    /// The sum of all squared windows at each element.
    fn envelope(&self, window: &[f64], count: usize, whole: usize) -> Vec<f64> {
        let mut envelope = vec![0.0; whole];
        for t in 0..count {
            let places = envelope[t * self.frames.hop..].iter_mut().zip(window);
            places.for_each(|(sum, x)| *sum += x * x);
        }
        envelope
    }

    /// The factor of all elements.
    fn factor(&self, window: &[f64]) -> f64 {
        let by_frame = frame_norm(self.by_frame).factor(self.frames.len as f64, Direction::Inverse);
        if self.by_window { by_frame * norm(window) } else { by_frame }
    }
}

/// The inverse transform of frames.
struct Back {
    method: Method,
    spectrum: Vec<Complex<f64>>,
    row: Vec<f64>,
    frame: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

enum Method {
    Complex(Plan<f64>),
    Real(RealPlan<f64>),
}

impl Back {
    fn new(len: usize, is_complex: bool) -> Self {
        let zeros = |count: usize| vec![Complex::new(0.0, 0.0); count];
        let (method, half, scratch) = match is_complex {
            true => {
                let plan = Plan::new(len, Direction::Inverse);
                let scratch = plan.scratch();
                (Method::Complex(plan), 0, scratch)
            }
            false => {
                let plan = RealPlan::new(len, Direction::Inverse);
                let scratch = plan.scratch();
                (Method::Real(plan), len / 2 + 1, scratch)
            }
        };
        let row = vec![0.0; if is_complex { 0 } else { len }];
        Self { method, spectrum: zeros(half), row, frame: zeros(len), scratch: zeros(scratch) }
    }

    /// The frame of a spectrum. Of a real frame PyTorch only reads the first half of the spectrum, even if both halves are
    /// given and contradict each other.
    fn frame(&mut self, spectrum: impl Iterator<Item = Complex<f64>>) -> &[Complex<f64>] {
        let Self { method, spectrum: half, row, frame, scratch } = self;
        match method {
            Method::Complex(plan) => {
                frame.iter_mut().zip(spectrum).for_each(|(to, from)| *to = from);
                plan.run(frame, scratch);
            }
            Method::Real(plan) => {
                half.iter_mut().zip(spectrum).for_each(|(to, from)| *to = from);
                plan.signal(half, row, scratch);
                frame.iter_mut().zip(row).for_each(|(to, from)| *to = Complex::new(*from, 0.0));
            }
        }
        frame
    }
}

impl InverseShortTime {
    fn join(&self, inputs: &[TensorMeta]) -> Result<Join<'_>> {
        let margin = if self.center { self.n_fft / 2 } else { 0 };
        Ok(Join {
            frames: Frames::new(self.n_fft, self.hop_length, self.win_length)?,
            window: self.window.as_ref(),
            start: margin,
            end: margin,
            length: self.length.as_ref().map(|length| length.dim(inputs)).transpose()?,
            by_frame: self.normalized,
            by_window: false,
            onesided: self.onesided,
            is_complex: self.return_complex,
        })
    }
}

impl Layer for InverseShortTime {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![self.join(inputs)?.infer(inputs, 2..=3)?])
    }
}

impl InverseSpectrogram {
    fn join(&self) -> Result<Join<'_>> {
        let margin = if self.center { self.n_fft / 2 } else { 0 };
        let pad = if self.length.is_some() { self.pad } else { 0 };
        Ok(Join {
            frames: Frames::new(self.n_fft, Some(self.hop_length), Some(self.win_length))?,
            window: Some(&self.window),
            start: margin.saturating_add(pad),
            end: margin,
            length: self.length.map(Dim::from),
            by_frame: self.normalized.by_frame(),
            by_window: self.normalized.by_window(),
            onesided: Some(self.onesided),
            is_complex: false,
        })
    }
}

impl Layer for InverseSpectrogram {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![self.join()?.infer(inputs, 2..=ixion_tensor::MAX_RANK)?])
    }
}

impl CpuLayer for InverseShortTime {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (join, output) = (self.join(&TensorMeta::of_all(io.inputs))?, &mut io.outputs[0]);
        join.run(io.inputs, output, io.context.limits())
    }
}

impl CpuLayer for InverseSpectrogram {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (join, output) = (self.join()?, &mut io.outputs[0]);
        join.run(io.inputs, output, io.context.limits())
    }
}
