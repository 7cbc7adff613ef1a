//! The program behind `cargo learn` and `cargo xtask`, which are aliases in `.cargo/config.toml`.

use std::process::ExitCode;

fn main() -> ExitCode {
    course::cli::main()
}
