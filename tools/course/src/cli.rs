//! The two commands.

use crate::trouble::Result;
use crate::workspace::Workspace;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "What authors of the course need")]
struct Xtask {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Writes and checks lessons.
    Lessons {
        #[command(subcommand)]
        order: Lessons,
    },
}

#[derive(Subcommand)]
enum Lessons {
    /// Writes src/lib.rs of every lesson from its starter.tmpl.
    Generate,
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    match Xtask::parse().order {
        Order::Lessons { order: Lessons::Generate } => match generate() {
            Ok(()) => ExitCode::SUCCESS,
            Err(trouble) => {
                anstream::eprintln!("{trouble}");
                ExitCode::FAILURE
            }
        },
    }
}

fn generate() -> Result<()> {
    let here = std::env::current_dir().map_err(|error| crate::trouble::Trouble::new(error.to_string()))?;
    anstream::print!("{}", crate::generate::generate(&Workspace::find(&here)?)?);
    Ok(())
}
