//! Softmax along one axis. A few powers of e are added in the element type, and these sums in f64: the sum of a row of
//! any length is as exact as that of a short one.

use super::reduce::{PARTS, in_pairs};
use super::{Float, math};
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// The number of powers that are added in the element type.
const ADDED: usize = 16;

/// The number of adjacent lanes that are processed together.
const LANES: usize = 128;

/// The number of elements of a part of a long row.
const PART: usize = 1 << 18;

/// Softmax along the middle axis of …×`len`×`inner`. If `input` is `None`, the output holds the input.
///
/// # Panics
/// Panics if the input is shorter than the output.
pub fn softmax<T: Float>(input: Option<&[T]>, output: &mut [T], len: usize, inner: usize) {
    widest!(|| Softmax { input, output, len, inner, is_log: false }.run());
}

/// The logarithm of softmax along the middle axis of …×`len`×`inner`; as [`softmax`].
///
/// # Panics
/// Panics if the input is shorter than the output.
pub fn log_softmax<T: Float>(input: Option<&[T]>, output: &mut [T], len: usize, inner: usize) {
    widest!(|| Softmax { input, output, len, inner, is_log: true }.run());
}

/// As [`softmax`], or as [`log_softmax`] if `is_log`, but the deadline is checked between the parts of long rows.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// As [`softmax`].
pub fn softmax_within<T: Float>(
    input: Option<&[T]>,
    output: &mut [T],
    (len, inner): (usize, usize),
    is_log: bool,
    limits: &Limits,
) -> Result<(), LimitError> {
    if inner != 1 || len <= PART {
        widest!(|| Softmax { input, output, len, inner, is_log }.run());
        return Ok(());
    }
    if let Some(input) = input {
        output.copy_from_slice(&input[..output.len()]);
    }
    for row in output.chunks_exact_mut(len) {
        long_row(row, is_log, limits)?;
    }
    Ok(())
}

fn long_row<T: Float>(row: &mut [T], is_log: bool, limits: &Limits) -> Result<(), LimitError> {
    let (mut largest, mut sum) = (T::neg_infinity(), 0.0);
    for part in row.chunks(PART) {
        limits.check_deadline()?;
        largest = larger(largest, widest!(|| largest_of(part)));
    }
    for part in row.chunks_mut(PART) {
        limits.check_deadline()?;
        sum += widest!(|| powers(part, largest, is_log));
    }
    let (factor, shift) = (T::of(1.0 / sum), T::of(sum.ln()));
    for part in row.chunks_mut(PART) {
        limits.check_deadline()?;
        widest!(|| part.iter_mut().for_each(|y| *y = if is_log { *y - shift } else { *y * factor }));
    }
    Ok(())
}

struct Softmax<'a, T> {
    input: Option<&'a [T]>,
    output: &'a mut [T],
    len: usize,
    inner: usize,
    is_log: bool,
}

impl<T: Float> Softmax<'_, T> {
    #[inline(always)]
    fn run(self) {
        let power = |power: T, _: T| power;
        let scale = (|sum: f64| T::of(1.0 / sum), |y: T, scale: T| y * scale);
        let rest = |_: T, rest: T| rest;
        let shift = (|sum: f64| T::of(sum.ln()), |y: T, shift: T| y - shift);
        match (self.inner, self.is_log) {
            (1, false) => self.each_row(scale.0, scale.1),
            (1, true) => self.each_row(shift.0, shift.1),
            (_, false) => self.each_block(power, scale),
            (_, true) => self.each_block(rest, shift),
        }
    }
}

/// The larger of two; the first if the second is NaN.
#[inline(always)]
fn larger<T: Float>(largest: T, x: T) -> T {
    if x > largest { x } else { largest }
}

#[inline(always)]
fn largest_of<T: Float>(row: &[T]) -> T {
    let mut parts = [T::neg_infinity(); PARTS];
    let (chunks, rest) = row.as_chunks::<PARTS>();
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, &x)| *part = larger(*part, x));
    }
    let rest = rest.iter().fold(T::neg_infinity(), |largest, &x| larger(largest, x));
    larger(rest, in_pairs(parts, larger))
}

