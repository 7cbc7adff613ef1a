//! The next step, in brief.

use super::standing::{Red, Standing, State};
use crate::starter::{self, Todo};
use crate::style;
use crate::workspace::Workspace;
use crate::{files, libtest};
use std::fmt::Write;

/// The maximum number of compiler errors shown; the first often explains the others.
const ERRORS: usize = 2;

/// Describes what to do next in a lesson that isn't solved.
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

/// The todo that makes a test red, if it is still in the file.
fn todo_of(workspace: &Workspace, standing: &Standing, red: &Red) -> Option<Todo> {
    let work = files::read(&standing.lesson.work()).ok()?;
    let todos = starter::make(&workspace.root, &standing.lesson).ok()?.todos;
    let message = red.failure.map(|failure| failure.message.as_str());
    let task = libtest::task_of(red.name);
    let meant = |todo: &&Todo| match message {
        Some(message) => message.ends_with(&todo.message),
        None => Some(todo.task) == task && work.contains(&todo.escaped()),
    };
    todos.iter().find(meant).cloned()
}

/// Where to continue in the learner's file: at the first todo of the next task, if there is one.
pub fn place(workspace: &Workspace, standing: &Standing) -> String {
    let path = workspace.relative(&standing.lesson.work());
    let work = files::read(&standing.lesson.work()).unwrap_or_default();
    let wanted = standing.first_red(None).and_then(|red| todo_of(workspace, standing, &red));
    let wanted = wanted.map(|todo| todo.escaped());
    let line = wanted.and_then(|wanted| work.lines().position(|line| line.contains(&wanted)));
    line.map_or(path.clone(), |line| format!("{path}:{}", line + 1))
}

/// The first compiler errors.
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

/// Warns that the tests were edited.
pub fn edited_tests(workspace: &Workspace, standing: &Standing) -> String {
    let tests = workspace.relative(&standing.lesson.folder.join("tests"));
    format!(
        "\n{} {tests} differs from what was handed out. To restore it: {}\n",
        style::warn("note:"),
        style::code(format!("git restore {tests}"))
    )
}
