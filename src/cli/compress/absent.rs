//! `ixion compress` where Ixion was built without the feature `linalg`: how to get it.

use super::failure::{Exit, Failure};
use super::limits::LimitArgs;
use super::screen::Screen;
use clap::Args;

const HELP: &str = "\
Exit codes:
  2  always: this `ixion` was built without the feature

Examples:
  cargo run --release --features linalg -- compress digits.pnnx.param --rank 6";

/// Replaces large linear layers by two thin ones; needs the cargo feature `linalg`
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CompressArgs {
    /// Whatever is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _anything: Vec<String>,
}

impl CompressArgs {
    pub(crate) fn run(&self, _: &LimitArgs, _: &mut Screen) -> Result<Exit, Failure> {
        let what = "`ixion compress` takes weights apart with LAPACK, and Ixion was built without the feature `linalg`";
        let how = "`cargo build --release --features linalg`, with OpenBLAS installed, has it";
        Err(Failure::unusable(what).advise(how))
    }
}
