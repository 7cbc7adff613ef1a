//! Symbolic dimensions: axis lengths that may be unknown until a model runs.
//!
//! A layer states its shape rule once, in [`Dim`] arithmetic. Applied to numbers it yields numbers, applied to symbols
//! an expression over them, so building and running follow the same rule.
//!
//! Expressions are kept in a normal form, so that equal expressions compare equal: `n * 4 / 4` is `n`, and two
//! convolutions of stride 2 give the same length as one of stride 4. A symbol represents a length, so it is never
//! negative; a factor that cancels in a quotient is assumed to be nonzero, as in `x.reshape(h * w, -1)`.

mod bounds;
mod display;
mod rebuild;
mod sum;
mod value;

pub use rebuild::{Leaf, Operation};
pub use sum::DimSum;
pub use value::{ceil_div, compute, evaluate, floor_div};

use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An axis length: a number, or an expression over symbols.
///
/// Arithmetic saturates instead of overflowing; creating a tensor with a saturated length is an error. An expression
/// that grows too long is replaced by a fresh unknown.
///
/// ```
/// use ixion_tensor::Dim;
/// let height = Dim::symbol("h");
/// let pooled = (height + 2 - 3).floor_div(2) + 1;
/// assert_eq!(pooled.to_string(), "(h + 1) / 2");
/// assert_eq!(pooled.evaluate(&|_| Some(9)), Some(5));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A known length, or any integer as an intermediate result.
    Fixed(i64),
    /// A length that is not known yet.
    Symbolic(Arc<DimExpr>),
}

/// An expression over symbols in its normal form, built by [`Dim`] arithmetic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DimExpr {
    /// A named unknown.
    Symbol(String),
    /// A sum of products.
    Sum(DimSum),
    /// Quotient rounded towards minus infinity.
    FloorDiv(Dim, Dim),
    /// Quotient rounded towards plus infinity; the divisor is not a constant.
    CeilDiv(Dim, Dim),
    /// The larger of two lengths.
    Max(Dim, Dim),
    /// The smaller of two lengths.
    Min(Dim, Dim),
}

/// The maximum number of symbols, numbers and operations in one expression.
const MAX_WEIGHT: usize = 256;

impl Dim {
    /// An unknown length with the given name.
    pub fn symbol(name: impl Into<String>) -> Self {
        Dim::Symbolic(Arc::new(DimExpr::Symbol(name.into())))
    }

    /// An unknown length distinct from all others, such as the number of elements that a mask selects. A `#` and a
    /// counter are appended to its name.
    pub fn fresh(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::symbol(format!("{name}#{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The length if it is a known number.
    pub fn fixed(&self) -> Option<i64> {
        match self {
            Dim::Fixed(value) => Some(*value),
            Dim::Symbolic(_) => None,
        }
    }

    fn expr(&self) -> Option<&DimExpr> {
        match self {
            Dim::Fixed(_) => None,
            Dim::Symbolic(expr) => Some(expr),
        }
    }

    /// Returns true if the lengths are known to differ. False does not imply that they are equal.
    pub fn differs(&self, other: &Dim) -> bool {
        match (self, other) {
            (Dim::Fixed(a), Dim::Fixed(b)) => a != b,
            _ => (self.clone() - other.clone()).fixed().is_some_and(|difference| difference != 0),
        }
    }

    /// Returns true if this can be shown never to be negative.
    pub fn is_natural(&self) -> bool {
        self.at_least() >= 0
    }

    /// The quotient rounded down, as in the output size of a convolution. Dividing by zero gives zero.
    #[must_use]
    pub fn floor_div(self, divisor: impl Into<Dim>) -> Self {
        match (self, divisor.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(floor_div(left, right)),
            (left, right) => sum::floor_div(left, right),
        }
    }

    /// The quotient rounded up, as in a pooling with `ceil_mode`. Dividing by zero gives zero.
    #[must_use]
    pub fn ceil_div(self, divisor: impl Into<Dim>) -> Self {
        match (self, divisor.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(ceil_div(left, right)),
            (left, right) => sum::ceil_div(left, right),
        }
    }

    /// The larger of two lengths.
    #[must_use]
    pub fn max(self, other: impl Into<Dim>) -> Self {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.max(right)),
            (left, right) if bounds::is_at_least(&left, &right) => left,
            (left, right) if bounds::is_at_least(&right, &left) => right,
            (left, right) => commutative(DimExpr::Max, left, right),
        }
    }

    /// The smaller of two lengths.
    #[must_use]
    pub fn min(self, other: impl Into<Dim>) -> Self {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.min(right)),
            (left, right) if bounds::is_at_least(&left, &right) => right,
            (left, right) if bounds::is_at_least(&right, &left) => left,
            (left, right) => commutative(DimExpr::Min, left, right),
        }
    }

    /// Substitutes lengths for symbols; a symbol for which `value_of` returns `None` is kept.
    #[must_use]
    pub fn replace(&self, value_of: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        match self.expr() {
            None => return self.clone(),
            Some(DimExpr::Symbol(name)) => return value_of(name).unwrap_or_else(|| self.clone()),
            Some(_) => {}
        }
        let leaf = |leaf: Leaf<'_>| match leaf {
            Leaf::Number(number) => Dim::Fixed(number),
            Leaf::Symbol(name) => value_of(name).unwrap_or_else(|| Dim::symbol(name)),
        };
        let operate = |operation, left: Dim, right: Dim| match operation {
            Operation::Add => left + right,
            Operation::Mul => left * right,
            Operation::FloorDiv => left.floor_div(right),
            Operation::CeilDiv => left.ceil_div(right),
            Operation::Max => left.max(right),
            Operation::Min => left.min(right),
        };
        self.rebuild(&leaf, &operate)
    }

    /// The value with every symbol replaced by a number, or `None` if a symbol has no value; see [`evaluate`].
    pub fn evaluate(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        evaluate(self, value_of)
    }

    /// The number of symbols, numbers and operations in the expression.
    fn weight(&self) -> usize {
        match self.expr() {
            None | Some(DimExpr::Symbol(_)) => 1,
            Some(DimExpr::Sum(sum)) => sum.weight(),
            Some(
                DimExpr::FloorDiv(l, r) | DimExpr::CeilDiv(l, r) | DimExpr::Max(l, r) | DimExpr::Min(l, r),
            ) => 1 + l.weight() + r.weight(),
        }
    }
}

