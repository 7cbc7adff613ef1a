//! The threads of a run.

use super::EngineError;
use crate::kernels::parallel::{Threads, for_each_item};
use std::convert::Infallible;

/// A pool of this number of threads, where 0 means all that the process may use. `None` for one: the caller's thread is used.
pub(super) fn pool(threads: usize) -> Result<Option<Threads>, EngineError> {
    let count = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    if count == 1 {
        return Ok(None);
    }
    let pool = Threads::new(count);
    pool.map(Some).map_err(|error| EngineError::Threads { count, reason: error.to_string() })
}

/// Calls `work` with the threads of a pool or, without one, on the caller's thread alone.
pub(super) fn within<T>(pool: &Option<Threads>, work: impl FnOnce() -> T) -> T {
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Calls `work` with all numbers below `count`, which the threads of the pool in which it is called take one after another.
pub(super) fn share(count: usize, work: &(dyn Fn(usize) + Sync)) {
    let Ok(()) = for_each_item(0..count, &|number| {
        work(number);
        Ok::<(), Infallible>(())
    });
}
