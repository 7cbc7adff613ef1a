//! Tensors that are known when a model is read.

use half::{bf16, f16};
use ixion_pnnx::{Attribute, OperandId, WeightError};
use ixion_tensor::DType;
use std::cell::Cell;
use std::rc::Rc;

/// A tensor that is known when a model is read. Clones share the operand that it becomes if an operator needs one.
#[derive(Debug, Clone)]
pub(crate) struct Constant {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    attribute: Attribute,
    operand: Cell<Option<OperandId>>,
    /// Whether the file has four bits for each element.
    is_of_half_bytes: Cell<bool>,
}

impl Constant {
    pub(crate) fn new(name: &str, attribute: Attribute) -> Self {
        Self {
            inner: Rc::new(Inner {
                name: name.to_owned(),
                attribute,
                operand: Cell::new(None),
                is_of_half_bytes: Cell::new(false),
            }),
        }
    }

    /// A constant of 64-bit integers.
    ///
    /// # Errors
    /// [`WeightError::Length`] if the shape has another number of elements.
    pub(crate) fn of_i64s(name: &str, shape: Vec<usize>, values: &[i64]) -> Result<Self, WeightError> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(Self::new(name, Attribute::new(DType::I64, shape, bytes)?))
    }

    /// Returns true if the file has four bits for each element, which are bytes here.
    pub(crate) fn is_of_half_bytes(&self) -> bool {
        self.inner.is_of_half_bytes.get()
    }

    pub(super) fn set_half_bytes(&self) {
        self.inner.is_of_half_bytes.set(true);
    }

    pub(crate) fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn attribute(&self) -> &Attribute {
        &self.inner.attribute
    }

    pub(crate) fn dtype(&self) -> DType {
        self.inner.attribute.dtype()
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.inner.attribute.shape()
    }

    pub(super) fn operand(&self) -> Option<OperandId> {
        self.inner.operand.get()
    }

    pub(super) fn set_operand(&self, operand: OperandId) {
        self.inner.operand.set(Some(operand));
    }

    /// The elements as integers; `None` if their type is not an integer or bool.
    ///
    /// # Errors
    /// [`WeightError`] if the bytes cannot be read.
    pub(crate) fn i64s(&self) -> Result<Option<Vec<i64>>, WeightError> {
        let bytes = self.attribute().bytes()?;
        Ok(Some(match self.dtype() {
            DType::I64 => words(&bytes).map(i64::from_le_bytes).collect(),
            DType::I32 => words(&bytes).map(|word| i32::from_le_bytes(word).into()).collect(),
            DType::I16 => words(&bytes).map(|word| i16::from_le_bytes(word).into()).collect(),
            DType::I8 => words(&bytes).map(|word| i8::from_le_bytes(word).into()).collect(),
            DType::U8 => bytes.iter().map(|byte| i64::from(*byte)).collect(),
            DType::Bool => bytes.iter().map(|byte| i64::from(*byte != 0)).collect(),
            _ => return Ok(None),
        }))
    }

    /// The elements as real numbers; `None` if they are complex.
    ///
    /// # Errors
    /// [`WeightError`] if the bytes cannot be read.
    pub(crate) fn f64s(&self) -> Result<Option<Vec<f64>>, WeightError> {
        if let Some(integers) = self.i64s()? {
            return Ok(Some(integers.into_iter().map(|value| value as f64).collect()));
        }
        let bytes = self.attribute().bytes()?;
        Ok(Some(match self.dtype() {
            DType::F64 => words(&bytes).map(f64::from_le_bytes).collect(),
            DType::F32 => words(&bytes).map(|word| f32::from_le_bytes(word).into()).collect(),
            DType::F16 => words(&bytes).map(|word| f16::from_le_bytes(word).into()).collect(),
            DType::Bf16 => words(&bytes).map(|word| bf16::from_le_bytes(word).into()).collect(),
            _ => return Ok(None),
        }))
    }
}

/// The bytes in groups of one element each.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.chunks_exact(N).filter_map(|word| word.try_into().ok())
}
