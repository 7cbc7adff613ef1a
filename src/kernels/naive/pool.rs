//! Pooling by its definition, in any number of dimensions.

use crate::kernels::Float;
use crate::kernels::window::Window;
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

/// The largest element of each window, and its position in the flattened plane, as `torch.nn.functional.max_pool`.
///
/// `input` is N×C×…, `output` the lengths of the axes after the channels. NaN is larger than everything. The first of
/// equal elements wins, but the last NaN. The padding is never chosen.
///
/// # Panics
/// When ranks do not fit each other.
pub fn max_pool<T: Float>(
    input: ArrayViewD<'_, T>,
    windows: &[Window],
    output: &[usize],
) -> (ArrayD<T>, ArrayD<i64>) {
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    let mut values = ArrayD::from_elem(shape.clone(), T::neg_infinity());
    let mut positions = ArrayD::from_elem(shape.clone(), 0);
    for at in ndarray::indices(shape) {
        let mut found = None;
        visit(&input, windows, at.slice(), |value, position| {
            let better = value.is_nan() || found.is_none_or(|(best, _): (T, i64)| value > best);
            if better {
                found = Some((value, position));
            }
        });
        if let Some((value, position)) = found {
            values[&at] = value;
            positions[&at] = position;
        }
    }
    (values, positions)
}

/// What the sum of a window is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divisor {
    /// The number of input elements in the window.
    Elements,
    /// The same, and the padding in it.
    ElementsAndPadding,
    /// A given number.
    Fixed(i64),
}

/// The mean of each window, as `torch.nn.functional.avg_pool`.
///
/// # Panics
/// When ranks do not fit each other.
pub fn avg_pool<T: Float>(
    input: ArrayViewD<'_, T>,
    windows: &[Window],
    output: &[usize],
    divisor: Divisor,
) -> ArrayD<T> {
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    ArrayD::from_shape_fn(shape, |at| {
        let (mut sum, mut count) = (T::zero(), 0);
        visit(&input, windows, at.slice(), |value, _| {
            sum += value;
            count += 1;
        });
        let divisor = match divisor {
            Divisor::Elements => count,
            Divisor::ElementsAndPadding => padded_count(windows, &at.slice()[2..], &input.shape()[2..]),
            Divisor::Fixed(number) => number,
        };
        sum / T::of(divisor as f64)
    })
}

/// The number of places of a window that lie in the input or its padding; with `ceil_mode` the last may reach further.
fn padded_count(windows: &[Window], place: &[usize], lens: &[usize]) -> i64 {
    let axes = windows.iter().zip(place).zip(lens).map(|((window, &place), &len)| {
        let start = place * window.stride;
        let end = (start + window.kernel).min(len + window.pad_before + window.pad_after);
        end.saturating_sub(start) as i64
    });
    axes.product()
}

/// Calls `each` with every input element that the window at `at` looks at, and its position in the plane.
fn visit<T: Float>(
    input: &ArrayViewD<'_, T>,
    windows: &[Window],
    at: &[usize],
    mut each: impl FnMut(T, i64),
) {
    let kernel: Vec<usize> = windows.iter().map(|window| window.kernel).collect();
    let lens = &input.shape()[2..];
    for tap in ndarray::indices(IxDyn(&kernel)) {
        let axes = windows.iter().zip(&at[2..]).zip(tap.slice()).zip(lens);
        let source: Option<Vec<usize>> =
            axes.map(|(((window, &place), &tap), &len)| window.source(place, tap, len)).collect();
        let Some(source) = source else { continue };
        let position = source.iter().zip(lens).fold(0, |position, (&i, &len)| position * len + i);
        each(input[IxDyn(&[&at[..2], &source[..]].concat())], position as i64);
    }
}

/// The p-norm of each window, as `torch.nn.functional.lp_pool`: the mean of xᵖ times the number of places of a window,
/// to the power of 1/p.
///
/// A window that reaches past the end counts its missing places as if they held the mean. A negative mean gives NaN, but
/// for p = 1.
///
/// # Panics
/// When ranks do not fit each other.
pub fn lp_pool<T: Float>(
    input: ArrayViewD<'_, T>,
    windows: &[Window],
    output: &[usize],
    p: f64,
) -> ArrayD<T> {
    let places: usize = windows.iter().map(|window| window.kernel).product();
    let powers = input.mapv(|x| x.powf(T::of(p)));
    let means = avg_pool(powers.view(), windows, output, Divisor::ElementsAndPadding);
    means.mapv(|mean| (mean * T::of(places as f64)).powf(T::of(1.0 / p)))
}

/// The mean of each part of the input, as `torch.nn.functional.adaptive_avg_pool`: `output` has the number of parts
/// along each axis after the channels.
///
/// # Panics
/// When ranks do not fit each other.
pub fn adaptive_avg_pool<T: Float>(input: ArrayViewD<'_, T>, output: &[usize]) -> ArrayD<T> {
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    ArrayD::from_shape_fn(shape, |at| {
        let part = adaptive_part(&input, at.slice(), output);
        part.iter().map(|(value, _)| *value).sum::<T>() / T::of(part.len() as f64)
    })
}

