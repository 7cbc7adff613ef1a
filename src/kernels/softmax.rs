//! Softmax along one axis. Sums are made in f64.

use super::Float;

/// Softmax along the middle axis of …×`len`×`inner`.
pub fn softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    each_block(input, output, len, inner, |x, _, y| *y = x, |sum, y| *y *= T::of(1.0 / sum));
}

/// The logarithm of softmax along the middle axis of …×`len`×`inner`.
pub fn log_softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    each_block(input, output, len, inner, |_, difference, y| *y = difference, |sum, y| *y -= T::of(sum.ln()));
}

/// For every lane of the middle axis: subtracts the largest element, lets `first` see the power of e and the difference,
/// sums the powers, and lets `second` see the sum.
fn each_block<T: Float>(
    input: &[T],
    output: &mut [T],
    len: usize,
    inner: usize,
    first: impl Fn(T, T, &mut T),
    second: impl Fn(f64, &mut T),
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
            largest
                .iter_mut()
                .zip(row)
                .for_each(|(largest, &x)| *largest = if x > *largest { x } else { *largest });
        }
        for (row, output) in input.chunks_exact(inner).zip(output.chunks_exact_mut(inner)) {
            let lanes = row.iter().zip(output).zip(&largest).zip(&mut sums);
            lanes.for_each(|(((&x, y), &largest), sum)| {
                let power = (x - largest).exp();
                *sum += power.to_f64().unwrap_or(f64::NAN);
                first(power, x - largest, y);
            });
        }
        for output in output.chunks_exact_mut(inner) {
            output.iter_mut().zip(&sums).for_each(|(y, &sum)| second(sum, y));
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
