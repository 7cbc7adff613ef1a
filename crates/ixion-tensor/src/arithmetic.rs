//! Element-wise arithmetic with broadcasting.
//!
//! Arithmetic is compiled for five types; the others are computed in one of them, and the result is rounded or wrapped:
//! f16 and bf16 in f32, c32 in c64 (as in PyTorch), integers in i64 (which gives the same bits as wrapping in their own
//! width).

use super::{Complex, DType, Element, Result, Tensor, TensorError, broadcast_shapes};
use ndarray::{LinalgScalar, Zip};

/// An element-wise operation on two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Sub,
    Mul,
    Div,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Sub => "sub",
            Operation::Mul => "mul",
            Operation::Div => "div",
        }
    }
}

impl Tensor {
    /// Element-wise sum; the shapes are broadcast against each other (NumPy's rule). Integers wrap.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let column = Tensor::from_vec(vec![10, 20], &[2, 1])?;
    /// let row = Tensor::from_vec(vec![1, 2, 3], &[3])?;
    /// assert_eq!(column.add(&row)?.to_vec::<i32>()?, [11, 12, 13, 21, 22, 23]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::MixedDTypes`], [`TensorError::UndefinedFor`] for bool, [`TensorError::NotBroadcastable`], or
    /// [`TensorError::Blocked`].
    pub fn add(&self, other: &Tensor) -> Result<Self> {
        binary(Operation::Add, self, other)
    }

    /// Element-wise difference; see [`Tensor::add`].
    ///
    /// # Errors
    /// As [`Tensor::add`].
    pub fn sub(&self, other: &Tensor) -> Result<Self> {
        binary(Operation::Sub, self, other)
    }

    /// Element-wise product; see [`Tensor::add`].
    ///
    /// # Errors
    /// As [`Tensor::add`].
    pub fn mul(&self, other: &Tensor) -> Result<Self> {
        binary(Operation::Mul, self, other)
    }

    /// Element-wise quotient; see [`Tensor::add`]. Quotients of integers are integers, rounded towards zero
    /// (`torch.div` with `rounding_mode="trunc"`).
    ///
    /// # Errors
    /// As [`Tensor::add`]; [`TensorError::DivisionByZero`] if an integer is divided by zero.
    pub fn div(&self, other: &Tensor) -> Result<Self> {
        binary(Operation::Div, self, other)
    }
}

fn binary(operation: Operation, left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let dtype = common_dtype(operation.name(), left, right)?;
    let shape = broadcast_shapes(left.shape(), right.shape())?;
    let wide = computed_in(operation.name(), dtype)?;
    let (left, right) = (left.cast(wide)?.expand(&shape)?, right.cast(wide)?.expand(&shape)?);
    let mut result = Tensor::empty(wide, &shape)?;
    with_number!(wide, T => zip::<T>(operation, &left, &right, &mut result)?);
    result.cast(dtype)
}

/// Applies the operation to operands that are already broadcast to the shape of the result.
fn zip<T: Number>(operation: Operation, left: &Tensor, right: &Tensor, result: &mut Tensor) -> Result<()> {
    let (left, right) = (left.array::<T>()?, right.array::<T>()?);
    if operation == Operation::Div && !T::HAS_INFINITY && right.iter().any(|&divisor| divisor == T::default())
    {
        return Err(TensorError::DivisionByZero { operation: operation.name() });
    }
    let apply = match operation {
        Operation::Add => T::sum,
        Operation::Sub => T::difference,
        Operation::Mul => T::product,
        Operation::Div => T::quotient,
    };
    let mut view = result.view_mut()?;
    let triples = Zip::from(view.array::<T>()?).and(left).and(right);
    triples.for_each(|to, &left, &right| *to = apply(left, right));
    Ok(())
}

/// The element type of both operands, which must be the same.
pub(super) fn common_dtype(operation: &'static str, left: &Tensor, right: &Tensor) -> Result<DType> {
    if left.dtype() == right.dtype() {
        return Ok(left.dtype());
    }
    Err(TensorError::MixedDTypes { operation, left: left.dtype(), right: right.dtype() })
}

/// The element type in which arithmetic on `dtype` is computed.
pub(super) fn computed_in(operation: &'static str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => Ok(DType::F32),
        DType::F64 => Ok(DType::F64),
        DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 => Ok(DType::I64),
        DType::C32 | DType::C64 => Ok(DType::C64),
        DType::C128 => Ok(DType::C128),
        DType::Bool => {
            Err(TensorError::UndefinedFor { operation, dtype, advice: "`cast` to an integer type first" })
        }
    }
}

/// A type that arithmetic is compiled for. The defaults are those of floats.
pub(super) trait Number: Element + LinalgScalar {
    /// Whether division by zero is defined.
    const HAS_INFINITY: bool = true;

    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn difference(self, other: Self) -> Self {
        self - other
    }
    fn product(self, other: Self) -> Self {
        self * other
    }
    fn quotient(self, other: Self) -> Self {
        self / other
    }
}

impl Number for f32 {}
impl Number for f64 {}
impl Number for Complex<f32> {}
impl Number for Complex<f64> {}

impl Number for i64 {
    const HAS_INFINITY: bool = false;

    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn difference(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    fn product(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn quotient(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(if other == 0 { 0 } else { i64::MIN })
    }
}

/// Runs an expression with `$T` bound to the type that elements of a [`DType`] are computed in: `f32`, `f64`, `i64` or a
/// complex type.
#[macro_export]
#[doc(hidden)]
macro_rules! __with_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F32 | $crate::DType::F16 | $crate::DType::Bf16 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::DType::C32 | $crate::DType::C64 => {
                type $T = $crate::Complex<f32>;
                $body
            }
            $crate::DType::C128 => {
                type $T = $crate::Complex<f64>;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}
pub(super) use __with_number as with_number;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bf16, f16};
    use ndarray::Dimension;
    use proptest::prelude::*;

