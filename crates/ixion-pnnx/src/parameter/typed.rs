//! Typed access to a parameter.

use super::{Parameter, Value};

/// An error for a parameter that does not have the requested type.
///
/// [`ParamError`](crate::ParamError) adds the operator and the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {wanted}, found {found}: `{raw}`")]
pub struct ParamTypeError {
    /// The requested type in words.
    pub wanted: &'static str,
    /// The parameter's type in words.
    pub found: &'static str,
    /// The parameter's text.
    pub raw: String,
}

impl Parameter {
    fn wrong(&self, wanted: &'static str) -> ParamTypeError {
        ParamTypeError { wanted, found: self.value.kind(), raw: self.raw.to_string() }
    }

    /// The parameter as a bool.
    ///
    /// # Errors
    /// Returns an error if the parameter is not `True` or `False`.
    pub fn as_bool(&self) -> Result<bool, ParamTypeError> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.wrong("a bool")),
        }
    }

    /// The parameter as an int.
    ///
    /// # Errors
    /// Returns an error for any other type: floats are not rounded, and lists with one element are not unwrapped.
    pub fn as_i64(&self) -> Result<i64, ParamTypeError> {
        match self.value {
            Value::Int(value) => Ok(value),
            _ => Err(self.wrong("an int")),
        }
    }

    /// The parameter as a float. Ints convert to floats (`alpha=2`), as do the words `inf`, `-inf` and `nan` in any
    /// spelling, and numbers that PNNX reads as words (`.5`, `+1`, `1E5`).
    ///
    /// # Errors
    /// Returns an error if the parameter is not a number.
    pub fn as_f64(&self) -> Result<f64, ParamTypeError> {
        let value = match &self.value {
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Str(text) => parse_float_word(text),
            _ => None,
        };
        value.ok_or_else(|| self.wrong("a float"))
    }

    /// The parameter as a string.
    ///
    /// # Errors
    /// Returns an error if the text parses as another type. [`Parameter::raw`] returns the text of any parameter.
    pub fn as_str(&self) -> Result<&str, ParamTypeError> {
        match &self.value {
            Value::Str(text) => Ok(text),
            _ => Err(self.wrong("a string")),
        }
    }

    /// The parameter as a list of bools. `()` is an empty list, `None` is not.
    ///
    /// # Errors
    /// Returns an error for any other type.
    pub fn as_bools(&self) -> Result<Vec<bool>, ParamTypeError> {
        match &self.value {
            Value::Bools(values) => Ok(values.clone()),
            Value::None if self.is_empty_list() => Ok(Vec::new()),
            _ => Err(self.wrong("a list of bools")),
        }
    }

    /// The parameter as a list of ints. `()` is an empty list, `None` is not.
    ///
    /// # Errors
    /// Returns an error for any other type, including a single int.
    pub fn as_i64s(&self) -> Result<Vec<i64>, ParamTypeError> {
        match &self.value {
            Value::Ints(values) => Ok(values.clone()),
            Value::None if self.is_empty_list() => Ok(Vec::new()),
            _ => Err(self.wrong("a list of ints")),
        }
    }

    /// The parameter as a list of floats. Ints and the words `inf` and `nan` convert to floats, as in
    /// [`Parameter::as_f64`]. `()` is an empty list, `None` is not.
    ///
    /// # Errors
    /// Returns an error for any other type.
    pub fn as_f64s(&self) -> Result<Vec<f64>, ParamTypeError> {
        let values = match &self.value {
            Value::Ints(values) => Some(values.iter().map(|&value| value as f64).collect()),
            Value::Floats(values) => Some(values.clone()),
            Value::Strs(texts) => texts.iter().map(|text| parse_float_word(text)).collect(),
            Value::None if self.is_empty_list() => Some(Vec::new()),
            _ => None,
        };
        values.ok_or_else(|| self.wrong("a list of floats"))
    }

    /// The parameter as a list of strings. `()` is an empty list, `None` is not.
    ///
    /// # Errors
    /// Returns an error for any other type.
    pub fn as_strs(&self) -> Result<Vec<String>, ParamTypeError> {
        match &self.value {
            Value::Strs(values) => Ok(values.clone()),
            Value::None if self.is_empty_list() => Ok(Vec::new()),
            _ => Err(self.wrong("a list of strings")),
        }
    }

    /// Distinguishes `()` and `[]`, which also parse as [`Value::None`], from the word `None`.
    fn is_empty_list(&self) -> bool {
        &*self.raw != "None"
    }
}

