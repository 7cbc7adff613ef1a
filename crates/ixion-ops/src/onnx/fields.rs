//! Attributes of ONNX operators that are written differently from PyTorch's parameters.

use super::lowering::Source;
use crate::op::{
    FieldValue, FromParameter, INPUT_KIND, LayerError, OperatorReader, Result, RuntimeParameter, TensorMeta,
    Written,
};
use crate::support::arguments::ParamOrInput;
use ixion_tensor::{DType, Dim};

/// A boolean, which ONNX writes as 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Flag {
    /// The flag for a number of a file: 0 is false.
    pub const fn of(number: i64) -> Self {
        Self(number != 0)
    }
}

impl FromParameter for Flag {
    const KIND: &'static str = "0 or 1";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        matches!(parameter.as_i64(), Ok(0 | 1)).then(|| Self(parameter.raw() == "1"))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(i64::from(self.0).into())
    }
}

/// An element type, which ONNX writes as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType(pub DType);

/// The element types and their numbers in ONNX.
const ELEMENT_TYPES: [(i64, DType); 12] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (14, DType::C64),
    (15, DType::C128),
    (16, DType::Bf16),
];

impl FromParameter for ElementType {
    const KIND: &'static str = "the number of an element type, such as 1 for f32";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let number = parameter.as_i64().ok()?;
        ELEMENT_TYPES.iter().find(|known| known.0 == number).map(|known| Self(known.1))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        ELEMENT_TYPES.iter().find(|known| known.1 == self.0).map(|known| known.0.into())
    }
}

/// An optional input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optional(pub Option<usize>);

impl Optional {
    /// The source in a decomposition, if the input is present.
    pub(super) fn source(self) -> Option<Source> {
        self.0.map(Source::Input)
    }
}

impl FieldValue for Optional {
    const KIND: &'static str = INPUT_KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self(reader.later_input(key)?)))
    }

    fn num_inputs(&self) -> usize {
        usize::from(self.0.is_some())
    }

    fn written(&self) -> Written {
        self.0.map_or_else(Written::none, Written::Input)
    }
}

/// A list of integers: a parameter, an input, or absent.
pub(super) type List = Option<ParamOrInput<Vec<i64>>>;

/// The values of a list that must be known before shapes are inferred.
///
/// # Errors
/// [`LayerError::Unsupported`] if the graph computes the values and they are unknown, or if they are symbolic.
pub(super) fn numbers(key: &'static str, list: &List, inputs: &[TensorMeta]) -> Result<Option<Vec<i64>>> {
    list.as_ref().map(|list| fixed(key, &list.dims(inputs)?)).transpose()
}

/// The values of dimensions that are not symbolic.
fn fixed(key: &'static str, dims: &[Dim]) -> Result<Vec<i64>> {
    let number = |dim: &Dim| {
        dim.fixed()
            .ok_or_else(|| LayerError::Unsupported(format!("`{key}` must be known numbers, got {dim}")))
    };
    dims.iter().map(number).collect()
}
