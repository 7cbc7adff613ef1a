//! `cargo xtask lessons generate`: writes the starters.

use crate::handout::Handout;
use crate::lesson::Lesson;
use crate::starter::{self, Starter};
use crate::trouble::Result;
use crate::workspace::Workspace;
use crate::{backup, files, style};

/// Writes `src/lib.rs` and `handout.toml` of every lesson; returns what was done, one line for each lesson. Nothing is
/// written unless all templates are right. Work that stands in a starter's place is kept.
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
    // Without a note of what was handed out the file may be anybody's: better keep it.
    if let Some(old) = own.filter(|old| !Handout::read(lesson).is_ok_and(|handout| handout.is_starter(old))) {
        let copy = backup::keep(workspace, lesson, &old)?;
        kept = format!("  (it had edits of its own: kept in {})", workspace.relative(&copy));
    }
    let written = files::write(&work, &made.starter)?;
    let noted = Handout::of(lesson, &made.starter)?.write(lesson)?;
    let state = if written || noted { style::good("written") } else { style::faint("as it was") };
    let todos = style::count(made.todos.len(), "todo");
    Ok(format!("{}: {state}, {todos}{kept}\n", workspace.relative(&work)))
}
