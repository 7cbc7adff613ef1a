//! Arithmetic on shapes and strides without a tensor: positions of elements, and views of the same memory.

use super::MAX_RANK;
use smallvec::SmallVec;

/// The (length, stride) pair of each axis; a `Vec<(usize, usize)>` stored inline, without an allocation.
pub type Axes = SmallVec<[(usize, usize); MAX_RANK]>;

/// The order in which the elements of a tensor are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The last index changes fastest (C, NumPy, PyTorch).
    #[default]
    RowMajor,
    /// The first index changes fastest (Fortran, MATLAB, Armadillo).
    ColumnMajor,
}

// ANCHOR: contiguous_strides
/// Writes the strides of a tensor whose elements are stored in `order` without gaps, one for each axis. An axis of
/// length 0 counts as 1.
///
/// # Panics
/// Panics if `strides` is shorter than `shape`.
pub fn contiguous_strides(shape: &[usize], order: Order, strides: &mut [usize]) {
    // ANCHOR: contiguous_strides_todo -- task 1: an axis steps over all axes that change faster
    let mut step = 1;
    for place in 0..shape.len() {
        let axis = match order {
            Order::RowMajor => shape.len() - 1 - place,
            Order::ColumnMajor => place,
        };
        strides[axis] = step;
        step *= shape[axis].max(1);
    }
    // ANCHOR_END: contiguous_strides_todo
}
// ANCHOR_END: contiguous_strides

// ANCHOR: position
/// The position of the element at an index: `offset` plus index times stride along each axis.
pub fn position(index: &[usize], strides: &[usize], offset: usize) -> usize {
    // ANCHOR: position_todo -- task 1: the offset, and index times stride of each axis
    index.iter().zip(strides).fold(offset, |position, (i, stride)| position + i * stride)
    // ANCHOR_END: position_todo
}

/// The index of element number `count` in row-major order. Numbers past the end wrap around to the first element.
pub fn index_of(count: usize, shape: &[usize]) -> Vec<usize> {
    // ANCHOR: index_of_todo -- task 1: divide by the lengths, the last axis first; the remainders are the index
    let mut rest = count;
    let mut index = vec![0; shape.len()];
    for (i, &len) in index.iter_mut().zip(shape).rev() {
        *i = rest % len.max(1);
        rest /= len.max(1);
    }
    index
    // ANCHOR_END: index_of_todo
}
// ANCHOR_END: position

// ANCHOR: expanded_axes
/// Expands axes to another shape: axes of length 1 are repeated, new axes are added in front. `None` if an axis of any
/// other length would have to change.
pub fn expanded_axes(axes: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    // ANCHOR: expanded_axes_todo -- task 3: new axes in front, and a stride of 0 where an element is repeated
    let new_axes = shape.len().checked_sub(axes.len())?;
    let mut expanded = Axes::from_elem((1, 0), new_axes);
    expanded.extend_from_slice(axes);
    for (axis, &wanted) in expanded.iter_mut().zip(shape) {
        match axis.0 {
            len if len == wanted => {}
            1 => *axis = (wanted, 0),
            _ => return None,
        }
    }
    Some(expanded)
    // ANCHOR_END: expanded_axes_todo
}
// ANCHOR_END: expanded_axes

// ANCHOR: merged_axes
/// Merges adjacent axes if the outer stride equals the inner length times the inner stride, and drops axes of length 1.
pub fn merged_axes(axes: &[(usize, usize)]) -> Axes {
    // ANCHOR: merged_axes_todo -- task 4: extend the last axis if the next one continues it, otherwise begin another
    let mut merged = Axes::new();
    for &(len, stride) in axes.iter().filter(|axis| axis.0 != 1) {
        match merged.last_mut() {
            Some(outer) if outer.1 == len * stride => *outer = (outer.0 * len, stride),
            _ => merged.push((len, stride)),
        }
    }
    merged
    // ANCHOR_END: merged_axes_todo
}

