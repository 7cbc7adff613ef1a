//! The tests of lesson 17. `cargo test -p lesson17 task1` runs those of one task.

use lesson17 as subject;

mod tasks;
