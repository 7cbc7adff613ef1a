//! Reporting cases: a line for each, a summary, or JSON.

use super::Done;
use super::case::{Kind, Verdict};
use crate::cli::{Style, Terminal, numbers};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

/// The width of the longest verdict, `ERROR-unsupported`.
const VERDICT: usize = 17;

/// The name of a case, which is the name of its folder.
pub(super) fn name(folder: &Path) -> String {
    let absolute = || Some(folder.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned());
    let own = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    own.or_else(absolute).unwrap_or_else(|| folder.display().to_string())
}

/// Writes the line of a case, with all names padded to `widest`.
pub(super) fn line(terminal: &mut Terminal, case: &Done<'_>, widest: usize) -> io::Result<()> {
    let (style, detail) = match &case.verdict {
        Verdict::Pass(diff) => (Style::Good, format!("max difference {}", numbers::small(*diff))),
        Verdict::Fail(mismatch) => {
            let suspects: Vec<String> =
                mismatch.suspects.iter().map(|suspect| format!("; {suspect}")).collect();
            let diff = numbers::small(mismatch.max_abs_diff);
            (Style::Bad, format!("max difference {diff}; {}{}", mismatch.reason, suspects.concat()))
        }
        Verdict::Error { reason, .. } => (Style::Bad, one_line(reason)),
    };
    let verdict = terminal.paint(style, format!("{:VERDICT$}", verdict(&case.verdict)));
    writeln!(terminal, "{verdict}  {:widest$}  {detail}", name(case.folder))
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass(_) => "PASS".to_owned(),
        Verdict::Fail(_) => "FAIL".to_owned(),
        Verdict::Error { kind, .. } => format!("ERROR-{}", kind.name()),
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Writes the unsupported types, sorted by the number of cases that need them, and the counts.
pub(super) fn summary(terminal: &mut Terminal, done: &[Done<'_>]) -> io::Result<()> {
    let unsupported = unsupported(done);
    if !unsupported.is_empty() {
        writeln!(terminal, "not supported, by the number of cases:")?;
        let mut types: Vec<(&str, usize)> = unsupported.into_iter().collect();
        types.sort_by_key(|&(op_type, cases)| (std::cmp::Reverse(cases), op_type));
        types.into_iter().try_for_each(|(op_type, cases)| writeln!(terminal, "  {cases:5}  {op_type}"))?;
    }
    let (passed, failed) = counts(done);
    let style = if failed == 0 { Style::Good } else { Style::Bad };
    let counts = terminal.paint(style, format!("{passed} passed, {failed} failed"));
    writeln!(terminal, "{counts}")
}

/// The numbers of cases that pass and that do not.
fn counts(done: &[Done<'_>]) -> (usize, usize) {
    let passed = done.iter().filter(|case| matches!(case.verdict, Verdict::Pass(_))).count();
    (passed, done.len() - passed)
}

/// The number of cases in which each unsupported type occurs.
fn unsupported<'a>(done: &'a [Done<'_>]) -> BTreeMap<&'a str, usize> {
    let mut types = BTreeMap::new();
    for case in done {
        let Verdict::Error { unsupported, .. } = &case.verdict else {
            continue;
        };
        let distinct: BTreeSet<&str> = unsupported.iter().map(String::as_str).collect();
        distinct.into_iter().for_each(|op_type| *types.entry(op_type).or_default() += 1);
    }
    types
}

/// The result as a JSON object; `version` increases when the meaning of a field changes.
pub(super) fn json(done: &[Done<'_>]) -> Value {
    let (passed, failed) = counts(done);
    json!({
        "version": 1,
        "cases": done.iter().map(case).collect::<Vec<_>>(),
        "passed": passed,
        "failed": failed,
        "unsupported": unsupported(done),
    })
}

fn case(case: &Done<'_>) -> Value {
    let mut object = json!({
        "name": name(case.folder),
        "folder": case.folder.display().to_string(),
        "verdict": match case.verdict {
            Verdict::Pass(_) => "pass",
            Verdict::Fail(_) => "fail",
            Verdict::Error { .. } => "error",
        },
        "seconds": case.time.as_secs_f64(),
    });
    match &case.verdict {
        Verdict::Pass(diff) => object["max_abs_diff"] = number(*diff),
        Verdict::Fail(mismatch) => {
            object["max_abs_diff"] = number(mismatch.max_abs_diff);
            object["reason"] = mismatch.reason.clone().into();
            object["suspects"] = mismatch.suspects.clone().into();
        }
        Verdict::Error { kind, reason, unsupported } => {
            object["kind"] = kind.name().into();
            object["reason"] = reason.clone().into();
            if *kind == Kind::Unsupported {
                object["unsupported"] = unsupported.clone().into();
            }
        }
    }
    object
}

/// A number, or a string for infinities and NaN, which JSON cannot represent.
fn number(value: f64) -> Value {
    if value.is_finite() { value.into() } else { value.to_string().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_named_after_its_folder() {
        assert_eq!(name(Path::new("cases/F_relu/")), "F_relu");
        assert!(!name(Path::new(".")).is_empty());
    }

    #[test]
    fn messages_of_several_lines_become_one() {
        assert_eq!(one_line("2 operators:\n  a\n  b"), "2 operators: a b");
    }
}
