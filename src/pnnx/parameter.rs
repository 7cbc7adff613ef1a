//! Operator parameters: the `key=value` settings of a `.param` line, such as `stride=(2,2)`.
//!
//! The format has no quoting and writes no types, so a value's type is guessed from its looks. The guess can
//! be wrong (the expression `[[2,1],[0,1]]` is no list of strings), so a [`Parameter`] keeps the raw text
//! beside the parsed [`Value`], and the raw text is what is written back.

mod encode;
mod typed;

pub(super) use encode::{encode_c_complex, encode_f64};
pub(super) use typed::parse_float_word;
pub use typed::{FromParameter, ParamTypeError};

use num_complex::Complex;

/// One parameter: the text of the file and what it was understood as.
///
/// ```
/// use ixion::pnnx::{Parameter, Value};
/// assert_eq!(Parameter::parse("(2,2)").value(), &Value::Ints(vec![2, 2]));
/// assert_eq!(Parameter::parse("1.000000e-5").value(), &Value::Float(1e-5));
/// assert_eq!(Parameter::from(1e-5).raw(), "1.000000e-5");
/// assert_eq!(Parameter::from(vec![2i64, 2]).raw(), "(2,2)");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    raw: Box<str>,
    value: Value,
}

/// What a parameter's text means.
///
/// A list takes the narrowest kind that holds all its elements: ints, then floats, then complex numbers, and
/// strings where nothing else fits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `None`, `()` or `[]`. An empty list cannot be told from nothing.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number that fits 64 bits.
    Int(i64),
    /// A number with a `.` or a lower-case `e`, or a whole number that does not fit 64 bits.
    Float(f64),
    /// Anything that looks like nothing else, `inf`, `.5`, `+1`, `1E5` and the empty text included.
    Str(String),
    /// A list of bools.
    Bools(Vec<bool>),
    /// A list of ints.
    Ints(Vec<i64>),
    /// A list of floats, or of ints and floats.
    Floats(Vec<f64>),
    /// A list of anything else; nested lists stay text, one string for each element of the outer list.
    Strs(Vec<String>),
    /// A complex number such as `1.0e+00-2.0e+00j`.
    Complex(Complex<f64>),
    /// A list of complex numbers, or of real and complex ones.
    Complexes(Vec<Complex<f64>>),
}

impl Value {
    /// The kind in words, for messages.
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

impl Parameter {
    /// Reads a value as PNNX writes it. Every text is a value, so this never fails.
    pub fn parse(raw: &str) -> Self {
        Self { raw: raw.into(), value: parse_value(raw) }
    }

    /// The text as it stands in the file.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// What the text was understood as.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// True for `None`, `()` and `[]`.
    pub fn is_none(&self) -> bool {
        self.value == Value::None
    }
}

/// The typing rules in their order: the first that fits wins.
fn parse_value(raw: &str) -> Value {
    match raw {
        // A capture of a pattern graph stays as it is, even inside a list.
        _ if raw.contains('%') => Value::Str(raw.to_owned()),
        "None" | "()" | "[]" => Value::None,
        _ => match list_body(raw) {
            Some(body) => parse_list(body),
            None => parse_scalar(raw).into_value(raw),
        },
    }
}

/// A single value that is not a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(Complex<f64>),
    Word,
}

impl Scalar {
    fn into_value(self, raw: &str) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Complex(value) => Value::Complex(value),
            Self::Word => Value::Str(raw.to_owned()),
        }
    }
}

/// Tells numbers and bools from words. A number starts with a digit, or with `-` and a digit.
pub(super) fn parse_scalar(text: &str) -> Scalar {
    match text {
        "True" => return Scalar::Bool(true),
        "False" => return Scalar::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Scalar::Word;
    }
    parse_number(text, digits).unwrap_or(Scalar::Word)
}

/// Reads a text that begins like a number. `3abc` and `1E5` are not numbers to PNNX, nor here.
fn parse_number(text: &str, digits: &str) -> Option<Scalar> {
    if let Some(body) = text.strip_suffix('j') {
        return parse_complex(body).map(Scalar::Complex);
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = text.parse().map(Scalar::Int);
        return whole.or_else(|_| text.parse().map(Scalar::Float)).ok();
    }
    if !text.contains(['.', 'e']) || text.contains('E') {
        return None;
    }
    text.parse().map(Scalar::Float).ok()
}

