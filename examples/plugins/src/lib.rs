//! Layers in a crate of their own. They use only Ixion's public API, just as your own crate would.
//!
//! ```
//! use ixion::op::Registry;
//! let mut registry = Registry::default();
//! plugins::register(&mut registry)?;
//! assert!(registry.find(&"examples/Convolution/1".parse()?).is_some());
//! # Ok::<(), ixion::op::RegistryError>(())
//! ```

mod convolution;
mod copy_concat;

pub use convolution::Convolution;
pub use copy_concat::CopyConcat;

use ixion::op::{Registry, RegistryError};

// ANCHOR: register
/// The namespace of this crate's layers.
pub const NAMESPACE: &str = "examples";

/// Adds the layers of this crate to a registry.
///
/// # Errors
/// [`RegistryError::Duplicate`] if they are already registered.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register_plugin::<CopyConcat>(NAMESPACE, "1")?;
    registry.register_plugin::<Convolution>(NAMESPACE, "1")
}
// ANCHOR_END: register
