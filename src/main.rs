//! The `ixion` command, implemented in [`cli`].

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
