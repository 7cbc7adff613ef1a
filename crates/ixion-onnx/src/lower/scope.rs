//! The values of a graph by name.

use super::folding::Lengths;
use super::{Constant, Opsets};
use crate::OnnxError;
use crate::files::Files;
use crate::schema::{DimensionValue, SparseTensorProto, TensorProto, TypeProto, ValueInfoProto, ValueType};
use crate::tensors::{ElementType, attribute, dense};
use ixion_pnnx::OperandId;
use std::collections::HashMap;
use std::rc::Rc;

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A tensor that the graph computes.
    Operand(OperandId),
    /// A tensor that is known.
    Constant(Constant),
    /// Integers that follow from lengths of axes.
    Lengths(Lengths),
    /// Several tensors, in order.
    Sequence(Rc<Vec<Value>>),
    /// Nothing: an optional input that is left out.
    Absent,
}

impl Value {
    /// A sequence of these values.
    pub(crate) fn sequence(items: Vec<Self>) -> Self {
        Self::Sequence(Rc::new(items))
    }

    /// Returns true if it is a tensor, known or not.
    pub(crate) fn is_tensor(&self) -> bool {
        !matches!(self, Self::Sequence(_) | Self::Absent)
    }
}

/// A value, or a stored tensor that nothing has asked for yet.
#[derive(Debug)]
pub(super) enum Entry {
    Value(Value),
    Stored(Box<TensorProto>),
    Sparse(Box<SparseTensorProto>),
}

/// The names of one graph or function.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) entries: HashMap<String, Entry>,
    /// The shapes that the graph declares for its values.
    pub(super) declared: Rc<Declared>,
    pub(super) opsets: Rc<Opsets>,
    /// True for a function, which does not see the values around its call.
    pub(super) is_closed: bool,
}

/// Shapes of values, by name; `None` for a length that is not known. They are what the file says, and may be wrong.
pub(super) type Declared = HashMap<String, Vec<Option<usize>>>;

/// The shapes that a graph declares for its values.
pub(super) fn declared(values: &[ValueInfoProto]) -> Declared {
    let shape = |value: &ValueInfoProto| Some((value.name.clone()?, lengths(value.r#type.as_ref()?)?));
    values.iter().filter_map(shape).collect()
}

/// The lengths of a type that is a tensor of known rank; `None` for those that are not known.
pub(super) fn lengths(kind: &TypeProto) -> Option<Vec<Option<usize>>> {
    let Some(ValueType::Tensor(tensor)) = &kind.value else { return None };
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| match &dim.value {
        Some(DimensionValue::DimValue(len)) => usize::try_from(*len).ok(),
        _ => None,
    });
    Some(dims.collect())
}

impl Scope {
    pub(super) fn new(opsets: Rc<Opsets>) -> Self {
        Self { entries: HashMap::new(), declared: Rc::default(), opsets, is_closed: false }
    }

    /// The version of an operator set; of other ones than ONNX's, files that do not name a version use the first one.
    pub(super) fn opset(&self, domain: &str) -> Option<i64> {
        let version = self.opsets.get(domain).copied();
        version.or_else(|| (domain != "ai.onnx").then_some(1))
    }

    /// The value with a name, if the scope has it.
    pub(super) fn value(&mut self, name: &str, files: &Files) -> Result<Option<Value>, OnnxError> {
        let Some(entry) = self.entries.get_mut(name) else {
            return Ok(None);
        };
        let constant = match entry {
            Entry::Value(value) => return Ok(Some(value.clone())),
            Entry::Stored(tensor) => stored(name, tensor, files)?,
            Entry::Sparse(tensor) => Constant::new(name, dense(tensor, files)?),
        };
        let value = Value::Constant(constant);
        *entry = Entry::Value(value.clone());
        Ok(Some(value))
    }
}

/// A stored tensor as a constant.
pub(super) fn stored(name: &str, tensor: &TensorProto, files: &Files) -> Result<Constant, OnnxError> {
    let constant = Constant::new(name, attribute(tensor, files)?);
    let kind = ElementType::of(tensor.data_type.unwrap_or_default());
    if matches!(kind, Ok(ElementType::HalfByte { .. })) {
        constant.set_half_bytes();
    }
    Ok(constant)
}
