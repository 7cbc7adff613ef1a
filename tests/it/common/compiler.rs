//! The C compiler of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The flags for all C code: the header must compile without warnings.
pub(crate) const FLAGS: [&str; 6] = [
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Werror",
    concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"),
];

/// The folder of the header.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The compiler: the variable `CC`, or else `cc`.
pub(crate) fn c() -> String {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let works = Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(works, "no C compiler `{compiler}` found; install gcc or clang, or set the variable CC");
    compiler
}

/// Runs a compiler, which must succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles a C plugin into a folder, with these macros defined.
pub(crate) fn library(source: &Path, folder: &Path, defines: &[String]) -> PathBuf {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let library =
        folder.join(format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let mut command = Command::new(c());
    command.args(FLAGS).args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]).args(defines).arg("-o");
    run(command.arg(&library).arg(source).arg("-lm"));
    library
}
