//! `ixion compress` if Ixion was built without the feature `linalg`: an error that describes how to get it.

use super::{Exit, Failure, LimitArgs, Terminal};
use clap::Args;

const HELP: &str = "\
Exit codes:
  2  always: this `ixion` was built without the feature

Examples:
  cargo run --release --features linalg -- compress digits.pnnx.param --rank 6";

/// Replace large linear layers by two thin ones; requires the cargo feature `linalg`
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CompressArgs {
    /// Any arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _anything: Vec<String>,
}

impl CompressArgs {
    pub(crate) fn run(&self, _: &LimitArgs, _: &mut Terminal) -> Result<Exit, Failure> {
        let what = "`ixion compress` needs LAPACK, but Ixion was built without the feature `linalg`";
        let how = "install OpenBLAS and build with `cargo build --release --features linalg`";
        Err(Failure::unusable(what).advise(how))
    }
}