    type Method = fn(&Tensor, &Tensor) -> Result<Tensor>;
    type ByHand = fn(f32, f32) -> f32;

    fn vector<T: Element>(values: &[T]) -> Tensor {
        Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
    }

    #[test]
    fn integers_wrap_in_their_own_width() {
        let (x, y) = (vector(&[127i8, -128, -128, 7]), vector(&[1i8, 1, -1, -2]));
        assert_eq!(x.add(&y).unwrap().to_vec::<i8>().unwrap(), [-128, -127, 127, 5]);
        assert_eq!(x.sub(&y).unwrap().to_vec::<i8>().unwrap(), [126, 127, -127, 9]);
        assert_eq!(x.mul(&y).unwrap().to_vec::<i8>().unwrap(), [127, -128, -128, -14]);
        assert_eq!(x.div(&y).unwrap().to_vec::<i8>().unwrap(), [127, -128, -128, -3]);
        let lowest = vector(&[i64::MIN]).div(&vector(&[-1i64])).unwrap();
        assert_eq!(lowest.item::<i64>().unwrap(), i64::MIN);
        assert_eq!(vector(&[3u8]).sub(&vector(&[5u8])).unwrap().item::<u8>().unwrap(), 254);
    }

    #[test]
    fn division_by_zero() {
        assert!(matches!(
            vector(&[1i32, 2]).div(&vector(&[1i32, 0])),
            Err(TensorError::DivisionByZero { .. })
        ));
        let none = Tensor::zeros(DType::I32, &[0]).unwrap();
        assert!(none.div(&vector(&[0i32])).unwrap().is_empty());
        let floats = vector(&[1.0f32, -1.0, 0.0]).div(&vector(&[0.0f32])).unwrap().to_vec::<f32>().unwrap();
        assert!(floats[0] == f32::INFINITY && floats[1] == f32::NEG_INFINITY && floats[2].is_nan());
    }

    #[test]
    fn short_floats_are_rounded_after_each_operation() {
        let half = vector(&[f16::from_f32(2048.0)]).add(&vector(&[f16::ONE])).unwrap();
        assert_eq!(half.item::<f16>().unwrap(), f16::from_f32(2048.0));
        let brain = vector(&[bf16::from_f32(3.0)]).div(&vector(&[bf16::from_f32(7.0)])).unwrap();
        assert_eq!(brain.item::<bf16>().unwrap(), bf16::from_f32(3.0 / 7.0));
    }

    #[test]
    fn complex_numbers() {
        let (x, y) = (vector(&[Complex::new(1.0f64, 2.0)]), vector(&[Complex::new(3.0f64, -1.0)]));
        assert_eq!(x.mul(&y).unwrap().item::<Complex<f64>>().unwrap(), Complex::new(5.0, 5.0));
        let half = x.cast(DType::C32).unwrap().div(&y.cast(DType::C32).unwrap()).unwrap();
        assert_eq!(half.get_scalar(&[0]).unwrap().to_string(), "0.0999755859375+0.7001953125j");
    }

    #[test]
    fn mismatched_operands_are_errors() {
        let (x, y) = (vector(&[1.0f32]), vector(&[1i64]));
        let error = x.add(&y).unwrap_err().to_string();
        assert!(error.contains("f32 and i64") && error.contains("`cast`"), "{error}");
        let flags = vector(&[true]);
        assert!(matches!(flags.mul(&flags), Err(TensorError::UndefinedFor { .. })));
        assert!(matches!(
            vector(&[1u8; 2]).add(&vector(&[1u8; 3])),
            Err(TensorError::NotBroadcastable { .. })
        ));
    }

    proptest! {
        #[test]
        fn matches_a_loop_over_indices(
            dims in proptest::collection::vec(1usize..4, 0..5),
            left_mask: u8,
            right_mask: u8,
            dropped in 0usize..5,
            seed: u64,
        ) {
            let thin = |mask: u8| -> Vec<usize> {
                dims.iter().enumerate().map(|(i, &dim)| if mask >> i & 1 == 1 { 1 } else { dim }).collect()
            };
            let (left, right) = (thin(left_mask), thin(right_mask));
            let right = &right[dropped.min(right.len())..];
            let x = Tensor::randn(&left, seed).unwrap();
            let y = Tensor::randn(right, seed ^ 1).unwrap();
            let operations: [(Method, ByHand); 4] = [
                (Tensor::add, |a, b| a + b),
                (Tensor::sub, |a, b| a - b),
                (Tensor::mul, |a, b| a * b),
                (Tensor::div, |a, b| a / b),
            ];
            for (method, by_hand) in operations {
                let got = method(&x, &y).unwrap();
                for (index, &value) in got.array::<f32>().unwrap().indexed_iter() {
                    let pick = |t: &Tensor| {
                        let index = &index.slice()[got.rank() - t.rank()..];
                        let index: Vec<usize> = index.iter().zip(t.shape().iter()).map(|(i, d)| i % d).collect();
                        t.get::<f32>(&index).unwrap()
                    };
                    prop_assert_eq!(value, by_hand(pick(&x), pick(&y)));
                }
            }
        }
    }
}
