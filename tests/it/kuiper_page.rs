//! The page `book/src/reference/kuiper_to_tensorrt.md` mentions only things that exist: all code in its column "ours" is looked
//! up in the sources.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "book/src/reference/kuiper_to_tensorrt.md";
const HEAD: &str = "| theirs | ours | what differs, and why |";

#[test]
fn everything_that_is_called_ours_is_there() {
    let sources = Sources::read();
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 100, "{PAGE} has {} rows: is its header still `{HEAD}`?", rows.len());
    let mut problems = Vec::new();
    for (line, row) in rows {
        match row[..] {
            ["" | "…", ..] | [_, "", ..] | [_, _, ""] => {
                problems.push(format!("line {line}: a cell is empty"))
            }
            [_, ours, _] => {
                let spans: Vec<&str> = ours.split('`').skip(1).step_by(2).collect();
                if spans.is_empty() && ours != "none" {
                    problems
                        .push(format!("line {line}: `{ours}` names nothing; write `none` and the reason"));
                }
                let missing = spans.into_iter().filter(|span| !sources.have(span));
                problems.extend(missing.map(|span| format!("line {line}: `{span}` does not exist")));
            }
            _ => problems.push(format!("line {line}: {} cells, not 3", row.len())),
        }
    }
    assert!(problems.is_empty(), "{PAGE}:\n{}", problems.join("\n"));
}

#[test]
fn names_that_are_not_there_are_noticed() {
    let sources = Sources::read();
    for name in ["Tensor", "op::Layer", "Tensor::reshape", "BuildState::NeedsInit", "operator!", "nn.Conv2d"]
    {
        assert!(sources.have(name), "`{name}` is there");
    }
    let wrong = [
        "Tensr",                           // a type
        "tensor::Layer",                   // another module
        "Tensor::reshap",                  // a method whose name begins another's
        "Layer::forward",                  // a method of `CpuLayer`
        "BuildState::NeedsSleep",          // a variant
        "RuntimeGraph::connect",           // not public
        "operators!",                      // an internal macro
        "nn.Conv9d",                       // an operator
        "fold_everything",                 // a pass
        "bilinear",                        // quoted somewhere, but no pass
        "IXION_CA",                        // the beginning of a variable
        "ixion launch",                    // a command
        "ixion build --preciseness",       // an option
        "ixion build --svg",               // another command's option
        "tests/it/no_such_file.rs",        // a file
        "IXION_NOTHING",                   // a variable
        "kernels::naive::unfold_sideways", // a function
    ];
    for name in wrong {
        assert!(!sources.have(name), "`{name}` is not there");
    }
}