/// Reads the part before the `j`: `1.2e+00-9.0e-01`, `1.2e+00+-9.0e-01` (as PNNX writes parameters) or `2.5`.
fn parse_complex(body: &str) -> Option<Complex<f64>> {
    let bytes = body.as_bytes();
    let is_split = |at: usize| {
        let sign = matches!(bytes.get(at), Some(b'+' | b'-'));
        sign && !matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E' | b'+' | b'-'))
    };
    match (1..bytes.len()).rev().find(|&at| is_split(at)) {
        None => Some(Complex::new(0.0, body.parse().ok()?)),
        Some(at) => {
            let (real, imaginary) = (body.get(..at)?, body.get(at..)?);
            let imaginary =
                imaginary.strip_prefix("+-").map_or(imaginary.to_owned(), |text| format!("-{text}"));
            Some(Complex::new(real.parse().ok()?, imaginary.parse().ok()?))
        }
    }
}

/// The text between the brackets of a list.
fn list_body(raw: &str) -> Option<&str> {
    let round = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    round.or_else(|| raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')))
}

fn parse_list(body: &str) -> Value {
    all(body, bool_item)
        .map(Value::Bools)
        .or_else(|| all(body, int_item).map(Value::Ints))
        .or_else(|| all(body, float_item).map(Value::Floats))
        .or_else(|| all(body, complex_item).map(Value::Complexes))
        .unwrap_or_else(|| Value::Strs(Items::of(body).map(str::to_owned).collect()))
}

/// All elements of a list as one kind, or nothing if one of them is not of that kind.
fn all<T>(body: &str, kind: impl Fn(Scalar) -> Option<T>) -> Option<Vec<T>> {
    Items::of(body).map(|item| kind(parse_scalar(item))).collect()
}

fn bool_item(scalar: Scalar) -> Option<bool> {
    match scalar {
        Scalar::Bool(value) => Some(value),
        _ => None,
    }
}

fn int_item(scalar: Scalar) -> Option<i64> {
    match scalar {
        Scalar::Int(value) => Some(value),
        _ => None,
    }
}

fn float_item(scalar: Scalar) -> Option<f64> {
    match scalar {
        Scalar::Int(value) => Some(value as f64),
        Scalar::Float(value) => Some(value),
        _ => None,
    }
}

fn complex_item(scalar: Scalar) -> Option<Complex<f64>> {
    match scalar {
        Scalar::Complex(value) => Some(value),
        _ => float_item(scalar).map(|value| Complex::new(value, 0.0)),
    }
}

/// The elements of a list: what stands between the commas outside inner brackets. A comma at the end, as in
/// Python's `(1,)`, adds no element.
struct Items<'a> {
    rest: Option<&'a str>,
}

impl<'a> Items<'a> {
    fn of(body: &'a str) -> Self {
        Self { rest: Some(body) }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest.take()?;
        let (item, after) = match outer_comma(rest).and_then(|comma| rest.split_at_checked(comma)) {
            None => (rest, None),
            Some((item, after)) => (item, after.strip_prefix(',').filter(|after| !after.is_empty())),
        };
        self.rest = after;
        Some(item)
    }
}

/// Position of the first comma outside brackets.
fn outer_comma(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|byte| {
        match byte {
            b'(' | b'[' => depth = depth.saturating_add(1),
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(raw: &str) -> Value {
        Parameter::parse(raw).value
    }

    fn text(raw: &str) -> Value {
        Value::Str(raw.to_owned())
    }

    #[test]
    fn scalars_are_typed_by_their_looks() {
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
    fn what_does_not_start_like_a_number_is_a_string() {
        for raw in
            ["inf", "-inf", "nan", ".5", "+1", "zeros", "torch.float", "", "true", "-", "-x", "ijm,mkl->ijkl"]
        {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn what_only_starts_like_a_number_is_a_string() {
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
    fn a_list_takes_the_kind_that_holds_all_elements() {
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
    fn a_comma_at_the_end_adds_no_element() {
        assert_eq!(value("(1,)"), Value::Ints(vec![1]));
        assert_eq!(value("(1,,2)"), Value::Strs(vec!["1".into(), String::new(), "2".into()]));
        assert_eq!(value("(,)"), Value::Strs(vec![String::new()]));
    }

    #[test]
    fn nested_lists_stay_text() {
        assert_eq!(value("[[2,1],[0,1]]"), Value::Strs(vec!["[2,1]".into(), "[0,1]".into()]));
        assert_eq!(Parameter::parse("[[2,1],[0,1]]").raw(), "[[2,1],[0,1]]");
    }

    #[test]
    fn unbalanced_brackets_are_strings() {
        for raw in ["(1,2", "(", "[1)", "1,2)", ")", "("] {
            assert_eq!(value(raw), text(raw), "{raw}");
        }
    }

    #[test]
    fn captures_of_patterns_stay_as_they_are() {
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

    proptest! {
        #[test]
        fn any_text_is_a_value_and_keeps_its_raw_form(raw in "[-+0-9a-eEj@%.,()\\[\\]]{0,24}") {
            let parameter = Parameter::parse(&raw);
            prop_assert_eq!(parameter.raw(), raw);
        }
    }
}
