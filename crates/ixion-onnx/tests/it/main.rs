//! Tests of the reader with files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod corpus;
mod external;
