//! Short-time Fourier transforms and spectrograms.

mod inverse;
mod short_time;

use crate::fourier::transforms::Norm;
use crate::op::{LayerError, Result, TensorMeta, Weight};
use ixion_tensor::{DType, TensorView};

pub use inverse::{InverseShortTime, InverseSpectrogram};
pub use short_time::{Centred, ShortTime, Spectrogram};

/// The sizes of the frames of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frames {
    /// The length of a frame and of its transform.
    len: usize,
    /// The distance between adjacent frames.
    hop: usize,
    /// The length of the window, which is centred in the frame.
    window: usize,
}

impl Frames {
    /// Creates the sizes from parameters; the hop is a quarter of a frame and the window as long as a frame by default.
    fn new(n_fft: usize, hop_length: Option<usize>, win_length: Option<usize>) -> Result<Self> {
        const MAX_LEN: usize = 1 << 30;
        let (hop, window) = (hop_length.unwrap_or(n_fft / 4), win_length.unwrap_or(n_fft));
        let invalid = |key, found: usize, reason: &str| Err(LayerError::invalid(key, found, reason));
        match () {
            () if n_fft == 0 || n_fft > MAX_LEN => invalid("n_fft", n_fft, "a frame has 1 to 2^30 elements"),
            () if hop == 0 || hop > MAX_LEN => invalid("hop_length", hop, "a hop is 1 to 2^30 elements"),
            () if window == 0 || window > n_fft => {
                invalid("win_length", window, "a window has 1 to `n_fft` elements")
            }
            () => Ok(Self { len: n_fft, hop, window }),
        }
    }

    /// The number of frequencies of a frame.
    fn frequencies(self, onesided: bool) -> usize {
        if onesided { self.len / 2 + 1 } else { self.len }
    }

    /// The window, or ones without one, padded with zeros on both sides to the length of a frame.
    fn read(self, window: Option<&Weight>, inputs: &[TensorView<'_>]) -> Result<Vec<f64>> {
        let mut frame = vec![0.0; self.len];
        let middle = &mut frame[(self.len - self.window) / 2..][..self.window];
        let Some(window) = window else {
            middle.fill(1.0);
            return Ok(frame);
        };
        let window = window.view(inputs)?.to_tensor()?.cast(DType::F64)?;
        middle.iter_mut().zip(window.slice::<f64>()?).for_each(|(to, from)| *to = *from);
        Ok(frame)
    }
}

/// Checks a window against the sizes of the frames.
fn check_window(frames: Frames, window: Option<&TensorMeta>) -> Result<()> {
    let Some(window) = window else { return Ok(()) };
    if !window.dtype().is_float() {
        return Err(LayerError::dtype("the window", "real numbers", window.dtype()));
    }
    match window.rank() == 1
        && window.num_elements().fixed().is_none_or(|len| usize::try_from(len) == Ok(frames.window))
    {
        true => Ok(()),
        false => Err(LayerError::shape("the window", format!("{} elements", frames.window), window)),
    }
}

/// The precision of a transform of an input with a window.
fn precision(input: DType, window: Option<DType>) -> Result<DType> {
    if input.is_integer() || input == DType::Bool {
        return Err(LayerError::dtype("the input", "real or complex numbers", input));
    }
    let precision = crate::fourier::transforms::precision(input)?;
    Ok(if window == Some(DType::F64) { DType::F64 } else { precision })
}

/// The norm of the transform for the parameter `normalized`.
fn frame_norm(normalized: bool) -> Norm {
    if normalized { Norm::Ortho } else { Norm::Backward }
}

crate::support::choices::choices! {
    /// The normalisation of a spectrogram.
    pub enum Normalization {
        /// No normalisation.
        No = "False",
        /// Division by the L2 norm of the window.
        Yes = "True",
        /// Division by the L2 norm of the window.
        Window = "window",
        /// Division by the square root of the length of a frame.
        FrameLength = "frame_length",
    }
}

impl Normalization {
    fn by_frame(self) -> bool {
        self == Self::FrameLength
    }

    fn by_window(self) -> bool {
        matches!(self, Self::Yes | Self::Window)
    }
}

/// The L2 norm.
fn norm(window: &[f64]) -> f64 {
    window.iter().map(|x| x * x).sum::<f64>().sqrt()
}

operators! {
    ShortTime, InverseShortTime, Spectrogram, InverseSpectrogram;
    overload "aten::stft"(
        input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex
    ) of 8,
        "aten::stft"(
            input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window
        ) of 9
}

#[cfg(test)]
mod tests;
