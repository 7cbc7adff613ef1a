//! Distances between all pairs of rows of two matrices.
//!
//! Rows of the second matrix are packed in panels of as many rows as a vector has lanes, column by column. Some rows of the
//! first matrix are compared with a panel at a time, and the sums of all their pairs stay in registers. Differences are
//! computed as they are: lengths and products of rows would cancel for rows that are close to each other.

mod squares;

use super::parallel::for_each_chunk;
use super::{Float, isa, reduce};
use crate::widest;
use ixion_tensor::{DType, LimitError, Limits};
use squares::{ROWS, TERMS, kernel};
use std::array::from_fn;

/// The maximum number of rows in a panel.
const LANES: usize = 16;

/// Sums of squares of f32 between which no term was lost or became infinite.
const LEAST: f64 = 1e-30;
const MOST: f64 = 3e38;

/// Sums, in f64, of all pairs of some rows and a panel.
type Totals = [[f64; LANES]; ROWS];

/// The norms for which there is a loop over panels.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Norm {
    Zero,
    One,
    Two,
    Infinite,
}

impl Norm {
    fn of(p: f64) -> Option<Self> {
        if p == 0.0 {
            Some(Self::Zero)
        } else if p == 1.0 {
            Some(Self::One)
        } else if p == 2.0 {
            Some(Self::Two)
        } else if p == f64::INFINITY {
            Some(Self::Infinite)
        } else {
            None
        }
    }

    /// Computes the sums, or the largest differences, of all pairs.
    fn totals<T: Float>(self, pairs: Pairs<'_, T>, totals: &mut Totals) {
        match self {
            Self::Zero => {
                // Neither a zero nor a NaN is counted: a NaN stays one.
                widest!(|| add_terms(pairs, totals, |x: T| if x.abs() > T::zero() { T::one() } else { x }));
            }
            Self::One => widest!(|| add_terms(pairs, totals, |x: T| x.abs())),
            Self::Two => widest!(|| add_terms(pairs, totals, |x: T| x * x)),
            Self::Infinite => widest!(|| find_largest(pairs, totals)),
        }
    }
}

/// Some rows, and a panel of negated ones in columns.
struct Pairs<'a, T> {
    rows: [&'a [T]; ROWS],
    panel: &'a [T],
}

/// Adds a function of each difference to the totals.
#[inline(always)]
fn add_terms<T: Float>(pairs: Pairs<'_, T>, totals: &mut Totals, term: impl Fn(T) -> T) {
    // More sums of f64 would not stay in registers.
    if T::DTYPE == DType::F32 {
        add_terms_of::<T, 4>(pairs, totals, term);
    } else {
        add_terms_of::<T, 2>(pairs, totals, term);
    }
}

/// As [`add_terms`]. The sums of `R` rows are computed together, so that none waits for another. Loops run over indices, because
/// iterators over these arrays are not always unrolled, without which sums do not stay in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
fn add_terms_of<T: Float, const R: usize>(
    Pairs { rows, panel }: Pairs<'_, T>,
    totals: &mut Totals,
    term: impl Fn(T) -> T,
) {
    let columns = panel.as_chunks::<LANES>().0;
    for (rows, totals) in rows.as_chunks::<R>().0.iter().zip(totals.as_chunks_mut::<R>().0) {
        for (part, columns) in columns.chunks(TERMS).enumerate() {
            let mut sums = [[T::zero(); LANES]; R];
            for (k, column) in columns.iter().enumerate() {
                for r in 0..R {
                    let x = rows[r][part * TERMS + k];
                    for lane in 0..LANES {
                        sums[r][lane] += term(x + column[lane]);
                    }
                }
            }
            for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                *total += sum.to_f64().unwrap_or(f64::NAN);
            }
        }
    }
}

/// Sets the totals to the largest differences, without those that are NaN.
#[inline(always)]
fn find_largest<T: Float>(pairs: Pairs<'_, T>, totals: &mut Totals) {
    // As for sums.
    if T::DTYPE == DType::F32 {
        find_largest_of::<T, 4>(pairs, totals);
    } else {
        find_largest_of::<T, 2>(pairs, totals);
    }
}

/// As [`find_largest`], and as [`add_terms_of`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see add_terms_of")]
fn find_largest_of<T: Float, const R: usize>(Pairs { rows, panel }: Pairs<'_, T>, totals: &mut Totals) {
    for (rows, totals) in rows.as_chunks::<R>().0.iter().zip(totals.as_chunks_mut::<R>().0) {
        let mut largest = [[T::zero(); LANES]; R];
        for (k, column) in panel.as_chunks::<LANES>().0.iter().enumerate() {
            for r in 0..R {
                let x = rows[r][k];
                for lane in 0..LANES {
                    let size = (x + column[lane]).abs();
                    largest[r][lane] = if size > largest[r][lane] { size } else { largest[r][lane] };
                }
            }
        }
        // The array is taken by value: a reference to it would keep it in memory.
        for (totals, largest) in totals.iter_mut().zip(largest) {
            for (total, largest) in totals.iter_mut().zip(largest) {
                *total = largest.to_f64().unwrap_or(f64::NAN);
            }
        }
    }
}

