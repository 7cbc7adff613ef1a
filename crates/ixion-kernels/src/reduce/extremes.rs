//! Extremes along an axis, and their positions.

use super::{PARTS, in_pairs};
use crate::widest;

/// Elements of a row that are compared with the extreme at a time.
const CHUNK: usize = 64;

/// The number of adjacent lanes that are processed together.
const LANES: usize = 512;

/// Writes the first largest or smallest element along the middle axis of …×`len`×`inner`, and its position along the axis;
/// the first NaN, if there is one. There must be a place for each lane in `extremes` and `places`; elements beyond a
/// shorter one are left out, and so is everything if `len` is 0.
pub fn along_axis<T: PartialOrd + Copy>(
    values: &[T],
    (len, inner): (usize, usize),
    is_largest: bool,
    extremes: &mut [T],
    places: &mut [i64],
) {
    if is_largest {
        widest!(|| Extremes { values, len, inner, wins: |x: T, best: T| x > best, extremes, places }.run());
    } else {
        widest!(|| Extremes { values, len, inner, wins: |x: T, best: T| x < best, extremes, places }.run());
    }
}

struct Extremes<'a, T, W> {
    values: &'a [T],
    len: usize,
    inner: usize,
    wins: W,
    extremes: &'a mut [T],
    places: &'a mut [i64],
}

impl<T: PartialOrd + Copy, W: Fn(T, T) -> bool> Extremes<'_, T, W> {
    #[inline(always)]
    fn run(self) {
        let Self { values, len, inner, wins, extremes, places } = self;
        if inner == 1 {
            let results = extremes.iter_mut().zip(places);
            for (row, (extreme, place)) in values.chunks_exact(len.max(1)).zip(results) {
                if let Some(at) = position_of(row, &wins)
                    && let Some(&x) = row.get(at)
                {
                    (*extreme, *place) = (x, at as i64);
                }
            }
            return;
        }
        let results = extremes.chunks_exact_mut(inner.max(1)).zip(places.chunks_exact_mut(inner.max(1)));
        for (block, (extremes, places)) in values.chunks_exact((len * inner).max(1)).zip(results) {
            let lanes = extremes.chunks_mut(LANES).zip(places.chunks_mut(LANES));
            for (index, (extremes, places)) in lanes.enumerate() {
                for (row, values) in block.chunks_exact(inner).enumerate() {
                    let values = values.get(index * LANES..).unwrap_or_default();
                    join(row as i64, values, &wins, extremes, places);
                }
            }
        }
    }
}

#[inline(always)]
fn is_nan<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_none()
}

/// Joins a row with the extremes of all rows before it.
#[inline(always)]
fn join<T: PartialOrd + Copy>(
    row: i64,
    values: &[T],
    wins: &impl Fn(T, T) -> bool,
    extremes: &mut [T],
    places: &mut [i64],
) {
    let lanes = extremes.iter_mut().zip(places).zip(values);
    if row == 0 {
        return lanes.for_each(|((best, place), &x)| (*best, *place) = (x, 0));
    }
    for ((best, place), &x) in lanes {
        let is_better = wins(x, *best) | (is_nan(&x) & !is_nan(best));
        *best = if is_better { x } else { *best };
        *place = if is_better { row } else { *place };
    }
}

/// The position of the first element that `wins` over all others, where NaN wins over everything; `None` for an empty
/// row.
#[inline(always)]
fn position_of<T: PartialOrd + Copy>(row: &[T], wins: impl Fn(T, T) -> bool) -> Option<usize> {
    let first = *row.first()?;
    // First find the winning element, in several independent parts, and then its position: both loops are vectorised.
    if row.iter().fold(false, |any, x| any | is_nan(x)) {
        return row.iter().position(is_nan);
    }
    let better = |best: T, x: T| if wins(x, best) { x } else { best };
    let (chunks, rest) = row.as_chunks::<PARTS>();
    let mut best = rest.iter().fold(first, |best, &x| better(best, x));
    if !chunks.is_empty() {
        let mut parts = [first; PARTS];
        for chunk in chunks {
            parts.iter_mut().zip(chunk).for_each(|(best, &x)| *best = better(*best, x));
        }
        best = better(best, in_pairs(parts, better));
    }
    let (chunks, rest) = row.as_chunks::<CHUNK>();
    for (index, chunk) in chunks.iter().enumerate() {
        if chunk.iter().fold(false, |any, &x| any | (x == best)) {
            return Some(index * CHUNK + chunk.iter().position(|&x| x == best)?);
        }
    }
    Some(chunks.len() * CHUNK + rest.iter().position(|&x| x == best)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ndarray::{ArrayD, Axis, IxDyn};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_equal_the_naive_ones(
            (outer, len, inner) in prop_oneof![
                (1usize..4, 1usize..200, Just(1usize)),
                (1usize..3, 1usize..9, 1usize..40),
                (Just(1usize), 1usize..4, 500usize..1100),
            ],
            specials in proptest::option::of(20usize..200),
            seed in 0usize..1000,
        ) {
            // Many equal numbers, and some that are not finite.
            let number = |i: usize| {
                let mixed = i * 37 + seed * 11;
                match specials.map(|every| mixed % every) {
                    Some(0) => f64::NAN,
                    Some(1) => f64::INFINITY,
                    Some(2) => f64::NEG_INFINITY,
                    _ => (mixed % 65) as f64,
                }
            };
            let values: Vec<f64> = (0..outer * len * inner).map(number).collect();
            let array = ArrayD::from_shape_vec(IxDyn(&[outer, len, inner]), values.clone()).unwrap();
            let (mut best, mut places) = (vec![7.0; outer * inner], vec![7; outer * inner]);
            for is_largest in [true, false] {
                along_axis(&values, (len, inner), is_largest, &mut best, &mut places);
                for (index, lane) in array.lanes(Axis(1)).into_iter().enumerate() {
                    let want = if is_largest { naive::arg_max(lane) } else { naive::arg_min(lane) };
                    let want = want.unwrap();
                    prop_assert_eq!(places[index], want as i64);
                    prop_assert_eq!(best[index].to_bits(), lane[want].to_bits());
                }
            }
        }
    }

    #[test]
    fn integers_have_extremes_too() {
        let (mut best, mut places) = ([7; 2], [7; 2]);
        along_axis(&[1i64, 5, 3, 5, -2, 4], (3, 2), true, &mut best, &mut places);
        assert_eq!((best, places), ([3, 5], [1, 0]));
        along_axis::<i64>(&[], (0, 2), true, &mut best, &mut places);
        assert_eq!((best, places), ([3, 5], [1, 0]));
    }
}
