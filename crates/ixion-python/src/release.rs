//! Memory that is freed without the interpreter: that of weights and activations may take longer than a run.

use pyo3::prelude::*;
use std::sync::Arc;

/// Drops a value while other Python threads go on.
pub(crate) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    // Without an interpreter, nobody waits: the value is dropped where this function ends.
    _ = Python::try_attach(|py| py.detach(|| value = None));
}

/// The last owner of what a class of Python shares, which drops it by [`drop_detached`].
///
/// It is the last field of its struct: Rust drops fields in their order, and whoever drops the last `Arc` frees the memory.
pub(crate) struct LastOwner<T: Send + Sync>(Option<Arc<T>>);

impl<T: Send + Sync> LastOwner<T> {
    pub(crate) fn of(shared: &Arc<T>) -> Self {
        Self(Some(Arc::clone(shared)))
    }
}

impl<T: Send + Sync> Drop for LastOwner<T> {
    fn drop(&mut self) {
        drop_detached(self.0.take());
    }
}
