//! Padding with a constant.

use super::{Element, Result, Tensor, TensorError};

impl Tensor {
    /// Pads the tensor with a constant (`numpy.pad` with mode `constant`).
    ///
    /// `amounts` has one pair for each axis: the number of elements to add before and after. `value` has the tensor's type.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] unless there is one pair for each axis, [`TensorError::WrongDType`], or an error if
    /// the result is too large.
    pub fn pad<T: Element>(&self, amounts: &[(usize, usize)], value: T) -> Result<Self> {
        super::view::check_dtype::<T>(self.dtype())?;
        if amounts.len() != self.rank() {
            return Err(TensorError::InvalidArgument(format!(
                "pad: expected one pair of amounts for each axis of shape {:?}, got {}",
                self.shape(),
                amounts.len()
            )));
        }
        let padded = self.shape().iter().zip(amounts);
        let padded: Vec<usize> =
            padded.map(|(dim, &(before, after))| dim.saturating_add(before).saturating_add(after)).collect();
        let mut result = Self::full(&padded, value)?;
        let mut middle = *result.layout();
        for (axis, (&dim, &(before, _))) in self.shape().iter().zip(amounts).enumerate() {
            middle = middle.narrow(axis, before, dim)?;
        }
        result.view_mut()?.with_layout(middle)?.copy_from(&self.view())?;
        Ok(result)
    }

    /// Pads the last two axes with rows and columns of a constant.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0], &[1, 2])?;
    /// let y = x.pad2d(1, 0, 0, 1, -1.0f32)?;
    /// assert_eq!(y.shape().dims(), &[2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, -1.0, -1.0, 1.0, 2.0, -1.0]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for fewer than two axes; otherwise as [`Tensor::pad`].
    pub fn pad2d<T: Element>(
        &self,
        top: usize,
        bottom: usize,
        left: usize,
        right: usize,
        value: T,
    ) -> Result<Self> {
        let Some(leading) = self.rank().checked_sub(2) else {
            return Err(TensorError::InvalidArgument(format!(
                "pad2d: expected at least two axes, got shape {:?}",
                self.shape()
            )));
        };
        let mut amounts = vec![(0, 0); leading];
        amounts.extend([(top, bottom), (left, right)]);
        self.pad(&amounts, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments() {
        let x = Tensor::from_vec(vec![1u8; 4], &[4]).unwrap();
        assert!(x.pad(&[], 0u8).is_err() && x.pad(&[(1, 1)], 0i8).is_err());
        assert!(x.pad2d(0, 0, 0, 0, 0u8).is_err());
        assert!(x.pad(&[(usize::MAX, usize::MAX)], 0u8).is_err());
    }

    #[test]
    fn a_transposed_batch() {
        let x = Tensor::from_vec((0..8).collect::<Vec<i64>>(), &[2, 2, 2]).unwrap();
        let y = x.permute(&[0, 2, 1]).unwrap().pad2d(0, 1, 1, 0, 9i64).unwrap();
        assert_eq!(y.select(0, 1).unwrap().to_vec::<i64>().unwrap(), [9, 4, 6, 9, 5, 7, 9, 9, 9]);
    }
}
