//! Finds lists of operator types in `src/`. What is true of an operator type belongs in the table of the operator's file, as one
//! of its [`Properties`](ixion::op::Properties), so that no list has to be kept up to date.
//!
//! A list is an array, a pattern, a `match` or a call with three or more types, with or without their namespaces, as string
//! literals. The text of a pattern that a pass replaces, a literal with several types, is no list.

use crate::architecture::sources;
use ixion::op::Registry;
use std::collections::BTreeSet;
use std::path::Path;

/// Files with lists of other things that have the names of operators, and what these are.
const OTHERS: &[(&str, &str)] = &[
    ("src/cli/run/json.rs", "statistics of a tensor"),
    (
        "src/graph/quantization/roles.rs",
        "functions of PyTorch's namespace `quantized`, which are not operators",
    ),
];

/// All operator types, and what is left of them without their namespaces.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (op_type, _) in Registry::default().iter() {
        let namespaces = ["nn.", "F.", "torch.", "Tensor.", "aten::"];
        names.extend(namespaces.iter().find_map(|space| op_type.strip_prefix(space)).map(str::to_owned));
        names.insert(op_type.to_owned());
    }
    names
}

enum Token<'t> {
    Text(&'t str),
    Sign(char),
}

/// String literals and all characters outside of them, with their lines. Comments are left out.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(sign) = rest.chars().next() {
        let len = match (sign, string(rest)) {
            ('/', _) if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            ('\'', _) => char_len(rest),
            (_, Some((len, content))) => {
                tokens.push((line, Token::Text(content)));
                len
            }
            _ => {
                tokens.push((line, Token::Sign(sign)));
                sign.len_utf8()
            }
        };
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

/// The length of the string literal at the start of a text, and its content.
fn string(text: &str) -> Option<(usize, &str)> {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let content = raw[hashes..].strip_prefix('"')?;
        let end = content.find(&format!("\"{}", "#".repeat(hashes)))?;
        return Some((end + 3 + 2 * hashes, &content[..end]));
    }
    let content = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = content.find(|sign: char| {
        let ends = sign == '"' && !is_escaped;
        is_escaped = sign == '\\' && !is_escaped;
        ends
    })?;
    Some((end + 2, &content[..end]))
}

/// The length of a character literal, or of the sign that begins a lifetime.
fn char_len(text: &str) -> usize {
    let mut signs = text.chars().skip(1);
    match (signs.next(), signs.next()) {
        (Some('\\'), Some(escaped)) => {
            let start = 2 + escaped.len_utf8();
            text[start..].find('\'').map_or(1, |end| start + end + 1)
        }
        (Some(sign), Some('\'')) => sign.len_utf8() + 2,
        _ => 1,
    }
}

/// The lists in a source: the line and the names of each.
fn lists(text: &str, names: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The open brackets, and the names in each.
    let mut open: Vec<(char, Vec<(usize, &str)>)> = vec![('{', Vec::new())];
    for (line, token) in tokens(text) {
        let Some((_, inside)) = open.last_mut() else { break };
        match token {
            Token::Text(text) if names.contains(text) => inside.push((line, text)),
            Token::Sign(';') => found.extend(list(&std::mem::take(inside))),
            Token::Sign(sign @ ('(' | '[' | '{')) => open.push((sign, Vec::new())),
            Token::Sign(')' | ']' | '}') => {
                let (opening, closed) = open.pop().unwrap();
                match (list(&closed), open.last_mut()) {
                    (Some(list), _) => found.push(list),
                    // What is in braces is code of its own.
                    (None, Some((_, around))) if opening != '{' => around.extend(closed),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    found
}

/// The line and the names of a list, if there are enough.
fn list(names: &[(usize, &str)]) -> Option<(usize, String)> {
    let (line, _) = names.first()?;
    let distinct: BTreeSet<&str> = names.iter().map(|(_, name)| *name).collect();
    (distinct.len() >= 3).then(|| (*line, distinct.into_iter().collect::<Vec<_>>().join(", ")))
}

#[test]
fn no_list_of_operator_types_outside_of_the_operators() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = names();
    assert!(names.len() > 500, "{} names", names.len());
    let (mut new, mut known) = (Vec::new(), BTreeSet::new());
    for file in sources(&root.join("src")) {
        let relative = file.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (line, list) in lists(text, &names) {
            match OTHERS.iter().find(|(other, _)| *other == relative) {
                Some((other, _)) => {
                    known.insert(*other);
                }
                None => new.push(format!("{relative}:{line}: {list}")),
            }
        }
    }
    assert!(new.is_empty(), "state these properties in the operators' tables:\n{}", new.join("\n"));
    assert_eq!(known.len(), OTHERS.len(), "a list of other things is gone: remove its file");
}

#[test]
fn lists_are_found_and_nothing_else() {
    let names = ["nn.ReLU", "F.relu", "torch.t", "relu"].map(str::to_owned).into();
    for (text, lines) in [
        ("match it {\n\"nn.ReLU\" | \"F.relu\" => 1,\n\"torch.t\" => 2,\n_ => 3 }", vec![2]),
        ("x;\nconst X: [&str; 3] = [\"nn.ReLU\", \"F.relu\", r#\"torch.t\"#];", vec![2]),
        ("let x = [('\"', \"relu\"), ('\\'', \"nn.ReLU\"), ('x', \"torch.t\")];", vec![1]),
        ("fn x<'a>() -> bool { it == \"relu\" || it == \"nn.ReLU\" || it == \"torch.t\" }", vec![1]),
        ("let x = \"nn.ReLU\";\nlet y = \"F.relu\";\nlet z = \"torch.t\";", vec![]),
        ("fn x() { f(\"nn.ReLU\") }\nfn y() { f(\"F.relu\") }\nfn z() { f(\"torch.t\") }", vec![]),
        ("[\"nn.ReLU\", \"F.relu\", \"F.relu\", \"nn.ReLU torch.t\", \"\\\"\"] // \"torch.t\"", vec![]),
    ] {
        let found: Vec<usize> = lists(text, &names).into_iter().map(|(line, _)| line).collect();
        assert_eq!(found, lines, "{text}");
    }
}
