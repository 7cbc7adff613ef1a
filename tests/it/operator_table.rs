//! The operator table of the book, `book/src/reference/operators.md`, is generated from the registry and the cases.
//!
//! `IXION_WRITE=1 cargo test --test it operator_table` updates it.

use crate::common;
use ixion::Limits;
use ixion::op::{CpuLayer, Creator, Field, Registry};
use ixion::pnnx::Graph;
use ixion::tensor::DType;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Operators

<!-- Made by `IXION_WRITE=1 cargo test --test it operator_table`. -->

Every operator type that Ixion runs, with its parameters and weights (`key=default`, or `key` alone where the file has to
give it) and how it is tested. *Exported* counts the models of `tests/cases` with this operator that PNNX wrote from a
PyTorch module or an ONNX file, *direct* those whose text was written by a script to reach what tracing does not; both are
compared with PyTorch's results, those of ONNX files with ONNX Runtime's or ONNX's own. The element types are those of the tensors that went in or came out in these models.

Types in one line are one layer; the last column joins their tests. What holds for all of them, such as promotion, NaN and rounding, is in
[Numerics](numerics.md).
";

/// How an operator type is tested.
#[derive(Debug, Default, Clone)]
struct Tested {
    exported: BTreeSet<String>,
    direct: BTreeSet<String>,
    dtypes: BTreeSet<DType>,
}

/// The tests of each operator type in the cases.
fn tested() -> BTreeMap<String, Tested> {
    let mut all: BTreeMap<String, Tested> = BTreeMap::new();
    for folder in common::own_cases() {
        let case = folder.file_name().unwrap().to_string_lossy().into_owned();
        let graph = Graph::load(folder.join("model.param"), None, &Limits::default()).unwrap();
        let of_onnx = case.starts_with("onnx_");
        let by_pnnx = of_onnx || graph.operators().any(|(_, operator)| operator.name().starts_with("pnnx_"));
        for (_, operator) in graph.operators() {
            let tested = all.entry(operator.op_type().to_owned()).or_default();
            let cases = if by_pnnx { &mut tested.exported } else { &mut tested.direct };
            cases.insert(case.clone());
            let operands = operator.inputs().iter().chain(operator.outputs());
            tested.dtypes.extend(operands.filter_map(|&id| graph.operand(id).dtype()));
        }
    }
    all
}

/// A layer and the types that it runs.
struct Entry<'a> {
    types: Vec<&'a str>,
    creator: &'a Creator<dyn CpuLayer>,
}

/// The layers in the order of their first types.
fn entries(registry: &Registry) -> Vec<Entry<'_>> {
    let mut grouped: BTreeMap<(&str, String), Entry<'_>> = BTreeMap::new();
    for (op_type, creator) in registry.iter() {
        let key = (creator.doc.as_str(), format!("{:?}", creator.fields));
        grouped.entry(key).or_insert_with(|| Entry { types: Vec::new(), creator }).types.push(op_type);
    }
    let mut entries: Vec<Entry<'_>> = grouped.into_values().collect();
    for entry in &mut entries {
        entry.types.sort_by_key(|op_type| (rank(op_type), *op_type));
    }
    entries.sort_by_key(|entry| (rank(entry.types[0]), entry.types[0]));
    entries
}

/// The sections of the table, by the prefix of the operator type.
const SECTIONS: &[(&str, &str)] = &[
    ("nn.", "Modules: `torch.nn`"),
    ("F.", "Functions: `torch.nn.functional`"),
    ("torch.", "Functions: `torch`"),
    ("Tensor.", "Methods: `torch.Tensor`"),
    ("torchvision.", "torchvision"),
    ("pnnx.", "PNNX's own"),
    ("", "What PNNX leaves as it finds it"),
    ("", "What PNNX leaves of ONNX files"),
];

fn rank(op_type: &str) -> usize {
    // ONNX's names have no prefix.
    if !op_type.contains(['.', ':']) {
        return SECTIONS.len() - 1;
    }
    SECTIONS.iter().position(|(start, _)| op_type.starts_with(start)).unwrap_or(SECTIONS.len())
}

fn table() -> String {
    let registry = Registry::default();
    let tested = tested();
    let mut text = HEAD.to_owned();
    let entries = entries(&registry);
    for (index, (_, title)) in SECTIONS.iter().enumerate() {
        let of_section: Vec<&Entry<'_>> =
            entries.iter().filter(|entry| rank(entry.types[0]) == index).collect();
        if of_section.is_empty() {
            continue;
        }
        write!(text, "\n## {title}\n\n| Operator | What it does | Parameters and weights | Tested |\n|---|---|---|---|\n")
            .unwrap();
        for entry in of_section {
            writeln!(text, "{}", row(entry, &tested)).unwrap();
        }
    }
    let types: usize = entries.iter().map(|entry| entry.types.len()).sum();
    writeln!(text, "\n{types} types of operators, {} layers.", entries.len()).unwrap();
    text
}

fn row(entry: &Entry<'_>, tested: &BTreeMap<String, Tested>) -> String {
    let types: Vec<String> = entry.types.iter().map(|op_type| format!("`{op_type}`")).collect();
    let doc = entry.creator.doc.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let fields: Vec<String> = entry.creator.fields.iter().map(field).collect();
    let mut all = Tested::default();
    for found in entry.types.iter().filter_map(|&op_type| tested.get(op_type)) {
        all.exported.extend(found.exported.iter().cloned());
        all.direct.extend(found.direct.iter().cloned());
        all.dtypes.extend(&found.dtypes);
    }
    let dtypes: Vec<&str> = all.dtypes.iter().map(|dtype| dtype.name()).collect();
    let counts = [(all.exported.len(), "exported"), (all.direct.len(), "direct")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    let tested = format!("{}: {}", counts.join(", "), dtypes.join(" "));
    format!("| {} | {doc} | {} | {tested} |", types.join(", "), fields.join(", "))
}

fn field(field: &Field) -> String {
    match field.default_in_file() {
        Some(default) => format!("`{}={default}`", field.key),
        None => format!("`{}`", field.key),
    }
}

#[test]
fn the_books_table_is_what_the_registry_and_the_cases_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/src/reference/operators.md");
    let wanted = table();
    if std::env::var_os("IXION_WRITE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is out of date: IXION_WRITE=1 cargo test --test it operator_table",
        path.display()
    );
}
