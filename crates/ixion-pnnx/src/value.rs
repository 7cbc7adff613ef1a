//! Parsing the text of a parameter into a typed value.
//!
//! The format has no type annotations: a value's type is inferred from its text by the first rule that matches.

use num_complex::Complex;

// ANCHOR: value_type
/// A parameter's value, parsed from its text.
///
/// A list has the narrowest kind that holds all its elements: bools, ints, floats, complex numbers, or else strings.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `None`, `()` or `[]`: an empty list is the same value as `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// A number with a `.` or a lower-case `e`, or an integer that does not fit 64 bits.
    Float(f64),
    /// Any other text, including `inf`, `.5`, `+1`, `1E5` and the empty text.
    Str(String),
    /// A list of bools.
    Bools(Vec<bool>),
    /// A list of ints.
    Ints(Vec<i64>),
    /// A list of floats, or of ints and floats.
    Floats(Vec<f64>),
    /// A list of anything else. Nested lists stay text: one string per element of the outer list.
    Strs(Vec<String>),
    /// A complex number such as `1.0e+00-2.0e+00j`.
    Complex(Complex<f64>),
    /// A list of complex numbers, or of real and complex ones.
    Complexes(Vec<Complex<f64>>),
}
// ANCHOR_END: value_type

impl Value {
    /// The kind in words, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Str(_) => "a string",
            Self::Bools(_) => "a list of bools",
            Self::Ints(_) => "a list of ints",
            Self::Floats(_) => "a list of floats",
            Self::Strs(_) => "a list of strings",
            Self::Complex(_) => "a complex number",
            Self::Complexes(_) => "a list of complex numbers",
        }
    }
}

// ANCHOR: scalar
/// Parses a value that is not a list: `True` or `False`, a number, a complex number, or else a word.
pub fn parse_scalar(text: &str) -> Value {
    // ANCHOR: scalar_todo -- task 1: the two bools, then numbers, complex numbers, and words
    match text {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        _ => {
            parse_number(text).or_else(|| parse_complex(text)).unwrap_or_else(|| Value::Str(text.to_owned()))
        }
    }
    // ANCHOR_END: scalar_todo
}

/// Parses an int or a float. A number starts with a digit, or with `-` and a digit; `.5`, `inf`, `3abc` and `1E5` are not
/// numbers.
///
/// Digits alone are an int, or a float if they do not fit 64 bits. A float has a `.` or an `e`.
pub fn parse_number(text: &str) -> Option<Value> {
    // ANCHOR: number_todo -- task 1: digits alone, or a float with a `.` or an `e`
    if !starts_like_a_number(text) || text.contains('E') {
        return None;
    }
    if let Ok(whole) = text.parse() {
        return Some(Value::Int(whole));
    }
    let digits = text.trim_start_matches('-');
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_float = is_whole || text.contains(['.', 'e']);
    text.parse().ok().filter(|_| is_float).map(Value::Float)
    // ANCHOR_END: number_todo
}

/// Returns true if a text starts with a digit, or with `-` and a digit.
pub fn starts_like_a_number(text: &str) -> bool {
    // ANCHOR: start_todo -- task 1: after an optional `-`, it starts with a digit
    text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
    // ANCHOR_END: start_todo
}
// ANCHOR_END: scalar

// ANCHOR: complex
/// Parses a complex number: `1.2e+00-9.0e-01j`, `1.2e+00+-9.0e-01j` (as PNNX writes parameters) or `2.5j`.
pub fn parse_complex(text: &str) -> Option<Value> {
    let body = text.strip_suffix('j').filter(|body| starts_like_a_number(body))?;
    let bytes = body.as_bytes();
    let is_split = |at: usize| {
        let sign = matches!(bytes.get(at), Some(b'+' | b'-'));
        sign && !matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E' | b'+' | b'-'))
    };
    let (real, imaginary) = match (1..bytes.len()).rev().find(|&at| is_split(at)) {
        Some(at) => (body.get(..at)?.parse().ok()?, body.get(at..)?),
        None => (0.0, body),
    };
    let imaginary = imaginary.strip_prefix('+').filter(|rest| rest.starts_with('-')).unwrap_or(imaginary);
    Some(Value::Complex(Complex::new(real, imaginary.parse().ok()?)))
}
// ANCHOR_END: complex

