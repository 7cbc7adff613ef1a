//! Comparing expressions by the function that they compute, independently of spelling.
//!
//! `mul(mul(@0,0.5),add(tanh(@1),1.0))` and `mul(@0,mul(0.5,add(1,tanh(@1))))` are the same formula. Both are expanded to a
//! sum of products of atoms: inputs, and functions that are neither sum nor product. Differences in brackets, in the order
//! of operands, in the position of a constant, and between division and multiplication disappear.

use crate::pnnx::{Expr, Function};

/// An expanded expression: a sum of products.
#[derive(Debug, Clone)]
pub(super) struct Polynomial {
    terms: Vec<Term>,
}

/// A product: a number times powers of atoms.
#[derive(Debug, Clone)]
struct Term {
    factor: f64,
    powers: Vec<(Atom, i64)>,
}

/// A factor that is not expanded.
#[derive(Debug, Clone)]
enum Atom {
    Input(usize),
    /// A sum in a denominator.
    Sum(Polynomial),
    Call(Function, Vec<Polynomial>),
}

/// The relative tolerance between factors. Numbers in a file were rounded to f32, which keeps seven digits.
const TOLERANCE: f64 = 1e-6;

/// The maximum size of a polynomial. Expanding a long expression would take too long.
const MAX_PARTS: usize = 1 << 10;

/// The largest integer power that is expanded into a product.
const MAX_POWER: i64 = 8;

/// Returns true if two expressions compute the same from the same inputs, up to rounding. False if one is too long to expand.
pub(super) fn same(left: &Expr, right: &Expr) -> bool {
    match (Polynomial::of(left), Polynomial::of(right)) {
        (Some(left), Some(right)) => left.same(&right),
        _ => false,
    }
}

