//! Layers from outside of Ixion, as another crate writes them: nothing here is closer to Ixion than your own crate would be.
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
/// [`RegistryError::Duplicate`] when they are there already.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register_plugin::<CopyConcat>(NAMESPACE, "1")?;
    registry.register_plugin::<Convolution>(NAMESPACE, "1")
}
// ANCHOR_END: register
