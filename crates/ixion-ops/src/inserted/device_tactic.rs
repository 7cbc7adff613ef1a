//! The tactic that was selected for a layer on a device.

use crate::op::{FieldValue, NO_KEY, OperatorReader, Result, Written};

/// The id of the tactic that was selected for a layer that has several on a device. It is a field of the layer because the
/// layer of a GPU is a clone of the CPU's; the CPU ignores it. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTactic(pub u32);

impl FieldValue for DeviceTactic {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self::default()))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}
