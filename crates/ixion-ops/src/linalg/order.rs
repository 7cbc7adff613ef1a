//! The order of a norm, as in `torch.linalg`.

use crate::op::{FromParameter, RuntimeParameter};
#[cfg(feature = "linalg")]
use ixion_kernels::lapack;

/// The order of a norm of [`torch.linalg`](crate::reduction::along_axes::LinalgNorm).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// The square root of the sum of the squared elements of a matrix.
    Frobenius,
    /// The sum of the singular values of a matrix.
    Nuclear,
    /// A number, which may be infinite.
    Number(f64),
}

impl FromParameter for Order {
    const KIND: &'static str = "a number, fro or nuc";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        match parameter.raw() {
            "fro" => Some(Self::Frobenius),
            "nuc" => Some(Self::Nuclear),
            _ => parameter.as_f64().ok().map(Self::Number),
        }
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(match self {
            Self::Frobenius => "fro".into(),
            Self::Nuclear => "nuc".into(),
            Self::Number(order) => (*order).into(),
        })
    }
}

#[cfg(feature = "linalg")]
impl From<Order> for lapack::Norm {
    fn from(order: Order) -> Self {
        match order {
            Order::Frobenius => Self::Frobenius,
            Order::Nuclear => Self::Nuclear,
            Order::Number(p) => Self::Order(p),
        }
    }
}
