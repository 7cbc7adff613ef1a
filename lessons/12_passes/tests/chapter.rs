//! The tests of lesson 12. `cargo test -p lesson12 task1` runs those of one task.

use lesson12 as subject;

mod tasks;
