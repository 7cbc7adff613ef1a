//! The command `ixion`: its output and its exit codes.

mod bad_files;
mod bad_inputs;
mod bench;
mod build;
mod calibrate;
mod command;
mod compress;
mod convert;
mod inspect;
mod operators;
mod plan;
mod plugins;
mod run;
mod run_pictures;
mod verify;
mod warnings;
