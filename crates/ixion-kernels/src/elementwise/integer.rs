//! Functions of integers and bools, computed in `i16`, `i32` or `i64`. Results are wrapped to the element type afterwards,
//! which makes no difference to where they are computed: what a narrower type cannot hold wraps around in the same way.

use super::{Operand, undefined};
use crate::widest;
use ixion_tensor::{Element, Function, Result, TensorError};
use num_traits::{PrimInt, Signed, WrappingAdd, WrappingMul, WrappingNeg, WrappingSub};

/// A type that integers are computed in.
pub(super) trait Integer:
    Element + PrimInt + Signed + WrappingAdd + WrappingSub + WrappingMul + WrappingNeg
{
    /// The largest result of `relu6`.
    const SIX: Self;

    /// Shifts to the left. A shift by too many bits or by a negative number gives 0.
    fn shifted_left(self, bits: Self) -> Self;

    /// Shifts to the right. As in PyTorch, a shift by too many bits or by a negative number shifts out all bits but the
    /// sign.
    fn shifted_right(self, bits: Self) -> Self;
}

macro_rules! integers {
    ($($number:ident)*) => {$(
        impl Integer for $number {
            const SIX: Self = 6;

            #[inline(always)]
            fn shifted_left(self, bits: Self) -> Self {
                if (0..$number::BITS as $number).contains(&bits) { self.wrapping_shl(bits as u32) } else { 0 }
            }

            #[inline(always)]
            fn shifted_right(self, bits: Self) -> Self {
                let most = $number::BITS as $number - 1;
                self >> if (0..most).contains(&bits) { bits } else { most }
            }
        }
    )*};
}

integers! { i16 i32 i64 }

pub(super) fn apply<T: Integer>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    widest!(|| apply_here(function, a, b, out))
}

#[inline(always)]
fn apply_here<T: Integer>(
    function: Function,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    out: &mut [T],
) -> Result<()> {
    use Function as F;
    let zero = T::zero();
    match function {
        F::Abs => a.map(out, |a| if a < zero { a.wrapping_neg() } else { a }),
        F::Neg => a.map(out, |a| a.wrapping_neg()),
        F::Sign => a.map(out, |a| a.signum()),
        F::Relu => a.map(out, |a| a.max(zero)),
        F::Relu6 => a.map(out, |a| a.max(zero).min(T::SIX)),
        F::Square => a.map(out, |a| a.wrapping_mul(&a)),
        F::Add => a.zip(b, out, |a, b| a.wrapping_add(&b)),
        F::Sub => a.zip(b, out, |a, b| a.wrapping_sub(&b)),
        F::Mul => a.zip(b, out, |a, b| a.wrapping_mul(&b)),
        F::FloorDivide | F::Remainder | F::Fmod => return divide(function, a, b, out),
        F::Pow => return power(a, b, out),
        F::Max | F::Maximum => a.zip(b, out, |a, b| a.max(b)),
        F::Min | F::Minimum => a.zip(b, out, |a, b| a.min(b)),
        F::And => a.zip(b, out, |a, b| a & b),
        F::Or => a.zip(b, out, |a, b| a | b),
        F::Xor => a.zip(b, out, |a, b| a ^ b),
        F::Lshift => a.zip(b, out, T::shifted_left),
        F::Rshift => a.zip(b, out, T::shifted_right),
        _ => return Err(undefined(function, T::DTYPE)),
    }
    Ok(())
}

#[inline(always)]
fn divide<T: Integer>(function: Function, a: Operand<'_, T>, b: Operand<'_, T>, out: &mut [T]) -> Result<()> {
    if b.any(|b| b == T::zero()) {
        return Err(TensorError::DivisionByZero { operation: function.name() });
    }
    match function {
        Function::FloorDivide => a.zip(b, out, floor_divide),
        Function::Remainder => a.zip(b, out, |a, b| a.wrapping_sub(&floor_divide(a, b).wrapping_mul(&b))),
        _ => a.zip(b, out, |a, b| quotient_and_rest(a, b).1),
    }
    Ok(())
}

/// The quotient, rounded towards 0, and the rest. The smallest number divided by -1 wraps around.
#[inline(always)]
fn quotient_and_rest<T: Integer>(a: T, b: T) -> (T, T) {
    if b == -T::one() { (a.wrapping_neg(), T::zero()) } else { (a / b, a % b) }
}

#[inline(always)]
fn floor_divide<T: Integer>(a: T, b: T) -> T {
    let (quotient, rest) = quotient_and_rest(a, b);
    if rest != T::zero() && (a < T::zero()) != (b < T::zero()) { quotient - T::one() } else { quotient }
}

