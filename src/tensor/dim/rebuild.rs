//! Expressions over lengths, computed again by somebody else.

use super::sum::Term;
use super::{Dim, DimExpr};

/// An operation on two lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Mul,
    FloorDiv,
    CeilDiv,
    Max,
    Min,
}

impl Dim {
    /// What results when `leaf` says what numbers and symbols are, and `operate` computes.
    pub(crate) fn rebuild<T>(
        &self,
        leaf: &dyn Fn(Result<i64, &str>) -> T,
        operate: &dyn Fn(Operation, T, T) -> T,
    ) -> T {
        let expr = match self {
            Dim::Fixed(number) => return leaf(Ok(*number)),
            Dim::Symbolic(expr) => &**expr,
        };
        let both = |operation, left: &Dim, right: &Dim| {
            operate(operation, left.rebuild(leaf, operate), right.rebuild(leaf, operate))
        };
        let product = |term: &Term| {
            let factors = term.factors.iter().map(|factor| factor.rebuild(leaf, operate));
            factors.fold(leaf(Ok(term.coefficient)), |a, b| operate(Operation::Mul, a, b))
        };
        match expr {
            DimExpr::Symbol(name) => leaf(Err(name)),
            DimExpr::Sum(sum) => {
                let terms = sum.terms.iter().map(product);
                terms.fold(leaf(Ok(sum.constant)), |a, b| operate(Operation::Add, a, b))
            }
            DimExpr::FloorDiv(l, r) => both(Operation::FloorDiv, l, r),
            DimExpr::CeilDiv(l, r) => both(Operation::CeilDiv, l, r),
            DimExpr::Max(l, r) => both(Operation::Max, l, r),
            DimExpr::Min(l, r) => both(Operation::Min, l, r),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_is_built_again_is_the_same() {
        let (h, n) = (Dim::symbol("h"), Dim::symbol("n"));
        let pooled = (h.clone() * 2usize - 3 + n.clone()).floor_div(2);
        for dim in [pooled.clone(), pooled.max(n.clone()).min(h.clone()), h.ceil_div(n), Dim::Fixed(-4)] {
            let leaf = |leaf: Result<i64, &str>| leaf.map_or_else(Dim::symbol, Dim::Fixed);
            let operate = |operation, a: Dim, b: Dim| match operation {
                Operation::Add => a + b,
                Operation::Mul => a * b,
                Operation::FloorDiv => a.floor_div(b),
                Operation::CeilDiv => a.ceil_div(b),
                Operation::Max => a.max(b),
                Operation::Min => a.min(b),
            };
            assert_eq!(dim.rebuild(&leaf, &operate), dim);
        }
    }
}
