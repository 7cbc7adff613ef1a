//! The tests of lesson 01. `cargo test -p lesson01 task1` runs those of one task.

use lesson01 as subject;

mod tasks;