/// The rows of all tables with this header: line number, counted from 1, and cells.
fn rows(page: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    let mut is_ours = false;
    for (index, line) in page.lines().enumerate() {
        is_ours = line == HEAD || (is_ours && line.starts_with('|'));
        if is_ours && line != HEAD && !line.starts_with("|---") {
            let cells = line.trim_matches('|').split('|').map(str::trim).collect();
            rows.push((index + 1, cells));
        }
    }
    rows
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The public API and strings in the sources of all crates.
#[derive(Default)]
struct Sources {
    /// The paths of the modules and their texts.
    files: Vec<(String, String)>,
    /// The public items with the paths of their files.
    items: HashSet<(String, String)>,
    /// Public types with their methods, constants, fields and variants.
    members: HashSet<(String, String)>,
    /// The public macros.
    macros: HashSet<String>,
}

impl Sources {
    fn read() -> Self {
        let mut sources = Self::default();
        sources.read_below(&root().join("src"), "");
        for entry in std::fs::read_dir(root().join("crates")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let module = name.strip_prefix("ixion-").unwrap();
            sources.read_below(&root().join("crates").join(&name).join("src"), module);
        }
        sources
    }

    /// Reads the sources of a crate as a module; the name of `ixion` itself is empty, and `op` is a module of its own.
    fn read_below(&mut self, src: &Path, module: &str) {
        let mut folders = vec![src.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path: PathBuf = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let parts = path.strip_prefix(src).unwrap().iter().map(|part| part.to_str().unwrap());
                    let parts: Vec<&str> = parts.collect();
                    let text = std::fs::read_to_string(&path).unwrap();
                    let place = match (module, parts.as_slice()) {
                        ("", _) | ("ops", ["op", ..]) => parts.join("/"),
                        _ => format!("{module}/{}", parts.join("/")),
                    };
                    self.add(place, text);
                }
            }
        }
    }

    /// Records the declarations in a file. Their indentation shows what they belong to, because sources are formatted.
    fn add(&mut self, path: String, text: String) {
        let mut block = Block::Other;
        let mut enums = Vec::new();
        let mut is_exported = false;
        for line in text.lines() {
            let inner = line.trim_start();
            let depth = line.len() - inner.len();
            if let Some((kind, name)) = item(inner)
                && (depth == 0 || kind != "fn")
            {
                self.items.insert((path.clone(), name.to_owned()));
                if kind == "enum" {
                    enums.push(name.to_owned());
                }
            }
            if let Some(name) = line.strip_prefix("macro_rules! ").and_then(word).filter(|_| is_exported) {
                self.macros.insert(name.to_owned());
            }
            is_exported = line == "#[macro_export]";
            let opened = Block::opened_by(line);
            let member = match (&block, depth) {
                _ if opened.is_some() => None,
                (Block::Type(_) | Block::Operator(_) | Block::Macro, 4 | 8) => member(inner, &block),
                _ => None,
            };
            if let (Block::Operator(name), Some(("struct", declared))) = (&mut block, item(inner)) {
                *name = declared.to_owned();
            }
            match (&block, member) {
                (Block::Type((name, _)), Some(member)) if depth == 4 => {
                    self.members.insert((name.clone(), member.to_owned()));
                }
                (Block::Operator(name), Some(member)) if depth == 8 => {
                    self.members.insert((name.clone(), member.to_owned()));
                }
                (Block::Macro, Some(member)) if depth == 4 => {
                    let of = enums.iter().map(|name| (name.clone(), member.to_owned()));
                    self.members.extend(of);
                }
                _ => {}
            }
            match opened {
                Some(opened) => block = opened,
                None if depth == 0 && line.starts_with('}') => block = Block::Other,
                None => {}
            }
        }
        self.files.push((path, text));
    }

    /// Returns true if a code span names something that exists: a file, a command, an environment variable, an operator type,
    /// a pass, or a Rust item.
    fn have(&self, name: &str) -> bool {
        if ["Drop", "Result", "RUST_LOG"].contains(&name) {
            return true; // Rust's own, and that of `env_logger`
        }
        if let Some(command) = name.strip_prefix("ixion ") {
            return have_command(command);
        }
        if let Some(command) = name.strip_prefix("cargo ") {
            let aliases = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
            let word = command.split(' ').next().unwrap();
            return word == "run" || aliases.lines().any(|line| line.starts_with(&format!("{word} = ")));
        }
        if name.contains('/') {
            return root().join(name).exists();
        }
        let is_variable = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let is_type = name.contains('.') || name.starts_with("prim::");
        let is_pass = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        match (is_pass, is_variable || is_type) {
            (true, _) => self.quote(name, "passes/"),
            (false, true) => self.quote(name, ""),
            (false, false) => self.have_item(name),
        }
    }

    /// Returns true if a file in this folder contains the name in quotation marks.
    fn quote(&self, name: &str, folder: &str) -> bool {
        let quoted = format!("\"{name}\"");
        self.files.iter().any(|(path, text)| path.starts_with(folder) && text.contains(&quoted))
    }

    /// Returns true if a public item exists, such as `op::Layer`, `Layer::infer` or `kernels::naive::unfold`.
    fn have_item(&self, name: &str) -> bool {
        if let Some(name) = name.strip_suffix('!') {
            return self.macros.contains(name);
        }
        let mut parts: Vec<&str> = name.split("::").collect();
        let mut module = String::new();
        let is_in = |path: &str, module: &str| {
            module.is_empty() || path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['/', '.']))
        };
        while let Some(first) =
            parts.first().filter(|part| part.starts_with(|c: char| c.is_ascii_lowercase()))
        {
            let inner = if module.is_empty() { (*first).to_owned() } else { format!("{module}/{first}") };
            if !self.files.iter().any(|(path, _)| is_in(path, &inner)) {
                break;
            }
            module = inner;
            parts.remove(0);
        }
        let declared =
            |item: &str| self.items.iter().any(|(path, name)| name == item && is_in(path, &module));
        match parts[..] {
            [] => true,
            [item] => declared(item),
            [of, member] => declared(of) && self.members.contains(&(of.to_owned(), member.to_owned())),
            _ => false,
        }
    }
}

