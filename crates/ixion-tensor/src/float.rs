//! The two computation types of floating-point kernels.

/// A type that kernels compute in: `f32` or `f64`. Half-precision tensors are computed in `f32`.
pub trait Float: num_traits::Float + num_traits::NumAssign + crate::Element + std::iter::Sum {
    /// The value of a constant or parameter in this type.
    fn of(value: f64) -> Self;
    /// The nearest integer, ties to even.
    fn round_half_even(self) -> Self;
    /// The logarithm of the absolute value of the gamma function.
    fn lgamma(self) -> Self;
    /// The inverse hyperbolic sine, without intermediate overflow.
    fn arsinh(self) -> Self;
    /// The inverse hyperbolic cosine, without intermediate overflow.
    fn arcosh(self) -> Self;
    /// Applies a function in the type itself: `single` for `f32`, `double` for `f64`.
    fn natively(self, single: impl Fn(f32) -> f32, double: impl Fn(f64) -> f64) -> Self;
    /// Applies a function in `f64` for both types: `single` for `f32`, whose result is rounded, `double` for `f64`.
    fn through(self, single: impl Fn(f64) -> f64, double: impl Fn(f64) -> f64) -> Self;
    /// As [`through`](Self::through), for two arguments.
    fn through_with(
        self,
        other: Self,
        single: impl Fn(f64, f64) -> f64,
        double: impl Fn(f64, f64) -> f64,
    ) -> Self;
}

impl Float for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn round_half_even(self) -> Self {
        self.round_ties_even()
    }
    fn lgamma(self) -> Self {
        libm::lgammaf(self)
    }
    fn arsinh(self) -> Self {
        libm::asinhf(self)
    }
    fn arcosh(self) -> Self {
        if self < 1.0 { Self::NAN } else { libm::acoshf(self) }
    }
    #[inline(always)]
    fn natively(self, single: impl Fn(f32) -> f32, _: impl Fn(f64) -> f64) -> Self {
        single(self)
    }
    #[inline(always)]
    fn through(self, single: impl Fn(f64) -> f64, _: impl Fn(f64) -> f64) -> Self {
        single(self.into()) as f32
    }
    #[inline(always)]
    fn through_with(
        self,
        other: Self,
        single: impl Fn(f64, f64) -> f64,
        _: impl Fn(f64, f64) -> f64,
    ) -> Self {
        single(self.into(), other.into()) as f32
    }
}

impl Float for f64 {
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn round_half_even(self) -> Self {
        self.round_ties_even()
    }
    fn lgamma(self) -> Self {
        libm::lgamma(self)
    }
    fn arsinh(self) -> Self {
        libm::asinh(self)
    }
    fn arcosh(self) -> Self {
        if self < 1.0 { Self::NAN } else { libm::acosh(self) }
    }
    #[inline(always)]
    fn natively(self, _: impl Fn(f32) -> f32, double: impl Fn(f64) -> f64) -> Self {
        double(self)
    }
    #[inline(always)]
    fn through(self, _: impl Fn(f64) -> f64, double: impl Fn(f64) -> f64) -> Self {
        double(self)
    }
    #[inline(always)]
    fn through_with(
        self,
        other: Self,
        _: impl Fn(f64, f64) -> f64,
        double: impl Fn(f64, f64) -> f64,
    ) -> Self {
        double(self, other)
    }
}
