//! The layers of a network.

use super::{AdaptiveAvgPool2d, Conv2d, Expression, Flatten, Linear, MaxPool2d, ReLU};
use crate::op::{Registry, RegistryError};

// ANCHOR: network
/// A registry of only the layers that residual networks consist of.
///
/// # Errors
/// [`RegistryError::Duplicate`] if two of them have a type in common.
pub fn residual_network() -> Result<Registry, RegistryError> {
    // ANCHOR: network_todo -- task 5: create an empty registry, and register the seven layers
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
