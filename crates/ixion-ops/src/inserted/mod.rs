//! Operators that the engine inserts between layers; no file contains them.

pub mod device_tactic;
pub mod reformat;
pub mod transfer;