impl<T: Float> Softmax<'_, T> {
    /// Processes every row as [`Softmax::each_block`] does a lane; its elements are contiguous.
    #[inline(always)]
    fn each_row(self, of_sum: impl Fn(f64) -> T, second: impl Fn(T, T) -> T) {
        let len = self.len.max(1);
        for (index, row) in self.output.chunks_exact_mut(len).enumerate() {
            if let Some(input) = self.input {
                row.copy_from_slice(&input[index * len..][..len]);
            }
            let largest = largest_of(row);
            let of_sum = of_sum(powers(row, largest, self.is_log));
            row.iter_mut().for_each(|y| *y = second(*y, of_sum));
        }
    }

    /// Processes every lane of the middle axis. `first` computes a value from e to the power of the difference from the
    /// largest element, and from that difference. `second` computes the result from that value and from `of_sum` of the
    /// sum of powers.
    #[inline(always)]
    fn each_block(
        self,
        first: impl Fn(T, T) -> T,
        (of_sum, second): (impl Fn(f64) -> T, impl Fn(T, T) -> T),
    ) {
        let Self { input, output, len, inner, .. } = self;
        let block = (len * inner).max(1);
        for (index, output) in output.chunks_exact_mut(block).enumerate() {
            for lane in (0..inner).step_by(LANES) {
                let width = LANES.min(inner - lane);
                let (mut largest, mut sums) = ([T::neg_infinity(); LANES], [0.0; LANES]);
                for start in (lane..block).step_by(inner) {
                    let row = &mut output[start..start + width];
                    if let Some(input) = input {
                        row.copy_from_slice(&input[index * block + start..][..width]);
                    }
                    largest.iter_mut().zip(row).for_each(|(largest, &mut x)| *largest = larger(*largest, x));
                }
                for chunk in (lane..block).step_by(inner * ADDED) {
                    let mut parts = [T::zero(); LANES];
                    let end = chunk.saturating_add(inner * ADDED).min(block);
                    for start in (chunk..end).step_by(inner) {
                        add_powers(&mut output[start..start + width], &largest, &mut parts, &first);
                    }
                    add_all(&parts, &mut sums);
                }
                // The largest elements are no longer needed.
                largest.iter_mut().zip(&sums).for_each(|(lane, &sum)| *lane = of_sum(sum));
                for start in (lane..block).step_by(inner) {
                    let row = output[start..start + width].iter_mut().zip(&largest);
                    row.for_each(|(y, &of_sum)| *y = second(*y, of_sum));
                }
            }
        }
    }
}

/// Replaces elements by e to the power of their differences from the largest element, or by the differences themselves,
/// and returns the sum of the powers.
#[inline(always)]
fn powers<T: Float>(row: &mut [T], largest: T, keeps_differences: bool) -> f64 {
    let mut sum = 0.0;
    // Loops that only do one thing are vectorised.
    for chunk in row.chunks_mut(PARTS * ADDED) {
        chunk.iter_mut().for_each(|x| *x -= largest);
        if !keeps_differences {
            exp_all(chunk);
            sum += sum_of(chunk);
            continue;
        }
        let mut powers = [T::zero(); PARTS * ADDED];
        let powers = &mut powers[..chunk.len()];
        powers.copy_from_slice(chunk);
        exp_all(powers);
        sum += sum_of(powers);
    }
    sum
}

/// Replaces numbers by powers of e. For loops that are compiled for wide vectors.
#[inline(always)]
pub(super) fn exp_all<T: Float>(numbers: &mut [T]) {
    let (chunks, rest) = numbers.as_chunks_mut::<PARTS>();
    for chunk in chunks {
        chunk.iter_mut().for_each(|x| *x = math::exp(*x));
    }
    if rest.is_empty() {
        return;
    }
    // A whole vector takes less time than a few numbers alone.
    let mut chunk = [T::zero(); PARTS];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk.iter_mut().for_each(|x| *x = math::exp(*x));
    rest.copy_from_slice(&chunk[..rest.len()]);
}

#[inline(always)]
fn sum_of<T: Float>(chunk: &[T]) -> f64 {
    let mut parts = [T::zero(); PARTS];
    let (chunks, rest) = chunk.as_chunks::<PARTS>();
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, &power)| *part += power);
    }
    parts.iter_mut().zip(rest).for_each(|(part, &power)| *part += power);
    in_pairs(parts, |a, b| a + b).to_f64().unwrap_or(f64::NAN)
}

