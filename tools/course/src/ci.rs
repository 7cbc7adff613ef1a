//! `cargo xtask ci`: everything that must pass before a change lands; also works without bash.

use crate::cargo;
use crate::style;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use std::process::Command;

/// The steps of `.ci/run` that cargo alone can run, with the default features: the heading and cargo's arguments.
const STEPS: &[(&str, &str)] = &[
    ("format", "fmt --all --check"),
    ("lints: all warnings are errors", "clippy --workspace --all-targets -- -D warnings"),
    ("tests", "test"),
    ("features: the library alone, and lints of all", "clippy --lib --no-default-features -- -D warnings"),
    ("lessons: every one can be solved, and its tests bite", "xtask lessons check"),
    ("the book, its links and its formulas", "xtask book build"),
    ("documentation: warnings are errors", "doc --no-deps --workspace"),
];

/// Runs all steps up to the first failure and returns the exit code.
pub fn run(workspace: &Workspace) -> Result<u8> {
    if has_bash() {
        let script = workspace.root.join(".ci").join("run");
        let status = Command::new("bash").arg(&script).current_dir(&workspace.root).status();
        let status = status.map_err(|error| Trouble::new(format!("cannot run bash: {error}")))?;
        return Ok(u8::from(!status.success()));
    }
    anstream::println!("bash was not found; running the steps that need only cargo.");
    for (name, arguments) in STEPS {
        anstream::println!("\n{}", style::strong(format!("== {name}")));
        let mut command = cargo::command();
        command.args(arguments.split(' ')).current_dir(&workspace.root).env("RUSTDOCFLAGS", "-D warnings");
        let status = command.status().map_err(|error| Trouble::new(format!("cannot run cargo: {error}")))?;
        if !status.success() {
            let command = style::code(format!("cargo {arguments}"));
            return Err(Trouble::new(format!("the step '{name}' failed"))
                .next(format!("To run it alone: `{command}`.")));
        }
    }
    anstream::println!("\n{}", style::good("all is well"));
    Ok(0)
}

/// Returns true if bash exists and finds cargo; the bash of the Windows Subsystem for Linux may not.
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
            let called = format!("cargo {arguments}");
            assert!(script.contains(&called), ".ci/run doesn't call {called}");
        }
        assert!(
            script.contains(&format!("--version {}", crate::book::build::MDBOOK)),
            "another version of mdBook"
        );
    }
}