/// The axes of another shape over the same elements, without moving them; `None` if an axis would have to span two
/// merged axes. Both shapes have the same nonzero number of elements.
pub fn reshaped_axes(merged: &[(usize, usize)], shape: &[usize]) -> Option<Axes> {
    // ANCHOR: reshaped_axes_todo -- task 4: split the merged axes, the last one first
    let mut axes = Axes::from_elem((1, 1), shape.len());
    let mut remaining = merged.iter().rev();
    let (mut left, mut stride) = (1, 1);
    for (axis, &len) in axes.iter_mut().zip(shape).rev() {
        if left == 1 && len != 1 {
            (left, stride) = *remaining.next()?;
        }
        if len == 0 || !left.is_multiple_of(len) {
            return None;
        }
        *axis = (len, stride);
        left /= len;
        stride *= len;
    }
    Some(axes)
    // ANCHOR_END: reshaped_axes_todo
}
// ANCHOR_END: merged_axes

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Shape, Tensor};
    use proptest::prelude::*;

    const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColumnMajor];

    fn strides_of(shape: &[usize], order: Order) -> Vec<usize> {
        let mut strides = vec![0; shape.len()];
        contiguous_strides(shape, order, &mut strides);
        strides
    }

    #[test]
    fn by_hand() {
        assert_eq!(strides_of(&[2, 3, 4], Order::RowMajor), [12, 4, 1]);
        assert_eq!(strides_of(&[2, 3, 4], Order::ColumnMajor), [1, 2, 6]);
        assert_eq!(strides_of(&[3, 0, 2], Order::RowMajor), [2, 2, 1]);
        assert_eq!(position(&[1, 2], &[1, 2], 10), 15);
        assert_eq!(expanded_axes(&[(1, 5), (3, 1)], &[4, 2, 3]).unwrap()[..], [(4, 0), (2, 0), (3, 1)]);
        assert_eq!(expanded_axes(&[(2, 1)], &[3]), None);
        assert_eq!(expanded_axes(&[(2, 2), (2, 1)], &[2]), None);
        assert_eq!(merged_axes(&[(2, 12), (1, 7), (3, 4), (4, 1)])[..], [(24, 1)]);
        assert_eq!(merged_axes(&[(3, 1), (2, 3)])[..], [(3, 1), (2, 3)]);
        assert_eq!(
            reshaped_axes(&[(4, 10), (6, 1)], &[2, 2, 3, 2]).unwrap()[..],
            [(2, 20), (2, 10), (3, 2), (2, 1)]
        );
        assert_eq!(reshaped_axes(&[(4, 10), (6, 1)], &[3, 8]), None);
        assert_eq!(reshaped_axes(&[(2, 1)], &[0]), None);
    }

    proptest! {
        #[test]
        fn elements_are_at_their_positions(
            shape in proptest::collection::vec(1usize..4, 0..5), turn in 0usize..5, offset in 0usize..3,
        ) {
            let count: usize = shape.iter().product();
            let places: Vec<i32> = (0..(count + offset) as i32).collect();
            let storage = Tensor::from_vec(places, &[count + offset]).unwrap();
            for order in ORDERS {
                let strides = strides_of(&shape, order);
                let layout = Layout::strided(Shape::new(&shape).unwrap(), &strides, offset).unwrap();
                let mut turned: Vec<usize> = (0..shape.len()).collect();
                turned.rotate_left(turn.min(shape.len()));
                let turned = storage.with_layout(layout.permute(&turned).unwrap()).unwrap();
                let (shape, strides) = (turned.layout().shape().dims(), turned.layout().strides());
                for number in 0..count {
                    let index = index_of(number, shape);
                    let place = position(&index, strides, offset);
                    prop_assert_eq!(turned.get::<i32>(&index).unwrap(), place as i32);
                    prop_assert_eq!(position(&index, &strides_of(shape, Order::RowMajor), 0), number);
                }
            }
        }
    }
}