/// An expression as a length. If it is too long, it becomes a fresh symbol, so that expressions cannot grow without bound.
fn symbolic(expr: DimExpr) -> Dim {
    let dim = Dim::Symbolic(Arc::new(expr));
    if dim.weight() <= MAX_WEIGHT { dim } else { Dim::fresh("long") }
}

/// A commutative node, operands sorted: a number comes first. The numbers of two nested nodes are folded into one.
fn commutative(make: fn(Dim, Dim) -> DimExpr, left: Dim, right: Dim) -> Dim {
    let (left, right) = if left <= right { (left, right) } else { (right, left) };
    match (make(left.clone(), right.clone()), right.expr()) {
        (DimExpr::Max(Dim::Fixed(a), _), Some(DimExpr::Max(Dim::Fixed(b), inner))) => {
            inner.clone().max(Dim::Fixed(a.max(*b)))
        }
        (DimExpr::Min(Dim::Fixed(a), _), Some(DimExpr::Min(Dim::Fixed(b), inner))) => {
            inner.clone().min(Dim::Fixed(a.min(*b)))
        }
        (node, _) => symbolic(node),
    }
}

impl<T: Into<Dim>> Add<T> for Dim {
    type Output = Dim;

    fn add(self, other: T) -> Dim {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.saturating_add(right)),
            (dim, Dim::Fixed(0)) | (Dim::Fixed(0), dim) => dim,
            (left, right) => DimSum::from(left).plus(DimSum::from(right)).into(),
        }
    }
}

impl<T: Into<Dim>> Sub<T> for Dim {
    type Output = Dim;

    fn sub(self, other: T) -> Dim {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.saturating_sub(right)),
            (dim, Dim::Fixed(0)) => dim,
            (left, right) if left == right => Dim::Fixed(0),
            (left, right) => DimSum::from(left).plus(DimSum::from(right).scaled(-1)).into(),
        }
    }
}

impl<T: Into<Dim>> Mul<T> for Dim {
    type Output = Dim;

    fn mul(self, other: T) -> Dim {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.saturating_mul(right)),
            (dim, Dim::Fixed(1)) | (Dim::Fixed(1), dim) => dim,
            (left, right) => DimSum::from(left).times(DimSum::from(right)).into(),
        }
    }
}

macro_rules! from_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Dim {
            fn from(value: $number) -> Dim {
                Dim::Fixed(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }
        impl PartialEq<$number> for Dim {
            fn eq(&self, other: &$number) -> bool {
                self.fixed() == Dim::from(*other).fixed()
            }
        }
    )*};
}

from_numbers!(i64, i32, usize);

/// Same as `Display`, so that lists of lengths appear in messages as `[2, n]`.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
