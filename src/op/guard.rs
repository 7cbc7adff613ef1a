//! Panics of layers.
//!
//! Every call of a layer's method from outside of a layer goes through [`catch_panic`].

use super::{CpuLayer, LayerError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

// ANCHOR: catch_panic
/// Calls a layer. What it panics with becomes an error; whatever it was changing is then not to be used again.
///
/// # Errors
/// Those of the call; [`LayerError::Panic`].
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T, LayerError>) -> Result<T, LayerError> {
    // ANCHOR: catch_panic_todo -- task 6: what the call returns, or its panic as an error
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(LayerError::Panic(message(&*panic))))
    // ANCHOR_END: catch_panic_todo
}

/// The text that somebody panicked with.
fn message(panic: &(dyn Any + Send)) -> String {
    // ANCHOR: message_todo -- task 6: a `&str` or a `String`; it may be something else
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".to_owned())
    // ANCHOR_END: message_todo
}
// ANCHOR_END: catch_panic

/// Drops a layer. If its destructor panics, that is logged.
pub(crate) fn drop_layer(layer: Box<dyn CpuLayer>) {
    let gone = catch_panic(|| {
        drop(layer);
        Ok(())
    });
    if let Err(error) = gone {
        log::error!("a layer failed while it was dropped: {error}");
    }
}
