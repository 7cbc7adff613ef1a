//! `cargo learn`: the learner's progress and the next step.

use super::standing::{Standing, State};
use super::step;
use crate::lesson::{Hours, Lesson};
use crate::part::{self, Part};
use crate::style;
use crate::workspace::Workspace;
use std::fmt::Write;
use std::path::Path;
use std::time::SystemTime;

/// The board as text: the lessons by part, then the next step.
pub fn show(workspace: &Workspace, parts: &[Part], standings: &[Standing]) -> String {
    let mut text = format!("{}\n", style::strong(format!("The lessons: {}", progress(standings))));
    let current = current(standings);
    let width = standings.iter().map(|standing| standing.lesson.title.chars().count()).max().unwrap_or(0);
    for group in standings.chunk_by(|a, b| part::of(parts, &a.lesson) == part::of(parts, &b.lesson)) {
        text.push('\n');
        text.push_str(&heading(parts, group));
        for standing in group {
            let here = current.is_some_and(|current| current.lesson.number == standing.lesson.number);
            let _ = writeln!(text, "{}", line(standing, here, width));
        }
    }
    text.push('\n');
    match current {
        Some(current) => text.push_str(&step::next(workspace, current)),
        None => {
            let _ = writeln!(
                text,
                "{}",
                style::good("All lessons are solved. What you built is what src/ is made of.")
            );
        }
    }
    for standing in standings.iter().filter(|standing| standing.tests_edited) {
        text.push_str(&step::edited_tests(workspace, standing));
    }
    if !standings.iter().any(Standing::is_touched) {
        text.push_str(&first_time(&workspace.root));
    }
    text
}

/// The title of a part with its progress; empty for lessons without a part.
fn heading(parts: &[Part], lessons: &[Standing]) -> String {
    let number = lessons.first().and_then(|standing| part::of(parts, &standing.lesson));
    let Some((number, part)) = number.and_then(|number| Some((number, parts.get(number - 1)?))) else {
        return String::new();
    };
    format!(
        "{}  {}\n",
        style::strong(format!("Part {number}: {}", part.title)),
        style::faint(progress(lessons))
    )
}

/// The number of solved lessons and the hours that remain. For a lesson in progress, only its open tasks count.
fn progress(standings: &[Standing]) -> String {
    let solved = standings.iter().filter(|standing| standing.is_solved()).count();
    let left = |hours: fn(&Lesson) -> u32| {
        let minutes = |standing: &Standing| {
            let tasks = standing.lesson.tasks.len().max(1);
            let open = if standing.is_solved() { 0 } else { tasks.saturating_sub(standing.done()) };
            hours(&standing.lesson) as usize * 60 * open / tasks
        };
        u32::try_from(standings.iter().map(minutes).sum::<usize>().div_ceil(60)).unwrap_or(u32::MAX)
    };
    let text = format!("{solved} of {} solved", standings.len());
    match Hours::try_from([left(|lesson| lesson.hours.least), left(|lesson| lesson.hours.most)]) {
        Ok(hours) => format!("{text}, {hours} to go"),
        Err(_) => text,
    }
}

fn line(standing: &Standing, here: bool, width: usize) -> String {
    let lesson = &standing.lesson;
    let dot = |done: bool| if done { style::good("●") } else { style::faint("○") };
    let dots: String = standing.tasks().map(|(_, count)| dot(count.done())).collect();
    let state = match &standing.state {
        _ if standing.is_solved() && standing.is_solution => style::faint("the solution"),
        _ if standing.is_solved() => style::good("solved"),
        State::Untouched => style::faint(lesson.hours),
        State::Broken(_) => style::bad("does not compile"),
        State::Tested(_) => style::warn(format!("{} of {} tasks", standing.done(), lesson.tasks.len())),
    };
    let arrow = if here { style::code("→") } else { " ".to_owned() };
    let gap = " ".repeat(width.saturating_sub(lesson.title.chars().count()));
    let pad = " ".repeat(7_usize.saturating_sub(lesson.tasks.len()));
    format!("{arrow} {:02}  {}{gap}  {dots}{pad}{state}", lesson.number, lesson.title).trim_end().to_owned()
}

/// The lesson to continue with: the one edited last, or else the first that isn't solved.
pub fn current(standings: &[Standing]) -> Option<&Standing> {
    let open = || standings.iter().filter(|standing| !standing.is_solved());
    let begun = open().filter(|standing| standing.is_touched());
    begun.max_by_key(|standing| changed(&standing.lesson.work())).or_else(|| open().next())
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// The introduction for a new learner.
fn first_time(root: &Path) -> String {
    let mut text = format!(
        "\nRed is where you start: the tests of a lesson fail until it is solved. The only file to edit is the lesson's src/lib.rs.\n\
         How all this works: {}\n",
        style::code("book/src/course.md")
    );
    let head = std::fs::read_to_string(root.join(".git").join("HEAD")).unwrap_or_default();
    if ["main", "master"].iter().any(|branch| head.trim() == format!("ref: refs/heads/{branch}")) {
        let _ = writeln!(text, "First make a branch for your work: {}", style::code("git switch -c mine"));
    }
    text
}