fn power<T: Integer>(base: Operand<'_, T>, exponent: Operand<'_, T>, out: &mut [T]) -> Result<()> {
    let (zero, one) = (T::zero(), T::one());
    if let Operand::Uniform(exponent) = exponent
        && exponent < zero
    {
        return Err(TensorError::InvalidArgument(format!(
            "pow: an integer raised to the negative power {exponent} is not an integer; write the base as a float"
        )));
    }
    base.zip(exponent, out, |base, exponent| match base {
        _ if exponent >= zero => wrapping_power(base, exponent),
        base if base == one => one,
        base if base == -one => one - ((exponent & one) << 1),
        _ => zero,
    });
    Ok(())
}

/// Exponentiation by squaring, modulo a power of two.
fn wrapping_power<T: Integer>(mut base: T, mut exponent: T) -> T {
    let mut power = T::one();
    while exponent > T::zero() {
        if exponent & T::one() == T::one() {
            power = power.wrapping_mul(&base);
        }
        base = base.wrapping_mul(&base);
        exponent = exponent >> 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::*;
    use proptest::prelude::*;

    const FUNCTIONS: [Function; 20] = [
        Function::Abs,
        Function::Neg,
        Function::Sign,
        Function::Relu,
        Function::Relu6,
        Function::Square,
        Function::Add,
        Function::Sub,
        Function::Mul,
        Function::FloorDivide,
        Function::Remainder,
        Function::Fmod,
        Function::Pow,
        Function::Maximum,
        Function::Minimum,
        Function::And,
        Function::Or,
        Function::Xor,
        Function::Lshift,
        Function::Rshift,
    ];

    fn computed<T: Integer>(function: Function, a: &[T], b: &[T]) -> Option<Vec<T>> {
        let mut out = vec![T::default(); a.len()];
        apply(function, Operand::Block(a), Operand::Block(b), &mut out).ok()?;
        Some(out)
    }

    /// Compares all functions of pairs with those of a wider type, whose results are wrapped.
    fn compare<T: Integer + Number, W: Integer + Number + From<T>>(pairs: impl IntoIterator<Item = (T, T)>) {
        let (a, b): (Vec<T>, Vec<T>) = pairs.into_iter().unzip();
        let wide = |numbers: &[T]| numbers.iter().map(|&x| x.into()).collect::<Vec<W>>();
        let wrapped = |numbers: Vec<W>| numbers.into_iter().map(|x| x.to::<T>()).collect::<Vec<T>>();
        for function in FUNCTIONS.into_iter().chain([Function::Lshift]) {
            let want = computed(function, &wide(&a), &wide(&b)).map(wrapped);
            assert_eq!(computed(function, &a, &b), want, "{function:?}");
        }
    }

    proptest! {
        #[test]
        fn narrow_results_are_wide_ones_that_wrap(
            numbers in proptest::collection::vec((any::<i32>(), 1..i32::MAX), 1..40),
            shorts in proptest::collection::vec((any::<i16>(), 1..i16::MAX), 1..40),
            small in proptest::collection::vec((-9i16..9, prop_oneof![-40i16..0, 1i16..70]), 1..40),
        ) {
            let ends = [(i32::MIN, -1), (i32::MIN, 1), (i32::MAX, -1), (-1, -3), (1, -2), (5, 31), (5, 32), (-5, 33)];
            let longer = small.iter().map(|&(a, b)| (i32::from(a), i32::from(b)));
            compare::<i32, i64>(numbers.into_iter().chain(longer).chain(ends));
            let ends = [(i16::MIN, -1), (i16::MIN, 1), (i16::MAX, -1), (-1, -3), (1, -2), (5, 15), (5, 16), (-5, 17)];
            compare::<i16, i32>(shorts.into_iter().chain(small).chain(ends));
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let apply = |function, a: i64, b: i64| computed(function, &[a], &[b]).map(|values| values[0]);
        assert_eq!(apply(Function::FloorDivide, i64::MIN, -1), Some(i64::MIN));
        assert_eq!(apply(Function::Fmod, i64::MIN, -1), Some(0));
        assert_eq!(apply(Function::Abs, i64::MIN, 0), Some(i64::MIN));
        assert_eq!(apply(Function::Rshift, -5, 64), Some(-1));
        assert_eq!(apply(Function::Lshift, -5, -1), Some(0));
        assert_eq!([apply(Function::Remainder, 7, 0), apply(Function::Sin, 1, 1)], [None, None]);
    }
}
