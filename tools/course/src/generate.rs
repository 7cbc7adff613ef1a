//! `cargo xtask lessons generate`: generates the starters.

use crate::handout::Handout;
use crate::lesson::Lesson;
use crate::starter::{self, Starter};
use crate::trouble::Result;
use crate::workspace::Workspace;
use crate::{backup, files, style};

/// Writes `src/lib.rs` and `handout.toml` of every lesson and returns a report with one line per lesson. Nothing is written
/// unless all templates are valid. A learner's work in place of a starter is backed up.
pub fn generate(workspace: &Workspace) -> Result<String> {
    let lessons = workspace.lessons()?;
    let make = |lesson: &Lesson| Ok((starter::make(&workspace.root, lesson)?, lesson.clone()));
    let made = lessons.iter().map(make).collect::<Result<Vec<_>>>()?;
    let lines = made.iter().map(|(made, lesson)| one(workspace, lesson, made)).collect::<Result<Vec<_>>>()?;
    Ok(if lines.is_empty() { "There are no lessons yet.\n".to_owned() } else { lines.concat() })
}

fn one(workspace: &Workspace, lesson: &Lesson, made: &Starter) -> Result<String> {
    let work = lesson.work();
    let mut kept = String::new();
    let own = files::read(&work).ok().filter(|old| *old != made.starter);
    // Without a handout.toml, the file may be a learner's work: back it up.
    if let Some(old) = own.filter(|old| !Handout::read(lesson).is_ok_and(|handout| handout.is_starter(old))) {
        let copy = backup::keep(workspace, lesson, &old)?;
        kept = format!("  (it had local edits, backed up in {})", workspace.relative(&copy));
    }
    let written = files::write(&work, &made.starter)?;
    let noted = Handout::of(lesson, &made.starter)?.write(lesson)?;
    let state = if written || noted { style::good("written") } else { style::faint("unchanged") };
    let todos = style::count(made.todos.len(), "todo");
    Ok(format!("{}: {state}, {todos}{kept}\n", workspace.relative(&work)))
}
