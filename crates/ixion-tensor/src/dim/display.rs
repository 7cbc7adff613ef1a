//! Formats expressions as one would write them by hand.

use super::sum::{DimSum, Term};
use super::{Dim, DimExpr};
use std::fmt;

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
        match self {
            DimExpr::Symbol(name) => f.write_str(name),
            DimExpr::Sum(sum) => write!(f, "{sum}"),
            DimExpr::FloorDiv(l, r) => write!(f, "{} / {}", numerator(l), r.to_factor()),
            DimExpr::CeilDiv(l, r) => write!(f, "ceil({} / {})", numerator(l), r.to_factor()),
            DimExpr::Max(l @ Dim::Fixed(_), r) => write!(f, "max({r}, {l})"),
            DimExpr::Max(l, r) => write!(f, "max({l}, {r})"),
            DimExpr::Min(l @ Dim::Fixed(_), r) => write!(f, "min({r}, {l})"),
            DimExpr::Min(l, r) => write!(f, "min({l}, {r})"),
        }
    }
}

/// A numerator: sums in parentheses, products without.
fn numerator(dim: &Dim) -> String {
    match dim.expr() {
        Some(DimExpr::Sum(sum)) if sum.terms.len() + usize::from(sum.constant != 0) > 1 => format!("({dim})"),
        _ => dim.to_string(),
    }
}

impl Dim {
    /// The text as an operand of another operation: sums, products and quotients in parentheses.
    pub fn to_factor(&self) -> String {
        match self.expr() {
            Some(DimExpr::Sum(_) | DimExpr::FloorDiv(..)) => format!("({self})"),
            _ => self.to_string(),
        }
    }
}

/// Positive terms first, then negative ones.
impl fmt::Display for DimSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constant =
            (self.constant != 0).then(|| (self.constant < 0, self.constant.unsigned_abs().to_string()));
        let terms = self.terms.iter().map(|term| (term.coefficient < 0, term.to_string()));
        let mut parts: Vec<(bool, String)> = terms.chain(constant).collect();
        parts.sort_by_key(|part| part.0);
        for (position, (is_negative, text)) in parts.iter().enumerate() {
            match (position, is_negative) {
                (0, true) => write!(f, "-{text}")?,
                (0, false) => f.write_str(text)?,
                (_, true) => write!(f, " - {text}")?,
                (_, false) => write!(f, " + {text}")?,
            }
        }
        Ok(())
    }
}

/// Formats the term without its sign.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.coefficient.unsigned_abs();
        let factors: Vec<String> = match &self.factors[..] {
            [Dim::Symbolic(alone)] if number == 1 => vec![alone.to_string()],
            factors => factors.iter().map(Dim::to_factor).collect(),
        };
        f.write_str(&factors.join(" * "))?;
        if number == 1 { Ok(()) } else { write!(f, " * {number}") }
    }
}
