//! Which of its ways on a device a layer was settled on.

use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader};

/// The number of the tactic that a layer computes by on a device, where it has several there: a layer of a GPU is a clone of the
/// CPU's, and this is its part. On the CPU it means nothing. It is no key of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTactic(pub u32);

impl FieldValue for DeviceTactic {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self::default()))
    }
}
