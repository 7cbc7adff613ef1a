//! The values of keyword options: text, numbers, paths, shapes, sizes and scales.

use crate::error::{InputError, OrRaise};
use ixion::Limits;
use ixion::engine::{Formats, Precision, Scales};
use ixion::onnx::{Constants, Fixed};
use ixion::shape::InputShape;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyMapping, PyString};
use std::path::PathBuf;
use std::time::Duration;

/// The largest number of threads, as of the command.
const MAX_THREADS: usize = 1024;

/// The lengths that an input may have.
pub(crate) enum Lengths {
    Shape(InputShape),
    /// The smallest, the most likely and the largest.
    Range([Vec<usize>; 3]),
}

/// The exception for an option whose value is none of those that it may have.
pub(crate) fn wrong(name: &str, wanted: &str, found: &Bound<'_, PyAny>) -> PyErr {
    InputError::new_err(format!("`{name}` must be {wanted}, but is {}", described(found)))
}

/// A value as in messages: as Python writes it if that is short, or else its type.
fn described(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 60;
    // Something with more items has a longer text, which may be very long.
    let is_long = value.len().is_ok_and(|length| length > LONGEST);
    let text = if is_long { None } else { value.repr().ok() };
    let text = text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    if !text.is_empty() && text.len() <= LONGEST && !text.contains('\n') {
        return text;
    }
    let name = value.get_type().name().map(|name| name.to_string_lossy().into_owned());
    format!("of the type {}", name.unwrap_or_else(|_| "object".to_owned()))
}

/// A string.
pub(crate) fn text(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    value.extract::<String>().map_err(|_| wrong(name, "a string", value))
}

/// True or false.
pub(crate) fn flag(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    value.extract::<bool>().map_err(|_| wrong(name, "True or False", value))
}

/// A number that is not negative.
pub(crate) fn number(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let number = value.extract::<u64>().ok().filter(|_| !value.is_instance_of::<PyBool>());
    number.ok_or_else(|| wrong(name, "a number from 0 to 2**64 - 1", value))
}

/// A path: a string or an `os.PathLike`.
pub(crate) fn path(value: &Bound<'_, PyAny>, name: &str) -> PyResult<PathBuf> {
    value.extract::<PathBuf>().map_err(|_| wrong(name, "a path", value))
}

/// A number of threads.
pub(crate) fn threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let threads = value.extract::<usize>().ok().filter(|&threads| threads <= MAX_THREADS);
    let threads = threads.filter(|_| !value.is_instance_of::<PyBool>());
    threads.ok_or_else(|| wrong("threads", "a number from 0 (all processors) to 1024", value))
}

/// One string or several.
pub(crate) fn names(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<String>> {
    let refused = || wrong(name, "a string or a sequence of strings", value);
    if value.is_instance_of::<PyString>() {
        return Ok(vec![text(value, name)?]);
    }
    let items = value.try_iter().map_err(|_| refused())?;
    items.map(|item| item?.extract::<String>().map_err(|_| refused())).collect()
}

/// One path or several.
pub(crate) fn paths(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<PathBuf>> {
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(vec![path]);
    }
    let refused = || wrong(name, "a path or a sequence of paths", value);
    let items = value.try_iter().map_err(|_| refused())?;
    items.map(|item| item?.extract::<PathBuf>().map_err(|_| refused())).collect()
}

/// The items of a dictionary with strings as keys.
pub(crate) fn mapping<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let refused = || wrong(name, "a dictionary with strings as keys", value);
    let given = match value.cast::<PyMapping>() {
        Ok(given) => value.py().get_type::<PyDict>().call1((given,))?,
        Err(_) => return Err(refused()),
    };
    let given = given.cast::<PyDict>().map_err(|_| refused())?;
    given.iter().map(|(key, item)| Ok((key.extract::<String>().map_err(|_| refused())?, item))).collect()
}

