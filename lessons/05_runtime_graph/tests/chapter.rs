//! The tests of lesson 05. `cargo test -p lesson05 task1` runs those of one task.

use lesson05 as subject;

mod tasks;
