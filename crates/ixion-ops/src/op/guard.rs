//! Catching panics of layers.
//!
//! Every call of a layer's method from outside of a layer goes through [`catch_panic`].

use super::{CpuLayer, LayerError, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

// ANCHOR: catch_panic
/// Calls a layer and turns a panic into an error. After a panic, anything that the call was changing must not be used again.
///
/// # Errors
/// The errors of the call; [`LayerError::Panic`] if it panics.
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // ANCHOR: catch_panic_todo -- task 6: the result of the call, or its panic as an error
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(LayerError::Panic(message(&*panic))))
    // ANCHOR_END: catch_panic_todo
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    // ANCHOR: message_todo -- task 6: a `&str` or a `String`; it may be something else
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".to_owned())
    // ANCHOR_END: message_todo
}
// ANCHOR_END: catch_panic

/// Drops a layer. A panic in its destructor is logged.
pub fn drop_layer(layer: Box<dyn CpuLayer>) {
    let dropped = catch_panic(|| {
        drop(layer);
        Ok(())
    });
    if let Err(error) = dropped {
        log::error!("a layer failed while it was dropped: {error}");
    }
}
