//! The `ixion` command, which is in the library's hidden module `cli`, since the Python package has it as well.

fn main() -> std::process::ExitCode {
    ixion::cli::main()
}
