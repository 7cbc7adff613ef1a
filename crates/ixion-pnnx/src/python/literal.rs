//! Parameters as Python literals.

use super::names::is_dotted;
use crate::Value;
use crate::parameter::{Parameter, parse_float_word};
use num_complex::Complex;

/// A parameter's value as Python source.
pub(super) fn literal(parameter: &Parameter) -> String {
    match parameter.value() {
        Value::None if parameter.raw() == "None" => "None".to_owned(),
        Value::None => "()".to_owned(),
        Value::Bool(value) => bool(*value).to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float(*value),
        Value::Complex(value) => complex(*value),
        Value::Str(text) => word(text),
        Value::Bools(values) => tuple(values.iter().map(|&value| bool(value).to_owned())),
        Value::Ints(values) => tuple(values.iter().map(i64::to_string)),
        Value::Floats(values) => tuple(values.iter().map(|&value| float(value))),
        Value::Complexes(values) => tuple(values.iter().map(|&value| complex(value))),
        Value::Strs(texts) => tuple(texts.iter().map(|text| item(text))),
    }
}

/// An element of a list of strings. Such a list may mix kinds, so the element is parsed on its own.
fn item(text: &str) -> String {
    literal(&Parameter::parse(text))
}

pub(super) fn bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// A float that Python reads back as the same value.
///
/// PNNX writes the largest f32 with nine digits. As an f64 that is larger than any f32, and PyTorch would reject
/// it, so it becomes the largest f32.
pub(super) fn float(value: f64) -> String {
    let largest = f64::from(f32::MAX);
    let rounds_to_f32 = value.abs() > largest && (value as f32).is_finite();
    let value = if rounds_to_f32 { largest.copysign(value) } else { value };
    if value.is_finite() { format!("{value:?}") } else { format!("float(\"{value}\")") }
}

pub(super) fn complex(value: Complex<f64>) -> String {
    format!("complex({}, {})", float(value.re), float(value.im))
}

/// A word: an object of PyTorch, an infinite float, or a string.
pub(super) fn word(text: &str) -> String {
    if text.starts_with("torch.") && is_dotted(text) {
        return text.to_owned();
    }
    match parse_float_word(text).filter(|value| !value.is_finite()) {
        Some(value) => float(value),
        None => string(text),
    }
}

/// A quoted string. Everything but printable ASCII is escaped, so that no text can escape its quotes.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// A tuple, with a trailing comma if it has a single element.
pub(super) fn tuple(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    match items.as_slice() {
        [item] => format!("({item},)"),
        items => format!("({})", items.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(raw: &str) -> String {
        literal(&Parameter::parse(raw))
    }

    #[test]
    fn every_kind_has_its_python_form() {
        let pairs = [
            ("None", "None"),
            ("()", "()"),
            ("True", "True"),
            ("-3", "-3"),
            ("1.000000e-5", "1e-5"),
            ("2.0", "2.0"),
            ("-3.40282347e38", "-3.4028234663852886e38"),
            ("1e300", "1e300"),
            ("zeros", "\"zeros\""),
            ("torch.float", "torch.float"),
            ("-inf", "float(\"-inf\")"),
            ("(2)", "(2,)"),
            ("(2,3)", "(2, 3)"),
            ("(1.5,2)", "(1.5, 2.0)"),
            ("(None,7)", "(None, 7)"),
            ("(True,False)", "(True, False)"),
            ("1e+00-2e+00j", "complex(1.0, -2.0)"),
        ];
        for (raw, wanted) in pairs {
            assert_eq!(python(raw), wanted);
        }
    }

    #[test]
    fn no_text_escapes_its_quotes() {
        assert_eq!(python("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(python("é"), r#""\U000000e9""#);
        assert_eq!(python("torch.x;import"), "\"torch.x;import\"");
    }
}
