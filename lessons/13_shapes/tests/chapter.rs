//! The tests of lesson 13. `cargo test -p lesson13 task1` runs those of one task.

use lesson13 as subject;

mod tasks;
