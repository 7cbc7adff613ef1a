//! Reading the fields of an operator from a file, and passing them to a plugin.

use super::abi;
use super::tensors::of_view;
use crate::op::{Field, FieldValue, FromParameter, LayerError, OperatorReader, RuntimeParameter, Weight};
use crate::tensor::Tensor;
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

/// A field with a validated description.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedField {
    pub(super) kind: i32,
    /// The published description. The default is written as in a file.
    pub(super) published: Field,
    /// The library's own key.
    pub(super) key: *const c_char,
}

/// The value of a field from the file, or its fallback.
#[derive(Debug, Default)]
pub(super) struct Given {
    kind: i32,
    is_given: bool,
    i: i64,
    f: f64,
    text: CString,
    ints: Vec<i64>,
    floats: Vec<f64>,
    /// The index of the field's weight among all weights.
    pub(super) weight: Option<usize>,
}

/// The fields of one operator, and the weights among them.
#[derive(Debug, Default)]
pub(super) struct Values {
    given: Vec<Given>,
    weights: Vec<Tensor>,
}

/// Weights that a layer and its clones share, with their descriptions.
#[derive(Debug)]
pub(super) struct Weights {
    /// Owns the elements to which the descriptions point.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "the descriptions point into them"))]
    tensors: Vec<Tensor>,
    described: Vec<abi::Tensor>,
}

// SAFETY: the pointers point into the tensors, which are never written.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

impl Weights {
    #[cfg(feature = "gpu")]
    pub(super) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}

impl Values {
    /// Reads all fields of an operator.
    ///
    /// # Errors
    /// [`LayerError`], which names the key, if a field is missing or has another kind, or a weight cannot be read.
    pub(super) fn read(reader: &mut OperatorReader<'_>, fields: &[CheckedField]) -> Result<Self, LayerError> {
        let mut values = Self::default();
        for field in fields {
            let given = values.field(reader, field)?;
            values.given.push(given);
        }
        Ok(values)
    }

    fn field(&mut self, reader: &mut OperatorReader<'_>, field: &CheckedField) -> Result<Given, LayerError> {
        let key = field.published.key;
        match field.kind {
            abi::WEIGHT => self.weight(field.kind, Weight::require(reader, key)?),
            abi::OPTIONAL_WEIGHT => match Option::<Weight>::read(reader, key)?.flatten() {
                Some(weight) => self.weight(field.kind, weight),
                None => Ok(Given { is_given: reader.param(key).is_some(), ..Given::default() }),
            },
            abi::INPUT => match reader.later_input(key)? {
                Some(position) => {
                    Ok(Given { kind: abi::INPUT, is_given: true, i: position as i64, ..Given::default() })
                }
                None if field.published.default.is_some() => Ok(Given::default()),
                None => Err(missing(reader, field)),
            },
            kind => parameter(reader, field, kind),
        }
    }

    fn weight(&mut self, kind: i32, weight: Weight) -> Result<Given, LayerError> {
        let given = Given { kind, is_given: true, ..Given::default() };
        Ok(match weight {
            Weight::Input(position) => Given { i: position as i64, ..given },
            Weight::Attribute(attribute) => {
                // Plugins expect contiguous weights.
                self.weights.push(attribute.decode()?.contiguous()?);
                Given { weight: Some(self.weights.len() - 1), ..given }
            }
        })
    }

    /// Splits into the fields and the weights, to which the values of a call will point.
    pub(super) fn split(self) -> (Vec<Given>, Weights) {
        let described = self.weights.iter().map(|tensor| of_view(&tensor.view(), 0.0)).collect();
        (self.given, Weights { tensors: self.weights, described })
    }
}

/// The values for a call, which point into `given` and `weights`.
pub(super) fn as_values(given: &[Given], fields: &[CheckedField], weights: &Weights) -> Vec<abi::Value> {
    let value = |(given, field): (&Given, &CheckedField)| abi::Value {
        key: field.key,
        kind: given.kind,
        is_given: given.is_given.into(),
        i: given.i,
        f: given.f,
        text: given.text.as_ptr(),
        ints: given.ints.as_ptr(),
        floats: given.floats.as_ptr(),
        count: given.ints.len().max(given.floats.len()),
        tensor: given.weight.and_then(|at| weights.described.get(at)).map_or(null(), std::ptr::from_ref),
        later: [null_mut(); 2],
    };
    given.iter().zip(fields).map(value).collect()
}

fn missing(reader: &OperatorReader<'_>, field: &CheckedField) -> LayerError {
    let key = field.published.key.to_owned();
    LayerError::MissingParameter { key, wanted: field.published.kind, present: reader.keys() }
}

fn parameter(reader: &mut OperatorReader<'_>, field: &CheckedField, kind: i32) -> Result<Given, LayerError> {
    let (key, default) = (field.published.key, field.published.default_in_file());
    let found = reader.param(key);
    let given = match (found, &default) {
        (Some(found), _) => {
            parsed(kind, found, default.as_deref() == Some("None")).map(|it| Given { is_given: true, ..it })
        }
        (None, Some(default)) => fallback(kind, default),
        (None, None) => return Err(missing(reader, field)),
    };
    given.ok_or_else(|| LayerError::WrongParameter {
        key: key.to_owned(),
        wanted: field.published.kind.to_owned(),
        found: found.map(RuntimeParameter::raw).or(default.as_deref()).unwrap_or_default().to_owned(),
    })
}

/// The value of a fallback of a field, or `None` if the text is not of this kind.
pub(super) fn fallback(kind: i32, text: &str) -> Option<Given> {
    parsed(kind, &RuntimeParameter::parse(text), true)
}

fn parsed(kind: i32, parameter: &RuntimeParameter, may_be_none: bool) -> Option<Given> {
    let text = CString::new(parameter.raw()).ok()?;
    let given = Given { kind, text, ..Given::default() };
    if may_be_none && kind != abi::STRING && parameter.is_none() {
        return Some(Given { kind: abi::NONE, ..given });
    }
    Some(match kind {
        abi::INT => Given { i: i64::from_parameter(parameter)?, ..given },
        abi::BOOLEAN => Given { i: bool::from_parameter(parameter)?.into(), ..given },
        abi::FLOAT => Given { f: f64::from_parameter(parameter)?, ..given },
        abi::INTS => Given { ints: Vec::from_parameter(parameter)?, ..given },
        abi::FLOATS => Given { floats: Vec::from_parameter(parameter)?, ..given },
        abi::STRING => given,
        _ => return None,
    })
}
