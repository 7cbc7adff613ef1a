//! The tests of lesson 02. `cargo test -p lesson02 task1` runs those of one task.

use lesson02 as subject;

mod tasks;
