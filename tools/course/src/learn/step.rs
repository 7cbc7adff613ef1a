//! The next step, in few words.

use super::standing::{Red, Standing, State};
use crate::starter::{self, Todo};
use crate::style;
use crate::workspace::Workspace;
use crate::{files, libtest};
use std::fmt::Write;

/// So many errors of the compiler are shown: the first is often the reason for the others.
const ERRORS: usize = 2;

/// What to do next in a lesson that isn't solved.
pub fn next(workspace: &Workspace, standing: &Standing) -> String {
    let lesson = &standing.lesson;
    let mut text = String::new();
    if let State::Broken(errors) = &standing.state {
        let _ = writeln!(
            text,
            "Lesson {} does not compile: {}",
            lesson.number,
            style::count(errors.len(), "error")
        );
    } else if let Some(red) = standing.first_red(None) {
        let task = libtest::task_of(red.name).and_then(|number| lesson.task(number));
        let title = task.map_or_else(String::new, |task| format!(", task {}: {}", task.number, task.title));
        let _ = writeln!(text, "{}", style::strong(format!("Next is lesson {}{title}", lesson.number)));
        if let Some(todo) = todo_of(workspace, standing, &red) {
            field(&mut text, "write", &todo.what);
        }
        field(&mut text, "for", &format!("{} in {}:{}", red.name, workspace.relative(red.file), red.line));
    }
    field(&mut text, "edit", &style::code(place(workspace, standing)));
    field(&mut text, "read", &style::code(format!("book/src/{}", lesson.page)));
    field(&mut text, "check", &style::code(format!("cargo learn check {}", lesson.number)));
    field(&mut text, "stuck?", &style::code(format!("cargo learn hint {}", lesson.number)));
    text
}

fn field(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<7} {value}");
}

/// The todo that a red test waits for, as long as it stands in the file.
fn todo_of(workspace: &Workspace, standing: &Standing, red: &Red) -> Option<Todo> {
    let work = files::read(&standing.lesson.work()).ok()?;
    let todos = starter::make(&workspace.root, &standing.lesson).ok()?.todos;
    let said = red.failure.map(|failure| failure.message.as_str());
    let task = libtest::task_of(red.name);
    let meant = |todo: &&Todo| match said {
        Some(said) => said.ends_with(&todo.message),
        None => Some(todo.task) == task && work.contains(&todo.escaped()),
    };
    todos.iter().find(meant).cloned()
}

/// Where in the learner's file to go on: at the first todo of the next task, if there is one.
pub fn place(workspace: &Workspace, standing: &Standing) -> String {
    let path = workspace.relative(&standing.lesson.work());
    let work = files::read(&standing.lesson.work()).unwrap_or_default();
    let wanted = standing.first_red(None).and_then(|red| todo_of(workspace, standing, &red));
    let wanted = wanted.map(|todo| todo.escaped());
    let line = wanted.and_then(|wanted| work.lines().position(|line| line.contains(&wanted)));
    line.map_or(path.clone(), |line| format!("{path}:{}", line + 1))
}

/// The first errors of the compiler.
pub fn errors(standing: &Standing) -> String {
    let State::Broken(errors) = &standing.state else { return String::new() };
    let mut text = String::new();
    for error in errors.iter().take(ERRORS) {
        let _ = writeln!(text, "{}\n", error.text);
    }
    let more = errors.len().saturating_sub(ERRORS);
    if more > 0 {
        let all = style::code(format!("cargo check -p {}", standing.lesson.package()));
        let _ = writeln!(text, "… and {} more; the first often explains the others ({all} shows all).", more);
    }
    text
}

/// A warning to those who changed what judges them.
pub fn edited_tests(workspace: &Workspace, standing: &Standing) -> String {
    let tests = workspace.relative(&standing.lesson.folder.join("tests"));
    format!(
        "\n{} {tests} is not as it was handed out. To have it back: {}\n",
        style::warn("note:"),
        style::code(format!("git restore {tests}"))
    )
}
