//! The tests of lesson 03. `cargo test -p lesson03 task1` runs those of one task.

use lesson03 as subject;

mod tasks;