/// Replaces a few elements by the values of `first`, and adds the powers of e to their sums.
#[inline(always)]
fn add_powers<T: Float>(elements: &mut [T], largest: &[T], sums: &mut [T], first: &impl Fn(T, T) -> T) {
    for ((x, &largest), sum) in elements.iter_mut().zip(largest).zip(sums) {
        let power = math::exp(*x - largest);
        *sum += power;
        *x = first(power, *x - largest);
    }
}

/// Adds parts to sums.
#[inline(always)]
fn add_all<T: Float>(parts: &[T], sums: &mut [f64]) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum += part.to_f64().unwrap_or(f64::NAN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|x| x.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            (outer, len, inner) in prop_oneof![(1usize..4, 1usize..9, 1usize..5), (1usize..2, 1usize..3, 60usize..80)],
            values in proptest::collection::vec(
                prop_oneof![8 => -50f64..50.0, 1 => Just(f64::NEG_INFINITY), 1 => Just(f64::INFINITY), 1 => Just(f64::NAN)],
                160,
            ),
        ) {
            let mut x = values[..outer * len * inner].to_vec();
            let array = ArrayD::from_shape_vec(IxDyn(&[outer, len, inner]), x.clone()).unwrap();
            let mut y = vec![7.0; x.len()];
            let check = |got: &[f64], want: ArrayD<f64>| {
                for (got, want) in got.iter().zip(&want) {
                    let close = (got - want).abs() <= 1e-12 * (1.0 + want.abs());
                    assert!(close || got == want || (got.is_nan() && want.is_nan()), "{got} where {want} is expected");
                }
            };
            softmax(Some(&x), &mut y, len, inner);
            check(&y, naive::softmax(array.view(), 1));
            let mut in_place = x.clone();
            softmax(None, &mut in_place, len, inner);
            prop_assert_eq!(bits(&in_place), bits(&y));
            log_softmax(Some(&x), &mut y, len, inner);
            check(&y, naive::log_softmax(array.view(), 1));
            log_softmax(None, &mut x, len, inner);
            prop_assert_eq!(bits(&x), bits(&y));
        }
    }

    #[test]
    fn parts_of_long_rows_join() {
        let len = PART + 100;
        let x: Vec<f64> = (0..2 * len).map(|i| (i * 7919 % 1000) as f64 * 0.01 - 3.0).collect();
        for is_log in [false, true] {
            let [mut whole, mut parts] = [7.0, 8.0].map(|y| vec![y; x.len()]);
            match is_log {
                true => log_softmax(Some(&x), &mut whole, len, 1),
                false => softmax(Some(&x), &mut whole, len, 1),
            }
            softmax_within(Some(&x), &mut parts, (len, 1), is_log, &Limits::default()).unwrap();
            for (whole, part) in whole.iter().zip(&parts) {
                assert!((whole - part).abs() <= 1e-12 * whole.abs(), "{part}, not {whole}");
            }
        }
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        assert!(softmax_within(None, &mut vec![0.0; len], (len, 1), false, &late).is_err());
    }

    /// The difference from the largest element, up to 8, is rounded by half a unit in the last place.
    #[test]
    fn single_precision_is_as_exact_for_long_rows() {
        for (len, inner) in [(1, 1), (33, 1), (5_000, 1), (600, 3), (600, 70)] {
            let x: Vec<f32> = (0..len * inner).map(|i| (i * 7919 % 1000) as f32 * 0.01 - 3.0).collect();
            let wide =
                ArrayD::from_shape_vec(IxDyn(&[len, inner]), x.iter().map(|&x| f64::from(x)).collect());
            let wide = wide.unwrap();
            let mut y = vec![0.0; x.len()];
            softmax(Some(&x), &mut y, len, inner);
            for (got, want) in y.iter().zip(&naive::softmax(wide.view(), 0)) {
                assert!((f64::from(*got) - want).abs() <= 1.5e-6 * want, "{got} where {want} is expected");
            }
        }
    }
}
