//! Dependencies between the folders of `src/` point one way.
//!
//! `cli → engine → {passes → shape, memory, cuda layers → layers} → {graph, kernels, cuda device} → {pnnx, tensor}`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each module and those that it may use. `limits` is below all of them.
const ARROWS: &[(&str, &[&str])] = &[
    ("tensor", &[]),
    ("pnnx", &["tensor"]),
    ("kernels", &["pnnx", "tensor"]),
    ("graph", &["pnnx", "tensor", "layers"]),
    ("layers", &["graph", "kernels", "pnnx", "tensor"]),
    ("shape", &["graph", "pnnx", "tensor"]),
    ("memory", &["shape", "graph", "pnnx", "tensor"]),
    ("passes", &["shape", "layers", "graph", "pnnx", "tensor"]),
    ("cuda", &["layers", "graph", "kernels", "pnnx", "tensor", "plugin"]),
    ("engine", &["passes", "shape", "memory", "cuda", "layers", "graph", "kernels", "pnnx", "tensor"]),
    ("plugin", &["cuda", "graph", "pnnx", "tensor"]),
    ("vision", &["tensor"]),
    (
        "cli",
        &[
            "engine", "passes", "plugin", "shape", "memory", "vision", "cuda", "layers", "graph", "kernels",
            "pnnx", "tensor",
        ],
    ),
];

/// The only lines that point upwards, as file, its module and what it uses: the default registry is the one that `layers`
/// fills, and the default layers of a GPU have those of libraries among them.
const EXCEPTIONS: [(&str, &str, &str); 2] =
    [("src/graph/registry.rs", "graph", "layers"), ("src/cuda/layers/mod.rs", "cuda", "plugin")];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Code only: comments may name whom they like, and tests may use what they test with.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules of this crate that a file names, in `use` lines or in the middle of code.
fn modules_used(text: &str, own: &str) -> BTreeSet<String> {
    let names: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut used = BTreeSet::new();
    for prefix in ["crate::", "$crate::", "ixion::"] {
        for rest in text.split(prefix).skip(1) {
            let found = match rest.strip_prefix('{') {
                Some(group) => group.split('}').next().unwrap_or_default().split(',').collect(),
                None => vec![rest],
            };
            for item in found {
                let name: String =
                    item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if names.contains(&name.as_str()) && name != own {
                    used.insert(name);
                }
            }
        }
    }
    used
}

#[test]
fn arrows_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = Vec::new();
    for (module, allowed) in ARROWS {
        for file in sources(&root.join("src").join(module)) {
            let relative = file.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            let text = code(&std::fs::read_to_string(&file).unwrap());
            for used in modules_used(&text, module) {
                let is_upwards = EXCEPTIONS
                    .iter()
                    .any(|(file, from, to)| (module, &*used) == (from, *to) && relative != *file);
                if !allowed.contains(&used.as_str()) || is_upwards {
                    faults.push(format!("{relative} uses `{used}`"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "these lines point the wrong way:\n{}", faults.join("\n"));
}

#[test]
fn every_folder_of_src_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(
                ARROWS.iter().any(|(module, _)| *module == name),
                "src/{name} is not in the list of arrows"
            );
        }
    }
}

#[test]
fn the_test_itself_sees_what_it_should() {
    let text = "use crate::{graph::X, Limits};\nlet y = crate::pnnx::f();\n// crate::cli\n";
    let used: Vec<String> = modules_used(&code(text), "tensor").into_iter().collect();
    assert_eq!(used, ["graph", "pnnx"]);
}
