//! Reading operators: typed parameters and weights, with a check that no key is ignored.

mod owned;
mod parameters;

pub(super) use owned::Owned;
pub use parameters::FromParameter;

use super::{LayerError, Result, RuntimeAttribute, RuntimeParameter};
use ixion_pnnx::{Dim, Value};
use ixion_tensor::DType;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The parameters, attributes and named inputs of one operator, from which its layer is created.
///
/// The reader records every key that is read. [`finish`](OperatorReader::finish) refuses operators with keys that were not
/// read, because ignoring a key could change the result.
#[derive(Debug)]
pub struct OperatorReader<'a> {
    name: &'a str,
    op_type: &'a str,
    params: &'a BTreeMap<String, RuntimeParameter>,
    attrs: &'a BTreeMap<String, RuntimeAttribute>,
    input_names: &'a [Option<String>],
    num_outputs: usize,
    shapes: [Vec<Option<&'a [Dim]>>; 2],
    dtypes: [Vec<Option<DType>>; 2],
    read: BTreeSet<Cow<'static, str>>,
    unnamed_taken: usize,
}

impl<'a> OperatorReader<'a> {
    /// A reader for one operator. `input_names` has an entry for each input, `None` for inputs without a name.
    pub fn new(
        params: &'a BTreeMap<String, RuntimeParameter>,
        attrs: &'a BTreeMap<String, RuntimeAttribute>,
        input_names: &'a [Option<String>],
        num_outputs: usize,
    ) -> Self {
        let (shapes, dtypes, read) = (Default::default(), Default::default(), BTreeSet::new());
        Self {
            name: "",
            op_type: "",
            params,
            attrs,
            input_names,
            num_outputs,
            shapes,
            dtypes,
            read,
            unnamed_taken: 0,
        }
    }

    /// Sets the operator's name.
    #[must_use]
    pub fn with_name(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// The operator's name; empty if not set.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Sets the operator's type.
    #[must_use]
    pub fn with_op_type(self, op_type: &'a str) -> Self {
        Self { op_type, ..self }
    }

    /// The operator's type; empty if not set.
    pub fn op_type(&self) -> &'a str {
        self.op_type
    }

    /// Sets the shapes that the file records for inputs and outputs.
    #[must_use]
    pub fn with_shapes(self, inputs: Vec<Option<&'a [Dim]>>, outputs: Vec<Option<&'a [Dim]>>) -> Self {
        Self { shapes: [inputs, outputs], ..self }
    }

    /// Sets the element types that the file records for inputs and outputs.
    #[must_use]
    pub fn with_dtypes(self, inputs: Vec<Option<DType>>, outputs: Vec<Option<DType>>) -> Self {
        Self { dtypes: [inputs, outputs], ..self }
    }

