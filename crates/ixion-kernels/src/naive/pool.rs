//! Pooling by its definition, in any number of dimensions.

use crate::Float;
use crate::window::Window;
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

// ANCHOR: max_pool
/// The largest element of each window, and its position in the flattened plane, as `torch.nn.functional.max_pool`.
///
/// `input` is N×C×…, and `output` holds the lengths of the axes after the channels. NaN is larger than any number. Of
/// equal elements the first wins, of several NaN the last. The padding is never chosen: a window that only sees padding
/// gives −∞ and 0.
///
/// # Panics
/// Panics if ranks do not match.
pub fn max_pool<T: Float>(
    input: ArrayViewD<'_, T>,
    windows: &[Window],
    output: &[usize],
) -> (ArrayD<T>, ArrayD<i64>) {
    // ANCHOR: max_pool_todo -- task 2: the largest element that each window sees, and its position
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    let found = ArrayD::from_shape_fn(shape, |at| {
        largest(&seen(&input, windows, at.slice())).unwrap_or((T::neg_infinity(), 0))
    });
    (found.mapv(|(value, _)| value), found.mapv(|(_, position)| position))
    // ANCHOR_END: max_pool_todo
}

/// The largest of some elements, and its position: of equal elements the first, of several NaN the last.
fn largest<T: Float>(elements: &[(T, i64)]) -> Option<(T, i64)> {
    // ANCHOR: largest_todo -- task 2: the largest of some elements
    let mut largest: Option<(T, i64)> = None;
    for &(value, position) in elements {
        if value.is_nan() || largest.is_none_or(|(other, _)| value > other) {
            largest = Some((value, position));
        }
    }
    largest
    // ANCHOR_END: largest_todo
}
// ANCHOR_END: max_pool

// ANCHOR: avg_pool
/// The divisor of the sum of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divisor {
    /// The number of input elements in the window.
    Elements,
    /// The number of input elements and padding positions in the window.
    ElementsAndPadding,
    /// A given number.
    Fixed(i64),
}

/// The mean of each window, as `torch.nn.functional.avg_pool`.
///
/// # Panics
/// Panics if ranks do not match.
pub fn avg_pool<T: Float>(
    input: ArrayViewD<'_, T>,
    windows: &[Window],
    output: &[usize],
    divisor: Divisor,
) -> ArrayD<T> {
    // ANCHOR: avg_pool_todo -- task 3: the sum of the elements that each window sees, over its divisor
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    ArrayD::from_shape_fn(shape, |at| {
        let elements = seen(&input, windows, at.slice());
        let divisor = match divisor {
            Divisor::Elements => elements.len() as i64,
            Divisor::ElementsAndPadding => padded_count(windows, &at.slice()[2..], &input.shape()[2..]),
            Divisor::Fixed(number) => number,
        };
        elements.iter().map(|(value, _)| *value).sum::<T>() / T::of(divisor as f64)
    })
    // ANCHOR_END: avg_pool_todo
}

/// The number of positions of the window at `place` that are inside the input or its padding; with `ceil_mode`, the last
/// window may extend further.
fn padded_count(windows: &[Window], place: &[usize], lens: &[usize]) -> i64 {
    let axes = windows.iter().zip(place).zip(lens).map(|((window, &place), &len)| {
        let start = place * window.stride;
        let end = (start + window.kernel).min(len + window.pad_before + window.pad_after);
        end.saturating_sub(start) as i64
    });
    axes.product()
}
// ANCHOR_END: avg_pool

// ANCHOR: seen
/// The elements that the window for output `at` sees, in row-major order, and their positions in the flattened plane.
/// `at` holds the sample, the channel, and the position along each axis after them.
fn seen<T: Float>(input: &ArrayViewD<'_, T>, windows: &[Window], at: &[usize]) -> Vec<(T, i64)> {
    let kernel: Vec<usize> = windows.iter().map(|window| window.kernel).collect();
    let lens = &input.shape()[2..];
    let mut elements = Vec::new();
    for tap in ndarray::indices(IxDyn(&kernel)) {
        let axes = windows.iter().zip(&at[2..]).zip(tap.slice()).zip(lens);
        let sources = axes.map(|(((window, &place), &tap), &len)| window.source(place, tap, len));
        if let Some(source) = sources.collect::<Option<Vec<usize>>>() {
            elements.push(element(input, &at[..2], &source));
        }
    }
    elements
}

/// An element of a plane, and its position in the flattened plane.
fn element<T: Float>(input: &ArrayViewD<'_, T>, plane: &[usize], at: &[usize]) -> (T, i64) {
    let position = at.iter().zip(&input.shape()[2..]).fold(0, |position, (&i, &len)| position * len + i);
    (input[IxDyn(&[plane, at].concat())], position as i64)
}
// ANCHOR_END: seen

/// The p-norm of each window, as `torch.nn.functional.lp_pool`: the mean of xᵖ times the size of a window, to the power
/// of 1/p.
///
/// A window that extends past the end counts its missing elements as if they were the mean. A negative mean gives NaN,
/// except for p = 1.
///
/// # Panics
/// Panics if ranks do not match.
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
/// Panics if ranks do not match.
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
/// Panics if ranks do not match.
pub fn adaptive_max_pool<T: Float>(input: ArrayViewD<'_, T>, output: &[usize]) -> (ArrayD<T>, ArrayD<i64>) {
    let shape = IxDyn(&[&input.shape()[..2], output].concat());
    let found = ArrayD::from_shape_fn(shape, |at| {
        largest(&adaptive_part(&input, at.slice(), output)).unwrap_or((T::neg_infinity(), 0))
    });
    (found.mapv(|(value, _)| value), found.mapv(|(_, position)| position))
}

/// The elements of the part at `at`, and their positions in the flattened plane.
fn adaptive_part<T: Float>(input: &ArrayViewD<'_, T>, at: &[usize], output: &[usize]) -> Vec<(T, i64)> {
    let axes = at[2..].iter().zip(output).zip(&input.shape()[2..]);
    let ranges: Vec<_> = axes.map(|((&place, &outputs), &len)| adaptive_range(place, outputs, len)).collect();
    let sizes: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
    let places = ndarray::indices(IxDyn(&sizes)).into_iter();
    let sources = places.map(|place| {
        let offsets = place.slice().iter().zip(&ranges);
        offsets.map(|(offset, range)| range.start + offset).collect::<Vec<usize>>()
    });
    sources.map(|source| element(input, &at[..2], &source)).collect()
}

/// The range of an axis of `len` elements that adaptive pooling maps to output `position` of `outputs`.
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
    fn the_three_divisors() {
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
