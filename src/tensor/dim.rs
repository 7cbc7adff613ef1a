//! Symbolic dimensions: axis lengths that may not be known until a model runs.
//!
//! A layer states its shape rule once, in [`Dim`] arithmetic. With numbers it gives numbers, with symbols it gives
//! an expression over them, so building and running follow the same rule.

use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An axis length: a number, or an expression over symbols.
///
/// Arithmetic saturates instead of overflowing; a saturated length is refused when a tensor of it is to be made.
///
/// ```
/// use ixion::tensor::Dim;
/// let height = Dim::symbol("h");
/// let pooled = (height - 3).floor_div(2) + 1;
/// assert_eq!(pooled.to_string(), "(h - 3) / 2 + 1");
/// assert_eq!(pooled.evaluate(&|_| Some(9)), Some(4));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known length (or, on the way to one, any integer).
    Fixed(i64),
    /// Not known yet.
    Symbolic(Arc<DimExpr>),
}

/// An expression over symbols; the inner nodes of a [`Dim`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DimExpr {
    /// A named unknown.
    Symbol(String),
    /// Sum of two.
    Add(Dim, Dim),
    /// Difference of two.
    Sub(Dim, Dim),
    /// Product of two.
    Mul(Dim, Dim),
    /// Quotient rounded towards minus infinity.
    FloorDiv(Dim, Dim),
    /// Quotient rounded towards plus infinity.
    CeilDiv(Dim, Dim),
    /// The larger of two.
    Max(Dim, Dim),
    /// The smaller of two.
    Min(Dim, Dim),
}

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

    /// Whether both lengths are known and not the same. Of unknown ones it is open.
    pub fn differs(&self, other: &Dim) -> bool {
        self.fixed().zip(other.fixed()).is_some_and(|(a, b)| a != b)
    }

    /// The quotient rounded down, as in the output size of a convolution. Dividing by zero gives zero.
    #[must_use]
    pub fn floor_div(self, divisor: impl Into<Dim>) -> Self {
        match (self, divisor.into()) {
            (dim, Dim::Fixed(1)) => dim,
            (left, right) => combine(DimExpr::FloorDiv, left, right),
        }
    }

    /// The quotient rounded up, as in a pooling with `ceil_mode`. Dividing by zero gives zero.
    #[must_use]
    pub fn ceil_div(self, divisor: impl Into<Dim>) -> Self {
        match (self, divisor.into()) {
            (dim, Dim::Fixed(1)) => dim,
            (left, right) => combine(DimExpr::CeilDiv, left, right),
        }
    }

    /// The larger of two lengths.
    #[must_use]
    pub fn max(self, other: impl Into<Dim>) -> Self {
        let other = other.into();
        if self == other { self } else { combine(DimExpr::Max, self, other) }
    }

    /// The smaller of two lengths.
    #[must_use]
    pub fn min(self, other: impl Into<Dim>) -> Self {
        let other = other.into();
        if self == other { self } else { combine(DimExpr::Min, self, other) }
    }

    /// The same with other lengths in the place of some symbols.
    #[must_use]
    pub fn replace(&self, value_of: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        let Dim::Symbolic(expr) = self else { return self.clone() };
        match &**expr {
            DimExpr::Symbol(name) => value_of(name).unwrap_or_else(|| self.clone()),
            DimExpr::Add(l, r) => l.replace(value_of) + r.replace(value_of),
            DimExpr::Sub(l, r) => l.replace(value_of) - r.replace(value_of),
            DimExpr::Mul(l, r) => l.replace(value_of) * r.replace(value_of),
            DimExpr::FloorDiv(l, r) => l.replace(value_of).floor_div(r.replace(value_of)),
            DimExpr::CeilDiv(l, r) => l.replace(value_of).ceil_div(r.replace(value_of)),
            DimExpr::Max(l, r) => l.replace(value_of).max(r.replace(value_of)),
            DimExpr::Min(l, r) => l.replace(value_of).min(r.replace(value_of)),
        }
    }

    /// The number that results when every symbol gets a value, or `None` if one has none.
    pub fn evaluate(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        match self {
            Dim::Fixed(value) => Some(*value),
            Dim::Symbolic(expr) => expr.evaluate(value_of),
        }
    }
}

impl DimExpr {
    fn evaluate(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let (left, right) = match self {
            DimExpr::Symbol(name) => return value_of(name),
            DimExpr::Add(l, r)
            | DimExpr::Sub(l, r)
            | DimExpr::Mul(l, r)
            | DimExpr::FloorDiv(l, r)
            | DimExpr::CeilDiv(l, r)
            | DimExpr::Max(l, r)
            | DimExpr::Min(l, r) => (l.evaluate(value_of)?, r.evaluate(value_of)?),
        };
        Some(self.apply(left, right))
    }

    /// The operation of this node on two numbers.
    fn apply(&self, left: i64, right: i64) -> i64 {
        match self {
            DimExpr::Symbol(_) => left,
            DimExpr::Add(..) => left.saturating_add(right),
            DimExpr::Sub(..) => left.saturating_sub(right),
            DimExpr::Mul(..) => left.saturating_mul(right),
            DimExpr::FloorDiv(..) => floor_div(left, right),
            DimExpr::CeilDiv(..) => floor_div(left.saturating_neg(), right).saturating_neg(),
            DimExpr::Max(..) => left.max(right),
            DimExpr::Min(..) => left.min(right),
        }
    }
}

