//! Softmax along one axis. Sums are made in f64.

use super::Float;

/// Softmax along the middle axis of …×`len`×`inner`.
pub fn softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    if inner == 1 {
        return each_row(input, output, len);
    }
    each_block(input, output, len, inner, |power, _| power, |y, sum| y * T::of(1.0 / sum));
}

/// The logarithm of softmax along the middle axis of …×`len`×`inner`.
pub fn log_softmax<T: Float>(input: &[T], output: &mut [T], len: usize, inner: usize) {
    each_block(input, output, len, inner, |_, difference| difference, |y, sum| y - T::of(sum.ln()));
}

/// For every row: writes e to the power of each element minus the largest, and divides by the sum.
fn each_row<T: Float>(input: &[T], output: &mut [T], len: usize) {
    for (input, output) in input.chunks_exact(len.max(1)).zip(output.chunks_exact_mut(len.max(1))) {
        let largest =
            input.iter().fold(T::neg_infinity(), |largest, &x| if x > largest { x } else { largest });
        output.iter_mut().zip(input).for_each(|(y, &x)| *y = (x - largest).exp());
        let sum: f64 = output.iter().map(|y| y.to_f64().unwrap_or(f64::NAN)).sum();
        let scale = T::of(1.0 / sum);
        output.iter_mut().for_each(|y| *y *= scale);
    }
}

/// For every lane of the middle axis: `first` makes an output of e to the power of the difference from the largest
/// element, and of that difference; `second` makes the final one of it and of the sum of powers.
fn each_block<T: Float>(
    input: &[T],
    output: &mut [T],
    len: usize,
    inner: usize,
    first: impl Fn(T, T) -> T,
    second: impl Fn(T, f64) -> T,
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
            lanes.for_each(|(((&x, y), &largest), sum)| {
                let power = (x - largest).exp();
                *sum += power.to_f64().unwrap_or(f64::NAN);
                *y = first(power, x - largest);
            });
        }
        for output in output.chunks_exact_mut(inner) {
            output.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = second(*y, sum));
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
