//! The tests of lesson 10. `cargo test -p lesson10 task1` runs those of one task.

use lesson10 as subject;

mod tasks;
