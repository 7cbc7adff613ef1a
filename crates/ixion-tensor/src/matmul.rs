//! Matrix products.

use super::arithmetic::{Number, common_dtype, computed_in, with_number};
use super::{Complex, Result, Tensor, TensorError, broadcast_shapes};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewD, ArrayViewMut2, ArrayViewMutD, Ix2, Zip};

impl Tensor {
    /// The matrix product by PyTorch's rule (`torch.matmul`).
    ///
    /// The last two axes hold matrices, all axes before them are batch axes and are broadcast. A vector on the left is a
    /// row, a vector on the right a column; that axis is dropped from the result. f16 and bf16 accumulate in f32, integers
    /// wrap.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let y = Tensor::from_vec(vec![1.0f32, -1.0], &[2])?;
    /// assert_eq!(x.matmul(&y)?.to_vec::<f32>()?, [-1.0, -1.0]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] if the inner lengths differ, [`TensorError::InvalidArgument`] for a scalar,
    /// [`TensorError::NotBroadcastable`] for the batch axes, [`TensorError::MixedDTypes`], [`TensorError::UndefinedFor`]
    /// for bool, or [`TensorError::Blocked`].
    pub fn matmul(&self, other: &Tensor) -> Result<Self> {
        let dtype = common_dtype("matmul", self, other)?;
        let wide = computed_in("matmul", dtype)?;
        let left = self.cast(wide)?.unsqueeze_vector(0)?;
        let right = other.cast(wide)?.unsqueeze_vector(1)?;
        let product = with_number!(wide, T => batched::<T>(&left, &right)?).cast(dtype)?;
        let mut dims = product.shape().to_vec();
        if other.rank() == 1 {
            dims.pop();
        }
        if self.rank() == 1 {
            dims.remove(dims.len() - usize::from(other.rank() != 1) - 1);
        }
        product.reshape(&dims)
    }

    /// The dot product of two vectors of the same length, as a scalar (`torch.dot`). Complex numbers are not conjugated.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] unless both have one axis; otherwise as [`Tensor::matmul`].
    pub fn dot(&self, other: &Tensor) -> Result<Self> {
        if self.rank() == 1 && other.rank() == 1 {
            return self.matmul(other);
        }
        Err(TensorError::InvalidArgument(format!(
            "dot: expected two vectors, got shapes {:?} and {:?}; use `matmul` for matrices",
            self.shape(),
            other.shape()
        )))
    }

    /// Turns a vector into a matrix with a new axis of length 1; tensors of higher rank are returned unchanged.
    fn unsqueeze_vector(&self, axis: usize) -> Result<Self> {
        match self.rank() {
            0 => Err(TensorError::InvalidArgument(
                "matmul: expected at least one axis, got a scalar; use `mul` to multiply by a scalar".into(),
            )),
            1 => self.with_layout(self.layout().unsqueeze(axis)?),
            _ => Ok(self.clone()),
        }
    }
}

fn batched<T: MatMul>(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let (left_batch, [rows, inner]) = split_matrix(left);
    let (right_batch, [right_inner, cols]) = split_matrix(right);
    if inner != right_inner {
        return Err(TensorError::ShapeMismatch {
            operation: "matmul",
            wanted: vec![inner, cols],
            found: vec![right_inner, cols],
        });
    }
    let batch = broadcast_shapes(left_batch, right_batch)?;
    let left = left.expand(&[&batch[..], &[rows, inner]].concat())?;
    let right = right.expand(&[&batch[..], &[inner, cols]].concat())?;
    let mut result = Tensor::zeros(T::DTYPE, &[&batch[..], &[rows, cols]].concat())?;
    each_matrix(left.array::<T>()?, right.array::<T>()?, result.view_mut()?.array::<T>()?);
    Ok(result)
}

fn split_matrix(tensor: &Tensor) -> (&[usize], [usize; 2]) {
    match tensor.shape().dims() {
        [batch @ .., rows, cols] => (batch, [*rows, *cols]),
        // Unreachable: vectors have become matrices, and scalars were rejected.
        _ => (&[], [0, 0]),
    }
}

/// Iterates over the batch axes, which are equal, down to the matrices.
fn each_matrix<T: MatMul>(
    left: ArrayViewD<'_, T>,
    right: ArrayViewD<'_, T>,
    mut result: ArrayViewMutD<'_, T>,
) {
    if result.ndim() > 2 {
        let parts = Zip::from(result.outer_iter_mut()).and(left.outer_iter()).and(right.outer_iter());
        return parts.for_each(|result, left, right| each_matrix(left, right, result));
    }
    let matrices = (
        left.into_dimensionality::<Ix2>(),
        right.into_dimensionality::<Ix2>(),
        result.into_dimensionality::<Ix2>(),
    );
    if let (Ok(left), Ok(right), Ok(result)) = matrices {
        T::matmul(left, right, result);
    }
}