/// The items of a dictionary of strings.
pub(crate) fn pairs(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<(String, String)>> {
    let items = mapping(value, name)?.into_iter();
    items.map(|(key, item)| Ok((key, text(&item, name)?))).collect()
}

/// `constants`: numbers or lists of numbers for inputs of an ONNX file.
pub(crate) fn constants(value: &Bound<'_, PyAny>) -> PyResult<Constants> {
    let items = mapping(value, "constants")?.into_iter();
    items.map(|(input, value)| Ok((input, constant(&value)?))).collect()
}

fn constant(value: &Bound<'_, PyAny>) -> PyResult<Fixed> {
    // Of arrays and tensors as well.
    let value = if value.hasattr("tolist")? { value.call_method0("tolist")? } else { value.clone() };
    if let Ok(number) = value.extract::<i64>() {
        return Ok(Fixed::Integers(vec![number]));
    }
    // An integer that has more than 64 bits is no float.
    if let Ok(number) = value.extract::<f64>()
        && !value.is_instance_of::<PyInt>()
    {
        return Ok(Fixed::Floats(vec![number]));
    }
    if let Ok(numbers) = value.extract::<Vec<i64>>() {
        return Ok(Fixed::Integers(numbers));
    }
    let numbers = value.extract::<Vec<f64>>().map(Fixed::Floats);
    numbers.map_err(|_| wrong("constants", "numbers or lists of numbers as values", &value))
}

/// `precision`: the element types that may replace f32.
pub(crate) fn precisions(value: &Bound<'_, PyAny>) -> PyResult<Vec<Precision>> {
    let parsed = |text: &str| text.trim().parse::<Precision>().map_err(InputError::new_err);
    let names = names(value, "precision")?;
    names.iter().flat_map(|name| name.split(',')).map(parsed).collect()
}

/// `layouts`: the layouts that the engine chooses from.
pub(crate) fn formats(value: &Bound<'_, PyAny>) -> PyResult<Formats> {
    let wanted = "\"cheapest\", \"plain\", \"alternating\" or \"narrowest\"";
    match text(value, "layouts")?.as_str() {
        "cheapest" => Ok(Formats::Cheapest),
        "plain" => Ok(Formats::Plain),
        "alternating" => Ok(Formats::Alternating),
        "narrowest" => Ok(Formats::Narrowest),
        _ => Err(wrong("layouts", wanted, value)),
    }
}

/// `scales`: the path of a file, the scales that calibration returned, or a dictionary of scales by operand.
pub(crate) fn scales(value: &Bound<'_, PyAny>) -> PyResult<Scales> {
    if let Ok(path) = value.extract::<PathBuf>() {
        return Scales::load(path).or_raise();
    }
    if value.hasattr("to_json")? {
        let json = value.call_method0("to_json")?.extract::<String>()?;
        return Scales::parse(json.as_bytes()).or_raise();
    }
    let wanted = "the path of a file, what `ixion.calibrate` returns, or a dictionary of numbers by operand";
    let items = mapping(value, "scales").map_err(|_| wrong("scales", wanted, value))?;
    let scale = |(operand, scale): (String, Bound<'_, PyAny>)| match scale.extract::<f32>() {
        Ok(scale) if scale > 0.0 && scale.is_finite() => Ok((operand, scale)),
        _ => Err(wrong(&format!("scales[{operand:?}]"), "a number above 0", &scale)),
    };
    items.into_iter().map(scale).collect()
}

/// `limits`: a size for everything that the model holds, or a dictionary of limits; and the time that building may take.
pub(crate) fn limits(value: &Bound<'_, PyAny>) -> PyResult<(Limits, Option<Duration>)> {
    let (mut limits, mut timeout) = (Limits::default(), None);
    if !value.is_instance_of::<PyMapping>() {
        let bytes = size(value, "limits")?;
        (limits.max_total_bytes, limits.max_tensor_bytes) = (bytes, bytes);
        return Ok((limits, timeout));
    }
    for (name, value) in mapping(value, "limits")? {
        match name.as_str() {
            "memory" => {
                let bytes = size(&value, "memory")?;
                (limits.max_total_bytes, limits.max_tensor_bytes) = (bytes, bytes);
            }
            "max_total_bytes" => limits.max_total_bytes = size(&value, &name)?,
            "max_tensor_bytes" => limits.max_tensor_bytes = size(&value, &name)?,
            "max_ops" => limits.max_ops = count(&value, &name)?,
            "max_rank" => limits.max_rank = count(&value, &name)?,
            "timeout" => timeout = Some(seconds(&value)?),
            _ => {
                let known = "memory, max_total_bytes, max_tensor_bytes, max_ops, max_rank, timeout";
                return Err(InputError::new_err(format!("unknown limit `{name}`; expected one of {known}")));
            }
        }
    }
    Ok((limits, timeout))
}

fn count(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    usize::try_from(number(value, name)?).map_err(|_| wrong(name, "a smaller number", value))
}

/// A size in bytes: a number, or a string such as `500M`, whose suffix is a power of 1024.
fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let refused = || wrong(name, "a number of bytes, such as 1000000, \"500M\" or \"1.5G\"", value);
    if !value.is_instance_of::<PyString>() {
        return number(value, name).ok().filter(|bytes| *bytes > 0).ok_or_else(refused);
    }
    let text = text(value, name)?;
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase();
    let power = match suffix.as_str() {
        "" | "B" => 0.0,
        "K" | "KB" | "KIB" => 10.0,
        "M" | "MB" | "MIB" => 20.0,
        "G" | "GB" | "GIB" => 30.0,
        "T" | "TB" | "TIB" => 40.0,
        _ => return Err(refused()),
    };
    let bytes = digits.trim().parse::<f64>().map_err(|_| refused())? * f64::exp2(power);
    if bytes.is_finite() && bytes >= 1.0 { Ok(bytes as u64) } else { Err(refused()) }
}

