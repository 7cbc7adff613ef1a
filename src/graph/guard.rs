//! Panics of layers.
//!
//! Every call of a layer's method from outside of a layer goes through [`guarded`].

use super::{CpuLayer, LayerError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a layer. What it panics with becomes an error; whatever it was changing is then not to be used again.
///
/// # Errors
/// Those of the call; [`LayerError::Panic`].
pub fn guarded<T>(call: impl FnOnce() -> Result<T, LayerError>) -> Result<T, LayerError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(LayerError::Panic(message(&*panic))))
}

/// Lets a layer go. It may panic on the way, and there is nobody left to tell.
pub(crate) fn let_go(layer: Box<dyn CpuLayer>) {
    let gone = guarded(|| {
        drop(layer);
        Ok(())
    });
    if let Err(error) = gone {
        log::error!("a layer cannot be let go: {error}");
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
