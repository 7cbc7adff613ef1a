//! Sliding windows laid out as columns, and columns added to an image, by their definition.

use crate::Float;
use crate::window::Window;
use ndarray::{Array2, Array3, ArrayView2, ArrayView3};

// ANCHOR: unfold
/// Lays out what each tap of a window sees of a C×H×W image at each position, as `torch.nn.functional.unfold`, also known
/// as im2col: one row per channel and tap, one column per position; 0 in the padding.
pub fn unfold<T: Float>(image: ArrayView3<'_, T>, windows: &[Window; 2]) -> Array2<T> {
    // ANCHOR: unfold_todo -- task 4: a row for each channel and tap, a column for each position
    let (channels, height, width) = image.dim();
    let (taps, positions) = sizes(windows, [height, width]);
    Array2::from_shape_fn((channels * taps, positions), |(row, column)| {
        match pixel(windows, [height, width], row % taps, column) {
            Some([y, x]) => image[[row / taps, y, x]],
            None => T::zero(),
        }
    })
    // ANCHOR_END: unfold_todo
}

/// The number of taps and the number of positions.
fn sizes([rows, columns]: &[Window; 2], [height, width]: [usize; 2]) -> (usize, usize) {
    (rows.kernel * columns.kernel, rows.positions(height) * columns.positions(width))
}

/// The pixel that a tap sees at a position; `None` in the padding. Taps are numbered along the rows of the kernel, and
/// positions along the rows of the output.
fn pixel(
    [rows, columns]: &[Window; 2],
    [height, width]: [usize; 2],
    tap: usize,
    position: usize,
) -> Option<[usize; 2]> {
    // ANCHOR: pixel_todo -- task 4: the row and column of the pixel that a tap sees at a position
    let across = columns.positions(width);
    let y = rows.source(position / across, tap / columns.kernel, height)?;
    let x = columns.source(position % across, tap % columns.kernel, width)?;
    Some([y, x])
    // ANCHOR_END: pixel_todo
}
// ANCHOR_END: unfold

/// Adds columns, as returned by [`unfold`], to an image, as `torch.nn.functional.fold`.
pub fn fold<T: Float>(
    columns: ArrayView2<'_, T>,
    windows: &[Window; 2],
    [height, width]: [usize; 2],
) -> Array3<T> {
    let taps = sizes(windows, [height, width]).0;
    let mut image = Array3::from_elem((columns.nrows() / taps, height, width), T::zero());
    for ((row, column), &value) in columns.indexed_iter() {
        if let Some([y, x]) = pixel(windows, [height, width], row % taps, column) {
            image[[row / taps, y, x]] += value;
        }
    }
    image
}
