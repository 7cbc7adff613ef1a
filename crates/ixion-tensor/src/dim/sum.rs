//! The normal form of sums, products and quotients.

use super::{Dim, DimExpr, symbolic};
use std::cmp::Ordering;

/// A constant plus a sum of products. Terms are sorted; each product occurs once, with a nonzero coefficient.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DimSum {
    pub(super) terms: Vec<Term>,
    pub(super) constant: i64,
}

/// A coefficient times one or more factors.
///
/// Factors are sorted. None is a number or a product; a sum is a factor only next to others, and has no common divisor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) factors: Vec<Dim>,
    pub(super) coefficient: i64,
}

impl From<Dim> for DimSum {
    fn from(dim: Dim) -> Self {
        match &dim {
            Dim::Fixed(constant) => Self::constant(*constant),
            Dim::Symbolic(expr) => match &**expr {
                DimExpr::Sum(sum) => sum.clone(),
                _ => Self { terms: vec![Term { factors: vec![dim], coefficient: 1 }], constant: 0 },
            },
        }
    }
}

impl From<DimSum> for Dim {
    fn from(sum: DimSum) -> Self {
        match &sum.terms[..] {
            [] => Dim::Fixed(sum.constant),
            [Term { factors, coefficient: 1 }] if sum.constant == 0 && factors.len() == 1 => {
                factors[0].clone()
            }
            _ => sum.moved_inside().unwrap_or_else(|| symbolic(DimExpr::Sum(sum))),
        }
    }
}

impl DimSum {
    fn constant(constant: i64) -> Self {
        Self { terms: Vec::new(), constant }
    }

    /// A product in normal form; `factors` contains neither numbers nor products.
    fn product(coefficient: i64, mut factors: Vec<Dim>) -> Self {
        factors.sort();
        match &factors[..] {
            [] => Self::constant(coefficient),
            [factor] => Self::from(factor.clone()).scaled(coefficient),
            _ if coefficient == 0 => Self::default(),
            _ => Self { terms: vec![Term { factors, coefficient }], constant: 0 },
        }
    }

    /// Decomposes the sum into a coefficient and factors.
    fn into_factors(self) -> (i64, Vec<Dim>) {
        match &self.terms[..] {
            [] => (self.constant, Vec::new()),
            [term] if self.constant == 0 => (term.coefficient, term.factors.clone()),
            _ => match self.content() {
                1 => (1, vec![self.into()]),
                content => (content, vec![self.divided(content).into()]),
            },
        }
    }

    /// Moves the sum inside a minimum or maximum among its terms if one operand then becomes a number:
    /// `n - min(n, 1)` becomes `max(n - 1, 0)`.
    fn moved_inside(&self) -> Option<Dim> {
        let sides = |(position, term): (usize, &Term)| match (&term.factors[..], term.coefficient) {
            ([Dim::Symbolic(factor)], sign @ (1 | -1)) => match &**factor {
                DimExpr::Max(a, b) => Some((position, a.clone(), b.clone(), sign, sign > 0)),
                DimExpr::Min(a, b) => Some((position, a.clone(), b.clone(), sign, sign < 0)),
                _ => None,
            },
            _ => None,
        };
        let (position, a, b, sign, is_max) = self.terms.iter().enumerate().find_map(sides)?;
        let mut rest = self.clone();
        rest.terms.remove(position);
        let side = |dim: Dim| Dim::from(rest.clone().plus(Self::from(dim).scaled(sign)));
        let (a, b) = (side(a), side(b));
        (a.fixed().is_some() || b.fixed().is_some()).then(|| if is_max { a.max(b) } else { a.min(b) })
    }

    /// The greatest common divisor of all coefficients and the constant.
    fn content(&self) -> i64 {
        self.terms
            .iter()
            .fold(self.constant, |divisor, term| gcd(divisor, term.coefficient))
            .saturating_abs()
            .max(1)
    }

    /// Divides by a common divisor of all coefficients and the constant.
    fn divided(mut self, divisor: i64) -> Self {
        self.terms.iter_mut().for_each(|term| term.coefficient /= divisor);
        self.constant /= divisor;
        self
    }

