//! Lesson 08: pooling, and convolution by im2col.
//!
//! The page of the book: `book/src/lessons/08_conv.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `T` is `f32` or `f64`: `T::zero()` is 0, `T::neg_infinity()` is −∞, `T::of(4.0)` is 4, and `x.is_nan()` tests for NaN.

use ixion_tensor::Float;
use ndarray::{
    Array2, Array3, Array4, ArrayD, ArrayView3, ArrayView4, ArrayViewD, Axis, Dimension, IxDyn, s,
};

// Task 1: a sliding window.

/// One axis of a sliding window over a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of taps, that is, of elements that the window looks at.
    pub kernel: usize,
    /// The distance between adjacent positions of the window.
    pub stride: usize,
    /// The distance between adjacent taps.
    pub dilation: usize,
    /// The number of padding positions before the first element.
    pub pad_before: usize,
    /// The number of padding positions after the last element.
    pub pad_after: usize,
}

impl Window {
    /// The number of positions over an axis of `len` elements, rounded down; 0 if the window does not fit.
    pub fn positions(&self, len: usize) -> usize {
        todo!(
            "lesson 08, task 1: the number of positions at which the window fits on the axis (book chapter 8; stuck? cargo learn hint 8)"
        )
    }

    /// The index of the element of an axis of `len` elements that `tap` looks at when the window is at output `position`;
    /// `None` in the padding.
    pub fn source(&self, position: usize, tap: usize, len: usize) -> Option<usize> {
        todo!(
            "lesson 08, task 1: the index of the element that a tap looks at (book chapter 8; stuck? cargo learn hint 8)"
        )
    }
}

// Given: what a window sees, in any number of dimensions.

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

// Task 2: max pooling.

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
    todo!(
        "lesson 08, task 2: the largest element that each window sees, and its position (book chapter 8; stuck? cargo learn hint 8)"
    )
}

/// The largest of some elements, and its position: of equal elements the first, of several NaN the last.
fn largest<T: Float>(elements: &[(T, i64)]) -> Option<(T, i64)> {
    todo!("lesson 08, task 2: the largest of some elements (book chapter 8; stuck? cargo learn hint 8)")
}

// Task 3: average pooling.

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
    todo!(
        "lesson 08, task 3: the sum of the elements that each window sees, over its divisor (book chapter 8; stuck? cargo learn hint 8)"
    )
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

// Task 4: im2col.

/// Lays out what each tap of a window sees of a C×H×W image at each position, as `torch.nn.functional.unfold`, also known
/// as im2col: one row per channel and tap, one column per position; 0 in the padding.
pub fn unfold<T: Float>(image: ArrayView3<'_, T>, windows: &[Window; 2]) -> Array2<T> {
    todo!(
        "lesson 08, task 4: a row for each channel and tap, a column for each position (book chapter 8; stuck? cargo learn hint 8)"
    )
}

/// The number of taps and the number of positions.
fn sizes([rows, columns]: &[Window; 2], [height, width]: [usize; 2]) -> (usize, usize) {
    (rows.kernel * columns.kernel, rows.positions(height) * columns.positions(width))
}

/// The pixel that a tap sees at a position; `None` in the padding. Taps are numbered along the rows of the kernel, and
/// positions along the rows of the output.
fn pixel(
    [rows, columns]: &[Window; 2],
    [height, width]: [usize; 2],
    tap: usize,
    position: usize,
) -> Option<[usize; 2]> {
    todo!(
        "lesson 08, task 4: the row and column of the pixel that a tap sees at a position (book chapter 8; stuck? cargo learn hint 8)"
    )
}

// Task 5: convolution.

/// Convolves a C×H×W image with O×C×kH×kW filters, each of which sees all channels, by unfolding the image and
/// multiplying.
///
/// # Panics
/// Panics if channels, filters and bias do not match.
pub fn conv_group<T: Float>(
    image: ArrayView3<'_, T>,
    filters: ArrayView4<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window; 2],
) -> Array3<T> {
    todo!(
        "lesson 08, task 5: each filter, flattened to a row, times each unfolded column, plus the bias (book chapter 8; stuck? cargo learn hint 8)"
    )
}

/// Cross-correlation of N×C×H×W with O×(C/groups)×kH×kW, as `torch.nn.functional.conv2d`.
///
/// The channels are split into `groups` equal parts, and so are the filters. The filters of a group only see its
/// channels.
///
/// # Panics
/// Panics if channels, filters, bias and groups do not match.
pub fn conv2d<T: Float>(
    input: ArrayView4<'_, T>,
    weight: ArrayView4<'_, T>,
    bias: Option<&[T]>,
    windows: &[Window; 2],
    groups: usize,
) -> Array4<T> {
    todo!(
        "lesson 08, task 5: convolve each group of each sample separately (book chapter 8; stuck? cargo learn hint 8)"
    )
}
