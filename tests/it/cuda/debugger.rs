//! A kernel in a debugger: a breakpoint on a source line is hit, and variables can be inspected.

use std::path::Path;
use std::process::Command;

#[test]
fn a_breakpoint_in_a_kernel_is_met() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels/softmax.cu");
    let text = std::fs::read_to_string(source).unwrap();
    // The first statement of the kernel.
    let behind = text.lines().enumerate().skip_while(|(_, line)| !line.contains("__global__ void softmax("));
    let line = behind.map(|(at, line)| (at + 1, line)).find(|(_, line)| line.ends_with(';')).unwrap().0;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debugger");
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "set debuginfod enabled off"]);
    gdb.args([
        "-ex",
        &format!("break softmax.cu:{line}"),
        "-ex",
        "run",
        "-ex",
        "bt 4",
        "-ex",
        "info breakpoints",
    ]);
    gdb.args(["-ex", "print ixion::self->index", "--args", env!("CARGO_BIN_EXE_ixion"), "verify"]);
    gdb.args(["--device", "cuda-emulator", "tests/cases/F_softmax"]);
    gdb.current_dir(env!("CARGO_MANIFEST_DIR")).env("XDG_CACHE_HOME", folder).env_remove("RUST_LOG");
    let Ok(ended) = gdb.output() else {
        eprintln!("gdb was not found; stepping through kernels is not tested");
        return;
    };
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    if said.contains("ptrace") {
        eprintln!("gdb may not attach to other programs here; stepping through kernels is not tested");
        return;
    }
    assert!(said.contains("breakpoint already hit 1 time"), "{said}");
    assert!(said.contains("src/cuda/kernels/softmax.cu:"), "{said}");
    assert!(said.contains("y = 0, z = 0"), "{said}");
}
