//! `ixion compress` where Ixion was built without the feature `linalg`: how to get it.

use super::failure::{Exit, Failure};
use super::limits::LimitArgs;
use super::screen::Screen;
use clap::Args;

/// Replaces large linear layers by two thin ones; needs the cargo feature `linalg`
#[derive(Debug, Args)]
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
