//! Row-major and column-major order: filling, flattening and reshaping arrays.

use ixion_tensor::{Order, contiguous_strides, position};
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

// ANCHOR: fill
/// An array whose elements, in `order`, are the given values, as `numpy.reshape(values, shape, order)`.
///
/// # Panics
/// Panics if there are fewer values than elements.
pub fn fill<T: Copy>(values: &[T], shape: &[usize], order: Order) -> ArrayD<T> {
    // ANCHOR: fill_todo -- task 2: at each index, the value at the position that the index has in this order
    let mut strides = vec![0; shape.len()];
    contiguous_strides(shape, order, &mut strides);
    ArrayD::from_shape_fn(IxDyn(shape), |index| values[position(index.slice(), &strides, 0)])
    // ANCHOR_END: fill_todo
}

/// All elements in `order`, as `numpy.ravel(x, order)`.
pub fn flatten<T: Copy + Default>(x: ArrayViewD<'_, T>, order: Order) -> Vec<T> {
    // ANCHOR: flatten_todo -- task 2: each element at the position that its index has in this order
    let mut strides = vec![0; x.ndim()];
    contiguous_strides(x.shape(), order, &mut strides);
    let mut values = vec![T::default(); x.len()];
    for (index, &value) in x.indexed_iter() {
        values[position(index.slice(), &strides, 0)] = value;
    }
    values
    // ANCHOR_END: flatten_todo
}

/// The same elements in another shape, read and written in `order`, as `numpy.reshape`.
///
/// # Panics
/// Panics if the new shape has more elements.
pub fn reshape<T: Copy + Default>(x: ArrayViewD<'_, T>, shape: &[usize], order: Order) -> ArrayD<T> {
    // ANCHOR: reshape_todo -- task 2: flatten, then fill
    fill(&flatten(x, order), shape, order)
    // ANCHOR_END: reshape_todo
}
// ANCHOR_END: fill

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn by_hand() {
        let x = array![[1, 2, 3], [4, 5, 6]].into_dyn();
        assert_eq!(fill(&[1, 2, 3, 4, 5, 6], &[2, 3], Order::RowMajor), x);
        assert_eq!(fill(&[1, 4, 2, 5, 3, 6], &[2, 3], Order::ColumnMajor), x);
        assert_eq!(flatten(x.view(), Order::RowMajor), [1, 2, 3, 4, 5, 6]);
        assert_eq!(flatten(x.view(), Order::ColumnMajor), [1, 4, 2, 5, 3, 6]);
        assert_eq!(reshape(x.view(), &[3, 2], Order::ColumnMajor), array![[1, 5], [4, 3], [2, 6]].into_dyn());
    }
}
