//! # Ixion: the Rust runtime for PNNX
mod limits;
pub mod pnnx;
pub mod tensor;

pub use limits::{LimitError, Limits};