/// The largest element of each part of the input, and its position in the flattened plane, as
/// `torch.nn.functional.adaptive_max_pool`; as [`max_pool`] otherwise.
///
/// # Panics
/// When ranks do not fit each other.
pub fn adaptive_max_pool<T: Float>(input: ArrayViewD<'_, T>, output: &[usize]) -> (ArrayD<T>, ArrayD<i64>) {
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    let largest = ArrayD::from_shape_fn(shape, |at| {
        let part = adaptive_part(&input, at.slice(), output);
        let start = (T::neg_infinity(), part.first().map_or(0, |(_, position)| *position));
        part.into_iter()
            .fold(start, |best, next| if next.0 > best.0 || next.0.is_nan() { next } else { best })
    });
    (largest.mapv(|(value, _)| value), largest.mapv(|(_, position)| position))
}

/// The elements of the part at `at`, and their positions in the plane.
fn adaptive_part<T: Float>(input: &ArrayViewD<'_, T>, at: &[usize], output: &[usize]) -> Vec<(T, i64)> {
    let lens = &input.shape()[2..];
    let axes = at[2..].iter().zip(output).zip(lens);
    let ranges: Vec<_> = axes.map(|((&place, &outputs), &len)| adaptive_range(place, outputs, len)).collect();
    let sizes: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
    let places = ndarray::indices(IxDyn(&sizes)).into_iter();
    let elements = places.map(|place| {
        let source: Vec<usize> =
            place.slice().iter().zip(&ranges).map(|(offset, range)| range.start + offset).collect();
        let position = source.iter().zip(lens).fold(0, |position, (&i, &len)| position * len + i);
        (input[IxDyn(&[&at[..2], &source[..]].concat())], position as i64)
    });
    elements.collect()
}

/// The part of an axis of `len` elements that adaptive pooling puts into output `position` of `outputs`.
pub fn adaptive_range(position: usize, outputs: usize, len: usize) -> std::ops::Range<usize> {
    position * len / outputs..((position + 1) * len).div_ceil(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f32]) -> ArrayD<f32> {
        ArrayD::from_shape_vec(IxDyn(&[1, 1, values.len()]), values.to_vec()).unwrap()
    }

    fn window(kernel: usize, stride: usize, pad: usize) -> [Window; 1] {
        [Window { kernel, stride, dilation: 1, pad_before: pad, pad_after: pad }]
    }

    #[test]
    fn the_padding_is_never_the_largest() {
        let (values, positions) = max_pool(row(&[-3.0, -1.0, -2.0]).view(), &window(2, 2, 1), &[2]);
        assert_eq!(values.as_slice().unwrap(), [-3.0, -1.0]);
        assert_eq!(positions.as_slice().unwrap(), [0, 1]);
    }

    #[test]
    fn the_last_nan_wins_and_ties_go_to_the_first() {
        let (values, positions) =
            max_pool(row(&[1.0, f32::NAN, 5.0, 2.0, 2.0]).view(), &window(3, 2, 0), &[2]);
        assert!(values[[0, 0, 0]].is_nan() && values[[0, 0, 1]] == 5.0);
        assert_eq!(positions.as_slice().unwrap(), [1, 2]);
        let (_, nans) = max_pool(row(&[f32::NAN, 2.0, f32::NAN]).view(), &window(3, 1, 0), &[1]);
        assert_eq!(nans.as_slice().unwrap(), [2]);
        let (_, ties) = max_pool(row(&[2.0, 2.0]).view(), &window(2, 1, 0), &[1]);
        assert_eq!(ties.as_slice().unwrap(), [0]);
    }

    #[test]
    fn three_ways_to_divide() {
        let x = row(&[2.0, 4.0, 6.0]);
        let mean = |divisor| avg_pool(x.view(), &window(2, 2, 1), &[2], divisor).as_slice().unwrap().to_vec();
        assert_eq!(mean(Divisor::ElementsAndPadding), [1.0, 5.0]);
        assert_eq!(mean(Divisor::Elements), [2.0, 5.0]);
        assert_eq!(mean(Divisor::Fixed(4)), [0.5, 2.5]);
    }

    #[test]
    fn norms_by_hand() {
        let norm = |p, count| lp_pool(row(&[3.0, 4.0, 2.0]).view(), &window(2, 2, 0), &[count], p);
        assert_eq!(norm(2.0, 1).as_slice().unwrap(), [5.0]);
        assert_eq!(norm(1.0, 2).as_slice().unwrap(), [7.0, 4.0]);
    }

    #[test]
    fn adaptive_parts_by_hand() {
        let x = row(&[1.0, 2.0, 6.0, 4.0, 0.0]);
        assert_eq!(adaptive_avg_pool(x.view(), &[2]).as_slice().unwrap(), [3.0, 10.0 / 3.0]);
        let (values, positions) = adaptive_max_pool(x.view(), &[2]);
        assert_eq!(
            (values.as_slice().unwrap(), positions.as_slice().unwrap()),
            (&[6.0, 6.0][..], &[2, 2][..])
        );
    }

    #[test]
    fn adaptive_ranges_cover_and_may_overlap() {
        let ranges: Vec<_> = (0..3).map(|i| adaptive_range(i, 3, 7)).collect();
        assert_eq!(ranges, [0..3, 2..5, 4..7]);
    }
}
