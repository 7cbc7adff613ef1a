//! Joining and splitting tensors along an axis.

use super::{Result, Tensor, TensorError};

impl Tensor {
    /// Joins tensors of the same shape along a new first axis (`torch.stack`): samples become a batch.
    ///
    /// ```
    /// use ixion_tensor::{DType, Tensor};
    /// let samples = [Tensor::zeros(DType::F32, &[3, 8, 8])?, Tensor::ones(DType::F32, &[3, 8, 8])?];
    /// let batch = Tensor::stack(&samples)?;
    /// assert_eq!(batch.shape().dims(), &[2, 3, 8, 8]);
    /// assert_eq!(batch.unstack()?, samples);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if `tensors` is empty, [`TensorError::ShapeMismatch`] or
    /// [`TensorError::MixedDTypes`] if they differ.
    pub fn stack(tensors: &[Tensor]) -> Result<Self> {
        let mut unsqueezed = Vec::with_capacity(tensors.len());
        let first = tensors.first();
        for tensor in tensors {
            check_like("stack", first.unwrap_or(tensor), tensor, None)?;
            unsqueezed.push(tensor.with_layout(tensor.layout().unsqueeze(0)?)?);
        }
        Self::concat(&unsqueezed, 0)
    }

    /// Splits along the first axis and drops it, without a copy (`torch.unbind`): a batch becomes samples.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for a scalar, or [`TensorError::Blocked`].
    pub fn unstack(&self) -> Result<Vec<Self>> {
        let len = self.axis_len(0)?;
        (0..len).map(|i| self.select(0, i)).collect()
    }

    /// Joins tensors along an existing axis (`torch.cat`); all other axes must agree. Negative axes count from the end.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if `tensors` is empty, [`TensorError::ShapeMismatch`] or
    /// [`TensorError::MixedDTypes`] if they do not fit together, [`TensorError::OutOfRange`] for the axis.
    pub fn concat(tensors: &[Tensor], axis: i64) -> Result<Self> {
        let Some(first) = tensors.first() else {
            return Err(TensorError::InvalidArgument(
                "expected at least one tensor to join, got none".into(),
            ));
        };
        let axis = first.real_axis(axis)?;
        let mut len = 0usize;
        for tensor in tensors {
            check_like("concat", first, tensor, Some(axis))?;
            len = len.saturating_add(tensor.shape()[axis]);
        }
        let mut dims = first.shape().to_vec();
        dims[axis] = len;
        let mut result = Self::zeros(first.dtype(), &dims)?;
        let (layout, mut target, mut start) = (*result.layout(), result.view_mut()?, 0);
        for tensor in tensors {
            let part = layout.narrow(axis, start, tensor.shape()[axis])?;
            target.reborrow().with_layout(part)?.copy_from(&tensor.view())?;
            start += tensor.shape()[axis];
        }
        Ok(result)
    }

    /// Splits an axis into chunks of `len` elements, without a copy; the last chunk may be shorter (`torch.split`).
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for the axis, [`TensorError::InvalidArgument`] for a `len` of 0.
    pub fn split(&self, len: usize, axis: i64) -> Result<Vec<Self>> {
        if len == 0 {
            return Err(TensorError::InvalidArgument(
                "split: expected a chunk length of at least 1, got 0".into(),
            ));
        }
        let total = self.axis_len(axis)?;
        let starts = (0..total).step_by(len);
        starts.map(|start| self.narrow(axis, start, len.min(total - start))).collect()
    }

    fn axis_len(&self, axis: i64) -> Result<usize> {
        Ok(self.shape()[self.real_axis(axis)?])
    }

    /// Resolves an axis that must exist; `Shape::axis` accepts axis 0 of a scalar.
    fn real_axis(&self, axis: i64) -> Result<usize> {
        let resolved = self.shape().axis(axis)?;
        if self.rank() == 0 {
            return Err(TensorError::OutOfRange { what: "axis", index: axis, len: 0 });
        }
        Ok(resolved)
    }
}

/// Checks that two tensors have the same element type and, except for one axis, the same shape.
fn check_like(operation: &'static str, first: &Tensor, other: &Tensor, except: Option<usize>) -> Result<()> {
    if first.dtype() != other.dtype() {
        return Err(TensorError::MixedDTypes { operation, left: first.dtype(), right: other.dtype() });
    }
    let differs = |(i, (a, b))| Some(i) != except && a != b;
    let pairs = first.shape().iter().zip(other.shape().iter());
    if first.rank() != other.rank() || pairs.enumerate().any(differs) {
        return Err(TensorError::ShapeMismatch {
            operation,
            wanted: first.shape().to_vec(),
            found: other.shape().to_vec(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use proptest::prelude::*;

    fn counting(dims: &[usize]) -> Tensor {
        let len: usize = dims.iter().product();
        Tensor::from_vec((0..len as i16).collect(), dims).unwrap()
    }

    #[test]
    fn joined_by_hand() {
        let (x, y) = (counting(&[2, 2]), counting(&[2, 1]));
        let wide = Tensor::concat(&[x.clone(), y.clone()], -1).unwrap();
        assert_eq!(wide.to_vec::<i16>().unwrap(), [0, 1, 0, 2, 3, 1]);
        let turned = Tensor::stack(&[x.clone(), x.permute(&[1, 0]).unwrap()]).unwrap();
        assert_eq!(turned.to_vec::<i16>().unwrap(), [0, 1, 2, 3, 0, 2, 1, 3]);
        let scalars = Tensor::stack(&[Tensor::scalar(1u8), Tensor::scalar(2u8)]).unwrap();
        assert_eq!(scalars.to_vec::<u8>().unwrap(), [1, 2]);
        let with_empty = Tensor::concat(&[counting(&[0, 2]), x.clone()], 0).unwrap();
        assert_eq!(with_empty, x);
    }

    #[test]
    fn mismatched_tensors_are_errors() {
        let (x, y) = (counting(&[2, 3]), counting(&[2, 2]));
        assert!(Tensor::concat(&[x.clone(), y.clone()], 1).is_ok());
        assert!(matches!(Tensor::concat(&[x.clone(), y.clone()], 0), Err(TensorError::ShapeMismatch { .. })));
        assert!(matches!(Tensor::stack(&[x.clone(), y]), Err(TensorError::ShapeMismatch { .. })));
        let floats = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
        assert!(matches!(Tensor::concat(&[x.clone(), floats], 0), Err(TensorError::MixedDTypes { .. })));
        assert!(Tensor::concat(&[], 0).is_err() && Tensor::stack(&[]).is_err());
        assert!(Tensor::concat(&[Tensor::scalar(1u8)], 0).is_err() && Tensor::scalar(1u8).unstack().is_err());
        assert!(x.split(0, 0).is_err() && x.split(1, 2).is_err());
    }

    proptest! {
        #[test]
        fn split_parts_join_to_the_whole(dims in proptest::collection::vec(1usize..5, 1..4), axis in 0usize..4, len in 1usize..4) {
            let x = counting(&dims).permute(&(0..dims.len() as i64).rev().collect::<Vec<_>>()).unwrap();
            let axis = (axis % dims.len()) as i64;
            let parts = x.split(len, axis).unwrap();
            prop_assert!(parts.iter().all(|part| part.shares_storage(&x)));
            prop_assert_eq!(Tensor::concat(&parts, axis).unwrap(), x.clone());
            prop_assert_eq!(Tensor::stack(&x.unstack().unwrap()).unwrap(), x);
        }
    }
}
