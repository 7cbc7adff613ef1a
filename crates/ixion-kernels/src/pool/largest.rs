//! The largest elements of windows, with their positions.

use super::shape::PoolShape;
use super::span::Span;
use super::strip::{Regular, Strip};
use crate::Float;
use ixion_tensor::{LimitError, Limits};

/// The work of [`max_pool_with_indices`](super::max_pool_with_indices).
#[inline(always)]
pub(super) fn find<T: Float>(
    shape: &PoolShape,
    input: &[T],
    (output, indices): (&mut [T], &mut [i64]),
    limits: &Limits,
) -> Result<(), LimitError> {
    let (width, spans) = (shape.lens[2], &*shape.spans[2]);
    let longest = shape.strips.iter().map(|strip| strip.columns.len()).max().unwrap_or(0);
    let (mut values, mut places) = (vec![T::neg_infinity(); longest], vec![0; longest]);
    let planes = shape.planes(input, output).zip(indices.chunks_exact_mut(shape.outputs().max(1)));
    for ((plane, output), indices) in planes {
        let targets = output.chunks_exact_mut(spans.len()).zip(indices.chunks_exact_mut(spans.len()));
        for (rows, (output, indices)) in shape.rows().zip(targets) {
            limits.check_deadline()?;
            for strip in &shape.strips {
                let (start, len) = (strip.columns.start, strip.columns.len());
                let mut line = Line { values: &mut values[..len], places: &mut places[..len] };
                line.fill(
                    rows.clone().map(|row| (&plane[row * width + start..][..len], row * width + start)),
                );
                line.find(strip, spans, output, indices);
            }
        }
    }
    Ok(())
}

/// The largest elements of columns, and their positions in the plane.
struct Line<'a, T> {
    values: &'a mut [T],
    places: &'a mut [i64],
}

impl<T: Float> Line<'_, T> {
    /// Finds the largest elements of each column, given rows with the positions of their first elements.
    #[inline(always)]
    fn fill<'b>(&mut self, mut rows: impl Iterator<Item = (&'b [T], usize)>)
    where
        T: 'b,
    {
        match rows.next() {
            Some((row, first)) => {
                self.values.copy_from_slice(row);
                self.places.iter_mut().zip(first as i64..).for_each(|(place, at)| *place = at);
            }
            None => {
                self.values.fill(T::neg_infinity());
                self.places.fill(0);
            }
        }
        for (row, first) in rows {
            let columns = self.values.iter_mut().zip(&mut *self.places);
            for ((largest, place), (&x, at)) in columns.zip(row.iter().zip(first as i64..)) {
                let wins = (x > *largest) | x.is_nan();
                (*largest, *place) = if wins { (x, at) } else { (*largest, *place) };
            }
        }
    }

    /// Finds the largest element that each output position of a strip sees; `spans` and the outputs are those of the whole
    /// axis.
    #[inline(always)]
    fn find(&self, strip: &Strip, spans: &[Span], output: &mut [T], indices: &mut [i64]) {
        for position in strip.irregular() {
            let elements = strip.relative(spans[position]).places().map(|x| (self.values[x], self.places[x]));
            let found = elements.reduce(larger).unwrap_or((T::neg_infinity(), 0));
            (output[position], indices[position]) = found;
        }
        let Some((positions, Regular { first, stride })) = strip.regular(spans) else { return };
        let (output, indices) = (&mut output[positions.clone()], &mut indices[positions]);
        // The first element of all windows, then the second of all, and so on: neighbouring outputs are computed together.
        for (tap, place) in first.places().enumerate() {
            let elements = (&self.values[place..], &self.places[place..]);
            match tap {
                0 => for_each_apart((output, indices), elements, stride, |_, x| x),
                _ => for_each_apart((output, indices), elements, stride, larger),
            }
        }
    }
}

/// Changes every output to the result of `of` for it and an element, `stride` elements after that of the previous output.
#[inline(always)]
fn for_each_apart<T: Copy>(
    (output, indices): (&mut [T], &mut [i64]),
    (values, places): (&[T], &[i64]),
    stride: usize,
    of: impl Fn((T, i64), (T, i64)) -> (T, i64),
) {
    let outputs = output.iter_mut().zip(indices);
    let change = |((value, index), (&x, &at)): ((&mut T, &mut i64), (&T, &i64))| {
        (*value, *index) = of((*value, *index), (x, at));
    };
    match stride {
        1 => outputs.zip(values.iter().zip(places)).for_each(change),
        2 => {
            let (values, places) = (values.chunks(2), places.chunks(2));
            outputs.zip(values.zip(places).map(|(values, places)| (&values[0], &places[0]))).for_each(change);
        }
        _ => outputs.zip(values.iter().zip(places).step_by(stride.max(1))).for_each(change),
    }
}

/// The larger of two elements with their positions: of equal elements the first, of several NaN the last. Without
/// branches, which the processor could not predict.
#[inline(always)]
fn larger<T: Float>(a: (T, i64), b: (T, i64)) -> (T, i64) {
    let is_last_nan = b.0.is_nan() & (!a.0.is_nan() | (b.1 > a.1));
    let is_first_equal = (b.0 == a.0) & (b.1 < a.1);
    let b_wins = is_last_nan | (b.0 > a.0) | is_first_equal;
    (if b_wins { b.0 } else { a.0 }, if b_wins { b.1 } else { a.1 })
}
