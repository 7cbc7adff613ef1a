//! Parsing a word into a leaf of the tree.

use super::Expr;
use crate::parameter::parse_float_word;
use crate::value::{Value, parse_scalar};

/// Parses a word that is not a function: an input, a number, a bool, [`Expr::None`], or any other word. `None` for an `@`
/// without a number.
///
/// ```
/// use ixion_pnnx::{Expr, expression::literal};
/// assert_eq!(literal("@12"), Some(Expr::Input(12)));
/// assert_eq!(literal("1.0"), Some(Expr::Float(1.0)));
/// assert_eq!(literal("bilinear"), Some(Expr::Word("bilinear".to_owned())));
/// assert_eq!(literal("@x"), None);
/// ```
pub fn literal(word: &str) -> Option<Expr> {
    if let Some(number) = word.strip_prefix('@') {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        return number.parse().ok().filter(|_| digits).map(Expr::Input);
    }
    Some(match parse_scalar(word) {
        Value::Bool(value) => Expr::Bool(value),
        Value::Int(value) => Expr::Int(value),
        Value::Float(value) => Expr::Float(value),
        Value::Complex(value) => Expr::Complex(value),
        _ if word == "None" => Expr::None,
        _ => parse_float_word(word).map_or_else(|| Expr::Word(word.to_owned()), Expr::Float),
    })
}
