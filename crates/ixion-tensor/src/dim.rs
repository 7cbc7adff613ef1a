//! Symbolic dimensions: axis lengths that may not be known until a model runs.
//!
//! A layer states its shape rule once, in [`Dim`] arithmetic. With numbers it gives numbers, with symbols it gives
//! an expression over them, so building and running follow the same rule.
//!
//! Expressions are kept in a normal form, so that what is equal is seen to be equal: `n * 4 / 4` is `n`, and two
//! convolutions of stride 2 halve as one of stride 4 does. A symbol stands for a length, so it is never negative; and
//! what cancels in a quotient is taken not to be zero, as in `x.reshape(h * w, -1)`.

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
/// Arithmetic saturates instead of overflowing; a saturated length is refused when a tensor of it is to be made. An
/// expression that becomes too long to keep is an unknown of its own.
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
    /// A known length (or, on the way to one, any integer).
    Fixed(i64),
    /// Not known yet.
    Symbolic(Arc<DimExpr>),
}

/// An expression over symbols in its normal form; made by the arithmetic of [`Dim`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DimExpr {
    /// A named unknown.
    Symbol(String),
    /// A sum of products.
    Sum(DimSum),
    /// Quotient rounded towards minus infinity.
    FloorDiv(Dim, Dim),
    /// Quotient rounded towards plus infinity, of a divisor that is not a number.
    CeilDiv(Dim, Dim),
    /// The larger of two.
    Max(Dim, Dim),
    /// The smaller of two.
    Min(Dim, Dim),
}

/// The most symbols, numbers and operations of one expression.
const MAX_WEIGHT: usize = 256;

impl Dim {
    /// An unknown length of this name.
    pub fn symbol(name: impl Into<String>) -> Self {
        Dim::Symbolic(Arc::new(DimExpr::Symbol(name.into())))
    }

    /// An unknown length that equals no other, such as the number of elements that a mask takes. Its name has a `#`.
    pub fn fresh(name: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(1);
        Self::symbol(format!("{name}#{}", MADE.fetch_add(1, Ordering::Relaxed)))
    }

    /// The number, where it is known.
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

    /// Whether both lengths are known to be different. Of unknown ones it may be open.
    pub fn differs(&self, other: &Dim) -> bool {
        match (self, other) {
            (Dim::Fixed(a), Dim::Fixed(b)) => a != b,
            _ => (self.clone() - other.clone()).fixed().is_some_and(|difference| difference != 0),
        }
    }

    /// Whether it can be seen that this is never negative.
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
            (left, right) => symmetric(DimExpr::Max, left, right),
        }
    }

    /// The smaller of two lengths.
    #[must_use]
    pub fn min(self, other: impl Into<Dim>) -> Self {
        match (self, other.into()) {
            (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(left.min(right)),
            (left, right) if bounds::is_at_least(&left, &right) => right,
            (left, right) if bounds::is_at_least(&right, &left) => left,
            (left, right) => symmetric(DimExpr::Min, left, right),
        }
    }

    /// The same with other lengths in the place of some symbols.
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

    /// The number that results when every symbol gets a value, or `None` if one has none; see [`evaluate`].
    pub fn evaluate(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        evaluate(self, value_of)
    }

    /// How many symbols, numbers and operations it is made of.
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

/// An expression as a length; one that is too long is forgotten, so that no graph makes them grow without end.
fn symbolic(expr: DimExpr) -> Dim {
    let dim = Dim::Symbolic(Arc::new(expr));
    if dim.weight() <= MAX_WEIGHT { dim } else { Dim::fresh("long") }
}

/// A node whose sides may be exchanged, the lesser first, which is the number if there is one. Of two numbers in nested
/// nodes one is left.
fn symmetric(make: fn(Dim, Dim) -> DimExpr, left: Dim, right: Dim) -> Dim {
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

/// As it is displayed: lists of lengths stand in messages as `[2, n]`.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
