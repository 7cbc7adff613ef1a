//! Checks that files do not import from each other in circles: then each can be read before those that use it.
//!
//! `use` lines and inline paths count, `pub use` does not; a name that a module re-exports belongs to the file that declares it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The groups that are left, each by its files.
const KNOWN: &[&[&str]] = &[
    &["ixion_tensor::dim::rebuild", "ixion_tensor::dim::sum", "ixion_tensor::dim::value"],
    &["ixion::cuda::device::graph", "ixion::cuda::device::library", "ixion::cuda::device::queue"],
    &["ixion::cuda::emulator", "ixion::cuda::emulator::compiler"],
    &["ixion::cuda::layer", "ixion::cuda::layers", "ixion::cuda::plugin"],
    &["ixion::cuda::layers::product", "ixion::cuda::layers::product_library"],
];

/// A file of each of the large groups that are left, and the number of their files.
const ENTANGLED: &[(&str, usize)] = &[("ixion::cuda::nvidia", 12)];

type Module = Vec<String>;

/// The modules of all crates with their code, without comments, tests and `pub use`, and what they re-export.
#[derive(Default)]
struct Sources {
    code: BTreeMap<Module, String>,
    /// The declared path of a re-exported name, by module and name.
    exports: BTreeMap<Module, Module>,
}

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut texts = BTreeMap::new();
        read_below(&root.join("src"), vec!["ixion".to_owned()], &mut texts);
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().replace('-', "_");
            read_below(&path.join("src"), vec![name], &mut texts);
        }
        Self::of(&texts)
    }

    fn of(texts: &BTreeMap<Module, String>) -> Self {
        let mut sources = Self::default();
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        for (module, text) in texts {
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            let text = lines.collect::<Vec<_>>().join("\n");
            let mut code = String::new();
            for statement in text.split_inclusive(';') {
                let Some((before, tree)) = re_export(statement) else {
                    code.push_str(statement);
                    continue;
                };
                code.push_str(before);
                for path in expanded(tree) {
                    let Some(path) = absolute(module, &path, &modules) else { continue };
                    let mut name = module.clone();
                    name.extend(path.last().cloned());
                    sources.exports.insert(name, path);
                }
            }
            sources.code.insert(module.clone(), code);
        }
        sources
    }

    /// The file that declares the item at a path.
    fn declaring(&self, path: &[String], depth: usize) -> Option<Module> {
        let len = (1..=path.len()).rev().find(|&len| self.code.contains_key(&path[..len]))?;
        let (module, rest) = path.split_at(len);
        let name = rest.first().map(|name| [module, std::slice::from_ref(name)].concat());
        match name.and_then(|name| self.exports.get(&name)) {
            Some(declared) if depth < 5 && declared != path => {
                self.declaring(&[declared, &rest[1..]].concat(), depth + 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    /// The files that each file imports from.
    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let modules: BTreeSet<Module> = self.code.keys().cloned().collect();
        let of = |module: &Module, code: &str| -> BTreeSet<Module> {
            let absolute = |path: &String| absolute(module, path, &modules);
            let paths = paths_in(code).into_iter().filter_map(|path| absolute(&path));
            paths.filter_map(|path| self.declaring(&path, 0)).filter(|other| other != module).collect()
        };
        self.code.iter().map(|(module, code)| (module.clone(), of(module, code))).collect()
    }

    /// The groups of files that reach each other.
    fn circles(&self) -> Vec<BTreeSet<Module>> {
        let imports = self.imports();
        let reached = |module: &Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![module]);
            while let Some(module) = next.pop() {
                next.extend(imports[module].iter().filter(|other| seen.insert((*other).clone())));
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            imports.keys().map(|module| (module, reached(module))).collect();
        let group = |module: &Module| -> BTreeSet<Module> {
            reached[module].iter().filter(|other| reached[*other].contains(module)).cloned().collect()
        };
        let groups: BTreeSet<BTreeSet<Module>> = imports.keys().map(group).collect();
        groups.into_iter().filter(|group| group.len() > 1).collect()
    }
}

fn read_below(folder: &Path, module: Module, texts: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut inner = module.clone();
        if name != "tests" && path.is_dir() {
            inner.push(name);
            read_below(&path, inner, texts);
        } else if name != "tests" && path.extension().is_some_and(|extension| extension == "rs") {
            if !["lib", "mod"].contains(&name.as_str()) {
                inner.push(name);
            }
            texts.insert(inner, std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The text before a `pub use` that ends a statement, and its tree.
fn re_export(statement: &str) -> Option<(&str, &str)> {
    let at = statement.rfind("pub use ").or_else(|| {
        let at = statement.rfind(") use ")?;
        statement[..at].rfind("pub(")
    })?;
    let (before, export) = statement.split_at(at);
    let (_, tree) = export.split_once("use ")?;
    Some((before, tree.trim_end_matches(';')))
}

/// The paths of a tree such as `a::{b, c::d as e}`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return if path.is_empty() { Vec::new() } else { vec![path.to_owned()] };
    };
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items.into_iter().flat_map(expanded).map(|path| format!("{prefix}{path}")).collect()
}

/// The paths in `use` lines, and those in code that begin with `crate` or `super`.
fn paths_in(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for statement in code.split(';') {
        let import = statement.rfind("use ").filter(|&at| !statement[..at].ends_with(is_in_path));
        let (code, import) = import.map_or((statement, ""), |at| statement.split_at(at));
        // In a module within a file, `super` is the file.
        let above = if code.ends_with(' ') { "super::" } else { "" };
        let imported = expanded(import.trim_start_matches("use "));
        paths.extend(imported.iter().map(|path| path.strip_prefix(above).unwrap_or(path).to_owned()));
        for start in ["crate::", "super::"] {
            // A path starts with the first `super` of several.
            let starts = code.match_indices(start).filter(|(at, _)| !code[..*at].ends_with(is_in_path));
            paths.extend(starts.map(|(at, _)| code[at..].chars().take_while(|&c| is_in_path(c)).collect()));
        }
    }
    paths
}

fn is_in_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// A path from the root of its crate; `None` for those of other crates.
fn absolute(module: &Module, path: &str, modules: &BTreeSet<Module>) -> Option<Module> {
    let mut rest = path.split("::").map(str::trim).filter(|name| !name.is_empty()).peekable();
    let mut base = match *rest.peek()? {
        "crate" => {
            rest.next();
            module[..1].to_vec()
        }
        "super" | "self" => module.clone(),
        first => {
            let child = [module.as_slice(), &[first.to_owned()]].concat();
            modules.contains(&child).then(|| module.clone())?
        }
    };
    while let Some(&name) = rest.peek().filter(|name| ["super", "self"].contains(*name)) {
        if name == "super" {
            base.pop();
        }
        rest.next();
    }
    base.extend(rest.map(str::to_owned));
    Some(base)
}

#[test]
fn no_new_circle_of_files() {
    let sources = Sources::read();
    assert!(sources.code.len() > 500, "{} files", sources.code.len());
    let circles: Vec<Vec<String>> = sources
        .circles()
        .into_iter()
        .map(|group| group.iter().map(|module| module.join("::")).collect())
        .collect();
    let is_known = |group: &Vec<String>| {
        KNOWN.iter().any(|known| group == known)
            || ENTANGLED
                .iter()
                .any(|(file, len)| group.len() == *len && group.iter().any(|module| module == file))
    };
    let new: Vec<String> =
        circles.iter().filter(|group| !is_known(group)).map(|group| group.join(", ")).collect();
    assert!(new.is_empty(), "these files import from each other:\n{}", new.join("\n"));
    assert_eq!(circles.len(), KNOWN.len() + ENTANGLED.len(), "a circle of the lists is gone: shorten them");
}

#[test]
fn circles_are_found_through_re_exports() {
    let texts = [
        ("x", "mod a;\nmod b;\npub use a::{One, Two as Three};\npub(crate) use b::four;"),
        ("x::a", "use super::four;\n// use super::b;\npub struct One;"),
        ("x::b", "fn four() { crate::One::new() }\n#[cfg(test)]\nmod tests { use crate::c::d; }"),
        ("x::c", "use crate::{One, a::{Two, One}};"),
    ];
    let module = |name: &str| name.split("::").map(str::to_owned).collect::<Module>();
    let texts = texts.map(|(name, text)| (module(name), text.to_owned())).into();
    let circles = Sources::of(&texts).circles();
    assert_eq!(circles, [BTreeSet::from([module("x::a"), module("x::b")])]);
}
