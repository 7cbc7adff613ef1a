//! `cargo xtask ci`: everything that must hold before a change lands, also where there is no bash.

use crate::cargo;
use crate::style;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use std::process::Command;

/// What `.ci/run` does, as far as cargo can do it alone: the heading of a step, and what cargo is called with.
const STEPS: &[(&str, &str)] = &[
    ("format", "fmt --all --check"),
    ("lints: all warnings are errors", "clippy --workspace --all-targets -- -D warnings"),
    ("tests: the command of the README", "test"),
    ("features: the library alone, and lints of all", "clippy --lib --no-default-features -- -D warnings"),
    ("lessons: every one can be solved, and its tests bite", "xtask lessons check"),
    ("the book, its links and its formulas", "xtask book build"),
    ("broken files", "test --test it mutation::"),
    ("operators with one thing wrong", "test --test it misuse::"),
    ("benches build", "bench --no-run --profile dev"),
    ("documentation: warnings are errors", "doc --no-deps --workspace"),
];

/// Runs all steps up to the first that fails; returns its exit code.
pub fn run(workspace: &Workspace) -> Result<u8> {
    if has_bash() {
        let script = workspace.root.join(".ci").join("run");
        let status = Command::new("bash").arg(&script).current_dir(&workspace.root).status();
        let status = status.map_err(|error| Trouble::new(format!("bash cannot be called: {error}")))?;
        return Ok(u8::from(!status.success()));
    }
    anstream::println!("There is no bash here: the steps that cargo can do alone.");
    for (name, arguments) in STEPS {
        anstream::println!("\n{}", style::strong(format!("== {name}")));
        let mut command = cargo::command();
        command.args(arguments.split(' ')).current_dir(&workspace.root).env("RUSTDOCFLAGS", "-D warnings");
        let status =
            command.status().map_err(|error| Trouble::new(format!("cargo cannot be called: {error}")))?;
        if !status.success() {
            let command = style::code(format!("cargo {arguments}"));
            return Err(
                Trouble::new(format!("the step '{name}' failed")).next(format!("Alone it is `{command}`."))
            );
        }
    }
    anstream::println!("\n{}", style::good("all is well"));
    Ok(0)
}

/// Whether there is a bash that knows cargo; that of a subsystem of Windows may not.
fn has_bash() -> bool {
    let output = Command::new("bash").args(["-c", "cargo --version"]).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn the_steps_are_those_of_the_script() {
        let script = include_str!("../../../.ci/run");
        for (name, arguments) in STEPS {
            assert!(script.contains(&format!("step \"{name}\"")), ".ci/run has no step '{name}'");
            // A part of a test program is run without cargo.
            let called =
                arguments.rsplit(' ').find(|word| word.ends_with("::")).map(|part| format!(" {part} "));
            let called = called.unwrap_or_else(|| format!("cargo {arguments}"));
            assert!(script.contains(&called), ".ci/run doesn't call {called}");
        }
        assert!(
            script.contains(&format!("--version {}", crate::book::build::MDBOOK)),
            "another version of mdBook"
        );
    }
}
