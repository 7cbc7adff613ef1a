//! Conversion between element types.

use super::wide::{CHUNK, Wide, Widen};
use super::{DType, Half, Result, Tensor, TensorView, TensorViewMut, bf16, f16, with_element};

impl Tensor {
    /// The elements as another type (`torch.Tensor.to(dtype)`). Shares the storage when the type is the same; otherwise
    /// the result is contiguous.
    ///
    /// - to a float: the nearest value, ties to even, rounded once whatever the source type; overflow becomes infinity.
    ///   (PyTorch converts f64 and i64 to f16 and bf16 via f32, which can differ in the last bit.)
    /// - float to integer: truncated towards zero and saturated; NaN becomes 0. (PyTorch leaves both to the hardware.)
    /// - integer to integer: the low-order bits are kept, as in C.
    /// - to bool: `false` for zero, otherwise `true`, including NaN.
    /// - real to complex: the imaginary part is 0. Complex to real: the imaginary part is dropped.
    ///
    /// ```
    /// use ixion_tensor::{DType, Tensor};
    /// let x = Tensor::from_vec(vec![-1.5f32, 0.0, 300.7], &[3])?;
    /// assert_eq!(x.cast(DType::I16)?.to_vec::<i16>()?, [-1, 0, 300]);
    /// assert_eq!(x.cast(DType::U8)?.to_vec::<u8>()?, [0, 0, 255]);
    /// assert_eq!(x.cast(DType::Bool)?.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](super::TensorError::OutOfMemory), or
    /// [`TensorError::Blocked`](super::TensorError::Blocked).
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        self.view().cast(dtype)
    }
}

impl TensorView<'_> {
    /// The elements as another type, in a new tensor; see [`Tensor::cast`].
    ///
    /// # Errors
    /// As [`Tensor::cast`].
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        let mut result = Tensor::empty(dtype, self.shape())?;
        result.view_mut()?.cast_from(self)?;
        Ok(result)
    }
}

