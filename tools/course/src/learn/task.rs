//! `cargo learn check`: the tests of one lesson, and the message of the first red one.

use super::standing::{Red, Standing, State};
use super::step;
use crate::lesson::Lesson;
use crate::style;
use crate::workspace::Workspace;
use std::fmt::Write;

/// The maximum number of lines shown of a test's output, and the maximum length of each, in characters.
const LINES: usize = 16;
const WIDTH: usize = 300;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All tests are green.
    Green,
    /// A test is red.
    Red,
    /// The lesson doesn't compile.
    Broken,
}

/// Reports the progress of a lesson or of one of its tasks.
pub fn check(
    workspace: &Workspace,
    standing: &Standing,
    task: Option<u32>,
    after: Option<&Lesson>,
) -> (Verdict, String) {
    let mut text = format!("{}\n\n", style::strong(heading(&standing.lesson)));
    if let State::Broken(_) = standing.state {
        text.push_str(&step::errors(standing));
        let stuck = style::code(format!("cargo learn hint {}", standing.lesson.number));
        let reset = style::code(format!("cargo learn reset {}", standing.lesson.number));
        let _ = writeln!(
            text,
            "It does not compile yet. Stuck? {stuck}. Start over (your work is kept)? {reset}"
        );
        return (Verdict::Broken, text);
    }
    let width = standing.lesson.tasks.iter().map(|listed| listed.title.chars().count()).max().unwrap_or(0);
    for (listed, count) in
        standing.tasks().filter(|(listed, _)| task.is_none_or(|task| task == listed.number))
    {
        let mark = if count.done() { style::good("✔") } else { style::bad("✘") };
        let tests = format!("{} of {} green", count.green, style::count(count.all, "test"));
        let _ = writeln!(
            text,
            "  {mark} task {}  {:<width$}  {}",
            listed.number,
            listed.title,
            style::faint(tests)
        );
    }
    text.push('\n');
    let verdict = match standing.first_red(task) {
        Some(red) => {
            text.push_str(&why(workspace, &red));
            text.push_str(&go_on(workspace, standing, task));
            Verdict::Red
        }
        None => {
            text.push_str(&done(standing, task, after));
            Verdict::Green
        }
    };
    if standing.tests_edited {
        text.push_str(&step::edited_tests(workspace, standing));
    }
    (verdict, text)
}

/// A lesson's number and title: `Lesson 8: Convolution`.
pub fn heading(lesson: &Lesson) -> String {
    format!("Lesson {}: {}", lesson.number, lesson.title)
}

/// Where and why the first red test fails.
fn why(workspace: &Workspace, red: &Red) -> String {
    let line =
        red.failure.and_then(|failure| failure.place.as_ref()).filter(|(file, ..)| file.contains("/tests/"));
    let line = line.map_or(red.line, |(_, line, _)| *line as usize);
    let place = format!("{}:{line}", workspace.relative(red.file));
    let mut text = format!("{} {}\n", style::bad(red.name), style::faint(place));
    let Some(failure) = red.failure else {
        return text + "    not written yet\n";
    };
    if !failure.printed.is_empty() {
        let _ = writeln!(text, "{}", style::faint(style::indent(&shortened(&failure.printed), 4)));
    }
    let message = failure.message.strip_prefix("not yet implemented: ").map_or_else(
        || failure.message.clone(),
        |todo| format!("not written yet: {}", todo.split(" (book chapter").next().unwrap_or(todo)),
    );
    let _ = writeln!(text, "{}", style::indent(&shortened(&message), 4));
    let elsewhere = failure.place.as_ref().filter(|(file, ..)| file.ends_with("src/lib.rs"));
    if let Some((file, line, _)) = elsewhere.filter(|_| !failure.message.starts_with("not yet implemented")) {
        let _ = writeln!(text, "    it panicked at {file}:{line}");
    }
    text
}

/// Truncates a long text.
fn shortened(text: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().take(LINES).map(cut).collect();
    let more = text.lines().count().saturating_sub(LINES);
    if more > 0 {
        lines.push(format!("… and {}", style::count(more, "line")));
    }
    lines.join("\n")
}

fn go_on(workspace: &Workspace, standing: &Standing, task: Option<u32>) -> String {
    let number = standing.lesson.number;
    let hint = task.map_or_else(
        || format!("cargo learn hint {number}"),
        |task| format!("cargo learn hint {number} {task}"),
    );
    format!(
        "\n  edit    {}\n  stuck?  {}\n",
        style::code(step::place(workspace, standing)),
        style::code(hint)
    )
}

fn done(standing: &Standing, task: Option<u32>, after: Option<&Lesson>) -> String {
    let number = standing.lesson.number;
    if let Some(task) = task.filter(|_| !standing.is_solved()) {
        let all = style::code(format!("cargo learn check {number}"));
        return format!(
            "{} What is left of the lesson: {all}\n",
            style::good(format!("Task {task} is done."))
        );
    }
    let mut text = format!("{}\n", style::good(format!("Lesson {number} is solved.")));
    let _ = writeln!(text, "  compare  {}", style::code(format!("cargo learn diff {number}")));
    let _ = writeln!(text, "  keep it  {}", style::code(format!("git commit -am \"Lesson {number}\"")));
    if let Some(after) = after {
        let page = style::code(format!("book/src/{}", after.page));
        let _ = writeln!(text, "  go on    lesson {}, {}: {page}", after.number, after.title);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(shortened("a\nb"), "a\nb");
        let long = "x\n".repeat(LINES + 2);
        assert!(shortened(&long).ends_with("x\n… and 2 lines"));
        assert_eq!(shortened(&"ä".repeat(WIDTH + 1)).chars().count(), WIDTH + 2);
    }
}
