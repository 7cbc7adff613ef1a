//! Checks that dependencies between the folders of `src/` are acyclic, and that `op` does not depend on the operators beside it;
//! Cargo ensures the rest for crates.
//!
//! ```text
//! cli → engine → {cuda, passes, memory}; cuda → {ops, plugin}; passes → {ops, shape}; memory → shape → graph;
//! {graph, ops, plugin} → op → pnnx → tensor; graph → onnx → pnnx; ops → kernels → tensor
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crates in `crates/`. Those that the folders of `src/` depend on are in the arrows, as is `op`, a module of `ops`; their own
/// dependencies are in their Cargo.toml.
const CRATES: &[&str] = &["drawing", "kernels", "onnx", "ops", "pnnx", "python", "tensor", "vision"];

/// Each folder with the folders and crates that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("graph", &["op", "onnx", "pnnx", "tensor"]),
    ("shape", &["graph", "op", "pnnx", "tensor"]),
    ("memory", &["shape", "graph", "op", "pnnx", "tensor"]),
    ("passes", &["shape", "ops", "graph", "op", "pnnx", "tensor"]),
    ("plugin", &["op", "pnnx", "tensor"]),
    ("cuda", &["ops", "op", "plugin", "kernels", "pnnx", "tensor"]),
    ("engine", &["passes", "shape", "memory", "cuda", "ops", "graph", "op", "kernels", "pnnx", "tensor"]),
    (
        "cli",
        &[
            "engine", "passes", "plugin", "shape", "memory", "cuda", "ops", "graph", "op", "kernels", "onnx",
            "pnnx", "tensor", "vision", "drawing",
        ],
    ),
];

/// Words of code that is not the same on every processor.
const OF_PROCESSORS: &[&str] =
    &["target_arch", "target_feature", "feature_detected", "target_pointer_width", "std::arch", "core::arch"];

/// The source files in a folder and the folders in it, without those of tests.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Tests may use anything.
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code without comments and tests, which may mention any module.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The folders and crates that a file uses, in `use` lines or inline paths.
fn names_used(text: &str, own: &str) -> BTreeSet<String> {
    let is_known = |name: &str| {
        name == "op" || CRATES.contains(&name) || ARROWS.iter().any(|(folder, _)| *folder == name)
    };
    let mut used = BTreeSet::new();
    for prefix in ["crate::", "ixion::", "ixion_"] {
        for rest in text.split(prefix).skip(1) {
            let found = match rest.strip_prefix('{') {
                Some(group) => group.split('}').next().unwrap_or_default().split(',').collect(),
                None => vec![rest],
            };
            for item in found {
                let name: String =
                    item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if is_known(&name) && name != own {
                    used.insert(name);
                }
            }
        }
    }
    used
}

#[test]
fn all_crates_are_known() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().replacen("ixion-", "", 1))
        .collect();
    found.sort();
    assert_eq!(found, CRATES);
}

#[test]
fn arrows_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    for (folder, allowed) in ARROWS {
        for file in sources(&root.join("src").join(folder)) {
            let relative = file.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            let text = code(&std::fs::read_to_string(&file).unwrap());
            let used = names_used(&text, folder);
            let wrong = used.iter().filter(|used| !allowed.contains(&used.as_str()));
            faults.extend(wrong.map(|used| format!("{relative} uses `{used}`")));
        }
    }
    assert!(faults.is_empty(), "these dependencies are not allowed:\n{}", faults.join("\n"));
}

/// Only the kernels and what they use are tested on another processor, so all else must be the same on each.
#[test]
fn only_tensors_and_kernels_depend_on_the_processor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = CRATES.iter().filter(|name| !["kernels", "tensor"].contains(*name));
    let folders = others.map(|name| root.join(format!("crates/ixion-{name}/src"))).chain([root.join("src")]);
    let mut faults = Vec::new();
    for file in folders.flat_map(|folder| sources(&folder)) {
        let text = code(&std::fs::read_to_string(&file).unwrap());
        let words = OF_PROCESSORS.iter().filter(|word| text.contains(**word));
        faults.extend(words.map(|word| format!("{} has `{word}`", file.display())));
    }
    assert!(faults.is_empty(), "this belongs in ixion-tensor or ixion-kernels:\n{}", faults.join("\n"));
}

#[test]
fn the_interface_of_operators_uses_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/ixion-ops/src/op");
    let found = sources(&root);
    assert!(found.len() > 10, "{} files", found.len());
    for file in found {
        let text = code(&std::fs::read_to_string(&file).unwrap());
        let names =
            text.split("crate::").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
        // The macro that the crate exports is at its root.
        let others: Vec<_> = names.filter(|name| ![Some("op"), Some("operator")].contains(name)).collect();
        assert!(others.is_empty(), "{} uses {others:?}", file.display());
    }
}

#[test]
fn every_folder_of_src_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(
                ARROWS.iter().any(|(folder, _)| *folder == name),
                "src/{name} is not in the list of arrows"
            );
        }
    }
}

#[test]
fn the_test_itself_sees_what_it_should() {
    let text = "use crate::{graph::X, Limits};\nlet y = ixion_pnnx::f();\n// crate::cli\n";
    let used: Vec<String> = names_used(&code(text), "ops").into_iter().collect();
    assert_eq!(used, ["graph", "pnnx"]);
}