/// Writes the square roots of sums of squares. Returns true if all of them are within the bounds.
#[inline(always)]
fn write_roots<T: Float>(totals: &[f64], output: &mut [T]) -> bool {
    let mut are_within = true;
    for (to, &total) in output.iter_mut().zip(totals) {
        *to = T::of(total).sqrt();
        are_within &= is_within(total);
    }
    are_within
}

#[inline(always)]
fn is_within(total: f64) -> bool {
    (total > LEAST) & (total < MOST)
}

/// Writes the p-norm of the difference of each row of `x` and each row of `y`, which have `len` elements: the distances
/// of the first row of `x` from all rows of `y`, then those of the second. If a difference is NaN, so is the distance, except
/// for p = ∞, which ignores it, as PyTorch does.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if there are fewer rows than the output has distances.
pub fn distances<T: Float>(
    x: &[T],
    y: &[T],
    len: usize,
    p: f64,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    if output.is_empty() || len == 0 {
        output.fill(T::of(reduce::norm::<T>(&[], p)));
        return Ok(());
    }
    match Norm::of(p) {
        Some(norm) => by_panels(x, y, len, (norm, p), output, limits),
        None => by_pairs(x, y, len, p, output, limits),
    }
}

/// Packs negated rows of `len` elements in panels of `lanes` rows, the last of which is filled up with zeros.
fn packed<T: Float>(rows: &[T], len: usize, lanes: usize) -> Vec<T> {
    let mut panels = vec![T::zero(); (rows.len() / len).next_multiple_of(lanes) * len];
    for (panel, rows) in panels.chunks_exact_mut(lanes * len).zip(rows.chunks(lanes * len)) {
        for (lane, row) in rows.chunks_exact(len).enumerate() {
            panel[lane..].iter_mut().step_by(lanes).zip(row).for_each(|(to, &x)| *to = -x);
        }
    }
    panels
}

fn by_panels<T: Float>(
    x: &[T],
    y: &[T],
    len: usize,
    (norm, p): (Norm, f64),
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let has_squares = norm == Norm::Two && T::DTYPE == DType::F32;
    let lanes = if has_squares { isa().lanes() } else { LANES };
    let (panels, add_squares, columns) = (packed(y, len, lanes), kernel(isa()), y.len() / len);
    for_each_chunk(output, ROWS * columns, &|start, output| {
        limits.check_deadline()?;
        let (first, count) = (start / columns, output.len() / columns);
        // The last rows may be repeated.
        let rows: [&[T]; ROWS] = from_fn(|row| &x[(first + row.min(count - 1)) * len..][..len]);
        let mut differences = Vec::new();
        for (panel, at) in panels.chunks_exact(lanes * len).zip((0..columns).step_by(lanes)) {
            let mut totals: Totals = [[0.0; LANES]; ROWS];
            if has_squares {
                let rows = rows.map(|row| row.as_ptr().cast());
                let (panel, totals) = (panel.as_ptr().cast(), totals.as_flattened_mut().as_mut_ptr());
                // SAFETY: the processor has the instructions, and T is f32. Rows have `len` elements, the panel as many
                // columns, and there are totals for all lanes of all rows.
                unsafe { add_squares(&squares::Operands { rows, panel, len, totals }) };
            } else {
                norm.totals(Pairs { rows, panel }, &mut totals);
            }
            let lines = totals.as_flattened().chunks_exact(lanes).zip(output.chunks_exact_mut(columns));
            for ((totals, output), row) in lines.zip(rows) {
                let output = &mut output[at..columns.min(at + lanes)];
                if norm != Norm::Two {
                    output.iter_mut().zip(totals).for_each(|(to, &total)| *to = T::of(total));
                } else if !widest!(|| write_roots(totals, output)) && has_squares {
                    let others = y[at * len..].chunks_exact(len);
                    for ((to, &total), other) in output.iter_mut().zip(totals).zip(others) {
                        if total == 0.0 && row == other {
                            *to = T::zero();
                        } else if !is_within(total) {
                            *to = exact(row, other, p, &mut differences);
                        }
                    }
                }
            }
        }
        Ok(())
    })
}

/// The norm of the difference of two rows, computed in f64.
fn exact<T: Float>(x: &[T], y: &[T], p: f64, differences: &mut Vec<T>) -> T {
    differences.clear();
    differences.extend(x.iter().zip(y).map(|(&x, &y)| x - y));
    T::of(reduce::norm(differences, p))
}

