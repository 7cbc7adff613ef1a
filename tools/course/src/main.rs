//! `cargo learn` and `cargo xtask`: both are aliases of this command, see `.cargo/config.toml`.

use std::process::ExitCode;

fn main() -> ExitCode {
    course::cli::main()
}
