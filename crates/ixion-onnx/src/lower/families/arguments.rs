//! Arguments that ONNX gives as attributes in older versions of an operator, and as inputs in newer ones.

use crate::OnnxError;
use crate::lower::emit::Emit;
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};

/// An argument of an operator.
#[derive(Debug, Clone)]
pub(super) enum Argument {
    /// It is left out.
    Absent,
    /// Its value is known.
    Known(Parameter),
    /// The graph computes it.
    Computed(OperandId),
}

impl Argument {
    /// A list of integers that is known.
    pub(super) fn list(values: Vec<i64>) -> Self {
        Self::Known(values.into())
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Call<'_> {
    /// The integers of an input, as a list.
    ///
    /// # Errors
    /// As [`Call::constant_ints`] and [`Call::input`].
    pub(super) fn list_argument(&mut self, position: usize) -> Result<Argument, OnnxError> {
        match self.constant_ints(position)? {
            Some(values) => Ok(Argument::list(values)),
            None => self.computed_argument(position),
        }
    }

    /// The numbers of an input, as a list.
    ///
    /// # Errors
    /// As [`Call::constant_floats`] and [`Call::input`].
    pub(super) fn floats_argument(&mut self, position: usize) -> Result<Argument, OnnxError> {
        match self.constant_floats(position)? {
            Some(values) => Ok(Argument::Known(values.into())),
            None => self.computed_argument(position),
        }
    }

    fn computed_argument(&mut self, position: usize) -> Result<Argument, OnnxError> {
        Ok(self.optional_input(position)?.map_or(Argument::Absent, Argument::Computed))
    }

    /// The integers that an attribute gives if the operator is older than `since`, and an input from then on; `None` if neither
    /// is there.
    ///
    /// # Errors
    /// As [`Call::ints`] and [`Call::list_argument`].
    pub(super) fn ints_or_input(
        &mut self,
        since: i64,
        attribute: &'static str,
        position: usize,
    ) -> Result<Argument, OnnxError> {
        if self.version() >= since {
            return self.list_argument(position);
        }
        Ok(self.ints(attribute)?.map_or(Argument::Absent, Argument::list))
    }

    /// The first input, unchanged.
    ///
    /// # Errors
    /// As [`Call::value`].
    pub(super) fn unchanged(&mut self) -> Result<Vec<Value>, OnnxError> {
        Ok(vec![self.value(0)?])
    }
}

impl Emit<'_> {
    /// A parameter, or the input that gives it.
    pub(super) fn argument(self, key: &'static str, argument: Argument) -> Self {
        match argument {
            Argument::Absent => self,
            Argument::Known(value) => self.param(key, value),
            Argument::Computed(operand) => self.named(key, operand),
        }
    }
}
