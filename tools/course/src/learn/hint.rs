//! `cargo learn hint`: shows one more hint each time.

use super::standing::{Standing, State};
use crate::lesson::{Lesson, Task};
use crate::trouble::Result;
use crate::workspace::Workspace;
use crate::{files, libtest, style};
use std::fmt::Write;
use std::path::PathBuf;

/// The maximum length of a line, in characters.
const WIDTH: usize = 90;

/// Shows the hints of a task: one more than last time.
pub fn next(workspace: &Workspace, lesson: &Lesson, task: &Task) -> Result<String> {
    let mut shown = Shown::read(workspace);
    let level = (shown.level(lesson, task) + 1).min(task.hints.len());
    shown.set(lesson, task, level)?;
    let mut text = format!(
        "{}\n\n",
        style::strong(format!("Lesson {}, task {}: {}", lesson.number, task.number, task.title))
    );
    for (number, hint) in task.hints.iter().take(level).enumerate() {
        let hint = style::indent(&style::wrap(hint.trim(), WIDTH), 5);
        let line = format!("  {}. {}", number + 1, hint.trim_start());
        let _ = writeln!(text, "{}", if number + 1 < level { style::faint(line) } else { line });
    }
    let left = task.hints.len() - level;
    let page = style::code(format!("book/src/{}", lesson.page));
    let _ = match left {
        0 => writeln!(
            text,
            "\nThis was the last hint. The page explains more: {page}. To give up: {}",
            style::code(format!("cargo learn solution {} --give-up", lesson.number))
        ),
        _ => writeln!(
            text,
            "\n{} left; run the command again once you have tried this one. The page: {page}",
            style::count(left, "hint")
        ),
    };
    Ok(text)
}

/// The task to show a hint for if no number is given: the first that isn't done.
pub fn task_of(standing: &Standing) -> Option<&Task> {
    let lesson = &standing.lesson;
    let open = match &standing.state {
        State::Untouched => lesson.tasks.first(),
        State::Broken(_) => {
            let work = files::read(&lesson.work()).unwrap_or_default();
            let waits =
                |task: &&Task| work.contains(&format!("lesson {:02}, task {}:", lesson.number, task.number));
            // The task before the first one with a todo is the one that doesn't compile.
            let open = lesson.tasks.iter().position(|task| waits(&task)).unwrap_or(lesson.tasks.len());
            lesson.tasks.get(open.saturating_sub(1))
        }
        State::Tested(_) => {
            let red = standing.first_red(None).and_then(|red| libtest::task_of(red.name));
            red.and_then(|task| lesson.task(task))
        }
    };
    open.or(lesson.tasks.last())
}

/// Resets the hints of a lesson.
pub fn forget(workspace: &Workspace, lesson: &Lesson) -> Result<()> {
    let mut shown = Shown::read(workspace);
    shown.levels.retain(|(number, ..)| *number != lesson.number);
    if shown.path.exists() { shown.write() } else { Ok(()) }
}

/// The number of hints shown per task, as (lesson, task, hints).
struct Shown {
    path: PathBuf,
    levels: Vec<(u32, u32, usize)>,
}

impl Shown {
    fn read(workspace: &Workspace) -> Self {
        let path = workspace.notes().join("hints");
        let text = files::read(&path).unwrap_or_default();
        let levels = text.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace();
            Some((
                numbers.next()?.parse().ok()?,
                numbers.next()?.parse().ok()?,
                numbers.next()?.parse().ok()?,
            ))
        });
        Self { levels: levels.collect(), path }
    }

    fn level(&self, lesson: &Lesson, task: &Task) -> usize {
        let known = self.levels.iter().find(|(number, of, _)| (*number, *of) == (lesson.number, task.number));
        known.map_or(0, |(.., level)| *level)
    }

    fn set(&mut self, lesson: &Lesson, task: &Task, level: usize) -> Result<()> {
        self.levels.retain(|(number, of, _)| (*number, *of) != (lesson.number, task.number));
        self.levels.push((lesson.number, task.number, level));
        self.write()
    }

    fn write(&self) -> Result<()> {
        let lines = self.levels.iter().map(|(lesson, task, level)| format!("{lesson} {task} {level}\n"));
        files::write(&self.path, &lines.collect::<String>()).map(drop)
    }
}
