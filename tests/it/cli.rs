//! The command `ixion`, from the outside: what it prints, and how it ends.

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
