//! The tests of lesson 06. `cargo test -p lesson06 task1` runs those of one task.

use lesson06 as subject;

mod tasks;
