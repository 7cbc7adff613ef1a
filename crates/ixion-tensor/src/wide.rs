//! The three types that represent every element exactly: `i64`, `f64` and `Complex<f64>`.
//!
//! Casting, comparing and printing are implemented once for these instead of for each of the 13 element types.

use super::{Complex, DType, Element, Half, bf16, f16};
use crate::widest;
use std::fmt;

/// The number of elements that are converted at a time.
pub(super) const CHUNK: usize = 512;

/// One element of any type, represented exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer of any width.
    Int(i64),
    /// A real floating-point number.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

impl Scalar {
    pub(super) fn of<T: Widen>(value: T) -> Self {
        Self::of_wide(value.widen(), T::DTYPE)
    }

    /// A scalar from a widened element of type `dtype`.
    pub(super) fn of_wide<W: Wide>(value: W, dtype: DType) -> Self {
        match value.into() {
            Scalar::Int(value) if dtype == DType::Bool => Scalar::Bool(value != 0),
            scalar => scalar,
        }
    }
}

/// Formats as the shortest text that reads back as the same number; `inf` and `nan` as in NumPy.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text(DType::F64))
    }
}

impl Scalar {
    /// The shortest text that reads back as the same number of type `dtype`: 0.1 and not 0.10000000149011612 for f32.
    pub fn text(&self, dtype: DType) -> String {
        let float = match dtype {
            DType::F64 | DType::C128 => double_text,
            _ => single_text,
        };
        match self {
            Scalar::Bool(value) => value.to_string(),
            Scalar::Int(value) => value.to_string(),
            Scalar::Float(value) => float(*value),
            Scalar::Complex(value) => complex_text(*value, float),
        }
    }
}

fn double_text(value: f64) -> String {
    if has_exponent(value) { format!("{value:e}") } else { value.to_string().to_lowercase() }
}

fn single_text(value: f64) -> String {
    let single = value as f32;
    if has_exponent(value) { format!("{single:e}") } else { single.to_string().to_lowercase() }
}

fn has_exponent(value: f64) -> bool {
    value.is_finite() && value != 0.0 && !(1e-4..1e16).contains(&value.abs())
}

/// A complex number in Python's notation, its parts formatted by `part`.
pub(super) fn complex_text(value: Complex<f64>, part: impl Fn(f64) -> String) -> String {
    let sign = if value.im.is_sign_negative() && !value.im.is_nan() { "" } else { "+" };
    format!("{}{sign}{}j", part(value.re), part(value.im))
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Complex<f64>> for Scalar {
    fn from(value: Complex<f64>) -> Self {
        Self::Complex(value)
    }
}

/// A type that represents a group of element types exactly.
pub(super) trait Wide: Copy + Default + PartialEq + Into<Scalar> + 'static {
    /// The nearest element of another type, by the rules of [`Tensor::cast`](super::Tensor::cast).
    fn narrow<T: Widen>(self) -> T;

    /// One of the two neighbouring `f32`, from which a shorter float is rounded as if it were rounded from the number.
    fn to_odd(self) -> f32;

    /// The distance between two numbers; NaN if either is NaN.
    fn distance(self, other: Self) -> f64;

    /// The absolute value.
    fn magnitude(self) -> f64;

    /// True if the number or a part of it is NaN.
    fn is_nan(self) -> bool;
}

