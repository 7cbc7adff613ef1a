//! The tests of lesson 09. `cargo test -p lesson09 task1` runs those of one task.

use lesson09 as subject;

mod tasks;
