//! The tests of lesson 18. `cargo test -p lesson18 task1` runs those of one task.

use lesson18 as subject;

mod tasks;
