//! The tests of lesson 11. `cargo test -p lesson11 task1` runs those of one task.

use lesson11 as subject;

mod tasks;
