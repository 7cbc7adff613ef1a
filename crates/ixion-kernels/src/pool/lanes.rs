//! Pooling of planes whose elements hold a block of channels: the elements that a position sees are folded in registers.

use super::shape::PoolShape;
use super::span::Span;
use crate::parallel::for_each_chunk;
use crate::{Float, widest};
use ixion_tensor::{LimitError, Limits};

/// The minimum number of input elements per task.
const SHARE: usize = 1 << 14;

/// Independent parts of a long row.
const PARTS: usize = 4;

/// Folds the elements that each output position sees: along rows first, then across rows. Threads share the rows of
/// outputs; the deadline is checked for each of them.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub(super) fn fold<T: Float, const B: usize>(
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
    start: T,
    limits: &Limits,
    fold: impl Fn(T, T) -> T + Copy + Sync,
) -> Result<(), LimitError> {
    let ([high, wide, _], [_, columns, _], plane) = (&shape.spans, shape.lens, shape.inputs().max(1));
    let len = (wide.len() * B).max(1);
    let looked_at = plane.max(len) / high.len().max(1);
    let share = SHARE.div_ceil(looked_at.max(1)).saturating_mul(len);
    for_each_chunk(output, share, &|at, rows| {
        for (index, output) in rows.chunks_exact_mut(len).enumerate() {
            limits.check_deadline()?;
            let row = at / len + index;
            let input = &input[row / high.len() * plane..][..plane];
            let places = input.as_chunks::<B>().0;
            let high = high[row % high.len()];
            widest!(|| fold_row(places, columns, (high, wide), output, start, fold));
        }
        Ok(())
    })
}

/// Folds what each output position of a row sees.
#[inline(always)]
fn fold_row<T: Float, const B: usize>(
    places: &[[T; B]],
    columns: usize,
    (high, wide): (Span, &[Span]),
    output: &mut [T],
    start: T,
    fold: impl Fn(T, T) -> T + Copy,
) {
    for (output, &wide) in output.as_chunks_mut::<B>().0.iter_mut().zip(wide) {
        let mut all = [start; B];
        for row in high.places() {
            let row = &places[row * columns..][..columns];
            if wide.step == 1 && wide.count >= 2 * PARTS {
                let row = fold_long(&row[wide.first..][..wide.count], start, fold);
                all = zip(all, &row, fold);
                continue;
            }
            for place in wide.places() {
                all = zip(all, &row[place], fold);
            }
        }
        *output = all;
    }
}

#[inline(always)]
fn zip<T: Copy, const B: usize>(mut a: [T; B], b: &[T; B], fold: impl Fn(T, T) -> T) -> [T; B] {
    for (a, &b) in a.iter_mut().zip(b) {
        *a = fold(*a, b);
    }
    a
}

#[inline(always)]
fn fold_long<T: Float, const B: usize>(row: &[[T; B]], start: T, fold: impl Fn(T, T) -> T + Copy) -> [T; B] {
    let mut parts = [[start; B]; PARTS];
    let (chunks, rest) = row.as_chunks::<PARTS>();
    for chunk in chunks {
        for (part, place) in parts.iter_mut().zip(chunk) {
            *part = zip(*part, place, fold);
        }
    }
    let all = parts[1..].iter().fold(parts[0], |all, part| zip(all, part, fold));
    rest.iter().fold(all, |all, place| zip(all, place, fold))
}
