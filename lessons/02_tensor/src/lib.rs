//! Lesson 02: tensors, their shapes and strides.
//!
//! The page of the book: `book/src/lessons/02_tensor.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `Axes` is a list of pairs (length, stride), one for each axis. Use it like a `Vec<(usize, usize)>`: index it, `push`
//! to it, `collect` into it; `Axes::new()` is empty, and `Axes::from_elem((1, 0), 3)` contains three equal pairs.

use ixion_kernels::naive::PadMode;
use ixion_tensor::{Axes, Order, Result, Shape, TensorError};
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

// Task 1: strides.

/// Writes the strides of a tensor whose elements are stored in `order` without gaps, one for each axis. An axis of
/// length 0 counts as 1.
///
/// # Panics
/// Panics if `strides` is shorter than `shape`.
pub fn contiguous_strides(shape: &[usize], order: Order, strides: &mut [usize]) {
    todo!(
        "lesson 02, task 1: an axis steps over all axes that change faster (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The position of the element at an index: `offset` plus index times stride along each axis.
pub fn position(index: &[usize], strides: &[usize], offset: usize) -> usize {
    todo!(
        "lesson 02, task 1: the offset, and index times stride of each axis (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The index of element number `count` in row-major order. Numbers past the end wrap around to the first element.
pub fn index_of(count: usize, shape: &[usize]) -> Vec<usize> {
    todo!(
        "lesson 02, task 1: divide by the lengths, the last axis first; the remainders are the index (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 2: row-major and column-major.

/// An array whose elements, in `order`, are the given values, as `numpy.reshape(values, shape, order)`.
///
/// # Panics
/// Panics if there are fewer values than elements.
pub fn fill<T: Copy>(values: &[T], shape: &[usize], order: Order) -> ArrayD<T> {
    todo!(
        "lesson 02, task 2: at each index, the value at the position that the index has in this order (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// All elements in `order`, as `numpy.ravel(x, order)`.
pub fn flatten<T: Copy + Default>(x: ArrayViewD<'_, T>, order: Order) -> Vec<T> {
    todo!(
        "lesson 02, task 2: each element at the position that its index has in this order (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The same elements in another shape, read and written in `order`, as `numpy.reshape`.
///
/// # Panics
/// Panics if the new shape has more elements.
pub fn reshape<T: Copy + Default>(x: ArrayViewD<'_, T>, shape: &[usize], order: Order) -> ArrayD<T> {
    todo!("lesson 02, task 2: flatten, then fill (book chapter 2; stuck? cargo learn hint 2)")
}

// Task 3: broadcasting.

/// Broadcasts two shapes against each other by NumPy's and PyTorch's rule.
///
/// Axes are paired from the last; a missing axis counts as 1; paired lengths must be equal, or one of them 1.
///
/// # Errors
/// [`TensorError::NotBroadcastable`], with both shapes.
pub fn broadcast_shapes(left: &[usize], right: &[usize]) -> Result<Shape> {
    todo!(
        "lesson 02, task 3: pair the axes from the last; if one of a pair is 1, take the other (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// Expands axes to another shape: axes of length 1 are repeated, new axes are added in front. `None` if an axis of any
/// other length would have to change.
pub fn expanded_axes(axes: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    todo!(
        "lesson 02, task 3: new axes in front, and a stride of 0 where an element is repeated (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 4: reshape without a copy.

/// Merges adjacent axes if the outer stride equals the inner length times the inner stride, and drops axes of length 1.
pub fn merged_axes(axes: &[(usize, usize)]) -> Axes {
    todo!(
        "lesson 02, task 4: extend the last axis if the next one continues it, otherwise begin another (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The axes of another shape over the same elements, without moving them; `None` if an axis would have to span two
/// merged axes. Both shapes have the same nonzero number of elements.
pub fn reshaped_axes(merged: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    todo!(
        "lesson 02, task 4: split the merged axes, the last one first (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 5: padding.

/// Pads an array with a constant: each axis gets (before, after) positions, as `numpy.pad`.
///
/// # Panics
/// Panics if the number of pairs is not the number of axes, or the result is too large.
pub fn pad_constant<T: Copy>(input: ArrayViewD<'_, T>, pads: &[(usize, usize)], value: T) -> ArrayD<T> {
    assert_eq!(input.ndim(), pads.len(), "one pair of numbers for each axis");
    let shape: Vec<usize> =
        input.shape().iter().zip(pads).map(|(len, (before, after))| before + len + after).collect();
    ArrayD::from_shape_fn(IxDyn(&shape), |place| inside(&input, place.slice(), pads).unwrap_or(value))
}

/// The element at a position of the padded array, or `None` in the padding.
fn inside<T: Copy>(input: &ArrayViewD<'_, T>, place: &[usize], pads: &[(usize, usize)]) -> Option<T> {
    todo!(
        "lesson 02, task 5: subtract the padding before each axis, then get the element if there is one (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The index of the element of an axis of length `len` that is found at `place` of the padded axis. `place` is counted
/// from the first element: negative before it, and `len` or more after the last. For `Reflect`, it must be less than
/// `len` positions away from the axis.
///
/// # Panics
/// Panics if `len` is 0.
pub fn pad_source(mode: PadMode, place: i64, len: i64) -> i64 {
    todo!(
        "lesson 02, task 5: the nearest element, the one at the other end, or the mirrored one (book chapter 2; stuck? cargo learn hint 2)"
    )
}
