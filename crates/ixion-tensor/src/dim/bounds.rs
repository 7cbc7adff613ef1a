//! Lower and upper bounds of an expression, for any values of its symbols.

use super::sum::{DimSum, Term};
use super::{Dim, DimExpr};

/// The maximum depth to which expressions are examined.
const MAX_DEPTH: usize = 6;

/// Returns true if `left` can be shown never to be less than `right`.
pub(super) fn is_at_least(left: &Dim, right: &Dim) -> bool {
    *right == i64::MIN || *left == i64::MAX || compared(left, right, MAX_DEPTH)
}

fn compared(left: &Dim, right: &Dim, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    if left == right || (left.clone() - right.clone()).at_least() >= 0 {
        return true;
    }
    match (left.expr(), right.expr()) {
        (_, Some(DimExpr::Max(a, b))) => compared(left, a, depth) && compared(left, b, depth),
        (Some(DimExpr::Min(a, b)), _) => compared(a, right, depth) && compared(b, right, depth),
        (_, Some(DimExpr::Min(a, b))) => compared(left, a, depth) || compared(left, b, depth),
        (Some(DimExpr::Max(a, b)), _) => compared(a, right, depth) || compared(b, right, depth),
        _ => false,
    }
}

impl Dim {
    /// A lower bound.
    pub(super) fn at_least(&self) -> i64 {
        clamped(range(self, MAX_DEPTH).0)
    }
}

/// Lower and upper bound of an expression, both inclusive. Symbols are lengths, so they are not negative.
fn range(dim: &Dim, depth: usize) -> (i128, i128) {
    const ANY: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);
    let expr = match dim {
        Dim::Fixed(value) => return (i128::from(*value), i128::from(*value)),
        Dim::Symbolic(expr) => &**expr,
    };
    let Some(depth) = depth.checked_sub(1) else { return ANY };
    match expr {
        DimExpr::Symbol(_) => (0, ANY.1),
        DimExpr::Sum(sum) => (least(sum, depth), limited(-least(&sum.clone().scaled(-1), depth))),
        DimExpr::FloorDiv(left, Dim::Fixed(divisor)) if *divisor > 0 => {
            let (low, high) = range(left, depth);
            (low.div_euclid((*divisor).into()), high.div_euclid((*divisor).into()))
        }
        DimExpr::FloorDiv(left, right) | DimExpr::CeilDiv(left, right) => {
            match (range(left, depth), range(right, depth)) {
                ((0.., high), (0.., _)) => (0, high),
                _ => ANY,
            }
        }
        DimExpr::Max(a, b) => {
            let (a, b) = (range(a, depth), range(b, depth));
            (a.0.max(b.0), a.1.max(b.1))
        }
        DimExpr::Min(a, b) => {
            let (a, b) = (range(a, depth), range(b, depth));
            (a.0.min(b.0), a.1.min(b.1))
        }
    }
}

/// A lower bound of a sum: the better of two estimates.
fn least(sum: &DimSum, depth: usize) -> i128 {
    let by_terms =
        sum.terms.iter().map(|term| least_term(term, depth)).sum::<i128>() + i128::from(sum.constant);
    let Some(depth) = depth.checked_sub(1) else { return limited(by_terms) };
    match without_quotient(sum) {
        Some((larger, by)) => limited(by_terms).max(range(&larger.into(), depth).0.div_euclid(by.into())),
        None => limited(by_terms),
    }
}

fn least_term(term: &Term, depth: usize) -> i128 {
    let product =
        term.factors.iter().try_fold((1i128, 1i128), |product, factor| match range(factor, depth) {
            (low @ 0.., high) => Some((limited(product.0 * low), limited(product.1 * high))),
            _ => None,
        });
    let any = (i64::MIN.into(), i64::MAX.into());
    let (low, high) = match &term.factors[..] {
        [factor] => range(factor, depth),
        _ => product.unwrap_or(any),
    };
    limited(i128::from(term.coefficient) * if term.coefficient > 0 { low } else { high })
}

/// A sum with one quotient fewer and a divisor; the sum divided by the divisor is at most the given one.
///
/// Rounding down takes less than one from `p / c`: an added quotient is bounded by lowering `p` by `c - 1`, a subtracted
/// one by `p` itself. `None` if the numbers are so large that arithmetic could saturate.
fn without_quotient(sum: &DimSum) -> Option<(DimSum, i64)> {
    let is_small = |number: i64| number.unsigned_abs() < 1 << 30;
    if !is_small(sum.constant) || !sum.terms.iter().all(|term| is_small(term.coefficient)) {
        return None;
    }
    let quotient = |term: &Term| match &term.factors[..] {
        [factor] => match factor.expr()? {
            DimExpr::FloorDiv(left, Dim::Fixed(by)) if *by > 0 && is_small(*by) => Some((left.clone(), *by)),
            _ => None,
        },
        _ => None,
    };
    let (position, (left, by)) =
        sum.terms.iter().enumerate().find_map(|(position, term)| Some((position, quotient(term)?)))?;
    let mut rest = sum.clone();
    let coefficient = rest.terms.remove(position).coefficient;
    let left = if coefficient > 0 { left - (by - 1) } else { left };
    Some((rest.scaled(by).plus(DimSum::from(left).scaled(coefficient)), by))
}

/// Clamps to the range of `i64`, so that sums of a few such values do not overflow.
fn limited(value: i128) -> i128 {
    value.clamp(i64::MIN.into(), i64::MAX.into())
}

fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
