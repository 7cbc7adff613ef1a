//! Formatting values as PNNX does, so that an edited file looks like an exported one.

use super::Parameter;
use num_complex::Complex;

/// Formats a 32-bit float as PNNX does.
///
/// Magnitudes below 1e-4 and from 1e6 up have an exponent; other numbers are plain decimals with at least one
/// fraction digit. Six significant digits are used if they read back as the same number, otherwise nine.
pub(crate) fn encode_f32(value: f32) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    if !value.is_finite() {
        return non_finite(f64::from(value));
    }
    if !(1e-4..1e6).contains(&magnitude) {
        let short = format!("{value:.6e}");
        return if short.parse() == Ok(value) { short } else { format!("{value:.8e}") };
    }
    let short = plain(value, 6);
    let text = if short.parse() == Ok(value) { short } else { plain(value, 9) };
    match text.split_once('.') {
        None => text + ".0",
        Some((_, fraction)) if fraction.len() > 9 => format!("{value:.8e}"),
        Some(_) => text,
    }
}

/// Formats a 64-bit float: as PNNX does if that reads back as the same number, otherwise with all the digits it
/// needs.
pub(crate) fn encode_f64(value: f64) -> String {
    let short = encode_f32(value as f32);
    if short.parse() == Ok(value) || value.is_nan() {
        return short;
    }
    if !value.is_finite() {
        return non_finite(value);
    }
    let text = format!("{value:?}");
    if text.contains(['.', 'e']) { text } else { text + ".0" }
}

