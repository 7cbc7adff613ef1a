//! Short-time Fourier transforms and spectrograms.

mod inverse;
mod short_time;

use crate::op::{LayerError, TensorMeta, Weight};
use crate::ops::fourier::transforms::Norm;
use crate::tensor::{DType, TensorView};

pub use inverse::{InverseShortTime, InverseSpectrogram};
pub use short_time::{ShortTime, Spectrogram};

/// Sizes of the frames that a signal is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frames {
    /// The length of a frame and of its transform.
    len: usize,
    /// From one frame to the next.
    hop: usize,
    /// The length of the window, which lies in the middle of the frame.
    window: usize,
}

impl Frames {
    /// Sizes as operators give them: a fourth of a frame from one to the next, and windows as long as a frame, where absent.
    fn new(n_fft: usize, hop_length: Option<usize>, win_length: Option<usize>) -> Result<Self, LayerError> {
        const MOST: usize = 1 << 30;
        let (hop, window) = (hop_length.unwrap_or(n_fft / 4), win_length.unwrap_or(n_fft));
        let invalid = |key, found: usize, reason: &str| {
            Err(LayerError::InvalidParameter { key, found: found.to_string(), reason: reason.to_owned() })
        };
        match () {
            () if n_fft == 0 || n_fft > MOST => invalid("n_fft", n_fft, "a frame has 1 to 2^30 elements"),
            () if hop == 0 || hop > MOST => invalid("hop_length", hop, "a hop is 1 to 2^30 elements"),
            () if window == 0 || window > n_fft => invalid(
                "win_length",
                window,
                "a window has at least 1 element, and at most as many as a frame",
            ),
            () => Ok(Self { len: n_fft, hop, window }),
        }
    }

    /// The number of frequencies of a frame.
    fn frequencies(self, onesided: bool) -> usize {
        if onesided { self.len / 2 + 1 } else { self.len }
    }

    /// A window with zeros on both sides, as long as a frame; ones where there is none.
    fn read(self, window: Option<&Weight>, inputs: &[TensorView<'_>]) -> Result<Vec<f64>, LayerError> {
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
fn check_window(frames: Frames, window: Option<&TensorMeta>) -> Result<(), LayerError> {
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
fn precision(input: DType, window: Option<DType>) -> Result<DType, LayerError> {
    if input.is_integer() || input == DType::Bool {
        return Err(LayerError::dtype("the input", "real or complex numbers", input));
    }
    let precision = crate::ops::fourier::transforms::precision(input)?;
    Ok(if window == Some(DType::F64) { DType::F64 } else { precision })
}

/// What `normalized` says to the transform itself.
fn frame_norm(normalized: bool) -> Norm {
    if normalized { Norm::Ortho } else { Norm::Backward }
}

crate::ops::support::choices::choices! {
    /// By what a spectrogram is divided.
    pub enum Normalization {
        /// By nothing.
        No = "False",
        /// By the norm of the window.
        Yes = "True",
        /// By the norm of the window.
        Window = "window",
        /// By the root of the length of a frame.
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

/// The root of the sum of squares.
fn norm(window: &[f64]) -> f64 {
    window.iter().map(|x| x * x).sum::<f64>().sqrt()
}

operators! { ShortTime, InverseShortTime, Spectrogram, InverseSpectrogram }

#[cfg(test)]
mod tests;
