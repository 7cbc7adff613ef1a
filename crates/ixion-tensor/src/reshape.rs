//! Reading, reshaping and flattening in row-major and column-major order.

use super::{Element, Layout, Order, Result, Shape, Tensor, TensorError};

impl Tensor {
    /// The axes in reverse order, without a copy (`numpy.transpose`).
    ///
    /// # Errors
    /// [`TensorError::Blocked`].
    pub fn reverse_axes(&self) -> Result<Self> {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        self.with_layout(self.layout().permute(&order)?)
    }

    /// The same elements in row-major order under another shape (`torch.reshape`); copies only if necessary.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`], with both shapes, if the numbers of elements differ.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        let shape = Shape::new(shape)?;
        match self.layout().reshape(&shape)? {
            Some(layout) => self.with_layout(layout),
            None => {
                let copy = self.deep_copy()?;
                copy.with_layout(Layout::contiguous(shape))
            }
        }
    }

    /// The same elements under another shape, both read in `order` (`numpy.reshape` with `order`). Copies only if
    /// necessary.
    ///
    /// ```
    /// use ixion_tensor::{Order, Tensor};
    /// let x = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// let y = x.reshape_in(&[3, 2], Order::ColumnMajor)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 5, 4, 3, 2, 6]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`], with both shapes, if the numbers of elements differ.
    pub fn reshape_in(&self, shape: &[usize], order: Order) -> Result<Self> {
        match order {
            Order::RowMajor => self.reshape(shape),
            Order::ColumnMajor => {
                self.check_reshape(shape)?;
                let reversed: Vec<usize> = shape.iter().rev().copied().collect();
                self.reverse_axes()?.reshape(&reversed)?.reverse_axes()
            }
        }
    }

    /// All elements along one axis, in `order`. Copies only if necessary.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] or [`TensorError::Blocked`].
    pub fn flatten(&self, order: Order) -> Result<Self> {
        self.reshape_in(&[self.num_elements()], order)
    }

    /// All elements, copied in the given order.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] or [`TensorError::Blocked`].
    pub fn to_vec_in<T: Element>(&self, order: Order) -> Result<Vec<T>> {
        match order {
            Order::RowMajor => self.to_vec(),
            Order::ColumnMajor => self.reverse_axes()?.to_vec(),
        }
    }

    /// Takes over a vector of elements in the given order. Column-major elements are not moved: the result has
    /// column-major strides.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] if the number of elements does not match `shape`.
    pub fn from_vec_in<T: Element>(data: Vec<T>, shape: &[usize], order: Order) -> Result<Self> {
        let plain = Self::from_vec(data, shape)?;
        plain.with_layout(Layout::contiguous_in(*plain.shape(), order))
    }

    /// Checks the number of elements first, so that an error reports the caller's shapes and not the reversed ones.
    fn check_reshape(&self, shape: &[usize]) -> Result<()> {
        if Shape::new(shape)?.num_elements() == self.num_elements() {
            return Ok(());
        }
        Err(TensorError::ShapeMismatch {
            operation: "reshape",
            wanted: shape.to_vec(),
            found: self.shape().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(dims: &[usize]) -> Tensor {
        let len: usize = dims.iter().product();
        Tensor::from_vec((0..len as i32).collect(), dims).unwrap()
    }

    #[test]
    fn by_hand() {
        let x = counting(&[2, 3]);
        assert_eq!(x.flatten(Order::RowMajor).unwrap().to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(x.flatten(Order::ColumnMajor).unwrap().to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(x.to_vec_in::<i32>(Order::ColumnMajor).unwrap(), [0, 3, 1, 4, 2, 5]);
        let back = Tensor::from_vec_in(vec![0, 3, 1, 4, 2, 5], &[2, 3], Order::ColumnMajor).unwrap();
        assert_eq!(back, x);
        assert!(x.flatten(Order::RowMajor).unwrap().shares_storage(&x));
        assert_eq!(Tensor::scalar(5u8).flatten(Order::ColumnMajor).unwrap().shape().dims(), &[1]);
    }

    #[test]
    fn views_share_and_reshape_copies_only_if_necessary() {
        let x = counting(&[2, 3, 4]);
        let turned = x.permute(&[0, -1, 1]).unwrap();
        assert!(turned.shares_storage(&x) && x.reshape(&[6, 4]).unwrap().shares_storage(&x));
        let flat = turned.reshape(&[24]).unwrap();
        assert!(!flat.shares_storage(&x));
        assert_eq!(flat.to_vec::<i32>().unwrap()[..4], [0, 4, 8, 1]);
        assert!(x.reshape(&[5, 5]).unwrap_err().to_string().contains("[2, 3, 4]"));
    }

    #[test]
    fn a_mismatch_names_both_shapes() {
        for order in [Order::RowMajor, Order::ColumnMajor] {
            let error = counting(&[2, 3]).reshape_in(&[4, 2], order).unwrap_err().to_string();
            assert!(error.contains("[2, 3]") && error.contains("[4, 2]"), "{error}");
        }
        assert!(Tensor::from_vec_in(vec![1u8], &[2], Order::ColumnMajor).is_err());
    }
}
