//! Matching expressions as trees, with the arguments of commutative functions in either order.

use super::value::{Captures, capture};
use crate::pnnx::{Expr, Function, Parameter};

/// The operator's input for each input of the pattern, and the captured numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Binding {
    /// Pairs of an input of the pattern and an input of the operator.
    pub(super) inputs: Vec<(usize, usize)>,
    pub(super) captures: Captures,
}

/// All bindings for which an expression matches, extending `before`. `same` returns whether two inputs of the operator are
/// the same operand.
pub(super) fn bindings(
    wanted: &Expr,
    found: &Expr,
    before: Binding,
    same: &dyn Fn(usize, usize) -> bool,
) -> Vec<Binding> {
    match (wanted, found) {
        (Expr::Input(wanted), Expr::Input(found)) => bind_input(*wanted, *found, before, same),
        (Expr::Word(word), _) if word.starts_with('%') => bind_number(word, found, before),
        (Expr::Call { function: a, args: wanted }, Expr::Call { function: b, args: found }) if a == b => {
            let mut ways = all(wanted, found, before.clone(), same);
            if let ([first, second], true) = (found.as_slice(), is_commutative(*a)) {
                ways.extend(all(wanted, &[second.clone(), first.clone()], before, same));
            }
            ways
        }
        (Expr::List(wanted), Expr::List(found)) => all(wanted, found, before, same),
        (Expr::Int(_) | Expr::Float(_), _) if number(wanted).is_some() && number(wanted) == number(found) => {
            vec![before]
        }
        _ if wanted == found => vec![before],
        _ => Vec::new(),
    }
}

fn all(
    wanted: &[Expr],
    found: &[Expr],
    before: Binding,
    same: &dyn Fn(usize, usize) -> bool,
) -> Vec<Binding> {
    if wanted.len() != found.len() {
        return Vec::new();
    }
    wanted.iter().zip(found).fold(vec![before], |ways, (wanted, found)| {
        ways.into_iter().flat_map(|before| bindings(wanted, found, before, same)).take(MAX_BINDINGS).collect()
    })
}

/// The maximum number of bindings to try. A sum of many equal terms has very many.
const MAX_BINDINGS: usize = 64;

fn bind_input(
    wanted: usize,
    found: usize,
    mut before: Binding,
    same: &dyn Fn(usize, usize) -> bool,
) -> Vec<Binding> {
    match before.inputs.iter().find(|(bound, _)| *bound == wanted) {
        Some(&(_, other)) if !same(other, found) => Vec::new(),
        Some(_) => vec![before],
        None => {
            before.inputs.push((wanted, found));
            vec![before]
        }
    }
}

fn bind_number(word: &str, found: &Expr, mut before: Binding) -> Vec<Binding> {
    let is_number = matches!(found, Expr::Int(_) | Expr::Float(_) | Expr::Bool(_) | Expr::Complex(_));
    let value = Parameter::parse(&found.to_string());
    let name = word.trim_start_matches('%');
    if is_number && capture(&mut before.captures, name, &value) { vec![before] } else { Vec::new() }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Int(value) => Some(*value as f64),
        Expr::Float(value) => Some(*value),
        _ => None,
    }
}

/// Returns true if the arguments may be swapped.
fn is_commutative(function: Function) -> bool {
    use Function::{Add, And, Logaddexp, Max, Maximum, Min, Minimum, Mul, Or, Xor};
    matches!(function, Add | Mul | Max | Min | Maximum | Minimum | Logaddexp | And | Or | Xor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(wanted: &str, found: &str) -> Vec<Binding> {
        let (wanted, found) = (Expr::parse(wanted).unwrap(), Expr::parse(found).unwrap());
        bindings(&wanted, &found, Binding::default(), &|a, b| a == b)
    }

    #[test]
    fn sums_and_products_match_in_either_order() {
        assert_eq!(ways("add(@0,mul(@1,2))", "add(mul(2.0,@1),@0)")[0].inputs, [(0, 0), (1, 1)]);
        assert_eq!(ways("add(@0,@1)", "add(@0,@1)").len(), 2);
        assert!(ways("sub(@0,1)", "sub(1,@0)").is_empty());
    }

    #[test]
    fn an_input_is_the_same_operand_everywhere() {
        assert_eq!(ways("mul(@0,sqrt(@0))", "mul(sqrt(@3),@3)")[0].inputs, [(0, 3)]);
        assert!(ways("mul(@0,sqrt(@0))", "mul(sqrt(@3),@1)").is_empty());
    }

    #[test]
    fn captures_are_numbers() {
        let found = &ways("pow(add(@0,%eps),%p)", "pow(add(1e-5,@0),-0.5)")[0];
        assert_eq!((found.captures["eps"].raw(), found.captures["p"].raw()), ("1.000000e-5", "-0.5"));
        assert!(ways("add(@0,%eps)", "add(@0,@1)").is_empty());
        assert!(ways("add(%a,%a)", "add(1,2)").is_empty() && !ways("add(%a,%a)", "add(2,2)").is_empty());
    }

    #[test]
    fn sums_of_many_equal_terms_are_bounded() {
        let sum = |term: &str| format!("{}{}{}", "add(".repeat(40), term, format!(",{term})").repeat(40));
        assert!(!ways(&sum("@0"), &sum("@0")).is_empty());
    }
}