impl Polynomial {
    /// Expands an expression. `None` for lists and words, or if the result is too long.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        let Expr::Call { function, args } = expr else { return Self::of_leaf(expr) };
        let args: Vec<Self> = args.iter().map(Self::of).collect::<Option<_>>()?;
        match (function, args.as_slice()) {
            (Function::Neg, [x]) => Some(x.scaled(-1.0)),
            (Function::Add, [a, b]) => a.plus(b),
            (Function::Sub, [a, b]) => a.plus(&b.scaled(-1.0)),
            (Function::Mul, [a, b]) => a.times(b),
            (Function::Div, [a, b]) => a.times(&b.inverse()),
            (Function::Reciprocal, [x]) => Some(x.inverse()),
            (Function::Square, [x]) => x.times(x),
            (Function::Sqrt, [x]) => Some(x.root()),
            (Function::Rsqrt, [x]) => Some(x.root().inverse()),
            (Function::Pow, [x, y]) => match y.number() {
                Some(y) => x.power(y),
                None => Some(Self::call(Function::Pow, args)),
            },
            (Function::Max | Function::Maximum, [a, b]) => Some(Self::limited(Function::Max, a, b)),
            (Function::Min | Function::Minimum, [a, b]) => Some(Self::limited(Function::Min, a, b)),
            (Function::Relu, [x]) => Some(Self::limited(Function::Max, x, &Self::constant(0.0))),
            (Function::Relu6, [x]) => Some(x.clamped(&Self::constant(0.0), &Self::constant(6.0))),
            (Function::Clamp, [x, low, high]) => Some(x.clamped(low, high)),
            (Function::Sigmoid, [x]) => x.sigmoid(),
            (Function::Hardsigmoid, [x]) => x.hardsigmoid(),
            _ => Some(Self::call(*function, args)),
        }
    }

    fn of_leaf(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Input(index) => Some(Self::atom(Atom::Input(*index), 1)),
            Expr::Int(number) => Some(Self::constant(*number as f64)),
            Expr::Float(number) => Some(Self::constant(*number)),
            _ => None,
        }
    }

    fn constant(factor: f64) -> Self {
        let terms = if factor == 0.0 { Vec::new() } else { vec![Term { factor, powers: Vec::new() }] };
        Self { terms }
    }

    fn atom(atom: Atom, exponent: i64) -> Self {
        Self { terms: vec![Term { factor: 1.0, powers: vec![(atom, exponent)] }] }
    }

    fn call(function: Function, args: Vec<Self>) -> Self {
        Self::atom(Atom::Call(function, args), 1)
    }

    /// The value, if the polynomial is a constant.
    pub(super) fn number(&self) -> Option<f64> {
        match self.terms.as_slice() {
            [] => Some(0.0),
            [Term { factor, powers }] if powers.is_empty() => Some(*factor),
            _ => None,
        }
    }

    /// Pairs of input and factor, if the polynomial is a linear combination of inputs without a constant.
    pub(super) fn linear(&self) -> Option<Vec<(usize, f64)>> {
        let factor = |term: &Term| match term.powers.as_slice() {
            [(Atom::Input(index), 1)] => Some((*index, term.factor)),
            _ => None,
        };
        self.terms.iter().map(factor).collect()
    }

    fn scaled(&self, by: f64) -> Self {
        let terms = self.terms.iter().map(|term| Term { factor: term.factor * by, ..term.clone() });
        Self { terms: terms.collect() }
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for term in &other.terms {
            match sum.terms.iter_mut().find(|own| same_powers(&own.powers, &term.powers)) {
                Some(own) => own.factor += term.factor,
                None => sum.terms.push(term.clone()),
            }
        }
        sum.terms.retain(|term| term.factor != 0.0);
        (sum.parts() <= MAX_PARTS).then_some(sum)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let parts = self.parts().saturating_mul(other.terms.len());
        if parts.saturating_add(other.parts().saturating_mul(self.terms.len())) > MAX_PARTS {
            return None;
        }
        let mut product = Self { terms: Vec::new() };
        for left in &self.terms {
            let terms = other.terms.iter().map(|right| left.times(right)).collect();
            product = product.plus(&Self { terms })?;
        }
        Some(product)
    }

    fn inverse(&self) -> Self {
        match self.terms.as_slice() {
            [term] => Self { terms: vec![term.inverse()] },
            _ => Self::atom(Atom::Sum(self.clone()), -1),
        }
    }

    fn root(&self) -> Self {
        match self.number() {
            Some(number) => Self::constant(number.sqrt()),
            None => Self::call(Function::Sqrt, vec![self.clone()]),
        }
    }

    fn power(&self, exponent: f64) -> Option<Self> {
        if exponent.abs() == 0.5 {
            let root = self.root();
            return Some(if exponent < 0.0 { root.inverse() } else { root });
        }
        let whole = exponent as i64;
        if whole as f64 != exponent || !(1..=MAX_POWER).contains(&whole.abs()) {
            return Some(Self::call(Function::Pow, vec![self.clone(), Self::constant(exponent)]));
        }
        let written_out = (1..whole.abs()).try_fold(self.clone(), |power, _| power.times(self))?;
        Some(if whole < 0 { written_out.inverse() } else { written_out })
    }

    /// The maximum or minimum of two polynomials. A constant becomes the second argument.
    fn limited(function: Function, a: &Self, b: &Self) -> Self {
        let (value, bound) = if a.number().is_some() { (b, a) } else { (a, b) };
        Self::call(function, vec![value.clone(), bound.clone()])
    }

    fn clamped(&self, low: &Self, high: &Self) -> Self {
        Self::limited(Function::Min, &Self::limited(Function::Max, self, low), high)
    }

    fn sigmoid(&self) -> Option<Self> {
        let exp = Self::call(Function::Exp, vec![self.scaled(-1.0)]);
        Some(Self::constant(1.0).plus(&exp)?.inverse())
    }

    fn hardsigmoid(&self) -> Option<Self> {
        let moved = self.plus(&Self::constant(3.0))?;
        Some(moved.clamped(&Self::constant(0.0), &Self::constant(6.0)).scaled(1.0 / 6.0))
    }

    fn parts(&self) -> usize {
        let powers = self.terms.iter().flat_map(|term| &term.powers);
        self.terms.len() + powers.map(|(atom, _)| atom.parts()).sum::<usize>()
    }

    /// Returns true if the terms are the same, in any order.
    pub(super) fn same(&self, other: &Self) -> bool {
        let same = |left: &Term, right: &Term| {
            let difference = (left.factor - right.factor).abs();
            difference <= TOLERANCE * right.factor.abs() && same_powers(&left.powers, &right.powers)
        };
        paired(&self.terms, &other.terms, same)
    }
}

impl Term {
    fn times(&self, other: &Self) -> Self {
        let mut product = Self { factor: self.factor * other.factor, powers: self.powers.clone() };
        for (atom, exponent) in &other.powers {
            match product.powers.iter_mut().find(|(own, _)| own.same(atom)) {
                Some((_, own)) => *own = own.saturating_add(*exponent),
                None => product.powers.push((atom.clone(), *exponent)),
            }
        }
        product.powers.retain(|(_, exponent)| *exponent != 0);
        product
    }