/// Returns true if the command exists and its help lists all of the options that follow.
fn have_command(command: &str) -> bool {
    let mut words = command.split(' ');
    let command = words.next().unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_ixion")).args([command, "--help"]).output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let known: HashSet<&str> = text.split([' ', ',', '\n', '[', '=']).collect();
    help.status.success() && words.all(|option| known.contains(option))
}

/// The block that contains a line.
enum Block {
    /// The declaration of a type or a trait, or an `impl`, and whether its members are public without `pub`.
    Type((String, bool)),
    /// `operator! { … }`, which declares a struct of public fields.
    Operator(String),
    /// Another macro, which may generate the variants of an enum.
    Macro,
    Other,
}

impl Block {
    /// The block that begins with a line at the left margin.
    fn opened_by(line: &str) -> Option<Self> {
        if line.starts_with(' ') || !line.ends_with('{') {
            return None;
        }
        if line == "crate::operator! {" {
            return Some(Self::Operator(String::new()));
        }
        if line.ends_with("! {") {
            return Some(Self::Macro);
        }
        if let Some((kind @ ("struct" | "enum" | "trait"), name)) = item(line) {
            return Some(Self::Type((name.to_owned(), kind != "struct")));
        }
        let header = without_generics(line.strip_prefix("impl")?);
        let (is_of_trait, of) = match header.split_once(" for ") {
            Some((_, of)) => (true, of.to_owned()),
            None => (false, header),
        };
        Some(Self::Type((word(of.trim())?.to_owned(), is_of_trait)))
    }
}

/// Removes everything between angle brackets.
fn without_generics(text: &str) -> String {
    let mut depth = 0i32;
    let outside = |c: &char| {
        depth += i32::from(*c == '<') - i32::from(*c == '>');
        depth == 0 && *c != '>'
    };
    text.chars().filter(outside).collect()
}

/// The identifier at the beginning of a text.
fn word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

/// The kind and name of the public item that a line declares.
fn item(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("pub ")?;
    let line = line.strip_prefix("const fn ").map_or(line, |_| &line["const ".len()..]);
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let (kind, rest) = line.split_once(' ')?;
    let is_item = ["struct", "enum", "trait", "type", "fn", "const", "static"].contains(&kind);
    Some((kind, word(rest)?)).filter(|_| is_item)
}

/// The public member that a line declares in a block.
fn member<'a>(line: &'a str, block: &Block) -> Option<&'a str> {
    let needs_no_pub = !matches!(block, Block::Type((_, false)));
    let (line, is_public) = match line.strip_prefix("pub ") {
        Some(rest) => (rest, true),
        None => (line, needs_no_pub),
    };
    for kind in ["const unsafe fn ", "const fn ", "unsafe fn ", "fn ", "const "] {
        if let Some(rest) = line.strip_prefix(kind) {
            return word(rest).filter(|_| is_public);
        }
    }
    let name = word(line)?;
    let rest = line[name.len()..].trim_start();
    let is_field = rest.starts_with(':') || rest.starts_with("as \"");
    let is_variant = rest.is_empty() || rest.starts_with([',', '(', '{', '=']);
    let is_upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_public && if is_upper { is_variant } else { is_field }).then_some(name)
}