/// Distances of any norm, one by one.
fn by_pairs<T: Float>(
    x: &[T],
    y: &[T],
    len: usize,
    p: f64,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let columns = y.len() / len;
    for_each_chunk(output, columns, &|start, output| {
        limits.check_deadline()?;
        let row = &x[start / columns * len..][..len];
        let mut differences = Vec::with_capacity(len);
        for (to, other) in output.iter_mut().zip(y.chunks_exact(len)) {
            *to = exact(row, other, p, &mut differences);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::on_threads;
    use crate::{Isa, naive};
    use ndarray::ArrayView2;
    use proptest::prelude::*;

    /// Numbers, of which some rows are equal and some are not finite.
    fn numbers(rows: usize, len: usize, seed: usize, has_specials: bool) -> Vec<f64> {
        let number = |at: usize| match (at * 37 + seed * 11) % 997 {
            0 if has_specials => f64::NAN,
            1 if has_specials => f64::INFINITY,
            mixed => (mixed % 64) as f64 / 16.0 - 2.0,
        };
        (0..rows * len).map(number).collect()
    }

    fn matrix(numbers: &[f64], len: usize) -> ArrayView2<'_, f64> {
        ArrayView2::from_shape((numbers.len() / len, len), numbers).unwrap()
    }

    fn check<T: Float>(x: &[f64], y: &[f64], len: usize, p: f64, bound: f64) {
        let of = |numbers: &[f64]| numbers.iter().map(|&x| T::of(x)).collect::<Vec<T>>();
        let want = naive::distances(matrix(x, len), matrix(y, len), p);
        let (x, y) = (of(x), of(y));
        let (alone, pooled) = on_threads(&[1, 3], || {
            let mut output = vec![T::one(); want.len()];
            distances(&x, &y, len, p, &mut output, &Limits::default()).unwrap();
            output.into_iter().map(|x| x.to_f64().unwrap()).collect::<Vec<f64>>()
        });
        for (got, &want) in alone.iter().zip(&want) {
            let is_near = *got == want || (got - want).abs() <= bound * want;
            assert!(is_near || (got.is_nan() && want.is_nan()), "p {p}: {got}, not {want}");
        }
        let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(pooled.iter().all(|other| bits(other) == bits(&alone)), "threads change bits");
    }

    proptest! {
        #[test]
        fn they_equal_the_naive_distances(
            (rows, others, len) in (1usize..20, 1usize..40, 1usize..80),
            p in prop::sample::select(vec![0.0, 0.5, 1.0, 2.0, 3.0, f64::INFINITY]),
            seed in 0usize..1000,
            has_specials: bool,
        ) {
            let (x, y) = (numbers(rows, len, seed, has_specials), numbers(others, len, seed / 2, has_specials));
            check::<f32>(&x, &y, len, p, 1e-6);
            check::<f64>(&x, &y, len, p, 1e-13);
        }
    }

    #[test]
    fn numbers_whose_squares_are_out_of_range() {
        for size in [1e-30, 1e-22, 1e-10, 1e18, 1e25] {
            let x: Vec<f64> = (0..10 * 5).map(|at| f64::from(((at % 7) as f64 * size) as f32)).collect();
            check::<f32>(&x, &x[..15], 5, 2.0, 1e-6);
        }
    }

    #[test]
    fn every_instruction_set_has_the_same_sums() {
        let x: Vec<f32> = (0..ROWS * 70).map(|at| (at % 13) as f32).collect();
        for isa in Isa::supported() {
            let lanes = isa.lanes();
            let panel = packed(&x[..lanes.min(ROWS) * 70], 70, lanes);
            let mut totals = vec![0.0; ROWS * lanes];
            let rows = from_fn(|row| x[row * 70..].as_ptr());
            let operands =
                squares::Operands { rows, panel: panel.as_ptr(), len: 70, totals: totals.as_mut_ptr() };
            // SAFETY: the processor has the instructions, and the operands are long enough.
            unsafe { kernel(isa)(&operands) };
            for (at, &total) in totals.iter().enumerate().filter(|(at, _)| at % lanes < ROWS) {
                let difference = |k: usize| f64::from(x[at / lanes * 70 + k] - x[at % lanes * 70 + k]);
                let want: f64 = (0..70).map(|k| difference(k) * difference(k)).sum();
                assert_eq!(total, want, "{isa:?}");
            }
        }
    }

    #[test]
    fn no_elements_and_no_rows() {
        let mut output = [7f32; 4];
        distances(&[], &[], 0, 2.0, &mut output, &Limits::default()).unwrap();
        assert_eq!(output, [0.0; 4]);
        distances::<f64>(&[], &[1.0], 1, 2.0, &mut [], &Limits::default()).unwrap();
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        assert!(distances(&[1.0], &[2.0], 1, 0.5, &mut [0.0], &late).is_err());
    }
}