/// Parses a float in any spelling that Rust accepts (`inf`, `Infinity`, `NaN`, `+1`, `.5`, `1E5`) or that PNNX
/// writes (`nan.0`).
pub(crate) fn parse_float_word(text: &str) -> Option<f64> {
    let value = |text: &str| text.parse::<f64>().ok();
    value(text).or_else(|| text.strip_suffix(".0").and_then(value).filter(|value| !value.is_finite()))
}

/// A type that a parameter can be converted to; see [`Operator::get`](crate::Operator::get).
pub trait FromParameter: Sized {
    /// Converts the parameter to this type.
    ///
    /// # Errors
    /// Returns an error if the parameter has another type.
    fn from_parameter(parameter: &Parameter) -> Result<Self, ParamTypeError>;
}

macro_rules! from_parameter {
    ($($target:ty => $getter:expr),* $(,)?) => {$(
        impl FromParameter for $target {
            fn from_parameter(parameter: &Parameter) -> Result<Self, ParamTypeError> {
                $getter(parameter)
            }
        }
    )*};
}

from_parameter! {
    bool => Parameter::as_bool,
    i64 => Parameter::as_i64,
    f64 => Parameter::as_f64,
    String => |parameter: &Parameter| parameter.as_str().map(str::to_owned),
    Vec<bool> => Parameter::as_bools,
    Vec<i64> => Parameter::as_i64s,
    Vec<f64> => Parameter::as_f64s,
    Vec<String> => Parameter::as_strs,
}

/// `None` for the text `None` and for an empty list, otherwise the value.
impl<T: FromParameter> FromParameter for Option<T> {
    fn from_parameter(parameter: &Parameter) -> Result<Self, ParamTypeError> {
        if parameter.is_none() { Ok(None) } else { T::from_parameter(parameter).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Parameter {
        Parameter::parse(raw)
    }

    #[test]
    fn each_getter_accepts_its_own_kind() {
        assert_eq!(parse("True").as_bool(), Ok(true));
        assert_eq!(parse("-3").as_i64(), Ok(-3));
        assert_eq!(parse("0.5").as_f64(), Ok(0.5));
        assert_eq!(parse("zeros").as_str(), Ok("zeros"));
        assert_eq!(parse("(1,2)").as_i64s(), Ok(vec![1, 2]));
        assert_eq!(parse("(1.5,2)").as_f64s(), Ok(vec![1.5, 2.0]));
        assert_eq!(parse("(a,b)").as_strs(), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(parse("(True)").as_bools(), Ok(vec![true]));
    }

    #[test]
    fn ints_and_words_convert_to_floats() {
        assert_eq!(parse("2").as_f64(), Ok(2.0));
        assert_eq!(parse("(1,2)").as_f64s(), Ok(vec![1.0, 2.0]));
        for raw in ["-inf", "-Inf", "-infinity", "-INFINITY", "-inf.0"] {
            assert_eq!(parse(raw).as_f64(), Ok(f64::NEG_INFINITY), "{raw}");
        }
        for raw in ["nan", "NaN", "nan.0"] {
            assert!(parse(raw).as_f64().unwrap().is_nan(), "{raw}");
        }
        assert_eq!(
            (parse(".5").as_f64(), parse("+1").as_f64(), parse("1E5").as_f64()),
            (Ok(0.5), Ok(1.0), Ok(1e5))
        );
        assert_eq!(parse("(1,inf)").as_f64s(), Ok(vec![1.0, f64::INFINITY]));
    }

    #[test]
    fn nothing_is_rounded_wrapped_or_unwrapped() {
        assert!(parse("2.0").as_i64().is_err());
        assert!(parse("(2)").as_i64().is_err());
        assert!(parse("2").as_i64s().is_err());
        assert!(parse("1").as_bool().is_err());
        assert!(parse("3").as_str().is_err());
        assert!(parse("abc").as_f64().is_err());
        assert!(parse("1.5.0").as_f64().is_err());
    }

    #[test]
    fn an_empty_list_is_a_list_and_none_is_not() {
        assert_eq!(parse("()").as_i64s(), Ok(vec![]));
        assert_eq!(parse("[]").as_strs(), Ok(vec![]));
        assert!(parse("None").as_i64s().is_err());
        assert_eq!(Option::<i64>::from_parameter(&parse("None")), Ok(None));
        assert_eq!(Option::<i64>::from_parameter(&parse("4")), Ok(Some(4)));
    }

    #[test]
    fn the_error_names_both_types() {
        let error = parse("(1,2)").as_bool().unwrap_err();
        assert_eq!(error.to_string(), "expected a bool, found a list of ints: `(1,2)`");
    }
}
