//! The tests of lesson 04. `cargo test -p lesson04 task1` runs those of one task.

use lesson04 as subject;

mod tasks;
