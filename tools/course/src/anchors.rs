//! mdBook's anchors: pieces of source between `// ANCHOR: name` and `// ANCHOR_END: name`.

use crate::trouble::{Result, Trouble};

/// A line that opens or closes an anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker<'a> {
    /// `ANCHOR: name`, optionally with a note after ` -- `.
    Open {
        /// The piece's name.
        name: &'a str,
        /// The text after ` -- `.
        note: &'a str,
    },
    /// `ANCHOR_END: name`.
    Close {
        /// The piece's name.
        name: &'a str,
    },
}

/// Parses the marker in a line. As in mdBook, a name consists of letters, digits, `_` and `-`.
pub fn marker(line: &str) -> Option<Marker<'_>> {
    let (_, rest) = line.split_once("ANCHOR")?;
    let (closes, rest) = rest.strip_prefix("_END").map_or((false, rest), |rest| (true, rest));
    let rest = rest.strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    if name.is_empty() {
        return None;
    }
    let note = behind.trim().strip_prefix("--").unwrap_or_default().trim();
    Some(if closes { Marker::Close { name } } else { Marker::Open { name, note } })
}

/// The names of all anchors that a text opens, in order.
pub fn names(text: &str) -> Vec<&str> {
    let open = |line| match marker(line) {
        Some(Marker::Open { name, .. }) => Some(name),
        _ => None,
    };
    text.lines().filter_map(open).collect()
}

/// The lines of a piece, including the markers of nested anchors, and the number of its first line, counted from 1.
pub fn piece<'a>(text: &'a str, wanted: &str) -> Result<(usize, Vec<&'a str>)> {
    let mut lines: Option<(usize, Vec<&str>)> = None;
    for (number, line) in text.lines().enumerate() {
        match marker(line) {
            Some(Marker::Open { name, .. }) if name == wanted => {
                if lines.is_some() {
                    return Err(Trouble::new(format!(
                        "line {}: the anchor '{wanted}' opens twice",
                        number + 1
                    )));
                }
                lines = Some((number + 2, Vec::new()));
            }
            Some(Marker::Close { name }) if name == wanted => {
                return lines.ok_or_else(|| {
                    Trouble::new(format!("line {}: the anchor '{wanted}' ends before it begins", number + 1))
                });
            }
            _ => lines.iter_mut().for_each(|(_, lines)| lines.push(line)),
        }
    }
    Err(match lines {
        Some((first, _)) => Trouble::new(format!("line {}: the anchor '{wanted}' has no end", first - 1)),
        None => unknown(wanted, &names(text)),
    })
}

fn unknown(wanted: &str, names: &[&str]) -> Trouble {
    let trouble = Trouble::new(format!("there is no anchor '{wanted}'"));
    match crate::workspace::nearest(wanted, names.iter().copied()) {
        Some(near) => trouble.next(format!("Did you mean '{near}'?")),
        None if names.is_empty() => trouble.next("The file has no anchors."),
        None => trouble.next(format!("The file has {}.", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n// ANCHOR: outer\nb\n    // ANCHOR: outer_todo -- task 1: say c\n    c\n    // ANCHOR_END: outer_todo\n// ANCHOR_END: outer\nd\n";

    #[test]
    fn a_marker_has_a_name_and_a_note() {
        assert_eq!(
            marker("  // ANCHOR: a_b-1 -- task 1: x"),
            Some(Marker::Open { name: "a_b-1", note: "task 1: x" })
        );
        assert_eq!(marker("# ANCHOR_END:a"), Some(Marker::Close { name: "a" }));
        assert_eq!(marker("// an ANCHOR"), None);
        assert_eq!(marker("// ANCHOR: "), None);
    }

    #[test]
    fn a_piece_keeps_the_markers_inside() {
        let (first, lines) = piece(TEXT, "outer").unwrap();
        assert_eq!(first, 3);
        assert_eq!(lines.len(), 4);
        assert_eq!(piece(TEXT, "outer_todo").unwrap(), (5, vec!["    c"]));
    }

    #[test]
    fn what_is_not_there_is_said() {
        let missing = piece(TEXT, "oter").unwrap_err();
        assert_eq!(missing.to_string(), "there is no anchor 'oter'\nDid you mean 'outer'?");
        assert!(piece("// ANCHOR: a\n", "a").unwrap_err().what.contains("line 1: the anchor 'a' has no end"));
        assert!(piece("// ANCHOR_END: a\n", "a").unwrap_err().what.contains("ends before it begins"));
        assert!(piece("// ANCHOR: a\n// ANCHOR: a\n", "a").unwrap_err().what.contains("opens twice"));
    }
}
