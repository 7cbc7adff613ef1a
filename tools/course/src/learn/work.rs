//! `cargo learn reset`, `solution` and `diff`: replace the learner's file, or compare it with the solution.

use super::hint;
use super::task::heading;
use crate::lesson::Lesson;
use crate::trouble::Result;
use crate::workspace::Workspace;
use crate::{backup, files, starter, style};
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;

/// Replaces the learner's work by the starter; the work is backed up.
pub fn reset(workspace: &Workspace, lesson: &Lesson) -> Result<String> {
    let starter = starter::make(&workspace.root, lesson)?.starter;
    hint::forget(workspace, lesson)?;
    let text = replace(workspace, lesson, &starter, "is the starter again")?;
    Ok(format!("{text}  begin   {}\n", style::code(format!("book/src/{}", lesson.page))))
}

/// Replaces the learner's work by the solution; the work is backed up.
pub fn solution(workspace: &Workspace, lesson: &Lesson) -> Result<String> {
    let solution = starter::make(&workspace.root, lesson)?.solution;
    let text = replace(workspace, lesson, &solution, "now contains the framework's own code")?;
    let number = lesson.number;
    Ok(format!(
        "{text}  check   {}\n  compare {}\n  again   {}\n",
        style::code(format!("cargo learn check {number}")),
        style::code(format!("cargo learn diff {number}")),
        style::code(format!("cargo learn reset {number}"))
    ))
}

fn replace(workspace: &Workspace, lesson: &Lesson, text: &str, state: &str) -> Result<String> {
    let made = starter::make(&workspace.root, lesson)?;
    let path = style::code(workspace.relative(&lesson.work()));
    let mut says = String::new();
    // The tool's own output needs no backup.
    let own = files::read(&lesson.work()).ok().filter(|old| ![&made.starter, &made.solution].contains(&old));
    if let Some(old) = own {
        let copy = backup::keep(workspace, lesson, &old)?;
        let _ = writeln!(says, "Your work is backed up in {}", style::code(workspace.relative(&copy)));
    }
    files::write(&lesson.work(), text)?;
    let _ = writeln!(says, "{path} {state}.");
    Ok(says)
}

/// Compares the learner's work with the solution. If the solution has replaced it, its backup is compared.
pub fn diff(workspace: &Workspace, lesson: &Lesson) -> Result<String> {
    let solution = starter::make(&workspace.root, lesson)?.solution;
    let mut mine = files::read(&lesson.work())?;
    let mut name = workspace.relative(&lesson.work());
    if let Some(copy) = backup::newest(workspace, lesson).filter(|_| mine == solution) {
        mine = files::read(&copy)?;
        name = workspace.relative(&copy);
    }
    if mine == solution {
        return Ok(format!("{name} is the framework's own code.\n"));
    }
    let mut text = format!("{}\n", style::strong(heading(lesson)));
    let _ =
        writeln!(text, "{}\n{}\n", style::bad(format!("- yours, {name}")), style::good("+ the framework's"));
    for group in TextDiff::from_lines(&mine, &solution).grouped_ops(2) {
        text.push_str(&hunk(&mine, &solution, &group));
    }
    Ok(text)
}

fn hunk(mine: &str, solution: &str, group: &[similar::DiffOp]) -> String {
    let diff = TextDiff::from_lines(mine, solution);
    let line = group.first().map_or(0, |op| op.old_range().start + 1);
    let mut text = format!("{}\n", style::code(format!("line {line}")));
    for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
        let value = change.value().trim_end();
        let _ = match change.tag() {
            ChangeTag::Delete => writeln!(text, "{}", style::bad(format!("- {value}"))),
            ChangeTag::Insert => writeln!(text, "{}", style::good(format!("+ {value}"))),
            ChangeTag::Equal => writeln!(text, "  {value}"),
        };
    }
    text + "\n"
}
