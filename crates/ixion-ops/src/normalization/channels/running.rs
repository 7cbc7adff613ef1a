//! Running statistics, which a file may say not to exist.

use crate::op::{FieldValue, LayerError, OperatorReader, Result, RuntimeParameter, Weight, Written};

/// A running mean or variance; `None` if the file says `None`, which is not the same as saying nothing.
#[derive(Debug, Clone)]
pub struct Running(pub Option<Weight>);

impl FieldValue for Running {
    const KIND: &'static str = <Weight as FieldValue>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match reader.param(key).map(RuntimeParameter::raw) {
            Some("None") => Ok(Some(Self(None))),
            Some(other) => Err(LayerError::WrongParameter {
                key: key.to_owned(),
                wanted: "a weight or None".to_owned(),
                found: other.to_owned(),
            }),
            None => Ok(<Weight as FieldValue>::read(reader, key)?.map(|weight| Self(Some(weight)))),
        }
    }

    fn require(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Self> {
        Self::read(reader, key)?.ok_or_else(|| LayerError::MissingWeight { key: key.to_owned() })
    }

    fn num_inputs(&self) -> usize {
        self.0.as_ref().map_or(0, Weight::num_inputs)
    }

    fn written(&self) -> Written {
        self.0.as_ref().map_or_else(Written::none, FieldValue::written)
    }
}
