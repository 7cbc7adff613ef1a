//! Operator parameters: the `key=value` fields of a `.param` line, such as `stride=(2,2)`.
//!
//! The format has neither quoting nor type annotations, so a value's type is inferred from its text. The
//! inference can be wrong (the expression `[[2,1],[0,1]]` is not a list of strings), so a [`Parameter`] keeps
//! the raw text as well as the parsed [`Value`], and writes back the raw text.

mod encode;
mod typed;

pub(super) use encode::{encode_c_complex, encode_f64};
pub(super) use typed::parse_float_word;
pub use typed::{FromParameter, ParamTypeError};

use super::value::{Value, parse_value};

/// One parameter: its text in the file and the value parsed from it.
///
/// ```
/// use ixion_pnnx::{Parameter, Value};
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

impl Parameter {
    /// Parses a value as PNNX writes it. Every text is a value, so this never fails.
    pub fn parse(raw: &str) -> Self {
        Self { raw: raw.into(), value: parse_value(raw) }
    }

    /// The text as in the file.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The value parsed from the text.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns true for `None`, `()` and `[]`.
    pub fn is_none(&self) -> bool {
        self.value == Value::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_value_and_keeps_its_raw_form(raw in "[-+0-9a-eEj@%.,()\\[\\]]{0,24}") {
            let parameter = Parameter::parse(&raw);
            prop_assert_eq!(parameter.raw(), raw);
        }
    }
}
