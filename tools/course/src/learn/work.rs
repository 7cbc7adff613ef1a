//! `cargo learn reset`, `solution` and `diff`: the learner's file, and what takes its place.

use super::hint;
use super::task::heading;
use crate::lesson::Lesson;
use crate::trouble::Result;
use crate::workspace::Workspace;
use crate::{backup, files, starter, style};
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;

/// Puts the starter in the place of the learner's work, which is kept.
pub fn reset(workspace: &Workspace, lesson: &Lesson) -> Result<String> {
    let starter = starter::make(&workspace.root, lesson)?.starter;
    hint::forget(workspace, lesson)?;
    let text = replace(workspace, lesson, &starter, "is the starter again")?;
    Ok(format!("{text}  begin   {}\n", style::code(format!("book/src/{}", lesson.page))))
}

/// Puts the solution in the place of the learner's work, which is kept.
pub fn solution(workspace: &Workspace, lesson: &Lesson) -> Result<String> {
    let solution = starter::make(&workspace.root, lesson)?.solution;
    let text = replace(workspace, lesson, &solution, "has the framework's own code now")?;
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
    // What the tool wrote itself needs no copy.
    let own = files::read(&lesson.work()).ok().filter(|old| ![&made.starter, &made.solution].contains(&old));
    if let Some(old) = own {
        let copy = backup::keep(workspace, lesson, &old)?;
        let _ = writeln!(says, "Your work is kept in {}", style::code(workspace.relative(&copy)));
    }
    files::write(&lesson.work(), text)?;
    let _ = writeln!(says, "{path} {state}.");
    Ok(says)
}

/// The learner's work beside the solution. When the solution has taken its place, the copy that was kept.
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