/// A computation type with a matrix product.
trait MatMul: Number {
    /// Writes the product into `result`, which holds zeros.
    fn matmul(left: ArrayView2<'_, Self>, right: ArrayView2<'_, Self>, mut result: ArrayViewMut2<'_, Self>) {
        general_mat_mul(Self::one(), &left, &right, Self::default(), &mut result);
    }
}

impl MatMul for f32 {}
impl MatMul for f64 {}
impl MatMul for Complex<f32> {}
impl MatMul for Complex<f64> {}

impl MatMul for i64 {
    fn matmul(left: ArrayView2<'_, Self>, right: ArrayView2<'_, Self>, mut result: ArrayViewMut2<'_, Self>) {
        for (left_row, mut result_row) in left.rows().into_iter().zip(result.rows_mut()) {
            for (&factor, right_row) in left_row.iter().zip(right.rows()) {
                result_row
                    .zip_mut_with(&right_row, |sum, &x| *sum = sum.wrapping_add(factor.wrapping_mul(x)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, f16};
    use proptest::prelude::*;

    #[test]
    fn shapes_follow_pytorch() {
        let cases: [(&[usize], &[usize], &[usize]); 9] = [
            (&[3], &[3], &[]),
            (&[2, 3], &[3], &[2]),
            (&[3], &[3, 4], &[4]),
            (&[2, 3], &[3, 4], &[2, 4]),
            (&[5, 2, 3], &[3], &[5, 2]),
            (&[3], &[5, 3, 4], &[5, 4]),
            (&[5, 1, 2, 3], &[6, 3, 4], &[5, 6, 2, 4]),
            (&[0, 3], &[3, 4], &[0, 4]),
            (&[2, 0], &[0, 4], &[2, 4]),
        ];
        for (left, right, want) in cases {
            let product = Tensor::randn(left, 0).unwrap().matmul(&Tensor::randn(right, 1).unwrap()).unwrap();
            assert_eq!(product.shape().dims(), want, "{left:?} {right:?}");
        }
        let nothing = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
        let sum = nothing.matmul(&Tensor::zeros(DType::F32, &[0, 2]).unwrap()).unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap(), [0.0; 4]);
    }

    #[test]
    fn mismatched_operands_are_errors() {
        let x = Tensor::randn(&[2, 3], 0).unwrap();
        assert!(matches!(x.matmul(&x), Err(TensorError::ShapeMismatch { .. })));
        assert!(x.matmul(&Tensor::scalar(1.0f32)).is_err() && x.dot(&x).is_err());
        assert!(x.matmul(&Tensor::zeros(DType::F64, &[3]).unwrap()).is_err());
        let batches = (Tensor::randn(&[2, 1, 1], 0).unwrap(), Tensor::randn(&[3, 1, 1], 0).unwrap());
        assert!(matches!(batches.0.matmul(&batches.1), Err(TensorError::NotBroadcastable { .. })));
    }

    #[test]
    fn every_group_of_types() {
        let x = Tensor::from_vec(vec![1u8, 2, 3, 200], &[2, 2]).unwrap();
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
            let x = x.cast(dtype).unwrap();
            let product = x.matmul(&x.permute(&[1, 0]).unwrap()).unwrap();
            let want = Tensor::from_vec(vec![5i64, 403, 403, 40009], &[2, 2]).unwrap().cast(dtype).unwrap();
            assert_eq!(product, want, "{dtype}");
        }
        let z = Tensor::full(&[1], Complex::new(0.0f32, 1.0)).unwrap();
        assert_eq!(z.dot(&z).unwrap().item::<Complex<f32>>().unwrap(), Complex::new(-1.0, 0.0));
        let many = Tensor::full(&[4096], f16::ONE).unwrap();
        assert_eq!(many.dot(&many).unwrap().item::<f16>().unwrap().to_f32(), 4096.0);
    }

    proptest! {
        #[test]
        fn as_three_loops(
            rows in 1usize..6, inner in 0usize..6, cols in 1usize..6,
            left_batch in 1usize..3, right_batch in 1usize..3, seed: u64,
        ) {
            prop_assume!(left_batch == 1 || right_batch == 1 || left_batch == right_batch);
            let x = Tensor::randn(&[left_batch, inner, rows], seed).unwrap().permute(&[0, 2, 1]).unwrap();
            let y = Tensor::randn(&[right_batch, inner, cols], seed ^ 1).unwrap();
            let got = x.matmul(&y).unwrap();
            let (x, y) = (x.array::<f32>().unwrap(), y.array::<f32>().unwrap());
            for (index, &value) in got.array::<f32>().unwrap().indexed_iter() {
                let (b, r, c) = (index[0], index[1], index[2]);
                let want: f64 = (0..inner)
                    .map(|k| f64::from(x[[b % left_batch, r, k]]) * f64::from(y[[b % right_batch, k, c]]))
                    .sum();
                prop_assert!((f64::from(value) - want).abs() < 1e-5);
            }
        }
    }
}
