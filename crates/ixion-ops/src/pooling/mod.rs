//! Pooling, its inverse, and `fold` and `unfold`.

mod adaptive_pool;
mod bytes;
mod fold;
mod fractional;
mod max_unpool;
mod pool;
mod pooled;

pub use adaptive_pool::{AdaptiveAvgPool, AdaptiveMaxPool};
pub use fold::{Fold, Unfold};
pub use fractional::FractionalMaxPool;
pub use max_unpool::{MaxUnpool, MaxUnpoolTo};
pub use pool::{AvgPool, LpPool, MaxPool};
pub use pooled::{Pooled, Pooling, Reduction, Regions};
pub(super) use pooled::{configure, supports};

operators! { of adaptive_pool, fold, fractional, max_unpool, pool; category Pooling }
