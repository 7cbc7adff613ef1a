//! The effect of a sliding window on shapes.

use crate::op::{LayerError, Result, TensorMeta};
use ixion_kernels::window::Window;
use ixion_tensor::Dim;

// ANCHOR: windows
/// The windows over rows and over columns, from parameters that list rows first.
pub fn windows(
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> [Window; 2] {
    // ANCHOR: windows_todo -- task 2: return a window for each axis, with the same padding on both sides
    [0, 1].map(|axis| Window {
        kernel: kernel_size[axis],
        stride: stride[axis],
        dilation: dilation[axis],
        pad_before: padding[axis],
        pad_after: padding[axis],
    })
    // ANCHOR_END: windows_todo
}
// ANCHOR_END: windows

// ANCHOR: slid
/// The number of window positions along an axis, whose length may be a symbol: ⌊(len + padding − reach) / stride⌋ + 1.
pub fn slid(len: &Dim, window: &Window) -> Dim {
    // ANCHOR: slid_todo -- task 2: compute the number of window positions, in the arithmetic of Dim
    let reach = window.dilation * window.kernel.saturating_sub(1) + 1;
    let room = len.clone() + window.pad_before + window.pad_after - reach;
    room.floor_div(window.stride) + 1
    // ANCHOR_END: slid_todo
}
// ANCHOR_END: slid

// ANCHOR: planes
/// The dimensions of an N×C×H×W input after windows slide over H and W.
///
/// # Errors
/// [`LayerError::Shape`] if the input has another rank, or if a window does not fit.
pub fn planes(input: &TensorMeta, windows: &[Window; 2]) -> Result<[Dim; 4]> {
    let [batch, channels, height, width] = input.dims() else {
        return Err(LayerError::shape("the input", "N×C×H×W", input));
    };
    let [height, width] = [slid(height, &windows[0]), slid(width, &windows[1])];
    if [&height, &width].iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
        return Err(LayerError::shape("the input", "H and W that the window fits into", input));
    }
    Ok([batch.clone(), channels.clone(), height, width])
}

/// Checks that windows can slide.
///
/// # Errors
/// [`LayerError::InvalidParameter`] with the first window that cannot.
pub fn check(windows: &[Window; 2]) -> Result<()> {
    match windows.iter().find(|window| !window.is_sane()) {
        Some(window) => {
            Err(LayerError::invalid("kernel_size", format!("{window:?}"), "this window cannot slide"))
        }
        None => Ok(()),
    }
}
// ANCHOR_END: planes

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::rules::positions;
    use proptest::prelude::*;

    proptest! {
        /// The plain formula agrees with the rule of the fast layers.
        #[test]
        fn slid_is_the_rule_of_all_layers(
            (kernel, stride, dilation) in (1..6usize, 1..4usize, 1..4usize),
            (pad_before, pad_after) in (0..4usize, 0..4usize),
            len in 0..40usize,
        ) {
            let window = Window { kernel, stride, dilation, pad_before, pad_after };
            for len in [Dim::from(len), Dim::symbol("h"), Dim::symbol("h") * 2 + len] {
                prop_assert_eq!(slid(&len, &window), positions(&window, &len, false));
            }
        }
    }
}
