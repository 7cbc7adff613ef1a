//! Pooling, and windows laid out.

mod adaptive_pool;
mod fold;
mod max_unpool;
mod pool;

pub use adaptive_pool::{AdaptiveAvgPool, AdaptiveMaxPool};
pub use fold::{Fold, Unfold};
pub use max_unpool::{MaxUnpool, MaxUnpoolTo};
pub use pool::{AvgPool, LpPool, MaxPool, Pooled, Pooling, Reduction};
pub(super) use pool::{configure, supports};

operators! { of adaptive_pool, fold, max_unpool, pool }