// ANCHOR: list
/// The text between the brackets of a list, or `None` if `raw` is not a list.
pub fn list_body(raw: &str) -> Option<&str> {
    let round = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    round.or_else(|| raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')))
}

/// Splits the body of a list at its commas. A comma inside inner brackets belongs to an element; a trailing comma, as in
/// Python's `(1,)`, adds no element. An unmatched closing bracket is an ordinary character.
pub fn items(body: &str) -> Vec<&str> {
    // ANCHOR: items_todo -- task 1: count the open brackets, and split at the commas outside all of them
    let mut depth = 0_usize;
    let is_end = |letter: char| {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    let mut items: Vec<&str> = body.split(is_end).collect();
    if items.len() > 1 && items.last() == Some(&"") {
        items.pop();
    }
    items
    // ANCHOR_END: items_todo
}

/// Parses the body of a list as the narrowest kind that holds all its elements: bools, ints, floats, complex numbers, or
/// else strings.
pub fn parse_list(body: &str) -> Value {
    // ANCHOR: parse_list_todo -- task 1: try one kind after the other, the narrowest first
    let texts = items(body);
    let values: Vec<Value> = texts.iter().map(|text| parse_scalar(text)).collect();
    all(&values, as_bool)
        .map(Value::Bools)
        .or_else(|| all(&values, as_int).map(Value::Ints))
        .or_else(|| all(&values, as_float).map(Value::Floats))
        .or_else(|| all(&values, as_complex).map(Value::Complexes))
        .unwrap_or_else(|| Value::Strs(texts.into_iter().map(str::to_owned).collect()))
    // ANCHOR_END: parse_list_todo
}

/// Parses any value. Text that contains a `%` is a capture of a pattern graph and stays text, even inside a list.
pub fn parse_value(raw: &str) -> Value {
    // ANCHOR: value_todo -- task 1: the rules in order: `%`, nothing, lists, everything else
    match raw {
        _ if raw.contains('%') => Value::Str(raw.to_owned()),
        "None" | "()" | "[]" => Value::None,
        _ => list_body(raw).map_or_else(|| parse_scalar(raw), parse_list),
    }
    // ANCHOR_END: value_todo
}
// ANCHOR_END: list

// ANCHOR: kinds
/// All values as one kind, or `None` if one of them is not of that kind.
pub fn all<T>(values: &[Value], kind: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(kind).collect()
}

/// The value of a bool, or `None` for any other kind.
pub fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        _ => None,
    }
}

/// The value of an int, or `None` for any other kind.
pub fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        _ => None,
    }
}

/// The value of a float, or of an int as a float; `None` for any other kind.
pub fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// The value of a complex number, or of an int or float as a complex number; `None` for any other kind.
pub fn as_complex(value: &Value) -> Option<Complex<f64>> {
    match value {
        Value::Complex(value) => Some(*value),
        _ => as_float(value).map(|value| Complex::new(value, 0.0)),
    }
}
// ANCHOR_END: kinds

#[cfg(test)]
mod tests {
    use super::*;

    fn value(raw: &str) -> Value {
        parse_value(raw)
    }

    fn text(raw: &str) -> Value {
        Value::Str(raw.to_owned())
    }

