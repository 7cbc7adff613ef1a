//! The seven types that blocks are computed in, and the conversions from and to the 13 element types.

use super::Operand;
use super::{complex, integer, real};
use crate::widest;
use ixion_tensor::Function;
use ixion_tensor::{Complex, DType, Element, Half, Result, Scalar, bf16, f16};

/// Runs an expression with `$T` bound to the [`Number`] that elements of a [`DType`] are computed in: `i16` for bools and
/// integers of at most 16 bits, `i32` for those of 32 bits, and otherwise the types in which tensors are multiplied.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ixion_tensor::DType::I32 => {
                type $T = i32;
                $body
            }
            ixion_tensor::DType::I16
            | ixion_tensor::DType::I8
            | ixion_tensor::DType::U8
            | ixion_tensor::DType::Bool => {
                type $T = i16;
                $body
            }
            other => ixion_tensor::__with_number!(other, $T => $body),
        }
    };
}

pub(super) use with_number;

/// A type that blocks are computed in.
pub(super) trait Number: Element {
    /// The registers of this type.
    fn pool(registers: &Registers) -> &Pool<Self>;
    /// The same, for writing.
    fn pool_mut(registers: &mut Registers) -> &mut Pool<Self>;
    /// The nearest number of this type. Conversions to integers truncate towards zero, and conversions to real types drop
    /// the imaginary part.
    fn from_i64(value: i64) -> Self;
    /// As [`Number::from_i64`].
    fn from_f64(value: f64) -> Self;
    /// As [`Number::from_i64`].
    fn from_complex(value: Complex<f64>) -> Self;
    /// The nearest number of another type.
    fn to<T: Number>(self) -> T;
    /// The number as a scalar.
    fn scalar(self) -> Scalar;
    /// Applies a function of one argument, which is passed as both `a` and `b`, or of two.
    fn apply(function: Function, a: Operand<'_, Self>, b: Operand<'_, Self>, out: &mut [Self]) -> Result<()>;
    /// Rounds or wraps the numbers of a block to an element type.
    fn round_to(dtype: DType, block: &mut [Self]);
}

/// The element type of the [`Number`] that elements of a type are computed in.
pub(super) fn dtype_of(dtype: DType) -> DType {
    with_number!(dtype, T => T::DTYPE)
}

/// Memory for intermediate results of one type: blocks, which all programs of a thread share, and uniform values, which
/// belong to one program.
#[derive(Debug, Default)]
pub(super) struct Pool<T> {
    pub(super) blocks: Vec<Vec<T>>,
    pub(super) uniforms: Vec<T>,
}

/// Memory for intermediate results.
#[derive(Debug, Default)]
pub(super) struct Registers {
    i16: Pool<i16>,
    i32: Pool<i32>,
    i64: Pool<i64>,
    f32: Pool<f32>,
    f64: Pool<f64>,
    c64: Pool<Complex<f32>>,
    c128: Pool<Complex<f64>>,
}

impl<T: Copy + Default> Pool<T> {
    fn reserve(&mut self, blocks: usize) {
        while self.blocks.len() < blocks {
            self.blocks.push(vec![T::default(); super::BLOCK]);
        }
    }
}

impl Registers {
    /// Allocates blocks until there are as many as in `wanted`.
    pub(super) fn reserve(&mut self, wanted: &Self) {
        self.i16.reserve(wanted.i16.blocks.len());
        self.i32.reserve(wanted.i32.blocks.len());
        self.i64.reserve(wanted.i64.blocks.len());
        self.f32.reserve(wanted.f32.blocks.len());
        self.f64.reserve(wanted.f64.blocks.len());
        self.c64.reserve(wanted.c64.blocks.len());
        self.c128.reserve(wanted.c128.blocks.len());
    }
}

/// Real numbers, with the function that converts them to another type, their kind of scalar, the widest type of their kind,
/// and the module of their functions.
macro_rules! real_numbers {
    ($(
        $number:ident: $to:ident, $scalar:ident, $widest:ident, $functions:ident, |$dtype:ident, $block:ident| $round:expr;
    )*) => {$(
        impl Number for $number {
            fn pool(registers: &Registers) -> &Pool<Self> {
                &registers.$number
            }
            fn pool_mut(registers: &mut Registers) -> &mut Pool<Self> {
                &mut registers.$number
            }
            fn from_i64(value: i64) -> Self {
                value as $number
            }
            fn from_f64(value: f64) -> Self {
                // Narrower integers wrap around, as those of the widest type do when they are stored.
                value as $widest as $number
            }
            fn from_complex(value: Complex<f64>) -> Self {
                Self::from_f64(value.re)
            }
            fn to<T: Number>(self) -> T {
                T::$to(self.into())
            }
            fn scalar(self) -> Scalar {
                Scalar::$scalar(self.into())
            }
            fn apply(function: Function, a: Operand<'_, Self>, b: Operand<'_, Self>, out: &mut [Self]) -> Result<()> {
                $functions::apply(function, a, b, out)
            }
            fn round_to($dtype: DType, $block: &mut [Self]) {
                $round
            }
        }
    )*};
}

real_numbers! {
    i16: from_i64, Int, i64, integer, |dtype, block| match dtype {
        DType::I8 => i8::round_all(block),
        DType::U8 => u8::round_all(block),
        DType::Bool => bool::round_all(block),
        _ => {}
    };
    i32: from_i64, Int, i64, integer, |_dtype, _block| {};
    i64: from_i64, Int, i64, integer, |_dtype, _block| {};
    f32: from_f64, Float, f64, real, |dtype, block| match dtype {
        DType::F16 => <f16 as Stored>::round_all(block),
        DType::Bf16 => <bf16 as Stored>::round_all(block),
        _ => {}
    };
    f64: from_f64, Float, f64, real, |_dtype, _block| {};
}

