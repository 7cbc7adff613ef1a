//! The tests of lesson 14. `cargo test -p lesson14 task1` runs those of one task.

use lesson14 as subject;

mod tasks;
