//! Helpers shared by several test modules.

use std::path::{Path, PathBuf};

pub(crate) mod calls;
pub(crate) mod compiler;
pub(crate) mod layers;
pub(crate) mod parallel;
pub(crate) mod saved;

/// The modes of running a model in `ixion verify`: as in the file, after passes, as a plan, and as a plan in which every tensor
/// is converted to another layout and back.
#[cfg(feature = "cli")]
pub(crate) const MODES: [(&str, &[&str]); 4] = [
    ("interpreted", &["--interpret"]),
    ("optimised", &["--interpret=optimised"]),
    ("planned", &[]),
    ("alternating", &["--layouts=alternating"]),
];

/// The folders of all conformance cases: in the folder named by `PNNX_CASES`, or else in `../shared/conformance`. If neither
/// exists, prints a note and returns none.
pub(crate) fn conformance_cases() -> Vec<PathBuf> {
    let given = std::env::var_os("PNNX_CASES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance");
    let Some(root) = given.or_else(|| beside.is_dir().then_some(beside)) else {
        eprintln!("no cases: PNNX_CASES is not set and ../shared/conformance does not exist");
        return Vec::new();
    };
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|folder| folder.join("model.param").is_file());
    cases.sort();
    assert!(!cases.is_empty(), "{} has no cases", root.display());
    cases
}

/// The folders of the project's own cases that can run: cases that need a cargo feature are included if it is enabled.
pub(crate) fn runnable_cases() -> Vec<PathBuf> {
    let settings = |folder: &PathBuf| std::fs::read_to_string(folder.join("case.toml")).unwrap_or_default();
    let mut cases = own_cases();
    cases.retain(|folder| cfg!(feature = "linalg") || !settings(folder).contains("feature = \"linalg\""));
    cases
}

/// The folders of the project's own cases.
pub(crate) fn own_cases() -> Vec<PathBuf> {
    folders("tests/cases")
}

/// Samples of ONNX files that are refused: with operators that Ixion lacks, and loops whose number of iterations is computed.
pub(crate) const REFUSED_ONNX: [&str; 8] = [
    "causal_conv",
    "counted_words",
    "decoded_pictures",
    "linear_attention",
    "loops_by_input",
    "loops_until",
    "prepared_features",
    "support_vectors",
];

/// The ONNX files with inputs and outputs, in the layout of ONNX's own tests.
pub(crate) fn onnx_samples() -> Vec<PathBuf> {
    let is_refused = |path: &PathBuf| REFUSED_ONNX.iter().any(|name| path.ends_with(name));
    folders("tests/onnx").into_iter().filter(|path| !is_refused(path)).collect()
}

/// The folders in a folder of the project.
fn folders(path: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    cases
}