impl Wide for i64 {
    #[inline(always)]
    fn narrow<T: Widen>(self) -> T {
        T::from_integer(self)
    }
    #[inline(always)]
    fn to_odd(self) -> f32 {
        round_to_odd(jam(self))
    }
    fn distance(self, other: Self) -> f64 {
        self.abs_diff(other) as f64
    }
    fn magnitude(self) -> f64 {
        self.unsigned_abs() as f64
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Wide for f64 {
    #[inline(always)]
    fn narrow<T: Widen>(self) -> T {
        T::from_float(self)
    }
    #[inline(always)]
    fn to_odd(self) -> f32 {
        round_to_odd(self)
    }
    fn distance(self, other: Self) -> f64 {
        (self - other).abs()
    }
    fn magnitude(self) -> f64 {
        self.abs()
    }
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Wide for Complex<f64> {
    #[inline(always)]
    fn narrow<T: Widen>(self) -> T {
        T::from_complex(self)
    }
    #[inline(always)]
    fn to_odd(self) -> f32 {
        round_to_odd(self.re)
    }
    fn distance(self, other: Self) -> f64 {
        (self - other).norm()
    }
    fn magnitude(self) -> f64 {
        self.norm()
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
}

/// An element type with a lossless conversion to a [`Wide`] type, and rounding conversions from each of them.
pub(super) trait Widen: Element {
    type Wide: Wide;

    fn widen(self) -> Self::Wide;
    fn from_float(value: f64) -> Self;

    /// Converts by way of a float, which is exact enough for short floats.
    fn from_integer(value: i64) -> Self {
        Self::from_float(jam(value))
    }

    #[inline(always)]
    fn from_complex(value: Complex<f64>) -> Self {
        Self::from_float(value.re)
    }

    /// [`Widen::widen`] of all elements, up to the end of the shorter slice.
    fn widen_all(from: &[Self], to: &mut [Self::Wide]) {
        widest!(|| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen()));
    }

    /// [`Wide::narrow`] of all numbers, up to the end of the shorter slice.
    fn narrow_all<W: Wide>(from: &[W], to: &mut [Self]) {
        widest!(|| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.narrow()));
    }
}

macro_rules! widen_numbers {
    ($wide:ty: $($number:ty => |$value:ident| $from_float:expr),* $(,)?) => {$(
        impl Widen for $number {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                self.into()
            }
            #[inline(always)]
            fn from_integer(value: i64) -> Self {
                value as $number
            }
            #[inline(always)]
            fn from_float($value: f64) -> Self {
                $from_float
            }
        }
    )*};
}

widen_numbers! {
    i64:
    i64 => |value| truncated(value),
    i32 => |value| truncated_within(value, i32::MIN, i32::MAX),
    i16 => |value| truncated_within(value, i16::MIN.into(), i16::MAX.into()) as i16,
    i8 => |value| truncated_within(value, i8::MIN.into(), i8::MAX.into()) as i8,
    u8 => |value| truncated_within(value, u8::MIN.into(), u8::MAX.into()) as u8,
}
widen_numbers!(f64: f64 => |value| value, f32 => |value| value as f32);

/// `value as i64`, in a form that is vectorised: truncated and saturated, and 0 for NaN.
#[inline(always)]
fn truncated(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let value = if value.is_nan() { 0.0 } else { value };
    let within = if value < -END { -END } else { value };
    let within = if within >= END { 0.0 } else { within };
    // SAFETY: the number is in the range of i64, from -2⁶³ to below 2⁶³.
    let whole = unsafe { within.to_int_unchecked::<i64>() };
    if value >= END { i64::MAX } else { whole }
}

/// The number truncated and clamped to a range, and 0 for NaN; vectorised as [`truncated`] is.
#[inline(always)]
fn truncated_within(value: f64, low: i32, high: i32) -> i32 {
    let (low, high) = (f64::from(low), f64::from(high));
    let value = if value.is_nan() { 0.0 } else { value };
    let value = if value < low { low } else { value };
    let value = if value > high { high } else { value };
    // SAFETY: the number is in the range of i32.
    unsafe { value.to_int_unchecked::<i32>() }
}

/// Half-precision types, which round whole slices of `f32`.
macro_rules! widen_halves {
    ($($half:ty),*) => {$(
        impl Widen for $half {
            type Wide = f64;

            fn widen(self) -> f64 {
                self.into()
            }
            fn from_float(value: f64) -> Self {
                Self::from_f32(round_to_odd(value))
            }
            fn narrow_all<W: Wide>(from: &[W], to: &mut [Self]) {
                let mut odd = [0f32; CHUNK];
                for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
                    widest!(|| odd.iter_mut().zip(from).for_each(|(odd, from)| *odd = from.to_odd()));
                    Self::store_all(&odd[..from.len()], to);
                }
            }
        }
    )*};
}

widen_halves!(f16, bf16);

impl Widen for bool {
    type Wide = i64;