    fn inverse(&self) -> Self {
        let powers = self.powers.iter().map(|(atom, exponent)| (atom.clone(), exponent.saturating_neg()));
        Self { factor: 1.0 / self.factor, powers: powers.collect() }
    }
}

impl Atom {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Input(left), Self::Input(right)) => left == right,
            (Self::Sum(left), Self::Sum(right)) => left.same(right),
            (Self::Call(f, left), Self::Call(g, right)) => {
                f == g && left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.same(b))
            }
            _ => false,
        }
    }

    fn parts(&self) -> usize {
        match self {
            Self::Input(_) => 1,
            Self::Sum(sum) => 1 + sum.parts(),
            Self::Call(_, args) => 1 + args.iter().map(Polynomial::parts).sum::<usize>(),
        }
    }
}

fn same_powers(left: &[(Atom, i64)], right: &[(Atom, i64)]) -> bool {
    paired(left, right, |(a, m), (b, n)| m == n && a.same(b))
}

/// Returns true if the elements of both lists can be paired one to one.
fn paired<T>(left: &[T], right: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    let mut free: Vec<&T> = right.iter().collect();
    let mut find = |item| {
        let position = free.iter().position(|other| same(item, other));
        position.map(|position| free.swap_remove(position)).is_some()
    };
    left.len() == right.len() && left.iter().all(&mut find)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_text(left: &str, right: &str) -> bool {
        same(&left.parse().unwrap(), &right.parse().unwrap())
    }

    #[test]
    fn spelling_does_not_matter() {
        for (left, right) in [
            ("add(@0,@1)", "add(@1,@0)"),
            ("mul(mul(@0,0.5),add(tanh(@1),1.0))", "mul(@0,mul(0.5,add(1,tanh(@1))))"),
            ("mul(@0,add(@1,@2))", "add(mul(@2,@0),mul(@0,@1))"),
            ("pow(@0,3)", "mul(@0,mul(@0,@0))"),
            ("square(add(@0,1))", "add(add(pow(@0,2.0),1),mul(2,@0))"),
            ("div(@0,1.41421354)", "mul(@0,0.707106769)"),
            ("mul(@0,rsqrt(add(@1,1e-5)))", "div(@0,sqrt(add(1e-5,@1)))"),
            ("mul(@0,pow(add(@1,1e-5),-0.5))", "div(@0,pow(add(1e-5,@1),0.5))"),
            ("sub(@0,@0)", "0"),
            ("div(@0,add(@1,@2))", "mul(@0,reciprocal(add(@2,@1)))"),
            ("min(6,max(@0,0))", "minimum(maximum(0.0,@0),6.0)"),
            ("div(mul(@0,@1),@1)", "@0"),
            ("relu6(@0)", "clamp(@0,0,6)"),
            ("mul(@0,sigmoid(@0))", "div(@0,add(1,exp(neg(@0))))"),
            ("mul(@0,hardsigmoid(@0))", "div(mul(@0,relu6(add(3,@0))),6)"),
        ] {
            assert!(same_text(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn different_functions_differ() {
        for (left, right) in [
            ("add(@0,@1)", "add(@0,@0)"),
            ("sub(@0,@1)", "sub(@1,@0)"),
            ("mul(@0,0.5)", "mul(@0,0.50001)"),
            ("tanh(@0)", "erf(@0)"),
            ("tanh(@0)", "tanh(mul(@0,2))"),
            ("pow(@0,2)", "pow(2,@0)"),
            ("min(@0,6)", "max(@0,6)"),
            ("add(@0,1e-5)", "add(@0,1e-6)"),
            ("[@0]", "[@0]"),
        ] {
            assert!(!same_text(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn expansions_that_grow_too_long_are_given_up() {
        let mut long = "add(@0,@1)".to_owned();
        for index in 2..40 {
            long = format!("mul({long},add(sin({long}),@{index}))");
            if long.len() > 1 << 16 {
                break;
            }
        }
        assert!(!same_text(&long, &long));
    }

    #[test]
    fn sums_of_inputs_show_their_factors() {
        let linear = |text: &str| Polynomial::of(&text.parse().unwrap()).unwrap().linear();
        assert_eq!(linear("add(div(@0,4.0),@1)"), Some(vec![(0, 0.25), (1, 1.0)]));
        assert_eq!(linear("add(@0,1)"), None);
        assert_eq!(linear("mul(@0,@1)"), None);
    }
}