impl TensorViewMut<'_> {
    /// Copies all elements of a tensor of the same shape, converted to this type; see [`Tensor::cast`].
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`](super::TensorError::ShapeMismatch); otherwise as [`Tensor::cast`].
    pub fn cast_from(&mut self, source: &TensorView<'_>) -> Result<()> {
        if source.dtype() == self.dtype() || source.shape() != self.shape() {
            return self.copy_from(source);
        }
        if !self.layout().is_contiguous() {
            return self.copy_from(&source.cast(self.dtype())?.view());
        }
        if !source.layout().is_contiguous() {
            return self.cast_from(&source.to_tensor()?.view());
        }
        match (source.dtype(), self.dtype()) {
            (DType::F32, DType::F16) => f16::store_all(source.slice()?, self.slice()?),
            (DType::F32, DType::Bf16) => bf16::store_all(source.slice()?, self.slice()?),
            (DType::F16, DType::F32) => f16::load_all(source.slice()?, self.slice()?),
            (DType::Bf16, DType::F32) => bf16::load_all(source.slice()?, self.slice()?),
            (DType::F16, _) => convert_halves(source.slice::<f16>()?, self)?,
            (DType::Bf16, _) => convert_halves(source.slice::<bf16>()?, self)?,
            _ => with_element!(source.dtype(), S => convert(source.slice::<S>()?, self, 0)?),
        }
        Ok(())
    }
}

fn convert_halves<H: Half>(source: &[H], target: &mut TensorViewMut<'_>) -> Result<()> {
    let mut single = [0f32; CHUNK];
    for (i, chunk) in source.chunks(CHUNK).enumerate() {
        H::load_all(chunk, &mut single);
        convert(&single[..chunk.len()], target, i * CHUNK)?;
    }
    Ok(())
}

/// Fills `target` from element `start` on.
fn convert<S: Widen>(source: &[S], target: &mut TensorViewMut<'_>, start: usize) -> Result<()> {
    let mut wide = [S::Wide::default(); CHUNK];
    for (i, chunk) in source.chunks(CHUNK).enumerate() {
        S::widen_all(chunk, &mut wide);
        narrow(&wide[..chunk.len()], target, start + i * CHUNK)?;
    }
    Ok(())
}

/// Fills `target` from element `start` on, up to the end of the shorter slice.
fn narrow<W: Wide>(wide: &[W], target: &mut TensorViewMut<'_>, start: usize) -> Result<()> {
    with_element!(target.dtype(), T => {
        let rest = target.slice::<T>()?.get_mut(start..).unwrap_or_default();
        T::narrow_all(wide, rest);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Complex, Element};
    use proptest::prelude::*;

    fn cast<S: Element, T: Element>(values: &[S]) -> Vec<T> {
        let tensor = Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap();
        tensor.cast(T::DTYPE).unwrap().to_vec().unwrap()
    }

    #[test]
    fn floats_to_integers() {
        let values = [1.9f32, -1.9, 300.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(cast::<f32, u8>(&values), [1, 0, 255, 0, 0, 255, 0]);
        assert_eq!(cast::<f32, i8>(&values), [1, -1, 127, -1, 0, 127, -128]);
        let ends = [1, -1, 300, -1, 0, i64::MAX, i64::MIN];
        assert_eq!(cast::<f32, i64>(&values), ends);
        assert_eq!(cast::<f64, i64>(&[2f64.powi(62) + 1024.0]), [(1 << 62) + 1024]);
        assert_eq!(cast::<f16, i32>(&[f16::MAX]), [65504]);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(cast::<i64, u8>(&[256, 257, -1, i64::MIN]), [0, 1, 255, 0]);
        assert_eq!(cast::<u8, i8>(&[127, 128, 255]), [127, -128, -1]);
        assert_eq!(cast::<i64, i32>(&[1 << 31, i64::MAX]), [i32::MIN, -1]);
        assert_eq!(cast::<bool, i16>(&[true, false]), [1, 0]);
    }

    #[test]
    fn anything_to_bool() {
        assert_eq!(cast::<f32, bool>(&[0.0, -0.0, 1e-40, f32::NAN]), [false, false, true, true]);
        assert_eq!(cast::<i64, bool>(&[256, 0]), [true, false]);
        let complex = [Complex::new(0f32, 0.0), Complex::new(0f32, 2.0)];
        assert_eq!(cast::<Complex<f32>, bool>(&complex), [false, true]);
    }

    #[test]
    fn complex_and_real() {
        assert_eq!(cast::<i8, Complex<f16>>(&[-2]), [Complex::new(f16::from_f32(-2.0), f16::ZERO)]);
        assert_eq!(cast::<f64, Complex<f32>>(&[0.1]), [Complex::new(0.1f32, 0.0)]);
        assert_eq!(cast::<Complex<f64>, f32>(&[Complex::new(0.1, 7.0)]), [0.1f32]);
        assert_eq!(cast::<Complex<f64>, i16>(&[Complex::new(-3.7, 7.0)]), [-3]);
        assert_eq!(cast::<Complex<f64>, Complex<f32>>(&[Complex::new(0.1, 0.2)]), [Complex::new(0.1, 0.2)]);
    }

    #[test]
    fn numbers_are_rounded_once() {
        assert_eq!(cast::<i64, f32>(&[(1 << 24) + 1, i64::MAX]), [16777216.0, 9.223372e18]);
        assert_eq!(
            cast::<f64, f16>(&[1.0 + 2f64.powi(-11) + 2f64.powi(-40)]),
            [f16::from_f32(1.0 + 2f32.powi(-10))]
        );
        assert_eq!(cast::<f64, f32>(&[1e300, 0.1]), [f32::INFINITY, 0.1]);
        assert_eq!(cast::<f32, bf16>(&[1e38, f32::MAX]), [bf16::from_f32(1e38), bf16::INFINITY]);
        assert_eq!(cast::<f16, bf16>(&[f16::MAX]), [bf16::from_f32(65504.0)]);
    }

    #[test]
    fn the_layout_does_not_matter() {
        let x =
            Tensor::from_vec((0..2000).collect::<Vec<i32>>(), &[40, 50]).unwrap().permute(&[1, 0]).unwrap();
        let y = x.cast(DType::F64).unwrap();
        assert_eq!(y.array::<f64>().unwrap()[[49, 39]], 1999.0);
        assert_eq!(y.shape().dims(), &[50, 40]);
        assert!(x.cast(DType::I32).unwrap().shares_storage(&x));
        assert!(Tensor::zeros(DType::F32, &[0, 3]).unwrap().cast(DType::C128).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn small_numbers_round_trip_through_every_dtype(values in proptest::collection::vec(0u8..2, 1..20)) {
            let x = Tensor::from_vec(values.clone(), &[values.len()]).unwrap();
            for first in DType::ALL {
                for second in DType::ALL {
                    let back = x.cast(first).unwrap().cast(second).unwrap().cast(DType::U8).unwrap();
                    prop_assert_eq!(back.to_vec::<u8>().unwrap(), &values[..], "{} to {}", first, second);
                }
            }
        }

        #[test]
        fn casts_between_native_numbers_match_rust(floats in proptest::collection::vec(any::<f64>(), 1..9), ints: [i64; 5]) {
            let as_f32: Vec<f32> = floats.iter().map(|&x| x as f32).collect();
            let as_i16: Vec<i16> = floats.iter().map(|&x| x as i16).collect();
            prop_assert_eq!(cast::<f64, f32>(&floats), as_f32);
            prop_assert_eq!(cast::<f64, i16>(&floats), as_i16);
            prop_assert_eq!(cast::<i64, f32>(&ints), ints.map(|x| x as f32));
            prop_assert_eq!(cast::<i64, i8>(&ints), ints.map(|x| x as i8));
        }

        #[test]
        fn many_numbers_are_converted_like_single_ones(bits in proptest::collection::vec(any::<i64>(), 1..40), len in 1usize..1200) {
            let ends = [0.5, -0.5, 255.5, 256.0, -129.0, 2f64.powi(31), -2f64.powi(31) - 1.0, 2f64.powi(63), -2f64.powi(63)];
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2f64.powi(63) - 1024.0, 65520.0, 1e-8];
            let floats = bits.iter().map(|&bits| f64::from_bits(bits as u64));
            let floats: Vec<f64> = floats.chain(ends).chain(odd).cycle().take(len).collect();
            let ints: Vec<i64> = bits.iter().flat_map(|&bits| [bits, bits >> 48]).cycle().take(len).collect();
            prop_assert_eq!(cast::<f64, i64>(&floats), floats.iter().map(|&x| x as i64).collect::<Vec<_>>());
            prop_assert_eq!(cast::<f64, i32>(&floats), floats.iter().map(|&x| x as i32).collect::<Vec<_>>());
            prop_assert_eq!(cast::<f64, i16>(&floats), floats.iter().map(|&x| x as i16).collect::<Vec<_>>());
            prop_assert_eq!(cast::<f64, i8>(&floats), floats.iter().map(|&x| x as i8).collect::<Vec<_>>());
            prop_assert_eq!(cast::<f64, u8>(&floats), floats.iter().map(|&x| x as u8).collect::<Vec<_>>());
            prop_assert_eq!(cast::<f64, bool>(&floats), floats.iter().map(|&x| x != 0.0).collect::<Vec<_>>());
            prop_assert_eq!(cast::<i64, f64>(&ints), ints.iter().map(|&x| x as f64).collect::<Vec<_>>());
            let halves: Vec<f16> = ints.iter().map(|&x| f16::from_integer(x)).collect();
            prop_assert_eq!(cast::<i64, f16>(&ints), halves);
            let singles: Vec<f64> = floats.iter().map(|&x| bf16::from_float(x).to_f64()).collect();
            let got: Vec<f64> = cast::<f64, bf16>(&floats).iter().map(|x| x.to_f64()).collect();
            prop_assert!(got.iter().zip(&singles).all(|(got, want)| got == want || (got.is_nan() && want.is_nan())));
        }
    }
}