    #[inline(always)]
    fn widen(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn from_integer(value: i64) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_float(value: f64) -> Self {
        value != 0.0
    }
    fn from_complex(value: Complex<f64>) -> Self {
        value.re != 0.0 || value.im != 0.0
    }
}

impl<P: Widen<Wide = f64>> Widen for Complex<P>
where
    Complex<P>: Element,
{
    type Wide = Complex<f64>;

    fn widen(self) -> Complex<f64> {
        Complex::new(self.re.widen(), self.im.widen())
    }
    fn from_integer(value: i64) -> Self {
        Complex::new(P::from_integer(value), P::default())
    }
    fn from_float(value: f64) -> Self {
        Complex::new(P::from_float(value), P::default())
    }
    fn from_complex(value: Complex<f64>) -> Self {
        Complex::new(P::from_float(value.re), P::from_float(value.im))
    }
}

/// Rounds to one of the two neighbouring `f32` so that an inexact result has an odd last bit. Such a result is never
/// a tie for a shorter type, so rounding it again gives what rounding once would have given (Boldo and Melquiond,
/// "When double rounding is odd", 2005). Without branches, so that loops are vectorised.
#[inline(always)]
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let (bits, near_size, size) = (near.to_bits(), f64::from(near.abs()), value.abs());
    let is_final = !near.is_finite() | (near_size == size) | (bits & 1 == 1);
    let other = if size > near_size { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f32::from_bits(if is_final { bits } else { other })
}

/// Converts to `f64` with at most 53 significant bits, the last of which is a sticky bit for all discarded ones.
#[inline(always)]
fn jam(value: i64) -> f64 {
    const CUT: u64 = (1 << 11) - 1;
    let size = value.unsigned_abs();
    let jammed = if size >> 53 == 0 { size } else { (size & !CUT) | (u64::from(size & CUT != 0) << 11) };
    (jammed as f64).copysign(value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The nearest `f16` or `bf16`, found naively among the neighbours of a first guess.
    fn nearest<T: Widen>(value: f64, guess: u16, from_bits: fn(u16) -> T, to_f64: fn(T) -> f64) -> f64 {
        let around = guess.saturating_sub(2)..=guess + 2;
        let distance = |bits: &u16| (to_f64(from_bits(*bits)) - value).abs();
        let best = around.clone().map(|bits| distance(&bits)).fold(f64::INFINITY, f64::min);
        let mut ties: Vec<u16> = around.filter(|bits| distance(bits) == best).collect();
        ties.sort_by_key(|bits| bits & 1);
        to_f64(from_bits(ties[0]))
    }

    proptest! {
        #[test]
        fn short_floats_are_rounded_once(bits in 0u16..0x7bf0, step in -4i64..=4, shift in 0u32..53) {
            // Values at, and very close to, the ties between two short floats.
            let (low, high) = (f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
            let tie = (low + high) / 2.0;
            let value = tie + step as f64 * tie * 0.5f64.powi(shift as i32);
            if value > 0.0 && value < 60000.0 {
                let guess = f16::from_f32(value as f32).to_bits();
                let want = nearest(value, guess, f16::from_bits, f16::to_f64);
                prop_assert_eq!(f16::from_float(value).to_f64(), want, "{}", value);
                prop_assert_eq!(f16::from_float(-value).to_f64(), -want);
                let guess = bf16::from_f32(value as f32).to_bits();
                let want = nearest(value, guess, bf16::from_bits, bf16::to_f64);
                prop_assert_eq!(bf16::from_float(value).to_f64(), want, "{}", value);
            }
        }

        #[test]
        fn short_floats_round_trip(bits: u16) {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            if !half.is_nan() {
                prop_assert_eq!(f16::from_float(half.widen()).to_bits(), bits);
            }
            if !brain.is_nan() {
                prop_assert_eq!(bf16::from_float(brain.widen()).to_bits(), bits);
            }
            prop_assert_eq!(f16::from_float(half.widen()).is_nan(), half.is_nan());
        }
    }

    #[test]
    fn a_tie_that_a_second_rounding_would_move() {
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_float(above).to_f64(), 1.0 + 2f64.powi(-10));
        let tiny = f16::from_float(2f64.powi(-25) + 2f64.powi(-60));
        assert_eq!(tiny.to_bits(), 1);
        assert_eq!(f16::from_float(1e-300).to_bits(), 0);
        assert_eq!(f16::from_float(-1e-300).to_bits(), 0x8000);
        assert_eq!(bf16::from_float(f64::MAX), bf16::INFINITY);
        assert_eq!(bf16::from_float(3.39e38), bf16::MAX);
    }

    #[test]
    fn large_integers_are_rounded_once() {
        let above_tie = (1i64 << 62) + (1 << 54) + 1;
        assert_eq!(bf16::from_integer(above_tie).to_f64(), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(bf16::from_integer(-above_tie).to_f64(), -2f64.powi(62) - 2f64.powi(55));
        assert_eq!(bf16::from_integer((1 << 62) + (1 << 54)).to_f64(), 2f64.powi(62));
        assert_eq!(f16::from_integer(2049).to_f64(), 2048.0);
        assert_eq!(f16::from_integer(0).to_bits(), 0);
        assert_eq!(bf16::from_integer(i64::MIN).to_f64(), -2f64.powi(63));
    }

    #[test]
    fn scalars_format_as_short_text() {
        let texts = [
            Scalar::of(true),
            Scalar::of(-3i8),
            Scalar::of(0.1f64),
            Scalar::of(1e-7f64),
            Scalar::of(f32::NAN),
            Scalar::of(Complex::new(1.0f32, -2.5)),
            Scalar::of(Complex::new(f64::INFINITY, f64::NAN)),
        ]
        .map(|scalar| scalar.to_string());
        assert_eq!(texts, ["true", "-3", "0.1", "1e-7", "nan", "1-2.5j", "inf+nanj"]);
        assert_eq!(Scalar::of(0.1f32).text(DType::F32), "0.1");
        assert_eq!(Scalar::of(0.1f32).to_string(), "0.10000000149011612");
    }
}
