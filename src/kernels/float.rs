//! The two types that floating-point kernels compute in.

/// A type that kernels compute in: `f32` or `f64`. Half-precision tensors are computed through `f32`.
pub trait Float: num_traits::Float + num_traits::NumAssign + crate::tensor::Element + std::iter::Sum {
    /// The value of a constant or parameter in this type.
    fn of(value: f64) -> Self;
    /// The error function, accurate to one unit in the last place.
    fn erf(self) -> Self;
    /// The logarithm of the absolute value of the gamma function.
    fn lgamma(self) -> Self;
}

impl Float for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
    fn erf(self) -> Self {
        libm::erff(self)
    }
    fn lgamma(self) -> Self {
        libm::lgammaf(self)
    }
}

impl Float for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn erf(self) -> Self {
        libm::erf(self)
    }
    fn lgamma(self) -> Self {
        libm::lgamma(self)
    }
}
