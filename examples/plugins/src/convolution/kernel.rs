//! The arithmetic, generic over the element type; written for clarity, not for speed.

use super::geometry::Geometry;
use ixion::Limits;
use ixion::op::Result;
use std::ops::AddAssign;

/// The operands of the multiply-accumulate operations.
pub(super) struct Factors<'a, T, A, P> {
    /// The elements of the input.
    pub(super) x: &'a [T],
    pub(super) weights: &'a [T],
    /// The initial value of the sums, one per output channel.
    pub(super) bias: Option<&'a [A]>,
    pub(super) product: P,
}

/// Computes the output row by row. `store(channel, at, sums)` receives the row that begins at element `at`.
///
/// # Errors
/// Returns an error if the deadline has passed.
pub(super) fn convolve<T: Copy, A: Copy + Default + AddAssign, P: Fn(T, T) -> A>(
    geometry: &Geometry,
    factors: &Factors<'_, T, A, P>,
    sums: &mut [A],
    limits: &Limits,
    mut store: impl FnMut(usize, usize, &[A]),
) -> Result<()> {
    let [batch, channels, rows, _] = geometry.output;
    let mut at = 0;
    for sample in 0..batch {
        for channel in 0..channels {
            limits.check_deadline()?;
            for row in 0..rows {
                sums.fill(factors.bias.map_or_else(A::default, |bias| bias[channel]));
                add_row(geometry, factors, [sample, channel, row], sums);
                store(channel, at, sums);
                at += sums.len();
            }
        }
    }
    Ok(())
}

/// Accumulates all products of one row of the output.
fn add_row<T: Copy, A: AddAssign, P: Fn(T, T) -> A>(
    geometry: &Geometry,
    factors: &Factors<'_, T, A, P>,
    [sample, channel, row]: [usize; 3],
    sums: &mut [A],
) {
    let [_, in_channels, height, width] = geometry.input;
    let [kernel_height, kernel_width] = geometry.kernel;
    let in_group = in_channels / geometry.groups;
    let group = channel / (geometry.output[1] / geometry.groups);
    let weights = &factors.weights[channel * geometry.window()..][..geometry.window()];
    let kernel_rows = (0..in_group).flat_map(|c| (0..kernel_height).map(move |k| (c, k)));
    for ((c, k), weights) in kernel_rows.zip(weights.chunks_exact(kernel_width)) {
        let Some(y) = geometry.input_index(0, row, k) else { continue };
        let plane = sample * in_channels + group * in_group + c;
        let line = &factors.x[(plane * height + y) * width..][..width];
        for (l, &weight) in weights.iter().enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                if let Some(x) = geometry.input_index(1, column, l) {
                    *sum += (factors.product)(line[x], weight);
                }
            }
        }
    }
}
