//! Short-time Fourier transforms and spectrograms.

use super::{Frames, Normalization, check_window, frame_norm, norm, precision};
use crate::fourier::transforms::complex;
use crate::layout::padding::PaddingMode;
use crate::op::{
    CpuLayer, FieldValue, FromOperator, Io, Layer, LayerError, OperatorReader, Result, TensorMeta, Weight,
    Written, exactly,
};
use crate::support::broadcast::Converted;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::fourier::{Direction, Plan, Real, RealPlan, transpose};
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{Complex, DType, Dim, Element, LimitError, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

/// Frames that a task transforms.
const FRAMES: usize = 32;

crate::operator! {
    /// `torch.stft`: the short-time Fourier transform of an L or N×L signal, real or complex: the spectra of overlapping frames
    /// that are multiplied by a window. Output: (N×)frequencies×frames complex numbers, or their real and imaginary parts along
    /// one more axis.
    pub struct ShortTime for "torch.stft", "aten::stft" {
        /// The length of a frame, which is the size of its Fourier transform.
        n_fft: usize,
        /// The distance between adjacent frames; `n_fft` / 4 by default.
        hop_length: Option<usize> = None,
        /// The length of the window; `n_fft` by default.
        win_length: Option<usize> = None,
        /// The window function; ones by default.
        window: Option<Weight> = None,
        /// Whether frame t is centred at element t·`hop_length` instead of starting there.
        center: Centred = Centred(true),
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

/// Whether frames are centred. The default is that of the operator's type: of PyTorch's two functions in TorchScript, the one
/// without this argument does not centre frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Centred(pub bool);

impl FieldValue for Centred {
    const KIND: &'static str = <bool as FieldValue>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let usual = reader.op_type() != "aten::stft";
        Ok(Some(Self(<bool as FieldValue>::read(reader, key)?.unwrap_or(usual))))
    }

    fn written(&self) -> Written {
        self.0.written()
    }
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
        let sizes = (shape[axes - 2], shape[axes - 1]);
        let elements = shape[..axes].iter().fold(1u64, |n, &len| n.saturating_mul(len as u64));
        limits.check_tensor(
            "a short-time spectrum",
            elements.saturating_mul(size_of::<Complex<f64>>() as u64),
        )?;
        match output.dtype().real() {
            DType::F64 => self.run_in::<f64>(inputs, sizes, output, limits),
            _ => self.run_in::<f32>(inputs, sizes, output, limits),
        }
    }

    /// Computes the spectra frame by frame, given the numbers of frequencies and frames, then writes them.
    fn run_in<T: Real>(
        &self,
        inputs: &[TensorView<'_>],
        sizes: (usize, usize),
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()>
    where
        Complex<T>: Element,
    {
        let window = self.frames.read(self.window, inputs)?;
        let factor = self.factor(&window);
        let window: Vec<T> = window.iter().map(|&x| T::of(x * factor)).collect();
        let spectra = match inputs[0].dtype().is_complex() {
            true => self.complex_spectra(&window, self.padded(&inputs[0], limits)?, sizes, limits)?,
            false => self.real_spectra(&window, self.padded(&inputs[0], limits)?, sizes, limits)?,
        };
        write_plain(output, &mut |output| self.write(&spectra, sizes, output, limits))
    }

    fn complex_spectra<T: Real>(
        &self,
        window: &[T],
        signal: Padded<Complex<T>>,
        sizes: (usize, usize),
        limits: &Limits,
    ) -> Result<Vec<Complex<T>>>
    where
        Complex<T>: Element,
    {
        let plan = Plan::<T>::new(self.frames.len, Direction::Forward);
        self.spectra(&signal, sizes, plan.scratch(), limits, |frame, spectrum, buffers| {
            let factors = frame.iter().zip(window);
            spectrum.iter_mut().zip(factors).for_each(|(to, (&x, &factor))| *to = x * factor);
            plan.run(spectrum, &mut buffers.scratch);
        })
    }

    fn real_spectra<T: Real>(
        &self,
        window: &[T],
        signal: Padded<T>,
        sizes: (usize, usize),
        limits: &Limits,
    ) -> Result<Vec<Complex<T>>> {
        let plan = RealPlan::<T>::new(self.frames.len, Direction::Forward);
        let half = self.frames.frequencies(true);
        self.spectra(&signal, sizes, plan.scratch(), limits, |frame, spectrum, buffers| {
            let factors = frame.iter().zip(window);
            buffers.row.iter_mut().zip(factors).for_each(|(to, (&x, &factor))| *to = x * factor);
            let (known, others) = spectrum.split_at_mut(half);
            plan.spectrum(&buffers.row, known, &mut buffers.scratch);
            let opposite = known[1..=others.len()].iter().rev();
            others.iter_mut().zip(opposite).for_each(|(to, from)| *to = from.conj());
        })
    }

    /// Lets `compute` write the spectrum of each frame. Threads share the frames.
    fn spectra<T: Real, E: Element>(
        &self,
        signal: &Padded<E>,
        (frequencies, count): (usize, usize),
        scratch: usize,
        limits: &Limits,
        compute: impl Fn(&[E], &mut [Complex<T>], &mut Buffers<T>) + Sync,
    ) -> Result<Vec<Complex<T>>> {
        let (len, hop) = (self.frames.len, self.frames.hop);
        let rows = signal.elements.len() / signal.len.max(1);
        let zero = Complex::new(T::zero(), T::zero());
        let mut spectra = vec![zero; rows * count * frequencies];
        let share = FRAMES * frequencies;
        let task = |start: usize, spectra: &mut [Complex<T>]| -> Result<(), LimitError> {
            limits.check_deadline()?;
            let mut buffers = Buffers { row: vec![T::zero(); len], scratch: vec![zero; scratch] };
            for (index, spectrum) in spectra.chunks_exact_mut(frequencies).enumerate() {
                let frame = start / frequencies + index;
                let at = frame / count * signal.len + frame % count * hop;
                compute(signal.elements.get(at..at + len).unwrap_or_default(), spectrum, &mut buffers);
            }
            Ok(())
        };
        for_each_chunk(&mut spectra, share, &task)?;
        Ok(spectra)
    }

    /// The signals with their padding, one after the other.
    fn padded<E: Element>(&self, input: &TensorView<'_>, limits: &Limits) -> Result<Padded<E>> {
        let len = input.shape().last().copied().unwrap_or(0);
        let [before, after] = self.margins(len, limits)?;
        let input = Converted::of(input, E::DTYPE)?;
        let input = input.view();
        let input = Plain::of(&input)?;
        let input = input.view();
        let rows = input.slice::<E>()?.chunks_exact(len.max(1));
        let total = before.len() + len + after.len();
        let bytes = (total as u64).saturating_mul(rows.len() as u64).saturating_mul(size_of::<E>() as u64);
        limits.check_tensor("the padded signals", bytes)?;
        let mut elements = Vec::with_capacity(rows.len() * total);
        for row in rows {
            let of = |source: &Option<usize>| source.map_or(E::default(), |index| row[index]);
            elements.extend(before.iter().map(of));
            elements.extend_from_slice(row);
            elements.extend(after.iter().map(of));
        }
        Ok(Padded { elements, len: total })
    }

    /// The factor of all elements.
    fn factor(&self, window: &[f64]) -> f64 {
        let by_frame = frame_norm(self.by_frame).factor(self.frames.len as f64, Direction::Forward);
        if self.by_window { by_frame / norm(window) } else { by_frame }
    }

    /// The indices of the elements of a signal that are added before and after it; `None` for zeros.
    fn margins(&self, len: usize, limits: &Limits) -> Result<[Vec<Option<usize>>; 2]> {
        let (inner, margin) = (len.saturating_add(self.pad.saturating_mul(2)), self.margin());
        let total = inner.saturating_add(2 * margin);
        limits.check_tensor("a padded signal", (total as u64).saturating_mul(16))?;
        let zeros = vec![None; self.pad];
        let Some(mode) = self.mode.mirror().filter(|_| margin > 0) else {
            let all = vec![None; self.pad + margin];
            return Ok([all.clone(), all]);
        };
        let side = |before: i64, after: i64| -> Result<Vec<Option<usize>>> {
            let places = mode.sources(inner, before, after);
            let places = places
                .ok_or_else(|| LayerError::shape("the input", "a longer signal for these frames", inner))?;
            let source = |place: usize| place.checked_sub(self.pad).filter(|&index| index < len);
            Ok(places.into_iter().map(source).collect())
        };
        // A negative number removes the signal itself.
        let (margin, signal) = (margin as i64, inner as i64);
        Ok([[side(margin, -signal)?, zeros.clone()].concat(), [zeros, side(-signal, margin)?].concat()])
    }

    /// Writes spectra, stored frame by frame, as frequencies×frames.
    fn write<T: Real>(
        &self,
        spectra: &[Complex<T>],
        sizes: (usize, usize),
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()>
    where
        Complex<T>: Element,
    {
        match self.form {
            Form::Complex => turn(spectra, sizes, output.slice::<Complex<T>>()?, limits),
            Form::Parts => {
                let parts: Vec<[T; 2]> = spectra.iter().map(|value| [value.re, value.im]).collect();
                turn(&parts, sizes, output.slice::<T>()?.as_chunks_mut::<2>().0, limits)
            }
            Form::Power(power) => {
                let powers: Vec<T> = spectra.iter().map(|&value| raised(value, power)).collect();
                turn(&powers, sizes, output.slice::<T>()?, limits)
            }
        }
    }
}

/// Signals of the same length with their padding.
struct Padded<E> {
    elements: Vec<E>,
    /// The length of a signal.
    len: usize,
}

/// The memory of a task.
struct Buffers<T> {
    row: Vec<T>,
    scratch: Vec<Complex<T>>,
}

/// Writes rows of frequencies as frequencies×frames, signal by signal.
fn turn<E: Copy + Send + Sync>(
    rows: &[E],
    (frequencies, count): (usize, usize),
    output: &mut [E],
    limits: &Limits,
) -> Result<()> {
    let len = (frequencies * count).max(1);
    for (rows, output) in rows.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
        transpose(rows, frequencies, output, limits)?;
    }
    Ok(())
}

/// The power of a magnitude, computed in f64.
fn raised<T: Real>(value: Complex<T>, power: f64) -> T {
    let part = |part: T| part.to_f64().unwrap_or(f64::NAN);
    let value = Complex::new(part(value.re), part(value.im));
    T::of(match power {
        1.0 => value.norm(),
        2.0 => value.norm_sqr(),
        _ => value.norm().powf(power),
    })
}

impl ShortTime {
    fn cut(&self, input: DType) -> Result<Cut<'_>> {
        let is_complex = input.is_complex();
        let form = if self.return_complex.unwrap_or(is_complex) { Form::Complex } else { Form::Parts };
        Ok(Cut {
            frames: Frames::new(self.n_fft, self.hop_length, self.win_length)?,
            window: self.window.as_ref(),
            pad: 0,
            center: self.center.0,
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
