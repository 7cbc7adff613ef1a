//! The activation functions of the gates in ONNX's recurrent networks.

use crate::op::{LayerError, Result};
use ixion_kernels::Float;

/// A function of one number. α and β come from the file, or are the operator's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    Relu,
    Tanh,
    Sigmoid,
    /// αx + β.
    Affine(f64, f64),
    /// x, or αx if x is negative.
    LeakyRelu(f64),
    /// x if x ≥ α, else 0.
    ThresholdedRelu(f64),
    /// α·tanh(βx).
    ScaledTanh(f64, f64),
    /// αx + β, clamped to 0..=1.
    HardSigmoid(f64, f64),
    /// x, or α(eˣ − 1) if x is negative.
    Elu(f64),
    Softsign,
    Softplus,
}

/// The α and β of a file that no function has taken yet.
pub(super) struct Factors<'a> {
    pub(super) alphas: std::slice::Iter<'a, f64>,
    pub(super) betas: std::slice::Iter<'a, f64>,
}

impl Factors<'_> {
    fn alpha(&mut self, default: f64) -> f64 {
        self.alphas.next().copied().unwrap_or(default)
    }

    fn both(&mut self, alpha: f64, beta: f64) -> (f64, f64) {
        (self.alpha(alpha), self.betas.next().copied().unwrap_or(beta))
    }
}

impl Function {
    /// The function with this name, in lower case. Each function takes as many factors as it has parameters.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if there is no function of this name.
    pub(super) fn named(name: &str, factors: &mut Factors<'_>) -> Result<Self> {
        let pair = |(alpha, beta): (f64, f64), of: fn(f64, f64) -> Self| of(alpha, beta);
        Ok(match name {
            "relu" => Self::Relu,
            "tanh" => Self::Tanh,
            "sigmoid" => Self::Sigmoid,
            "affine" => pair(factors.both(1.0, 0.0), Self::Affine),
            "leakyrelu" => Self::LeakyRelu(factors.alpha(0.01)),
            "thresholdedrelu" => Self::ThresholdedRelu(factors.alpha(1.0)),
            "scaledtanh" => pair(factors.both(1.0, 1.0), Self::ScaledTanh),
            "hardsigmoid" => pair(factors.both(0.2, 0.5), Self::HardSigmoid),
            "elu" => Self::Elu(factors.alpha(1.0)),
            "softsign" => Self::Softsign,
            "softplus" => Self::Softplus,
            name => {
                let reason = "not one of the functions that ONNX allows for gates";
                return Err(LayerError::invalid("activations", name, reason));
            }
        })
    }

    /// Applies the function to a number.
    pub(super) fn at<T: Float>(self, x: T) -> T {
        let (zero, one) = (T::zero(), T::one());
        match self {
            Self::Relu => positive(x),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => one / (one + (-x).exp()),
            Self::Affine(alpha, beta) => T::of(alpha) * x + T::of(beta),
            Self::LeakyRelu(alpha) if x < zero => T::of(alpha) * x,
            Self::LeakyRelu(_) => x,
            Self::ThresholdedRelu(alpha) if x < T::of(alpha) => zero,
            Self::ThresholdedRelu(_) => x,
            Self::ScaledTanh(alpha, beta) => T::of(alpha) * (T::of(beta) * x).tanh(),
            Self::HardSigmoid(alpha, beta) => {
                let line = positive(T::of(alpha) * x + T::of(beta));
                if line > one { one } else { line }
            }
            Self::Elu(alpha) if x < zero => T::of(alpha) * x.exp_m1(),
            Self::Elu(_) => x,
            Self::Softsign => x / (one + x.abs()),
            // ln(1 + eˣ), without overflow.
            Self::Softplus => positive(x) + (-x.abs()).exp().ln_1p(),
        }
    }
}

/// The larger of x and 0; NaN stays.
fn positive<T: Float>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}
