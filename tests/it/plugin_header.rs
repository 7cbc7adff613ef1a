//! The C header for plugins: it is generated from the Rust definitions, and C lays out its structs as Rust does.
//!
//! `IXION_WRITE=1 cargo test --test it plugin_header` updates it.

use crate::common::compiler;
use ixion::plugin::{abi, header};
use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_that_of_the_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/ixion_plugin.h");
    if std::env::var_os("IXION_WRITE").is_some() {
        std::fs::write(&path, header()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    assert!(committed == header(), "run `IXION_WRITE=1 cargo test --test it plugin_header`");
}

/// A program that prints C's sizes, offsets and constants.
fn program() -> String {
    let mut lines = vec!["#include \"ixion_plugin.h\"\n#include <stdio.h>\nint main(void) {".to_owned()];
    for one in abi::structs() {
        let name = one.name;
        lines.push(format!("    printf(\"{name} %zu\\n\", sizeof({name}));"));
        for member in &one.members {
            let member = member.name;
            lines.push(format!("    printf(\"{name}.{member} %zu\\n\", offsetof({name}, {member}));"));
        }
    }
    for constant in abi::constants() {
        lines.push(format!("    printf(\"{0} %lld\\n\", (long long)({0}));", constant.name));
    }
    lines.push("    return 0;\n}\n".to_owned());
    lines.join("\n")
}

/// The same values in Rust.
fn wanted() -> String {
    let mut text = String::new();
    for one in abi::structs() {
        text += &format!("{} {}\n", one.name, one.size);
        for member in &one.members {
            text += &format!("{}.{} {}\n", one.name, member.name, member.offset);
        }
    }
    for constant in abi::constants() {
        text += &format!("{} {}\n", constant.name, constant.value);
    }
    text
}

#[test]
fn c_lays_out_structs_as_rust_does() {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("sizes.c"), folder.path().join("sizes"));
    std::fs::write(&source, program()).unwrap();
    compiler::run(Command::new(compiler::c()).args(compiler::FLAGS).arg("-o").arg(&binary).arg(&source));
    let output = Command::new(&binary).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    for (found, wanted) in found.lines().zip(wanted().lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.lines().count(), wanted().lines().count());
}

#[test]
fn the_header_is_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.cpp");
    std::fs::write(&source, "#include \"ixion_plugin.h\"\nint main() { return IXION_OK; }\n").unwrap();
    let include = format!("-I{}", compiler::include().display());
    // A C++ compiler may not be installed.
    let Ok(output) =
        Command::new("c++").args(["-Wall", "-Werror", "-fsyntax-only", &include]).arg(&source).output()
    else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
