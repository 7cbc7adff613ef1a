//! The tests of lesson 08. `cargo test -p lesson08 task1` runs those of one task.

use lesson08 as subject;

mod tasks;