/// `timeout`: a number of seconds above 0.
pub(crate) fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = value.extract::<f64>().ok().filter(|_| !value.is_instance_of::<PyBool>());
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| wrong("timeout", "a number of seconds above 0, such as 30 or 0.5", value))
}

/// The shape or the range of shapes of an input: text as the command takes it (`"n,3,?,224"`, `"1,3:2,3:4,3"`), a sequence of
/// lengths, which are numbers, names or None, or a sequence of three sequences of numbers.
pub(crate) fn lengths(input: &str, value: &Bound<'_, PyAny>) -> PyResult<Lengths> {
    let refused = || {
        InputError::new_err(format!(
            "`{input}` is neither an option nor an input with a shape; a shape is such as (\"n\", 3, None, 224), and a range of \
             shapes is three, the smallest, the most likely and the largest: found {}",
            described(value)
        ))
    };
    if value.is_instance_of::<PyString>() {
        return written(input, &text(value, input)?);
    }
    let items = value.try_iter().map_err(|_| refused())?.collect::<PyResult<Vec<_>>>()?;
    let words: Option<Vec<String>> = items.iter().map(axis).collect();
    if let Some(words) = words {
        return words.join(",").parse::<InputShape>().map(Lengths::Shape).or_raise();
    }
    let shapes = items.iter().map(|shape| shape.extract::<Vec<usize>>());
    let shapes = shapes.collect::<PyResult<Vec<_>>>().map_err(|_| refused())?;
    <[Vec<usize>; 3]>::try_from(shapes).map(Lengths::Range).map_err(|_| refused())
}

/// The length of one axis, as it is written in a shape; `None` if it is none.
fn axis(item: &Bound<'_, PyAny>) -> Option<String> {
    if item.is_none() {
        return Some("?".to_owned());
    }
    if item.is_instance_of::<PyString>() {
        // Text with several axes is a shape.
        return item.extract::<String>().ok().filter(|text| !text.contains([',', ':']));
    }
    let length = item.extract::<u32>().ok().filter(|_| !item.is_instance_of::<PyBool>());
    length.map(|length| length.to_string())
}

/// A shape or a range as text.
fn written(input: &str, text: &str) -> PyResult<Lengths> {
    if !text.contains(':') {
        return text.parse::<InputShape>().map(Lengths::Shape).or_raise();
    }
    let refused = || {
        let wanted = "three shapes, such as \"1,3,64,64:1,3,224,224:8,3,512,512\"";
        InputError::new_err(format!("the range of `{input}` must be {wanted}, but is {text:?}"))
    };
    let length = |word: &str| word.trim().parse::<u32>().map(|length| length as usize).map_err(|_| refused());
    let shape = |shape: &str| match shape.trim() {
        "" => Ok(Vec::new()),
        shape => shape.split(',').map(length).collect::<PyResult<Vec<_>>>(),
    };
    let shapes = text.split(':').map(shape).collect::<PyResult<Vec<_>>>()?;
    <[Vec<usize>; 3]>::try_from(shapes).map(Lengths::Range).map_err(|_| refused())
}

/// A number from 0 on, of which a parameter takes at most `T`'s largest.
pub(crate) struct Count<T>(pub(crate) T);

impl<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Count<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let of_range = |error: PyErr| match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => {
                InputError::new_err(format!("expected a smaller number that is not negative, got {}", *value))
            }
            false => error,
        };
        value.extract::<T>().map(Self).map_err(of_range)
    }
}
