//! Short and obviously right kernels on ndarray views.
//!
//! They are taught, and they are the oracle of every faster kernel. Nothing here is tuned.

mod conv;
mod matmul;
mod pad;
mod pool;

pub use conv::conv;
pub use matmul::matmul;
pub use pad::{PadMode, pad};
pub use pool::{Divisor, adaptive_range, avg_pool, max_pool};
