//! The tests of lesson 07. `cargo test -p lesson07 task1` runs those of one task.

use lesson07 as subject;

mod tasks;