macro_rules! complex_numbers {
    ($($part:ident in $field:ident: |$dtype:ident, $block:ident| $round:expr;)*) => {$(
        impl Number for Complex<$part> {
            fn pool(registers: &Registers) -> &Pool<Self> {
                &registers.$field
            }
            fn pool_mut(registers: &mut Registers) -> &mut Pool<Self> {
                &mut registers.$field
            }
            fn from_i64(value: i64) -> Self {
                Complex::new(value as $part, 0.0)
            }
            fn from_f64(value: f64) -> Self {
                Complex::new(value as $part, 0.0)
            }
            fn from_complex(value: Complex<f64>) -> Self {
                Complex::new(value.re as $part, value.im as $part)
            }
            fn to<T: Number>(self) -> T {
                T::from_complex(Complex::new(self.re.into(), self.im.into()))
            }
            fn scalar(self) -> Scalar {
                Scalar::Complex(Complex::new(self.re.into(), self.im.into()))
            }
            fn apply(function: Function, a: Operand<'_, Self>, b: Operand<'_, Self>, out: &mut [Self]) -> Result<()> {
                complex::apply(function, a, b, out)
            }
            fn round_to($dtype: DType, $block: &mut [Self]) {
                $round
            }
        }
    )*};
}

complex_numbers! {
    f32 in c64: |dtype, block| if dtype == DType::C32 { Complex::<f16>::round_all(block) };
    f64 in c128: |_dtype, _block| {};
}

/// An element type with conversions from and to the [`Number`] that it is computed in.
pub(super) trait Stored: Element {
    /// The type to compute in.
    type Number: Number;

    /// The element as a number, without loss.
    fn load(self) -> Self::Number;

    /// The number as an element: integers wrap, floats are rounded, and a bool is true if the number is not zero.
    fn store(number: Self::Number) -> Self;

    /// [`Stored::load`] of all elements.
    fn load_all(from: &[Self], to: &mut [Self::Number]) {
        widest!(|| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load()));
    }

    /// [`Stored::store`] of all numbers.
    fn store_all(from: &[Self::Number], to: &mut [Self]) {
        widest!(|| to.iter_mut().zip(from).for_each(|(to, from)| *to = Self::store(*from)));
    }

    /// Rounds or wraps numbers in place, as if they were stored and loaded again.
    fn round_all(numbers: &mut [Self::Number]) {
        widest!(|| numbers.iter_mut().for_each(|number| *number = Self::store(*number).load()));
    }
}

/// Elements with their conversions. Half-precision types convert whole slices.
macro_rules! stored {
    ($($element:ty as $number:ty: $load:expr, $store:expr $(, $half:ident)?;)*) => {$(
        impl Stored for $element {
            type Number = $number;

            fn load(self) -> $number {
                let load: fn($element) -> $number = $load;
                load(self)
            }
            fn store(number: $number) -> $element {
                let store: fn($number) -> $element = $store;
                store(number)
            }
            $(fn load_all(from: &[Self], to: &mut [$number]) {
                $half::load_all(from, to);
            }
            fn store_all(from: &[$number], to: &mut [Self]) {
                $half::store_all(from, to);
            }
            fn round_all(numbers: &mut [$number]) {
                <Self as $half>::round_all(numbers);
            })?
        }
    )*};
}

stored! {
    i64 as i64: |x| x, |x| x;
    i32 as i32: |x| x, |x| x;
    i16 as i16: |x| x, |x| x;
    i8 as i16: i16::from, |x| x as i8;
    u8 as i16: i16::from, |x| x as u8;
    bool as i16: i16::from, |x| x != 0;
    f32 as f32: |x| x, |x| x;
    f16 as f32: f16::to_f32, f16::from_f32, Half;
    bf16 as f32: bf16::to_f32, bf16::from_f32, Half;
    f64 as f64: |x| x, |x| x;
    Complex<f32> as Complex<f32>: |x| x, |x| x;
    Complex<f16> as Complex<f32>: |x| Complex::new(x.re.to_f32(), x.im.to_f32()),
        |x| Complex::new(f16::from_f32(x.re), f16::from_f32(x.im));
    Complex<f64> as Complex<f64>: |x| x, |x| x;
}

/// Converts numbers to an element type, by the rules of [`Tensor::cast`](ixion_tensor::Tensor::cast).
pub(super) fn convert<S: Number, T: Number>(from: Operand<'_, S>, to: &mut [T], dtype: DType) {
    let from_integers = S::DTYPE.is_integer();
    match integer_range(dtype) {
        _ if dtype == DType::Bool => from.map(to, |x| T::from_i64((x != S::default()).into())),
        Some((low, high)) if !from_integers => from.map(to, |x| T::from_i64(x.to::<i64>().clamp(low, high))),
        _ => from.map(to, S::to::<T>),
    }
    T::round_to(dtype, to);
}

fn integer_range(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        DType::I8 => Some((i8::MIN.into(), i8::MAX.into())),
        DType::U8 => Some((u8::MIN.into(), u8::MAX.into())),
        _ => None,
    }
}

/// Converts a constant to a number.
pub(super) fn constant<T: Number>(scalar: Scalar) -> T {
    match scalar {
        Scalar::Bool(value) => T::from_i64(value.into()),
        Scalar::Int(value) => T::from_i64(value),
        Scalar::Float(value) => T::from_f64(value),
        Scalar::Complex(value) => T::from_complex(value),
    }
}
