//! What a network is made of.

use super::{AdaptiveAvgPool2d, Conv2d, Expression, Flatten, Linear, MaxPool2d, ReLU};
use crate::op::{Registry, RegistryError};

// ANCHOR: network
/// The layers of which residual networks are made, and no others.
///
/// # Errors
/// [`RegistryError::Duplicate`] when two of them have a type in common.
pub fn residual_network() -> Result<Registry, RegistryError> {
    // ANCHOR: network_todo -- task 5: an empty registry, and the seven layers
    let mut registry = Registry::empty();
    registry.register::<Conv2d>()?;
    registry.register::<ReLU>()?;
    registry.register::<MaxPool2d>()?;
    registry.register::<Expression>()?;
    registry.register::<AdaptiveAvgPool2d>()?;
    registry.register::<Flatten>()?;
    registry.register::<Linear>()?;
    Ok(registry)
    // ANCHOR_END: network_todo
}
// ANCHOR_END: network
