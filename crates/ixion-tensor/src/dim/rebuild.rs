//! Folding of expressions over lengths with caller-supplied operations.

use super::sum::Term;
use super::{Dim, DimExpr};

/// An operation on two lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The quotient rounded down.
    FloorDiv,
    /// The quotient rounded up.
    CeilDiv,
    /// The larger of the two.
    Max,
    /// The smaller of the two.
    Min,
}

/// A leaf of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// A number.
    Number(i64),
    /// The name of a symbol.
    Symbol(&'a str),
}

impl Dim {
    /// Folds the expression from the leaves up: `leaf` maps numbers and symbols, `operate` is called once for each
    /// operation.
    ///
    /// ```
    /// use ixion_tensor::Dim;
    /// use ixion_tensor::dim::Leaf;
    /// let dim = (Dim::symbol("h") + 1).floor_div(2);
    /// let leaf = |leaf: Leaf<'_>| match leaf {
    ///     Leaf::Number(number) => number.to_string(),
    ///     Leaf::Symbol(name) => name.to_owned(),
    /// };
    /// let text = dim.rebuild(&leaf, &|operation, left, right| format!("{operation:?}({left}, {right})"));
    /// assert_eq!(text, "FloorDiv(Add(1, Mul(1, h)), 2)");
    /// ```
    pub fn rebuild<T>(&self, leaf: &dyn Fn(Leaf<'_>) -> T, operate: &dyn Fn(Operation, T, T) -> T) -> T {
        let expr = match self {
            Dim::Fixed(number) => return leaf(Leaf::Number(*number)),
            Dim::Symbolic(expr) => &**expr,
        };
        let both = |operation, left: &Dim, right: &Dim| {
            operate(operation, left.rebuild(leaf, operate), right.rebuild(leaf, operate))
        };
        let product = |term: &Term| {
            let factors = term.factors.iter().map(|factor| factor.rebuild(leaf, operate));
            factors.fold(leaf(Leaf::Number(term.coefficient)), |a, b| operate(Operation::Mul, a, b))
        };
        match expr {
            DimExpr::Symbol(name) => leaf(Leaf::Symbol(name)),
            DimExpr::Sum(sum) => {
                let terms = sum.terms.iter().map(product);
                terms.fold(leaf(Leaf::Number(sum.constant)), |a, b| operate(Operation::Add, a, b))
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
    fn rebuilding_an_expression_preserves_it() {
        let (h, n) = (Dim::symbol("h"), Dim::symbol("n"));
        let pooled = (h.clone() * 2usize - 3 + n.clone()).floor_div(2);
        for dim in [pooled.clone(), pooled.max(n.clone()).min(h.clone()), h.ceil_div(n), Dim::Fixed(-4)] {
            assert_eq!(dim.replace(&|_| None), dim);
        }
    }
}
