//! The tactic that was selected for a layer on a device.

use crate::op::state;

/// The id of the tactic that was selected for a layer that has several on a device. It is a field of the layer because the
/// layer of a GPU is a clone of the CPU's; the CPU ignores it. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTactic(pub u32);

state! { DeviceTactic }