    /// Returns the parameter with this key, and marks the key as read.
    pub fn param(&mut self, key: &'static str) -> Option<&'a RuntimeParameter> {
        self.read.insert(Cow::Borrowed(key));
        self.params.get(key)
    }

    /// Returns the attribute with this key, and marks the key as read. Once decoded, its elements belong to the layer; the
    /// graph does not keep them.
    pub fn attr(&mut self, key: impl Into<Cow<'static, str>>) -> Option<RuntimeAttribute> {
        let key = key.into();
        let attribute = self.attrs.get(key.as_ref()).map(RuntimeAttribute::detached);
        self.read.insert(key);
        attribute
    }

    /// Returns the position of the input with this name (`$key=…`), and marks the key as read.
    ///
    /// Names are optional in the file. If no input has this name, the next unnamed input is returned, in order. The first input
    /// is excluded: it is the tensor that the operator works on, and layers expect it at position 0.
    pub fn input(&mut self, key: &'static str) -> Option<usize> {
        self.read.insert(Cow::Borrowed(key));
        let named = self.input_names.iter().position(|name| name.as_deref() == Some(key));
        named.or_else(|| {
            let unnamed = self.input_names.iter().enumerate().skip(1).filter(|(_, name)| name.is_none());
            let position = unnamed.map(|(position, _)| position).nth(self.unnamed_taken)?;
            self.unnamed_taken += 1;
            Some(position)
        })
    }

    /// As [`input`](Self::input), for an additional input.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if it is the first input, which is the tensor that the operator works on.
    pub fn later_input(&mut self, key: &'static str) -> Result<Option<usize>> {
        match self.input(key) {
            Some(0) => Err(LayerError::InvalidParameter {
                key,
                found: "the first input".to_owned(),
                reason: "the first input is the tensor that the operator works on".to_owned(),
            }),
            position => Ok(position),
        }
    }

    /// The keys of all parameters and attributes in the file.
    pub fn keys(&self) -> Vec<String> {
        self.params.keys().chain(self.attrs.keys()).cloned().collect()
    }

    /// The inputs that have a name, with their positions.
    pub(super) fn named_inputs(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        let names = self.input_names.iter().enumerate();
        names.filter_map(|(position, name)| Some((position, name.as_deref()?)))
    }

    /// Marks the parameters that these fields read, and all attributes and inputs, as read.
    pub(super) fn mark_read(&mut self, fields: &'static [Field]) {
        let others = self.attrs.keys().chain(self.input_names.iter().flatten());
        self.read.extend(others.map(|key| Cow::Owned(key.clone())));
        self.read.extend(fields.iter().map(|field| Cow::Borrowed(field.key)));
    }

    /// The number of inputs of the operator.
    pub fn num_inputs(&self) -> usize {
        self.input_names.len()
    }

    /// The number of outputs of the operator, or the number of items if its only output is a tuple that the file unpacks.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// The shape that the file records for an input: its shape in the sample that the model was exported with.
    pub fn input_shape(&self, position: usize) -> Option<&'a [Dim]> {
        self.shapes[0].get(position).copied().flatten()
    }

    /// The shape that the file records for an output.
    pub fn output_shape(&self, position: usize) -> Option<&'a [Dim]> {
        self.shapes[1].get(position).copied().flatten()
    }

    /// The element type that the file records for an input.
    pub fn input_dtype(&self, position: usize) -> Option<DType> {
        self.dtypes[0].get(position).copied().flatten()
    }

    /// The element type that the file records for an output.
    pub fn output_dtype(&self, position: usize) -> Option<DType> {
        self.dtypes[1].get(position).copied().flatten()
    }

    /// Checks that every key was read.
    ///
    /// # Errors
    /// [`LayerError::UnknownKeys`] with the keys that were not read.
    pub fn finish(&self) -> Result<()> {
        let named_inputs = self.input_names.iter().skip(1).flatten();
        self.all_read("parameters", self.params.keys())?;
        self.all_read("attributes", self.attrs.keys())?;
        self.all_read("named inputs", named_inputs)
    }

    fn all_read<'k>(&self, what: &'static str, keys: impl Iterator<Item = &'k String>) -> Result<()> {
        let keys: Vec<String> = keys.filter(|key| !self.read.contains(key.as_str())).cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let known = self.read.iter().map(|key| key.clone().into_owned()).collect();
        Err(LayerError::UnknownKeys { what, keys, known })
    }
}

/// The kind of a field that is an input, never a parameter.
pub const INPUT_KIND: &str = "an input";

/// The kind of a field that no key of the file sets, such as the number of outputs. Such fields are not published.
pub(crate) const NO_KEY: &str = "";

/// The key of the seed field of operators with random results.
pub(crate) const SEED_KEY: &str = "seed";

/// One field of an operator, as published by a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The key in the file.
    pub key: &'static str,
    /// The kind of value, in words.
    pub kind: &'static str,
    /// The default; `None` if the key is required.
    pub default: Option<FieldDefault>,
    /// The documentation of the field.
    pub doc: &'static str,
    /// Whether the layer reads the value from a parameter only. If the file has an input of this name instead, the layer is
    /// created once the value is known.
    pub is_parameter: bool,
}

