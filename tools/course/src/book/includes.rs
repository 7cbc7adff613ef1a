//! Checks `{{#include file:anchor}}`: for a missing anchor, mdBook silently includes nothing.

use super::page::Page;
use crate::trouble::{Result, Trouble};
use crate::{anchors, files};
use std::path::Path;

const KINDS: [&str; 4] = ["include", "rustdoc_include", "playground", "rustdoc"];

/// Checks the includes of a page and returns the errors.
pub fn check(source: &Path, name: &str, page: &Page) -> Vec<Trouble> {
    let mut wrong = Vec::new();
    for (number, line) in page.text.lines().enumerate() {
        for target in targets(line) {
            let folder = page.path.parent().unwrap_or(source);
            if let Err(trouble) = resolve(folder, target) {
                let what = format!("book/src/{name}, line {}: {target}: {}", number + 1, trouble.what);
                wrong.push(Trouble { what, ..trouble });
            }
        }
    }
    wrong
}

/// The targets of the includes in a line.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("{{#") {
        if line[..at].ends_with('\\') {
            continue;
        }
        let inside = line[at + 3..].split("}}").next().unwrap_or_default();
        if let Some((kind, rest)) = inside.split_once(char::is_whitespace) {
            let target = rest.split_whitespace().next().filter(|_| KINDS.contains(&kind));
            found.extend(target);
        }
    }
    found
}

/// Returns the lines that an include refers to.
pub fn resolve(folder: &Path, target: &str) -> Result<String> {
    let (file, part) = target.split_once(':').map_or((target, None), |(file, part)| (file, Some(part)));
    let path = folder.join(file);
    if !path.is_file() {
        return Err(Trouble::new(format!("there is no file {}", path.display())));
    }
    let text = files::read(&path)?;
    let Some(part) = part.filter(|part| !part.is_empty()) else { return Ok(text) };
    if part.starts_with(|c: char| c.is_ascii_digit() || c == ':') {
        return lines(&text, part);
    }
    let (_, lines) = anchors::piece(&text, part)?;
    let lines: Vec<&str> = lines.into_iter().filter(|line| anchors::marker(line).is_none()).collect();
    let shown = lines.join("\n");
    if shown.trim().is_empty() {
        Err(Trouble::new(format!("the anchor '{part}' is empty")))
    } else {
        Ok(shown)
    }
}

/// The lines of a range: `3`, `3:5`, `:5` or `3:`.
fn lines(text: &str, range: &str) -> Result<String> {
    let all: Vec<&str> = text.lines().collect();
    let number = |text: &str, default: usize| match text.is_empty() {
        true => Some(default),
        false => text.parse().ok().filter(|line| (1..=all.len()).contains(line)),
    };
    let (first, last) = match range.split_once(':') {
        Some((first, last)) => (number(first, 1), number(last, all.len())),
        None => (number(range, 0), number(range, 0)),
    };
    let shown = first.zip(last).and_then(|(first, last)| all.get(first.checked_sub(1)?..last));
    let missing = || Trouble::new(format!("the file has {} lines, not {range}", all.len()));
    shown.map(|lines| lines.join("\n")).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_in_a_line() {
        assert_eq!(targets("{{#include ../a.rs:b}} {{#playground x.rs editable}}"), ["../a.rs:b", "x.rs"]);
        assert!(targets("\\{{#include a.rs}} {{#title x}}").is_empty());
    }

    #[test]
    fn files_anchors_and_lines_are_found_or_missed() {
        let folder = tempfile::tempdir().unwrap();
        let text = "1\n// ANCHOR: a\n3\n// ANCHOR: b\n// ANCHOR_END: b\n// ANCHOR_END: a\n";
        std::fs::write(folder.path().join("a.rs"), text).unwrap();
        let get = |target: &str| resolve(folder.path(), target).map_err(|trouble| trouble.what);
        assert_eq!(get("a.rs:a").unwrap(), "3");
        assert_eq!(get("a.rs:3").unwrap(), "3");
        assert_eq!(get("a.rs::1").unwrap(), "1");
        assert_eq!(get("a.rs:1:1").unwrap(), "1");
        assert_eq!(get("a.rs:b").unwrap_err(), "the anchor 'b' is empty");
        assert_eq!(get("a.rs:c").unwrap_err(), "there is no anchor 'c'");
        assert_eq!(get("a.rs:9").unwrap_err(), "the file has 6 lines, not 9");
        assert!(get("b.rs").unwrap_err().starts_with("there is no file "));
    }
}
