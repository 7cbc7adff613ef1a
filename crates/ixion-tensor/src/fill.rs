//! Tensors filled with given values, ranges and random numbers.

use super::view::check_dtype;
use super::{DType, Element, Layout, Order, Result, Tensor, TensorError, TensorView};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;

impl Tensor {
    /// A contiguous tensor filled with one value (`torch.full`).
    ///
    /// # Errors
    /// [`TensorError::RankTooLarge`], [`TensorError::SizeOverflow`] or [`TensorError::OutOfMemory`].
    pub fn full<T: Element>(shape: &[usize], value: T) -> Result<Self> {
        let mut tensor = Self::zeros(T::DTYPE, shape)?;
        tensor.fill(value)?;
        Ok(tensor)
    }

    /// A contiguous tensor of ones (`true` for bool).
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn ones(dtype: DType, shape: &[usize]) -> Result<Self> {
        let one = Self::scalar(1i64).cast(dtype)?;
        one.expand(shape)?.deep_copy()
    }

    /// Sets every element to one value.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] when the elements are not `T`.
    pub fn fill<T: Element>(&mut self, value: T) -> Result<()> {
        check_dtype::<T>(self.dtype())?;
        self.view_mut()?.array::<T>()?.fill(value);
        Ok(())
    }

    /// Sets all elements from values in the given order.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`], or [`TensorError::ShapeMismatch`] unless there is one value for each element.
    pub fn fill_from<T: Element>(&mut self, values: &[T], order: Order) -> Result<()> {
        check_dtype::<T>(self.dtype())?;
        if values.len() != self.num_elements() {
            return Err(TensorError::ShapeMismatch {
                operation: "fill_from",
                wanted: self.shape().to_vec(),
                found: vec![values.len()],
            });
        }
        let layout = Layout::contiguous_in(*self.shape(), order);
        self.view_mut()?.copy_from(&TensorView::from_slice(values, layout)?)
    }

    /// Applies a function to every element; the result is a new contiguous tensor.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 4.0, 9.0], &[3])?;
    /// assert_eq!(x.map(f32::sqrt)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] when the elements are not `T`, or [`TensorError::Blocked`].
    pub fn map<T: Element>(&self, function: impl FnMut(T) -> T) -> Result<Self> {
        check_dtype::<T>(self.dtype())?;
        let mut result = self.deep_copy()?;
        result.view_mut()?.array::<T>()?.mapv_inplace(function);
        Ok(result)
    }

    /// The ⌈(end − start) / step⌉ values `start`, `start + step`, … before `end` (`torch.arange`), computed in `f64` and
    /// then cast.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if an argument is not finite, `step` is 0 or leads away from `end`, or the range
    /// has too many elements.
    pub fn arange(dtype: DType, start: f64, end: f64, step: f64) -> Result<Self> {
        let count = ((end - start) / step).ceil();
        let ends_well = start.is_finite() && end.is_finite() && step.is_finite();
        if !ends_well || step == 0.0 || !(0.0..9e15).contains(&count) {
            return Err(TensorError::InvalidArgument(format!(
                "arange: expected finite numbers and a nonzero step towards `end`, got {start} to {end} in steps of {step}"
            )));
        }
        let mut tensor = Self::zeros(DType::F64, &[count as usize])?;
        let mut view = tensor.view_mut()?;
        let numbers = view.slice::<f64>()?.iter_mut().enumerate();
        numbers.for_each(|(i, number)| *number = start + i as f64 * step);
        tensor.cast(dtype)
    }

