//! Sliding windows laid out as columns, and columns added up to an image, by their definition.

use crate::kernels::Float;
use crate::kernels::window::Window;
use ndarray::{Array2, Array3, ArrayView2, ArrayView3};

/// What each tap of a window sees of a C×H×W image at each position, as `torch.nn.functional.unfold`: one row for each
/// channel and tap, one column for each position; 0 in the padding.
pub fn unfold<T: Float>(image: ArrayView3<'_, T>, windows: &[Window; 2]) -> Array2<T> {
    let (channels, height, width) = image.dim();
    let (taps, positions) = sizes(windows, [height, width]);
    Array2::from_shape_fn((channels * taps, positions), |(row, column)| {
        match place(windows, [height, width], row % taps, column) {
            Some([y, x]) => image[[row / taps, y, x]],
            None => T::zero(),
        }
    })
}

/// Columns as [`unfold`] makes them added up to the image, as `torch.nn.functional.fold`.
pub fn fold<T: Float>(
    columns: ArrayView2<'_, T>,
    windows: &[Window; 2],
    [height, width]: [usize; 2],
) -> Array3<T> {
    let taps = sizes(windows, [height, width]).0;
    let mut image = Array3::from_elem((columns.nrows() / taps, height, width), T::zero());
    for ((row, column), &value) in columns.indexed_iter() {
        if let Some([y, x]) = place(windows, [height, width], row % taps, column) {
            image[[row / taps, y, x]] += value;
        }
    }
    image
}

/// The number of taps and of positions.
fn sizes([rows, columns]: &[Window; 2], [height, width]: [usize; 2]) -> (usize, usize) {
    (rows.kernel * columns.kernel, rows.positions(height) * columns.positions(width))
}

/// The element that a tap sees at a position, unless it sees the padding.
fn place(
    [rows, columns]: &[Window; 2],
    [height, width]: [usize; 2],
    tap: usize,
    position: usize,
) -> Option<[usize; 2]> {
    let across = columns.positions(width);
    let y = rows.source(position / across, tap / columns.kernel, height)?;
    let x = columns.source(position % across, tap % columns.kernel, width)?;
    Some([y, x])
}
