//! Columns, and the sums of whole numbers.

use crate::kernels::window::Window;
use ndarray::{ArrayView1, ArrayView3};

// ANCHOR: unfold_into
/// What each tap of the windows sees of a C×H×W picture at each position, as
/// [`unfold`](crate::kernels::naive::unfold) has it, in memory of somebody else: a row for each channel and tap; 0 in the
/// padding. `i8` may become `i32` on the way.
pub fn unfold_into<T: Copy + Into<A>, A: Copy + Default>(
    picture: ArrayView3<'_, T>,
    windows: &[Window; 2],
    columns: &mut [A],
) {
    // ANCHOR: unfold_into_todo -- task 4: row after row, line after line: each by `see`, or zeros where the tap is above or below the picture
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

/// What one tap sees of a line of a picture, at each position of the window; 0 beside the line.
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

// ANCHOR: whole_sums
/// The bias plus each weight times its row of the columns, for all positions at once.
pub fn whole_sums(weights: &[i8], bias: i32, columns: &[i32], sums: &mut [i32]) {
    // ANCHOR: whole_sums_todo -- task 4: begin with the bias, then add weight times row, row after row
    sums.fill(bias);
    for (&weight, row) in weights.iter().zip(columns.chunks_exact(sums.len().max(1))) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += i32::from(weight) * x;
        }
    }
    // ANCHOR_END: whole_sums_todo
}
// ANCHOR_END: whole_sums