    pub(super) fn scaled(mut self, number: i64) -> Self {
        if number == 0 {
            return Self::default();
        }
        self.terms.iter_mut().for_each(|term| term.coefficient = term.coefficient.saturating_mul(number));
        self.constant = self.constant.saturating_mul(number);
        self
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let constant = self.constant.saturating_add(other.constant);
        let mut terms: Vec<Term> = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.into_iter().peekable(), other.terms.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.factors.cmp(&b.factors),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { terms, constant },
            };
            match order {
                Ordering::Less => terms.extend(left.next()),
                Ordering::Greater => terms.extend(right.next()),
                Ordering::Equal => {
                    let both = left.next().zip(right.next());
                    let sum = both
                        .map(|(a, b)| Term { coefficient: a.coefficient.saturating_add(b.coefficient), ..a });
                    terms.extend(sum.filter(|term| term.coefficient != 0));
                }
            }
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        match (&self.terms[..], &other.terms[..]) {
            ([], _) => other.scaled(self.constant),
            (_, []) => self.scaled(other.constant),
            _ => {
                let ((number, mut factors), (other, others)) = (self.into_factors(), other.into_factors());
                factors.extend(others);
                Self::product(number.saturating_mul(other), factors)
            }
        }
    }

    pub(super) fn weight(&self) -> usize {
        let term = |term: &Term| 1 + term.factors.iter().map(Dim::weight).sum::<usize>();
        1 + self.terms.iter().map(term).sum::<usize>()
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// Removes the factors `taken` from `factors`; `None` if one is missing.
fn without(factors: &[Dim], taken: &[Dim]) -> Option<Vec<Dim>> {
    let mut rest = factors.to_vec();
    for factor in taken {
        rest.remove(rest.iter().position(|other| other == factor)?);
    }
    Some(rest)
}

/// The quotient rounded down; at least one operand is not a number.
pub(super) fn floor_div(left: Dim, right: Dim) -> Dim {
    match right {
        Dim::Fixed(0) => Dim::Fixed(0),
        Dim::Fixed(1) => left,
        Dim::Fixed(divisor) if divisor > 1 => by_number(left.into(), divisor),
        _ if left == 0i64 => left,
        _ => by_product(left.into(), right.into()),
    }
}

/// The quotient rounded up; at least one operand is not a number.
pub(super) fn ceil_div(left: Dim, right: Dim) -> Dim {
    match right {
        Dim::Fixed(0) => Dim::Fixed(0),
        Dim::Fixed(1) => left,
        Dim::Fixed(divisor) if divisor > 1 => floor_div(left + (divisor - 1), right),
        _ if left == 0i64 => left,
        _ => exact(&left, &right).unwrap_or_else(|| symbolic(DimExpr::CeilDiv(left, right))),
    }
}

/// Takes the terms that the divisor divides out of the quotient, and the constant except for its remainder.
fn by_number(sum: DimSum, divisor: i64) -> Dim {
    let (whole, rest): (Vec<Term>, Vec<Term>) =
        sum.terms.into_iter().partition(|term| term.coefficient % divisor == 0);
    let quotient =
        DimSum { terms: whole, constant: sum.constant - sum.constant.rem_euclid(divisor) }.divided(divisor);
    let rest = DimSum { terms: rest, constant: sum.constant.rem_euclid(divisor) };
    if rest.terms.is_empty() { quotient.into() } else { Dim::from(quotient) + proper(rest, divisor) }
}

/// The quotient of a sum without multiples of the divisor.
fn proper(sum: DimSum, divisor: i64) -> Dim {
    let common = sum.terms.iter().fold(divisor, |common, term| gcd(common, term.coefficient));
    let constant = sum.constant.div_euclid(common);
    let sum = DimSum { constant: 0, ..sum }.divided(common).plus(DimSum::constant(constant));
    let divisor = divisor / common;
    // A quotient of a quotient is one quotient.
    if let [Term { factors, coefficient: 1 }] = &sum.terms[..]
        && let [Dim::Symbolic(inner)] = &factors[..]
        && let DimExpr::FloorDiv(left, Dim::Fixed(by)) = &**inner
        && let Some(divisor) = by.checked_mul(divisor).filter(|_| *by > 0)
    {
        return floor_div(left.clone() + by.saturating_mul(sum.constant), Dim::Fixed(divisor));
    }
    symbolic(DimExpr::FloorDiv(sum.into(), Dim::Fixed(divisor)))
}

/// The quotient if there is no remainder.
fn exact(left: &Dim, right: &Dim) -> Option<Dim> {
    let ((number, factors), (by, taken)) =
        (DimSum::from(left.clone()).into_factors(), DimSum::from(right.clone()).into_factors());
    let factors = without(&factors, &taken)?;
    (number.checked_rem(by) == Some(0)).then(|| DimSum::product(number.wrapping_div(by), factors).into())
}

/// The quotient by anything but a positive number.
fn by_product(left: DimSum, right: DimSum) -> Dim {
    if let Some(quotient) = exact(&left.clone().into(), &right.clone().into()) {
        return quotient;
    }
    let (by, taken) = right.into_factors();
    let mut quotient = DimSum::default();
    let mut rest = DimSum { terms: Vec::new(), ..left };
    for term in left.terms {
        match without(&term.factors, &taken).filter(|_| by > 0 && term.coefficient % by == 0) {
            Some(factors) => quotient = quotient.plus(DimSum::product(term.coefficient / by, factors)),
            None => rest.terms.push(term),
        }
    }
    match (&rest.terms[..], rest.constant) {
        ([], 0) => quotient.into(),
        _ => Dim::from(quotient) + reduced(rest, by, taken),
    }
}

/// A quotient with common factors cancelled.
fn reduced(left: DimSum, by: i64, mut taken: Vec<Dim>) -> Dim {
    let (number, mut factors) = left.into_factors();
    factors.retain(|factor| match taken.iter().position(|other| other == factor) {
        Some(same) => {
            taken.remove(same);
            false
        }
        None => true,
    });
    let common = gcd(number, by).max(1);
    let (left, right) = (DimSum::product(number / common, factors), DimSum::product(by / common, taken));
    match (Dim::from(left), Dim::from(right)) {
        (Dim::Fixed(left), Dim::Fixed(right)) => Dim::Fixed(super::value::floor_div(left, right)),
        (left, Dim::Fixed(divisor)) if divisor > 0 => floor_div(left, Dim::Fixed(divisor)),
        (left, right) => symbolic(DimExpr::FloorDiv(left, right)),
    }
}