impl Field {
    /// The default as written in a file, such as `zeros`.
    pub fn default_in_file(&self) -> Option<String> {
        self.default.map(|default| default.to_string())
    }
}

/// The value of a field whose key is absent.
#[derive(Debug, Clone, Copy)]
pub enum FieldDefault {
    /// The text of a parameter.
    Text(&'static str),
    /// A value of an [`operator!`](crate::operator), as it is written.
    Value(fn() -> Written),
}

impl fmt::Display for FieldDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Value(value) => match value() {
                Written::Param(value) => match value.value() {
                    Value::Float(number) if number.is_finite() => write!(f, "{number:?}"),
                    _ => f.write_str(value.raw()),
                },
                _ => f.write_str("None"),
            },
        }
    }
}

impl PartialEq for FieldDefault {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for FieldDefault {}

/// A type that can be used for a field of an operator.
pub trait FieldValue: Sized {
    /// The kind of value in words, such as `2 integers`.
    const KIND: &'static str;

    /// Whether [`read`](Self::read) reads a parameter, and neither weights nor inputs. Default: false.
    const IS_PARAMETER: bool = false;

    /// Reads the value of a key; `None` if the key is absent.
    ///
    /// # Errors
    /// A [`LayerError`] that names the key, the expected kind and the actual value.
    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>>;

    /// Reads the value of a required key.
    ///
    /// # Errors
    /// [`LayerError::MissingParameter`] if the key is absent; otherwise as [`FieldValue::read`].
    fn require(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Self> {
        match Self::read(reader, key) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(missing(reader, key, Self::KIND)),
            Err(error) => Err(error),
        }
    }

    /// The number of the operator's inputs that this value takes, such as 1 for a weight that is computed. Default: 0.
    fn num_inputs(&self) -> usize {
        0
    }

    /// What a file has to say for this value to be read. Default: it cannot be written.
    fn written(&self) -> Written {
        Written::Unwritable
    }
}

/// The part of [`FieldValue::require`] that does not depend on the type.
fn missing(reader: &OperatorReader<'_>, key: &str, wanted: &'static str) -> LayerError {
    LayerError::MissingParameter { key: key.to_owned(), wanted, present: reader.keys() }
}

/// What a file says about a field of an operator, so that [`FieldValue::read`] returns its value.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// Nothing: it is state of the layer, follows from the graph, or is absent.
    Nothing,
    /// A parameter with the field's key.
    Param(RuntimeParameter),
    /// The input at this position has the field's key as its name.
    Input(usize),
    /// The operator's type states this number of spatial axes.
    SpatialAxes(usize),
    /// A file cannot express the value, or not without its weights.
    Unwritable,
}

impl Written {
    /// A parameter, if there is one that reads as the value.
    pub(crate) fn param(parameter: Option<RuntimeParameter>) -> Self {
        parameter.map_or(Self::Unwritable, Self::Param)
    }

    /// The parameter `None`.
    pub(crate) fn none() -> Self {
        Self::Param(RuntimeParameter::parse("None"))
    }
}

/// A field of [`operator!`](crate::operator) that no key of the file sets, for state that a layer keeps in addition to its
/// parameters. It starts with the default value and is cloned together with the layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// Implements [`FieldValue`] for a type that is state of a layer as well, such as a cache: no key of the file sets it, and it
/// starts with the default value. Generic parameters are declared in brackets before the type.
macro_rules! state {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> $crate::op::FieldValue for $type {
            const KIND: &'static str = $crate::op::NO_KEY;

            fn read(
                _: &mut $crate::op::OperatorReader<'_>,
                _: &'static str,
            ) -> $crate::op::Result<Option<Self>> {
                Ok(Some(Self::default()))
            }

            fn written(&self) -> $crate::op::Written {
                $crate::op::Written::Nothing
            }
        }
    };
    ($type:ty) => {
        $crate::op::state! { [] $type }
    };
}

