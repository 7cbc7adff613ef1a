//! Patterns for the values of parameters.

use crate::pnnx::{Parameter, Value};
use std::collections::BTreeMap;

// ANCHOR: value_pattern
/// The captured parameters of a match, by the names of the captures.
pub type Captures = BTreeMap<String, Parameter>;

/// A pattern for the value of a parameter.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// `*`: any value.
    Any,
    /// `%x`: any value, captured under this name. If the name was captured before, both values must be equal.
    Capture(String),
    /// Exactly this value.
    Literal(Parameter),
    /// `(%a,1,*)`: a list with a pattern for each item.
    Items(Vec<ValuePattern>),
}

impl ValuePattern {
    /// Parses a pattern. Every text is valid.
    pub fn parse(raw: &str) -> Self {
        if raw == "*" {
            return Self::Any;
        }
        if let Some(name) = raw.strip_prefix('%') {
            return Self::Capture(name.to_owned());
        }
        let body = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        match body.filter(|body| body.contains(['%', '*'])) {
            Some(body) => Self::Items(body.split(',').map(Self::parse).collect()),
            None => Self::Literal(Parameter::parse(raw)),
        }
    }
}
// ANCHOR_END: value_pattern

// ANCHOR: matches
/// Captures a value, or compares it with the value captured under this name before. Returns false if they differ.
pub fn capture(captures: &mut Captures, name: &str, value: &Parameter) -> bool {
    // ANCHOR: capture_todo -- task 4: remember the value, or compare it with the one before
    match captures.get(name) {
        Some(before) => same(before, value),
        None => {
            captures.insert(name.to_owned(), value.clone());
            true
        }
    }
    // ANCHOR_END: capture_todo
}

impl ValuePattern {
    /// Returns true if a value matches, and adds what it captures to `captures`.
    pub fn matches(&self, value: &Parameter, captures: &mut Captures) -> bool {
        // ANCHOR: matches_todo -- task 4: compare a value with each of the four kinds of patterns
        match self {
            Self::Any => true,
            Self::Literal(wanted) => same(wanted, value),
            Self::Capture(name) => capture(captures, name, value),
            Self::Items(wanted) => {
                let items = items(value.value());
                items.len() == wanted.len()
                    && wanted.iter().zip(&items).all(|(wanted, item)| wanted.matches(item, captures))
            }
        }
        // ANCHOR_END: matches_todo
    }
}
// ANCHOR_END: matches

/// Returns true if two values are equal. `1` and `1.0` are; `1` and `True` are not.
pub fn same(a: &Parameter, b: &Parameter) -> bool {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (a.value(), b.value()) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (a, b) if number(a).is_some() => number(a) == number(b),
        (Value::Ints(_) | Value::Floats(_), _) => {
            let (a, b) = (items(a.value()), items(b.value()));
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
        }
        (first, second) => a.raw() == b.raw() || first == second,
    }
}

/// The items of a list; empty if the value is not a list.
pub fn items(value: &Value) -> Vec<Parameter> {
    match value {
        Value::Bools(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Ints(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Floats(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Strs(items) => items.iter().map(|item| item.as_str().into()).collect(),
        Value::Complexes(items) => items.iter().map(|&item| item.into()).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> Option<Captures> {
        let mut captures = Captures::new();
        ValuePattern::parse(pattern).matches(&Parameter::parse(value), &mut captures).then_some(captures)
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_nothing_else_is() {
        assert!(matches("1", "1.0").is_some() && matches("(1,2)", "(1.0,2.0)").is_some());
        assert!(matches("1", "True").is_none() && matches("1", "2").is_none());
        assert!(matches("(1,2)", "(1,2,3)").is_none() && matches("(1,2)", "1").is_none());
        assert!(matches("zeros", "zeros").is_some() && matches("zeros", "reflect").is_none());
        assert!(matches("None", "None").is_some() && matches("None", "0").is_none());
        assert!(matches("*", "anything").is_some());
    }

    #[test]
    fn captures_take_whole_values_or_items() {
        assert_eq!(matches("%x", "(1,2)").unwrap()["x"].raw(), "(1,2)");
        let pair = matches("(%a,1,*)", "(3,1,7)").unwrap();
        assert_eq!(pair["a"].raw(), "3");
        assert!(matches("(%a,%a)", "(3,3)").is_some() && matches("(%a,%a)", "(3,4)").is_none());
        assert!(matches("(%a,%b)", "3").is_none());
    }
}
