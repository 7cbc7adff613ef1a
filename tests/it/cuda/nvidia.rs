//! The backend for NVIDIA GPUs, with stand-ins for the driver and the compiler: see `stand_in/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the stand-ins, which are compiled once.
pub(super) fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand_in");
        // Kernels of an earlier run may come from another version of the emulator.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        compile(&[("driver", "libcuda.so.1"), ("nvrtc", "libnvrtc.so.12")], &folder);
        folder
    })
}

/// Compiles sources in `stand_in/` to libraries with these names.
pub(super) fn compile(libraries: &[(&str, &str)], folder: &Path) {
    for (name, library) in libraries {
        let source = format!("{}/tests/it/cuda/stand_in/{name}.cpp", env!("CARGO_MANIFEST_DIR"));
        let made = Command::new("c++")
            .args(["-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", &source, "-ldl", "-o"])
            .arg(folder.join(library))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

/// Runs `ixion` with the stand-ins.
fn ixion(args: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("RUST_LOG");
    on_stand_ins(&mut command).envs(settings.iter().copied()).output().unwrap()
}

/// Makes a program find the stand-ins.
pub(super) fn on_stand_ins(command: &mut Command) -> &mut Command {
    command.env("LD_LIBRARY_PATH", libraries()).env("XDG_CACHE_HOME", libraries());
    command.env("STAND_IN_FOLDER", libraries());
    command.env("STAND_IN_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/emulator"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_is_listed() {
    let listed = text(&ixion(&["devices"], &[("STAND_IN_DEVICES", "2")]).stdout);
    for line in ["cuda:0", "cuda:1", "stand-in", "sm_90, driver 12.9, NVRTC 12.9, 4 multiprocessors"] {
        assert!(listed.contains(line), "{listed}");
    }
}

#[test]
fn models_run_on_it() {
    let cases = ["expression_binary_f32", "expression_binary_f16", "expression_binary_integers"];
    let cases = cases.map(|case| format!("tests/cases/{case}"));
    for pools in ["1", "0"] {
        let mut args = vec!["verify", "--device", "cuda", "--no-fallback"];
        args.extend(cases.iter().map(String::as_str));
        let ended = ixion(&args, &[("STAND_IN_POOLS", pools)]);
        assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    }
    // A second run replays the launches of the first.
    let args =
        ["bench", "model_file/shapes_detector/shapes_detector.pnnx.param", "--device", "cuda", "--runs", "3"];
    let ended = ixion(&args, &[]);
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
}

#[test]
fn missing_requirements_are_reported() {
    let args = ["verify", "tests/cases/expression_binary_f32", "--device"];
    for (device, settings, wanted) in [
        (
            "cuda",
            ("STAND_IN_VERSION", "11040"),
            "the driver supports CUDA 11.4, but 12.0 or later is required",
        ),
        ("cuda", ("STAND_IN_INIT", "100"), "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)"),
        ("cuda", ("STAND_IN_DEVICES", "0"), "the driver found no GPU"),
        ("cuda:3", ("STAND_IN_DEVICES", "2"), "no device `cuda:3`: this machine has 2 GPUs, numbered from 0"),
        ("cuda:x", ("STAND_IN_DEVICES", "2"), "no device `cuda:x`: this program was built for cuda"),
        ("cuda", ("STAND_IN_MEMORY", "100"), "bytes on cuda:0: 24 bytes are in use"),
        ("cuda", ("LD_LIBRARY_PATH", "/nowhere"), "libcuda was not found under the names libcuda.so.1"),
    ] {
        let ended = ixion(&[&args[..], &[device]].concat(), &[settings]);
        let said = text(&ended.stdout) + &text(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(1 | 2)), "{settings:?} {said}");
        assert!(said.contains(wanted) && !said.contains("panicked"), "{settings:?} {said}");
    }
}
