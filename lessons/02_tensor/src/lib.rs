//! Lesson 02: tensors, their shapes and strides.
//!
//! The page of the book: `book/src/lessons/02_tensor.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `Axes` is a list of pairs (length, stride), one for each axis. It is used as a `Vec<(usize, usize)>`: index it, `push`
//! to it, `collect` into it; `Axes::new()` is empty, and `Axes::from_elem((1, 0), 3)` has three equal pairs.

use ixion_kernels::naive::PadMode;
use ixion_tensor::{Axes, Order, Result, Shape, TensorError};
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

// Task 1: strides.

/// Writes the strides of a tensor whose elements lie without gaps, counted in `order`: one for each axis. An axis of
/// length 0 counts as 1.
///
/// # Panics
/// When there are fewer strides than axes.
pub fn contiguous_strides(shape: &[usize], order: Order, strides: &mut [usize]) {
    todo!(
        "lesson 02, task 1: an axis steps over all axes that change faster (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// Where the element at an index lies: `offset`, and then along each axis so many strides as its index says.
pub fn position(index: &[usize], strides: &[usize], offset: usize) -> usize {
    todo!(
        "lesson 02, task 1: the offset, and index times stride of each axis (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The index of the element that is number `count` in row-major order. Numbers past the end begin again at the first.
pub fn index_of(count: usize, shape: &[usize]) -> Vec<usize> {
    todo!(
        "lesson 02, task 1: divide by the lengths, the last axis first; the remainders are the index (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 2: row-major and column-major.

/// An array whose elements, counted in `order`, are the given values, as `numpy.reshape(values, shape, order)`.
///
/// # Panics
/// When there are fewer values than elements.
pub fn fill<T: Copy>(values: &[T], shape: &[usize], order: Order) -> ArrayD<T> {
    todo!(
        "lesson 02, task 2: at each index, the value that has its position in this order (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// All elements, counted in `order`, as `numpy.ravel(x, order)`.
pub fn flatten<T: Copy + Default>(x: ArrayViewD<'_, T>, order: Order) -> Vec<T> {
    todo!(
        "lesson 02, task 2: each element at the position that its index has in this order (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The same elements in another shape, counted in `order` before and after, as `numpy.reshape`.
///
/// # Panics
/// When the new shape has more elements.
pub fn reshape<T: Copy + Default>(x: ArrayViewD<'_, T>, shape: &[usize], order: Order) -> ArrayD<T> {
    todo!("lesson 02, task 2: flatten, then fill (book chapter 2; stuck? cargo learn hint 2)")
}

// Task 3: broadcasting.

/// The shape that results from broadcasting two shapes against each other, by NumPy's and PyTorch's rule.
///
/// Axes are paired from the last; a missing axis counts as 1; of two lengths one may be 1.
///
/// # Errors
/// [`TensorError::NotBroadcastable`] names both shapes.
pub fn broadcast_shapes(left: &[usize], right: &[usize]) -> Result<Shape> {
    todo!(
        "lesson 02, task 3: pair the axes from the last; where one of a pair is 1, the other counts (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// Axes as another shape sees them: those of length 1 are repeated, new ones stand in front. `None` where an axis of
/// another length would have to change.
pub fn expanded_axes(axes: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    todo!(
        "lesson 02, task 3: new axes in front, and a stride of 0 where an element is repeated (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 4: reshape without a copy.

/// The axes with neighbours merged where the outer one steps over just the inner one, and without those of length 1.
pub fn merged_axes(axes: &[(usize, usize)]) -> Axes {
    todo!(
        "lesson 02, task 4: grow the last axis where the next continues it, else begin another (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The axes of another shape over the same elements where they lie; `None` where an axis would have to cross from one
/// merged axis into the next. Both shapes have the same number of elements, which is not 0.
pub fn reshaped_axes(merged: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    todo!(
        "lesson 02, task 4: cut the merged axes up, the last one first (book chapter 2; stuck? cargo learn hint 2)"
    )
}

// Task 5: padding.

/// Adds places of one value around an array: each axis gets (before, after) places, as `numpy.pad`.
///
/// # Panics
/// When there are not as many pairs as axes, or the result is too large.
pub fn pad_constant<T: Copy>(input: ArrayViewD<'_, T>, pads: &[(usize, usize)], value: T) -> ArrayD<T> {
    assert_eq!(input.ndim(), pads.len(), "one pair of numbers for each axis");
    let shape: Vec<usize> =
        input.shape().iter().zip(pads).map(|(len, (before, after))| before + len + after).collect();
    ArrayD::from_shape_fn(IxDyn(&shape), |place| inside(&input, place.slice(), pads).unwrap_or(value))
}

/// The element that stands at a place of the padded array, or `None` where the padding is.
fn inside<T: Copy>(input: &ArrayViewD<'_, T>, place: &[usize], pads: &[(usize, usize)]) -> Option<T> {
    todo!(
        "lesson 02, task 5: the places before the axis off, then the element if there is one (book chapter 2; stuck? cargo learn hint 2)"
    )
}

/// The element of an axis of `len` that stands at a place, which is counted from the first element: negative before it,
/// `len` and more behind the last. For `Reflect` the place is less than `len` away from the axis.
///
/// # Panics
/// When `len` is 0.
pub fn pad_source(mode: PadMode, place: i64, len: i64) -> i64 {
    todo!(
        "lesson 02, task 5: the nearest element, the other end, or the mirrored one (book chapter 2; stuck? cargo learn hint 2)"
    )
}