fn floor_div(left: i64, right: i64) -> i64 {
    match left.checked_div(right) {
        None if right == 0 => 0,
        None => i64::MAX,
        Some(quotient) if left % right != 0 && (left < 0) != (right < 0) => quotient - 1,
        Some(quotient) => quotient,
    }
}

/// Builds a node, or its value when both sides are known.
fn combine(make: fn(Dim, Dim) -> DimExpr, left: Dim, right: Dim) -> Dim {
    let both = left.fixed().zip(right.fixed());
    let node = make(left, right);
    match both {
        Some((left, right)) => Dim::Fixed(node.apply(left, right)),
        None => Dim::Symbolic(Arc::new(node)),
    }
}

impl<T: Into<Dim>> Add<T> for Dim {
    type Output = Dim;

    fn add(self, other: T) -> Dim {
        match (self, other.into()) {
            (dim, Dim::Fixed(0)) | (Dim::Fixed(0), dim) => dim,
            (left, right) => combine(DimExpr::Add, left, right),
        }
    }
}

impl<T: Into<Dim>> Sub<T> for Dim {
    type Output = Dim;

    fn sub(self, other: T) -> Dim {
        match (self, other.into()) {
            (dim, Dim::Fixed(0)) => dim,
            (left, right) if left == right => Dim::Fixed(0),
            (left, right) => combine(DimExpr::Sub, left, right),
        }
    }
}

impl<T: Into<Dim>> Mul<T> for Dim {
    type Output = Dim;

    fn mul(self, other: T) -> Dim {
        match (self, other.into()) {
            (dim, Dim::Fixed(1)) | (Dim::Fixed(1), dim) => dim,
            (Dim::Fixed(0), _) | (_, Dim::Fixed(0)) => Dim::Fixed(0),
            (left, right) => combine(DimExpr::Mul, left, right),
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

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(value) => f.pad(&value.to_string()),
            Dim::Symbolic(expr) => f.pad(&expr.to_string()),
        }
    }
}

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |dim: &Dim| match dim {
            Dim::Symbolic(expr) if matches!(**expr, DimExpr::Add(..) | DimExpr::Sub(..)) => {
                format!("({expr})")
            }
            _ => dim.to_string(),
        };
        let term = |dim: &Dim| match dim {
            Dim::Symbolic(expr) if !matches!(**expr, DimExpr::Symbol(_)) => format!("({expr})"),
            _ => dim.to_string(),
        };
        match self {
            DimExpr::Symbol(name) => f.write_str(name),
            DimExpr::Add(l, r) => write!(f, "{l} + {r}"),
            DimExpr::Sub(l, r) => write!(f, "{l} - {}", factor(r)),
            DimExpr::Mul(l, r) => write!(f, "{} * {}", factor(l), term(r)),
            DimExpr::FloorDiv(l, r) => write!(f, "{} / {}", factor(l), term(r)),
            DimExpr::CeilDiv(l, r) => write!(f, "ceil({} / {})", factor(l), term(r)),
            DimExpr::Max(l, r) => write!(f, "max({l}, {r})"),
            DimExpr::Min(l, r) => write!(f, "min({l}, {r})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_fold_and_identities_vanish() {
        let n = Dim::symbol("n");
        assert_eq!(Dim::from(7usize).floor_div(2) + 1, 4i64);
        assert_eq!(Dim::from(7usize).ceil_div(2), 4i64);
        assert_eq!(n.clone() + 0 - 0, n.clone() * 1);
        assert_eq!(n.clone() - n.clone(), 0i64);
        assert_eq!(n.clone() * Dim::Fixed(0), 0i64);
        assert_eq!(n.clone().max(n.clone()), n);
        assert_ne!(Dim::fresh("n"), Dim::fresh("n"));
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Dim::Fixed(i64::MAX) + 1, i64::MAX);
        assert_eq!(Dim::Fixed(i64::MIN).floor_div(-1), i64::MAX);
        assert_eq!(Dim::Fixed(5).floor_div(0), 0i64);
        assert_eq!(Dim::from(usize::MAX), i64::MAX);
    }

    #[test]
    fn expressions_print_as_one_would_write_them() {
        let (a, b) = (Dim::symbol("a"), Dim::symbol("b"));
        assert_eq!(((a.clone() + b.clone()) * 2).to_string(), "(a + b) * 2");
        assert_eq!((a.clone() - (b.clone() - 1)).to_string(), "a - (b - 1)");
        assert_eq!(a.clone().floor_div(b.clone() * 2).to_string(), "a / (b * 2)");
        assert_eq!((a.min(b) + 1).ceil_div(2).to_string(), "ceil((min(a, b) + 1) / 2)");
    }

    proptest! {
        #[test]
        fn symbols_and_numbers_follow_the_same_rule(x in 0i64..100, k in 1i64..8, s in 1i64..5, p in 0i64..4) {
            let rule = |x: Dim| (x + 2 * p - k).floor_div(s) + 1;
            let ceil = |x: Dim| (x + 2 * p - k).ceil_div(s).max(0);
            prop_assert_eq!(rule(Dim::symbol("x")).evaluate(&|_| Some(x)), rule(x.into()).fixed());
            prop_assert_eq!(ceil(Dim::symbol("x")).evaluate(&|_| Some(x)), ceil(x.into()).fixed());
            prop_assert_eq!(rule(x.into()).fixed(), Some((x + 2 * p - k).div_euclid(s) + 1));
        }
    }
}
