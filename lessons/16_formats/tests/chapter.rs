//! The tests of lesson 16. `cargo test -p lesson16 task1` runs those of one task.

use lesson16 as subject;

mod tasks;