pub(crate) use state;

state! { [T: Default] State<T> }

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ixion_tensor::Tensor;

    #[test]
    fn defaults_are_written_as_in_a_file() {
        let defaults: [fn() -> Written; 7] = [
            || 1usize.written(),
            || Some(true).written(),
            || None::<i64>.written(),
            || vec![0i64, 1].written(),
            || 1e-5.written(),
            || "zeros".to_owned().written(),
            || DType::F32.written(),
        ];
        let texts = defaults.map(|default| FieldDefault::Value(default).to_string());
        assert_eq!(texts, ["1", "True", "None", "(0,1)", "1e-5", "zeros", "torch.float"]);
    }

    pub(in crate::op) struct Source {
        params: BTreeMap<String, RuntimeParameter>,
        attrs: BTreeMap<String, RuntimeAttribute>,
        names: Vec<Option<String>>,
    }

    pub(in crate::op) fn source(params: &[(&str, &str)], attrs: &[&str], names: &[Option<&str>]) -> Source {
        let weight = RuntimeAttribute::from_tensor(Tensor::scalar(1f32));
        Source {
            params: params.iter().map(|(k, v)| (k.to_string(), RuntimeParameter::parse(v))).collect(),
            attrs: attrs.iter().map(|k| (k.to_string(), weight.clone())).collect(),
            names: names.iter().map(|name| name.map(str::to_owned)).collect(),
        }
    }

    impl Source {
        pub(in crate::op) fn reader(&self) -> OperatorReader<'_> {
            OperatorReader::new(&self.params, &self.attrs, &self.names, 1)
        }
    }

    fn read<T: FieldValue>(raw: &str) -> Result<T> {
        T::require(&mut source(&[("key", raw)], &[], &[None]).reader(), "key")
    }

    #[test]
    fn values_are_read_as_in_pytorch() {
        assert_eq!(read::<f64>("2").unwrap(), 2.0);
        assert_eq!(read::<f64>("-inf").unwrap(), f64::NEG_INFINITY);
        assert_eq!(read::<[usize; 2]>("3").unwrap(), [3, 3]);
        assert_eq!(read::<[usize; 2]>("(3,1)").unwrap(), [3, 1]);
        assert_eq!(read::<Vec<i64>>("()").unwrap(), [] as [i64; 0]);
        assert_eq!(read::<Vec<i64>>("None").unwrap(), [] as [i64; 0]);
        assert_eq!(read::<Option<Vec<i64>>>("None").unwrap(), None);
        assert_eq!(read::<Option<f64>>("None").unwrap(), None);
        assert_eq!(read::<Vec<f64>>("(1,2)").unwrap(), [1.0, 2.0]);
        assert_eq!(read::<DType>("torch.long").unwrap(), DType::I64);
        assert_eq!(read::<String>("reflect").unwrap(), "reflect");
    }

    #[test]
    fn errors_name_the_key_the_expected_kind_and_the_value() {
        let message = |error: LayerError| error.to_string();
        assert_eq!(
            message(read::<[usize; 2]>("(1,2,3)").unwrap_err()),
            "parameter `key`: expected an integer of at least 0 for each axis, or one for all, got `(1,2,3)`"
        );
        assert_eq!(
            message(read::<usize>("-1").unwrap_err()),
            "parameter `key`: expected an integer of at least 0, got `-1`"
        );
        let missing = bool::require(&mut source(&[], &[], &[]).reader(), "ceil_mode").unwrap_err();
        assert_eq!(message(missing), "missing parameter `ceil_mode` (a bool); the file sets none");
    }

    #[test]
    fn an_unread_key_is_an_error() {
        let source = source(&[("dim", "1"), ("surprise", "2")], &[], &[None]);
        let mut reader = source.reader();
        i64::require(&mut reader, "dim").unwrap();
        let error = reader.finish().unwrap_err().to_string();
        assert_eq!(error, "unknown parameters: `surprise`; supported: `dim`");
    }
}