    #[test]
    fn scalar_types_are_inferred() {
        assert_eq!(value("True"), Value::Bool(true));
        assert_eq!(value("False"), Value::Bool(false));
        assert_eq!(value("-5"), Value::Int(-5));
        assert_eq!(value("2.0"), Value::Float(2.0));
        assert_eq!(value("1e5"), Value::Float(1e5));
        assert_eq!(value("-3.40282347e38"), Value::Float(-3.40282347e38));
        for none in ["None", "()", "[]"] {
            assert_eq!(value(none), Value::None);
        }
    }

    #[test]
    fn text_that_does_not_start_like_a_number_is_a_string() {
        for raw in
            ["inf", "-inf", "nan", ".5", "+1", "zeros", "torch.float", "", "true", "-", "-x", "ijm,mkl->ijkl"]
        {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn text_that_only_starts_like_a_number_is_a_string() {
        for raw in ["3abc", "1E5", "1.2.3", "1.5E3", "5-", "0x10", "1_000", "12e", "3dj"] {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn numbers_beyond_the_range_become_the_nearest_float() {
        assert_eq!(value("9223372036854775807"), Value::Int(i64::MAX));
        assert_eq!(value("9223372036854775808"), Value::Float(9_223_372_036_854_775_808.0));
        assert_eq!(value("-99999999999999999999"), Value::Float(-1e20));
        assert_eq!(value("1e999"), Value::Float(f64::INFINITY));
        let long = "9".repeat(100_000);
        assert_eq!(value(&long), Value::Float(f64::INFINITY));
    }

    #[test]
    fn a_list_has_the_narrowest_kind_that_holds_all_elements() {
        assert_eq!(value("(1,2)"), Value::Ints(vec![1, 2]));
        assert_eq!(value("[1,2]"), Value::Ints(vec![1, 2]));
        assert_eq!(value("(1,2.5)"), Value::Floats(vec![1.0, 2.5]));
        assert_eq!(value("(2.5,1)"), Value::Floats(vec![2.5, 1.0]));
        assert_eq!(value("(True,False)"), Value::Bools(vec![true, false]));
        assert_eq!(value("(1,a,2)"), Value::Strs(vec!["1".into(), "a".into(), "2".into()]));
        assert_eq!(value("(@0,2147483647)"), Value::Strs(vec!["@0".into(), "2147483647".into()]));
        assert_eq!(value("(1,inf)"), Value::Strs(vec!["1".into(), "inf".into()]));
        assert_eq!(value("(1,99999999999999999999)"), Value::Floats(vec![1.0, 1e20]));
    }

    #[test]
    fn a_trailing_comma_adds_no_element() {
        assert_eq!(value("(1,)"), Value::Ints(vec![1]));
        assert_eq!(value("(1,,2)"), Value::Strs(vec!["1".into(), String::new(), "2".into()]));
        assert_eq!(value("(,)"), Value::Strs(vec![String::new()]));
    }

    #[test]
    fn nested_lists_stay_text() {
        assert_eq!(value("[[2,1],[0,1]]"), Value::Strs(vec!["[2,1]".into(), "[0,1]".into()]));
    }

    #[test]
    fn unbalanced_brackets_are_strings() {
        for raw in ["(1,2", "(", "[1)", "1,2)", ")", "("] {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn pattern_captures_stay_text() {
        for raw in ["%a", "(%a,%b)", "None%", "%op.attr"] {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn complex_numbers_keep_both_parts() {
        assert_eq!(value("1.200000e+00+-9.000000e-01j"), Value::Complex(Complex::new(1.2, -0.9)));
        assert_eq!(value("1.200000e+00-9.000000e-01j"), Value::Complex(Complex::new(1.2, -0.9)));
        assert_eq!(value("-1e-5+2.5e+03j"), Value::Complex(Complex::new(-1e-5, 2.5e3)));
        assert_eq!(value("2.5j"), Value::Complex(Complex::new(0.0, 2.5)));
        let list = vec![Complex::new(1.0, 0.0), Complex::new(0.0, 2.0)];
        assert_eq!(value("(1,0e+00+2e+00j)"), Value::Complexes(list));
    }
}
