//! Softmax along one axis. Sums are made in f64.

use super::wide::{Work, run_widest};
use super::{Float, math};

/// Independent parts of a row.
const PARTS: usize = 16;

/// Softmax along the middle axis of …×`len`×`inner`.
pub fn softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    run_widest(Softmax { input, output, len, inner, is_log: false });
}

/// The logarithm of softmax along the middle axis of …×`len`×`inner`.
pub fn log_softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    run_widest(Softmax { input, output, len, inner, is_log: true });
}

struct Softmax<'a, T> {
    input: &'a [T],
    output: &'a mut [T],
    len: usize,
    inner: usize,
    is_log: bool,
}

impl<T: Float> Work for Softmax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { input, output, len, inner, is_log } = self;
        let power = |power: T, _: T| power;
        let scale = (|sum: f64| T::of(1.0 / sum), |y: T, scale: T| y * scale);
        let rest = |_: T, rest: T| rest;
        let shift = (|sum: f64| T::of(sum.ln()), |y: T, shift: T| y - shift);
        match (inner, is_log) {
            (1, false) => each_row(input, output, len, power, scale),
            (1, true) => each_row(input, output, len, rest, shift),
            (_, false) => each_block(input, output, len, inner, power, scale),
            (_, true) => each_block(input, output, len, inner, rest, shift),
        }
    }
}

/// The larger of two, the first where the second is NaN.
#[inline(always)]
fn larger<T: Float>(largest: T, x: T) -> T {
    if x > largest { x } else { largest }
}

#[inline(always)]
fn largest_of<T: Float>(row: &[T]) -> T {
    let mut parts = [T::neg_infinity(); PARTS];
    let chunks = row.chunks_exact(PARTS);
    let rest = chunks.remainder().iter().fold(T::neg_infinity(), |largest, &x| larger(largest, x));
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, &x)| *part = larger(*part, x));
    }
    parts.into_iter().fold(rest, larger)
}

/// For every row: as [`each_block`] for one lane, whose elements lie beside each other.
#[inline(always)]
fn each_row<T: Float>(
    input: &[T],
    output: &mut [T],
    len: usize,
    first: impl Fn(T, T) -> T,
    (of_sum, second): (impl Fn(f64) -> T, impl Fn(T, T) -> T),
) {
    for (input, output) in input.chunks_exact(len.max(1)).zip(output.chunks_exact_mut(len.max(1))) {
        let largest = largest_of(input);
        let mut parts = [0.0; PARTS];
        let (mut inputs, mut outputs) = (input.chunks_exact(PARTS), output.chunks_exact_mut(PARTS));
        for (input, output) in inputs.by_ref().zip(outputs.by_ref()) {
            add_powers(input, output, largest, &mut parts, &first);
        }
        add_powers(inputs.remainder(), outputs.into_remainder(), largest, &mut parts, &first);
        let of_sum = of_sum(parts.iter().sum());
        output.iter_mut().for_each(|y| *y = second(*y, of_sum));
    }
}

/// Writes what `first` makes of a few elements, and adds the powers of e to parts of their sum.
#[inline(always)]
fn add_powers<T: Float>(
    input: &[T],
    output: &mut [T],
    largest: T,
    parts: &mut [f64; PARTS],
    first: &impl Fn(T, T) -> T,
) {
    for ((part, &x), y) in parts.iter_mut().zip(input).zip(output) {
        let power = math::exp(x - largest);
        *part += power.to_f64().unwrap_or(f64::NAN);
        *y = first(power, x - largest);
    }
}

/// For every lane of the middle axis: `first` makes an output of e to the power of the difference from the largest
/// element, and of that difference; `second` makes the final one of it and of what `of_sum` makes of the sum of powers.
#[inline(always)]
fn each_block<T: Float>(
    input: &[T],
    output: &mut [T],
    len: usize,
    inner: usize,
    first: impl Fn(T, T) -> T,
    (of_sum, second): (impl Fn(f64) -> T, impl Fn(T, T) -> T),
) {
    if input.is_empty() {
        return;
    }
    let block = len * inner;
    let (mut largest, mut sums) = (vec![T::neg_infinity(); inner], vec![0.0; inner]);
    for (input, output) in input.chunks_exact(block).zip(output.chunks_exact_mut(block)) {
        largest.fill(T::neg_infinity());
        sums.fill(0.0);
        for row in input.chunks_exact(inner) {
            let lanes = largest.iter_mut().zip(row);
            lanes.for_each(|(largest, &x)| *largest = if x > *largest { x } else { *largest });
        }
        for (row, output) in input.chunks_exact(inner).zip(output.chunks_exact_mut(inner)) {
            let lanes = row.iter().zip(output).zip(&largest).zip(&mut sums);
            for (((&x, y), &largest), sum) in lanes {
                let power = math::exp(x - largest);
                *sum += power.to_f64().unwrap_or(f64::NAN);
                *y = first(power, x - largest);
            }
        }
        // The largest elements are not needed any more.
        largest.iter_mut().zip(&sums).for_each(|(lane, &sum)| *lane = of_sum(sum));
        for output in output.chunks_exact_mut(inner) {
            output.iter_mut().zip(&largest).for_each(|(y, &of_sum)| *y = second(*y, of_sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            (outer, len, inner) in (1usize..4, 1usize..9, 1usize..5),
            values in proptest::collection::vec(
                prop_oneof![8 => -50f64..50.0, 1 => Just(f64::NEG_INFINITY), 1 => Just(f64::INFINITY), 1 => Just(f64::NAN)],
                160,
            ),
        ) {
            let x = values[..outer * len * inner].to_vec();
            let array = ArrayD::from_shape_vec(IxDyn(&[outer, len, inner]), x.clone()).unwrap();
            let mut y = vec![7.0; x.len()];
            let check = |got: &[f64], want: ArrayD<f64>| {
                for (got, want) in got.iter().zip(&want) {
                    let close = (got - want).abs() <= 1e-12 * (1.0 + want.abs());
                    assert!(close || got == want || (got.is_nan() && want.is_nan()), "{got} where {want} is expected");
                }
            };
            softmax(&x, &mut y, len, inner);
            check(&y, naive::softmax(array.view(), 1));
            log_softmax(&x, &mut y, len, inner);
            check(&y, naive::log_softmax(array.view(), 1));
        }
    }
}