/// Formats infinities and NaN. They are read back as strings, and as floats by [`Parameter::as_f64`].
fn non_finite(value: f64) -> String {
    let text = if value.is_nan() {
        "nan"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    text.to_owned()
}

/// Plain decimal notation with `digits` significant digits and no trailing zeros, like C's `%g`.
fn plain(value: f32, digits: usize) -> String {
    // The exponent after rounding gives the number of decimals: 9.9999996 has six digits as 10.0000.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i64 =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(digits as i64 - 1 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a complex number as in a PNNX parameter: both parts with `%e`, joined by `+`, so that a negative
/// imaginary part gives `+-`.
fn encode_complex(value: Complex<f64>) -> String {
    format!("{}+{}j", c_exponent(value.re), c_exponent(value.im))
}

/// Formats a complex number as in a PNNX expression: like [`encode_complex`], but with one sign between the parts.
pub(crate) fn encode_c_complex(value: Complex<f64>) -> String {
    let imaginary = c_exponent(value.im);
    let plus = if imaginary.starts_with('-') { "" } else { "+" };
    format!("{}{plus}{imaginary}j", c_exponent(value.re))
}

/// C's `%e`: six fraction digits if they are enough, and an exponent with a sign and at least two digits.
fn c_exponent(value: f64) -> String {
    let short = format!("{value:.6e}");
    let text = if short.parse() == Ok(value) { short } else { format!("{value:e}") };
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

fn encode_bool(value: bool) -> String {
    if value { "True".into() } else { "False".into() }
}

fn encode_list<T: Copy>(values: &[T], encode: impl Fn(T) -> String) -> String {
    let items: Vec<String> = values.iter().map(|&value| encode(value)).collect();
    format!("({})", items.join(","))
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Self {
        Self::parse(value)
    }
}

impl From<String> for Parameter {
    fn from(value: String) -> Self {
        Self::parse(&value)
    }
}

/// Parses the formatted text, so that a parameter created in code equals the same parameter loaded from a file.
macro_rules! parameter_from {
    ($($source:ty => |$value:ident| $raw:expr),* $(,)?) => {$(
        impl From<$source> for Parameter {
            fn from($value: $source) -> Self {
                Self::parse(&$raw)
            }
        }
    )*};
}

parameter_from! {
    bool => |value| encode_bool(value),
    i32 => |value| value.to_string(),
    i64 => |value| value.to_string(),
    f32 => |value| encode_f32(value),
    f64 => |value| encode_f64(value),
    Complex<f64> => |value| encode_complex(value),
    Vec<bool> => |values| encode_list(&values, encode_bool),
    Vec<i64> => |values| encode_list(&values, |value| value.to_string()),
    Vec<f32> => |values| encode_list(&values, encode_f32),
    Vec<f64> => |values| encode_list(&values, encode_f64),
    Vec<String> => |values| format!("({})", values.join(",")),
    Vec<Complex<f64>> => |values| encode_list(&values, encode_complex),
    &[i64] => |values| encode_list(values, |value| value.to_string()),
    &[f64] => |values| encode_list(values, encode_f64),
}

impl<T: Into<Parameter>> From<Option<T>> for Parameter {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self::parse("None"), Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn floats_look_as_in_exported_files() {
        let samples = [
            (0.0_f32, "0.0"),
            (1.0, "1.0"),
            (2.5, "2.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (1e-5, "1.000000e-5"),
            (1e-12, "1.000000e-12"),
            (1e6, "1.000000e6"),
            (999_999.5, "999999.5"),
            (-3.402_823_5e38, "-3.40282347e38"),
            (0.074_257_73, "7.42577314e-2"),
            (0.408_248_3, "0.408248305"),
            (2.976_744, "2.97674394"),
            (0.123_456_79, "0.123456791"),
            (-0.25, "-0.25"),
            (123_456.0, "123456.0"),
        ];
        for (value, wanted) in samples {
            assert_eq!(encode_f32(value), wanted);
        }
    }

    #[test]
    fn doubles_keep_the_digits_that_floats_lose() {
        assert_eq!(encode_f64(0.1), "0.1");
        assert_eq!(encode_f64(1e-5), "1.000000e-5");
        assert_eq!(encode_f64(0.123_456_789_012_345_6), "0.1234567890123456");
        assert_eq!(encode_f64(1e300), "1e300");
        assert_eq!(encode_f64(16_777_217.0), "16777217.0");
    }

    #[test]
    fn infinities_and_nan_are_words_that_read_as_floats() {
        for (value, raw) in [(f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf"), (f64::NAN, "nan")] {
            let parameter = Parameter::from(value);
            assert_eq!((parameter.raw(), parameter.value()), (raw, &Value::Str(raw.to_owned())));
            let back = parameter.as_f64().unwrap();
            assert!(back == value || (back.is_nan() && value.is_nan()));
        }
    }

    #[test]
    fn lists_use_round_brackets_and_an_empty_one_reads_as_none() {
        assert_eq!(Parameter::from(vec![1_i64, -2]).raw(), "(1,-2)");
        assert_eq!(Parameter::from(vec![1.0_f32, 0.5]).raw(), "(1.0,0.5)");
        assert_eq!(Parameter::from(vec![true, false]).raw(), "(True,False)");
        assert_eq!(Parameter::from(vec!["a".to_owned(), "b".to_owned()]).raw(), "(a,b)");
        let empty = Parameter::from(Vec::<i64>::new());
        assert_eq!((empty.raw(), empty.value()), ("()", &Value::None));
        assert_eq!(Parameter::from(None::<i64>).raw(), "None");
        assert_eq!(Parameter::from(Some(3_i64)).raw(), "3");
    }

    #[test]
    fn complex_numbers_look_like_c() {
        let value = Complex::new(1.2, -0.9);
        assert_eq!(Parameter::from(value).raw(), "1.200000e+00+-9.000000e-01j");
        assert_eq!(encode_c_complex(value), "1.200000e+00-9.000000e-01j");
        assert_eq!(encode_c_complex(Complex::new(0.0, 1.0)), "0.000000e+00+1.000000e+00j");
    }

    proptest! {
        #[test]
        fn every_finite_float_reads_back_the_same(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = encode_f32(value);
            prop_assert_eq!(text.parse::<f32>().unwrap().to_bits(), bits);
            prop_assert!(text.contains(['.', 'e']));
        }

        #[test]
        fn every_finite_double_reads_back_the_same(value in any::<f64>()) {
            let parameter = Parameter::from(value);
            prop_assert_eq!(parameter.as_f64().unwrap().to_bits(), value.to_bits());
            prop_assert!(matches!(parameter.value(), Value::Float(_)));
        }

        #[test]
        fn every_complex_number_reads_back_the_same(re in -1e30_f64..1e30, im in -1e30_f64..1e30) {
            let value = Complex::new(re, im);
            let parameter = Parameter::from(value);
            prop_assert_eq!(parameter.value(), &Value::Complex(value));
        }
    }
}
