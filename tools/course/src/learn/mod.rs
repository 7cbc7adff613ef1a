//! `cargo learn`: guides learners through the lessons.

pub mod board;
pub mod hint;
pub mod standing;
pub mod step;
pub mod task;
pub mod work;

use crate::cargo;
use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use crate::workspace::{self, Workspace};
use standing::Standing;
use std::path::PathBuf;
use task::Verdict;
use toml::Table;

/// A course with the learner's progress.
#[derive(Debug)]
pub struct Course {
    workspace: Workspace,
    lessons: Vec<Lesson>,
    here: PathBuf,
}

impl Course {
    /// Opens the course in a repository from the current folder `here`. Returns an error if the toolchain is too old.
    pub fn open(workspace: Workspace, here: PathBuf) -> Result<Self> {
        check_toolchain(&workspace)?;
        let lessons = workspace.lessons()?;
        if lessons.is_empty() {
            return Err(Trouble::new("There are no lessons in the folder `lessons` yet."));
        }
        Ok(Self { workspace, lessons, here })
    }

    /// All lessons with their progress.
    pub fn board(&self) -> Result<String> {
        let standings = standing::look(&self.workspace, &self.lessons)?;
        Ok(board::show(&self.workspace, &self.workspace.parts()?, &standings))
    }

    /// The given lesson; by default, that of the current folder, or else the one to continue with.
    fn lesson(&self, wanted: Option<&str>) -> Result<Lesson> {
        match (wanted, workspace::lesson_of_path(&self.lessons, &self.here)) {
            (Some(wanted), _) => workspace::find(&self.lessons, wanted),
            (None, Some(lesson)) => Ok(lesson.clone()),
            (None, None) => {
                let standings = standing::look(&self.workspace, &self.lessons)?;
                let current = board::current(&standings).map(|standing| standing.lesson.clone());
                current.ok_or_else(|| Trouble::new("All lessons are solved.").next("Name a lesson."))
            }
        }
    }

    fn standing(&self, lesson: Lesson) -> Result<Standing> {
        let mut standings = standing::look(&self.workspace, &[lesson])?;
        standings.pop().ok_or_else(|| Trouble::new("the lesson is gone"))
    }

    /// Runs the tests of a lesson or of one of its tasks.
    pub fn check(&self, wanted: Option<&str>, task: Option<u32>) -> Result<(Verdict, String)> {
        let lesson = self.lesson(wanted)?;
        if let Some(number) = task {
            known_task(&lesson, number)?;
        }
        let after = self.lessons.iter().find(|next| next.number > lesson.number);
        let standing = self.standing(lesson)?;
        Ok(task::check(&self.workspace, &standing, task, after))
    }

    /// Shows one more hint for a task; by default, for the first that isn't done.
    pub fn hint(&self, wanted: Option<&str>, task: Option<u32>) -> Result<String> {
        let lesson = self.lesson(wanted)?;
        if let Some(number) = task {
            let task = known_task(&lesson, number)?;
            return hint::next(&self.workspace, &lesson, task);
        }
        let standing = self.standing(lesson)?;
        if standing.is_solved() {
            return Ok(format!("Lesson {} is solved: no hints needed.\n", standing.lesson.number));
        }
        let task = hint::task_of(&standing).ok_or_else(|| Trouble::new("the lesson has no tasks"))?;
        hint::next(&self.workspace, &standing.lesson, task)
    }

    /// Restores the starter.
    pub fn reset(&self, wanted: &str) -> Result<String> {
        work::reset(&self.workspace, &self.lesson(Some(wanted))?)
    }

    /// Replaces the learner's file by the solution, once the lesson is solved or given up.
    pub fn solution(&self, wanted: &str, give_up: bool) -> Result<String> {
        let lesson = self.open_to_look_at(wanted, give_up, "solution")?;
        work::solution(&self.workspace, &lesson)
    }

    /// Compares the learner's work with the solution, once the lesson is solved or given up.
    pub fn diff(&self, wanted: &str, give_up: bool) -> Result<String> {
        let lesson = self.open_to_look_at(wanted, give_up, "diff")?;
        work::diff(&self.workspace, &lesson)
    }

    fn open_to_look_at(&self, wanted: &str, give_up: bool, order: &str) -> Result<Lesson> {
        let lesson = self.lesson(Some(wanted))?;
        if give_up || self.standing(lesson.clone())?.is_solved() {
            return Ok(lesson);
        }
        let number = lesson.number;
        Err(Trouble::new(format!("Lesson {number} is not solved yet, and this would show the solution.")).next(
            format!("For a hint: `cargo learn hint {number}`. To see it anyway: `cargo learn {order} {number} --give-up`."),
        ))
    }
}

fn known_task(lesson: &Lesson, number: u32) -> Result<&crate::lesson::Task> {
    let last = lesson.tasks.len();
    let missing = || {
        Trouble::new(format!("lesson {} has no task {number}", lesson.number))
            .next(format!("It has tasks 1 to {last}."))
    };
    lesson.task(number).ok_or_else(missing)
}

/// With an old toolchain, cargo's own errors would not name the cause.
fn check_toolchain(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join("Cargo.toml");
    let manifest: Table = files::read(&path)?.parse().map_err(|error| Trouble::file(&path, error))?;
    let wanted = manifest
        .get("package")
        .and_then(|package| package.get("rust-version"))
        .and_then(|version| version.as_str());
    let output = cargo::command().arg("--version").output().ok();
    let printed =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let found = printed.split_whitespace().nth(1).unwrap_or_default();
    match wanted {
        Some(wanted) if !found.is_empty() && parts(found) < parts(wanted) => {
            Err(Trouble::new(format!("expected Rust {wanted} or newer, found {found}"))
                .next("Run `rustup update stable`, then try again."))
        }
        _ => Ok(()),
    }
}

/// The numbers of a version: `1.89.0-nightly` is [1, 89, 0].
fn parts(version: &str) -> [u32; 3] {
    let version = version.split('-').next().unwrap_or_default();
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(parts("1.9") < parts("1.89"));
        assert!(parts("1.89.1") > parts("1.89"));
        assert!(parts("1.96.0-nightly") > parts("1.89"));
    }
}
