//! Operators that no file has: an engine inserts them between layers.

pub mod device_tactic;
pub mod reformat;
pub mod transfer;
