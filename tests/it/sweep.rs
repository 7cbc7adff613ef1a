//! The book's page of PyTorch's functions, `book/src/reference/functions.md`, is generated from `tests/export/sweep.tsv`, the list
//! that `tests/export/sweep.py` writes.
//!
//! `IXION_WRITE=1 cargo test --test it sweep::` updates the page.

use ixion::op::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# PyTorch's functions

<!-- Made by `IXION_WRITE=1 cargo test --test it sweep::`. -->

What becomes of each function, method and module of PyTorch. A script, `tests/export/sweep.py`, lists them by introspection,
exports each with PNNX and a few small inputs, runs the files, and compares the results with PyTorch's.

- *runs*: the results are PyTorch's. Those of random functions, and of uninitialised tensors, have the shape and the type.
- *needs the feature* `linalg`: runs in an Ixion that was built with LAPACK.
- *refused*: the file has an operator without a layer. `ixion inspect` lists such operators before anything runs.
- *fails*: Ixion refuses some arguments, with an error.
- *differs*: some results are not PyTorch's.
- *PNNX*: PyTorch cannot trace the function, PNNX cannot export it, or what PNNX writes computes something else.
- *not for inference*: a rule excludes the function, or it returns no tensor.

A function is judged by the worst of its samples, except for those that PNNX cannot export. The types in refusals are those of the
table of [operators](operators.md).
";

/// The verdicts of the list in the order of the page, and what the page calls them.
const VERDICTS: [(&str, &str); 7] = [
    ("runs", "runs"),
    ("feature", "needs a feature"),
    ("refused", "refused"),
    ("fails", "fails"),
    ("differs", "differs"),
    ("pnnx", "PNNX"),
    ("excluded", "not for inference"),
];

/// A line of the list.
struct Row<'t> {
    /// The namespace, such as `torch.fft`.
    space: &'t str,
    name: &'t str,
    /// The position in [`VERDICTS`].
    verdict: usize,
    reason: &'t str,
    /// The operator types in the files that PNNX wrote.
    types: Vec<&'t str>,
}

impl<'t> Row<'t> {
    fn parse(line: &'t str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[function, verdict, reason, types] = fields.as_slice() else {
            panic!("expected function, verdict, reason and types, got {line:?}");
        };
        let (space, name) = function.rsplit_once('.').unwrap();
        let position = VERDICTS.iter().position(|(known, _)| *known == verdict);
        let verdict = position.unwrap_or_else(|| panic!("{function}: unknown verdict {verdict}"));
        Self { space, name, verdict, reason, types: types.split_whitespace().collect() }
    }

    /// The verdict as in the list.
    fn word(&self) -> &'static str {
        VERDICTS[self.verdict].0
    }

    /// The operator types that the reason names as those without a layer.
    fn without_layer(&self) -> Vec<&'t str> {
        let names = self.reason.split_once("no layer for ").map_or("", |(_, names)| names);
        names.split('`').filter(|name| name.contains(['.', ':'])).collect()
    }
}

fn list() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/sweep.tsv");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The namespaces in the order of the list.
fn spaces<'t>(rows: &[Row<'t>]) -> Vec<&'t str> {
    let mut spaces: Vec<&str> = rows.iter().map(|row| row.space).collect();
    spaces.dedup();
    spaces
}

fn page(rows: &[Row<'_>]) -> String {
    let mut text = HEAD.to_owned();
    let titles: Vec<&str> = VERDICTS.iter().map(|(_, title)| *title).collect();
    write!(text, "\n| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(VERDICTS.len())).unwrap();
    let spaces = spaces(rows);
    for space in &spaces {
        let counts = counts(rows.iter().filter(|row| row.space == *space));
        writeln!(text, "| `{space}` | {} |", counts.join(" | ")).unwrap();
    }
    writeln!(text, "| all | {} |", counts(rows.iter()).join(" | ")).unwrap();
    for space in &spaces {
        write!(text, "\n## `{space}`\n\n| Result | Functions |\n|---|---|\n").unwrap();
        for ((verdict, reason), names) in groups(rows.iter().filter(|row| row.space == *space)) {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            writeln!(text, "| {} | {} |", result(verdict, reason), names.join(", ")).unwrap();
        }
    }
    text
}

/// The number of functions with each verdict.
fn counts<'r, 't: 'r>(rows: impl Iterator<Item = &'r Row<'t>>) -> Vec<String> {
    let mut counts = [0; VERDICTS.len()];
    for row in rows {
        counts[row.verdict] += 1;
    }
    counts.iter().map(usize::to_string).collect()
}

/// The functions with the same verdict and the same reason.
fn groups<'r, 't: 'r>(rows: impl Iterator<Item = &'r Row<'t>>) -> BTreeMap<(usize, &'t str), Vec<&'t str>> {
    let mut groups: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.verdict, row.reason)).or_default().push(row.name);
    }
    groups
}

fn result(verdict: usize, reason: &str) -> String {
    let (word, title) = VERDICTS[verdict];
    let reason = reason.replace('|', "\\|").replace('<', "&lt;");
    match (word, reason.as_str()) {
        (_, "") => title.to_owned(),
        ("feature", reason) => reason.to_owned(),
        (_, reason) => format!("{title}: {reason}"),
    }
}

#[test]
fn the_page_is_that_of_the_list() {
    let list = list();
    let rows: Vec<Row<'_>> = list.lines().map(Row::parse).collect();
    let wanted = page(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/src/reference/functions.md");
    if std::env::var_os("IXION_WRITE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is out of date: IXION_WRITE=1 cargo test --test it sweep::", path.display());
}

#[test]
fn the_list_has_each_function_once() {
    let list = list();
    let rows: Vec<Row<'_>> = list.lines().map(Row::parse).collect();
    let distinct: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row.space, row.name)).collect();
    assert_eq!(distinct.len(), rows.len());
    assert!(rows.len() > 1500, "{} functions: the list is not that of all", rows.len());
    let spaces = spaces(&rows);
    assert_eq!(spaces.iter().collect::<BTreeSet<_>>().len(), spaces.len(), "namespaces are mixed");
}

#[test]
fn what_runs_has_layers_and_what_is_refused_lacks_them() {
    let list = list();
    let registry: Registry = Registry::default();
    let has_layer = |name: &&str| registry.get(name).is_ok();
    let mut wrong = Vec::new();
    for row in list.lines().map(Row::parse) {
        let function = format!("{}.{}", row.space, row.name);
        match row.word() {
            "runs" | "feature" => {
                let lost: Vec<&str> = row.types.iter().copied().filter(|name| !has_layer(name)).collect();
                if !lost.is_empty() {
                    wrong.push(format!("{function} runs, but these have no layer: {}", lost.join(", ")));
                }
            }
            "refused" => {
                let missing = row.without_layer();
                assert!(!missing.is_empty(), "{function} is refused, but no type is named: {}", row.reason);
                if missing.iter().all(has_layer) {
                    wrong.push(format!("{function} is refused, but {} have layers", missing.join(", ")));
                }
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "run tests/export/sweep.py, as it says at its start:\n{}", wrong.join("\n"));
}
