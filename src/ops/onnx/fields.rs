//! Attributes of ONNX's operators that are written otherwise than PyTorch's parameters.

use super::recipe::Source;
use crate::op::{
    FieldValue, FromParameter, INPUT_KIND, LayerError, OperatorReader, RuntimeParameter, TensorMeta,
};
use crate::ops::support::arguments::Argument;
use crate::tensor::{DType, Dim};

/// A switch: ONNX writes 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Flag {
    /// The switch as a file has it: 0 is off.
    pub const fn of(number: i64) -> Self {
        Self(number != 0)
    }
}

impl FromParameter for Flag {
    const KIND: &'static str = "0 or 1";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        matches!(parameter.as_i64(), Ok(0 | 1)).then(|| Self(parameter.raw() == "1"))
    }
}

/// An element type, by the number that ONNX gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType(pub DType);

impl FromParameter for ElementType {
    const KIND: &'static str = "the number of an element type, such as 1 for f32";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        Some(Self(match parameter.as_i64().ok()? {
            1 => DType::F32,
            2 => DType::U8,
            3 => DType::I8,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::Bool,
            10 => DType::F16,
            11 => DType::F64,
            14 => DType::C64,
            15 => DType::C128,
            16 => DType::Bf16,
            _ => return None,
        }))
    }
}

/// An input that may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optional(pub Option<usize>);

impl Optional {
    /// Where a recipe finds it, if it is there.
    pub(super) fn source(self) -> Option<Source> {
        self.0.map(Source::Input)
    }

    /// How many inputs it is: 0 or 1.
    pub(super) fn count(self) -> usize {
        usize::from(self.0.is_some())
    }
}

impl FieldValue for Optional {
    const KIND: &'static str = INPUT_KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self(reader.later_input(key)?)))
    }
}

/// A list of integers that is an attribute, an input, or absent.
pub(super) type List = Option<Argument<Vec<i64>>>;

/// How many inputs a list is: 0 or 1.
pub(super) fn count(list: &List) -> usize {
    list.as_ref().map_or(0, Argument::num_inputs)
}

/// The numbers of a list that must be known before shapes are.
///
/// # Errors
/// [`LayerError::Unsupported`] when the graph computes them and they are not known, or are no numbers.
pub(super) fn numbers(
    key: &'static str,
    list: &List,
    inputs: &[TensorMeta],
) -> Result<Option<Vec<i64>>, LayerError> {
    list.as_ref().map(|list| fixed(key, &list.dims(inputs)?)).transpose()
}

/// Dimensions that are numbers.
fn fixed(key: &'static str, dims: &[Dim]) -> Result<Vec<i64>, LayerError> {
    let number = |dim: &Dim| {
        dim.fixed()
            .ok_or_else(|| LayerError::Unsupported(format!("`{key}` must be numbers, but one is {dim}")))
    };
    dims.iter().map(number).collect()
}
