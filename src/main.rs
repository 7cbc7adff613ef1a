//! The `ixion` command.
fn main() {}
