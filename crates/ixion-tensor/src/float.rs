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
    /// The value of a function that is written for each type.
    fn value_of<F: RealFunction<N>, const N: usize>(arguments: [Self; N]) -> Self;
}

/// A function of `N` real numbers, written for each type. Mark both methods `#[inline(always)]`.
///
/// A function that is passed as an argument instead is called through code of the compiler's, which it need not inline. In a
/// loop that is compiled for wide vectors, such a call is neither vectorised nor fused, and may be 20 times slower.
pub trait RealFunction<const N: usize> {
    /// The value for `f32`.
    fn single(arguments: [f32; N]) -> f32;
    /// The value for `f64`.
    fn double(arguments: [f64; N]) -> f64;
}

impl Float for f32 {
    #[inline(always)]
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
    fn value_of<F: RealFunction<N>, const N: usize>(arguments: [Self; N]) -> Self {
        F::single(arguments)
    }
}

impl Float for f64 {
    #[inline(always)]
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
    fn value_of<F: RealFunction<N>, const N: usize>(arguments: [Self; N]) -> Self {
        F::double(arguments)
    }
}
