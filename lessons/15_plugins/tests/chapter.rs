//! The tests of lesson 15. `cargo test -p lesson15 task1` runs those of one task.

use lesson15 as subject;

mod tasks;
