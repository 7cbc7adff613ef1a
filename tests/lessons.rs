//! The tasks of all lessons, solved by the framework itself: it is the course's reference solution.
//!
//! Each lesson's tests stand beside its starter and use `super::subject`. There it is what the learner writes, here it is
//! the framework:
//!
//! ```ignore
//! #[path = "../lessons/08_conv/tests"]
//! mod lesson08 {
//!     mod subject {
//!         pub use ixion::kernels::naive::conv::{conv2d, im2col};
//!     }
//!     mod tasks;
//! }
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
