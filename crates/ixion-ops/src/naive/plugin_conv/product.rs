//! Columns, and sums of int8 products.

use ixion_kernels::window::Window;
use ndarray::{ArrayView1, ArrayView3};

// ANCHOR: unfold_into
/// Writes the columns of a C×H×W image, like [`unfold`](ixion_kernels::naive::unfold), to the caller's memory: a row for
/// each channel and tap, with the element that the tap covers at each position of the windows, or 0 in the padding. Elements
/// may be widened, such as `i8` to `i32`.
pub fn unfold_into<T: Copy + Into<A>, A: Copy + Default>(
    picture: ArrayView3<'_, T>,
    windows: &[Window; 2],
    columns: &mut [A],
) {
    // ANCHOR: unfold_into_todo -- task 4: row by row, line by line: write each line by `see`, or zeros if the tap is above or below the image
    let (_, height, width) = picture.dim();
    let [down, across] = [windows[0].positions(height).max(1), windows[1].positions(width).max(1)];
    let (taps, kernel) = (windows[0].kernel * windows[1].kernel, windows[1].kernel);
    for (plane, rows) in picture.outer_iter().zip(columns.chunks_exact_mut(taps * down * across)) {
        for (tap, row) in rows.chunks_exact_mut(down * across).enumerate() {
            for (position, seen) in row.chunks_exact_mut(across).enumerate() {
                match windows[0].source(position, tap / kernel, height) {
                    Some(y) => see(plane.row(y), &windows[1], tap % kernel, seen),
                    None => seen.fill(A::default()),
                }
            }
        }
    }
    // ANCHOR_END: unfold_into_todo
}

/// Writes the elements of an image line that one tap covers at each position of the window; 0 outside of the line.
fn see<T: Copy + Into<A>, A: Copy + Default>(
    line: ArrayView1<'_, T>,
    window: &Window,
    tap: usize,
    seen: &mut [A],
) {
    for (position, seen) in seen.iter_mut().enumerate() {
        *seen = match window.source(position, tap, line.len()) {
            Some(x) => line[x].into(),
            None => A::default(),
        };
    }
}
// ANCHOR_END: unfold_into

// ANCHOR: int8_sums
/// Computes the bias plus each weight times its row of the columns, for all positions.
pub fn int8_sums(weights: &[i8], bias: i32, columns: &[i32], sums: &mut [i32]) {
    // ANCHOR: int8_sums_todo -- task 4: begin with the bias, then add each weight times its row, row by row
    sums.fill(bias);
    for (&weight, row) in weights.iter().zip(columns.chunks_exact(sums.len().max(1))) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += i32::from(weight) * x;
        }
    }
    // ANCHOR_END: int8_sums_todo
}
// ANCHOR_END: int8_sums