    /// `f32` values from the standard normal distribution (`torch.randn`).
    ///
    /// The same seed gives the same values with the same version of this crate and on the same platform. They differ
    /// from PyTorch's.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn randn(shape: &[usize], seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        Self::generate(shape, || random.sample(StandardNormal))
    }

    /// `f32` values uniformly distributed over `low..high`; as reproducible as [`Tensor::randn`].
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] unless `low < high` and both are finite; otherwise as [`Tensor::full`].
    pub fn rand_uniform(shape: &[usize], low: f32, high: f32, seed: u64) -> Result<Self> {
        if !(low < high && (high - low).is_finite()) {
            return Err(TensorError::InvalidArgument(format!(
                "expected finite low < high, got {low}..{high}"
            )));
        }
        let mut random = StdRng::seed_from_u64(seed);
        Self::generate(shape, || random.random_range(low..high))
    }

    fn generate(shape: &[usize], mut next: impl FnMut() -> f32) -> Result<Self> {
        let mut tensor = Self::zeros(DType::F32, shape)?;
        tensor.view_mut()?.slice::<f32>()?.fill_with(&mut next);
        Ok(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;

    #[test]
    fn ones_and_full_of_every_dtype() {
        for dtype in DType::ALL {
            let ones = Tensor::ones(dtype, &[2, 3]).unwrap();
            assert_eq!((ones.dtype(), ones.shape().dims()), (dtype, &[2, 3][..]));
            assert!(ones.layout().is_contiguous());
            assert_eq!(ones.cast(DType::U8).unwrap(), Tensor::full(&[2, 3], 1u8).unwrap());
        }
        let z = Complex::new(1.5f32, -2.0);
        assert_eq!(Tensor::full(&[2], z).unwrap().to_vec::<Complex<f32>>().unwrap(), [z, z]);
        assert_eq!(Tensor::full(&[], 7i16).unwrap().item::<i16>().unwrap(), 7);
        assert!(Tensor::ones(DType::F32, &[1 << 40, 1 << 40]).is_err());
    }

    #[test]
    fn filling_leaves_clones_alone_and_respects_views() {
        let mut x = Tensor::zeros(DType::I32, &[2, 2]).unwrap();
        let other = x.clone();
        x.fill(3i32).unwrap();
        assert_eq!((x.to_vec::<i32>().unwrap(), other.to_vec::<i32>().unwrap()), (vec![3; 4], vec![0; 4]));
        assert!(x.fill(3i64).is_err());
    }

    #[test]
    fn values_in_either_order() {
        let mut x = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
        let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        x.fill_from(&values, Order::RowMajor).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), values);
        x.fill_from(&values, Order::ColumnMajor).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        assert_eq!(x.to_vec_in::<f32>(Order::ColumnMajor).unwrap(), values);
        assert!(x.fill_from(&values[1..], Order::RowMajor).is_err());
        assert!(x.fill_from(&[1u8; 6], Order::RowMajor).is_err());
    }

    #[test]
    fn a_function_of_a_turned_tensor() {
        let x = Tensor::from_vec(vec![1i32, 2, 3, 4], &[2, 2]).unwrap().permute(&[1, 0]).unwrap();
        assert_eq!(x.map(|v: i32| v * 10).unwrap().to_vec::<i32>().unwrap(), [10, 30, 20, 40]);
        assert!(x.map(|v: f32| v).is_err());
    }

    #[test]
    fn ranges() {
        let count = |start, end, step| {
            Tensor::arange(DType::I64, start, end, step).map(|x| x.to_vec::<i64>().unwrap())
        };
        assert_eq!(count(0.0, 5.0, 2.0).unwrap(), [0, 2, 4]);
        assert_eq!(count(5.0, 0.0, -2.0).unwrap(), [5, 3, 1]);
        assert!(count(1.0, 1.0, 1.0).unwrap().is_empty());
        assert!(count(0.0, 5.0, 0.0).is_err() && count(0.0, 5.0, -1.0).is_err());
        assert!(count(0.0, f64::NAN, 1.0).is_err() && count(0.0, 1.0, 1e-300).is_err());
        let halves = Tensor::arange(DType::F32, 0.0, 1.5, 0.5).unwrap();
        assert_eq!(halves.to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn random_numbers_follow_their_seed_and_distribution() {
        let x = Tensor::randn(&[100, 100], 1).unwrap();
        assert_eq!(x, Tensor::randn(&[100, 100], 1).unwrap());
        assert_ne!(x, Tensor::randn(&[100, 100], 2).unwrap());
        let values = x.to_vec::<f32>().unwrap();
        let mean = values.iter().sum::<f32>() / 1e4;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.06, "{mean} {variance}");
        let uniform = Tensor::rand_uniform(&[10_000], -1.0, 3.0, 1).unwrap().to_vec::<f32>().unwrap();
        let mean = uniform.iter().sum::<f32>() / 1e4;
        assert!(uniform.iter().all(|v| (-1.0..3.0).contains(v)) && (mean - 1.0).abs() < 0.06, "{mean}");
        assert!(Tensor::rand_uniform(&[1], 1.0, 1.0, 0).is_err());
        assert!(Tensor::rand_uniform(&[1], f32::MIN, f32::MAX, 0).is_err());
    }
}
