//! The progress of a lesson, determined by running its tests.

use crate::cargo::{self, Message};
use crate::files;
use crate::handout::Handout;
use crate::lesson::{Lesson, Task};
use crate::libtest::{self, Failure, Program, Test};
use crate::parallel;
use crate::progress::Progress;
use crate::starter;
use crate::trouble::Result;
use crate::workspace::Workspace;
use std::path::PathBuf;
use std::time::Duration;

/// The time limit of a lesson's tests together, and of each test alone if they exceed it.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// A lesson and its progress.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The lesson.
    pub lesson: Lesson,
    /// Its progress.
    pub state: State,
    /// Whether the file holds the framework's own solution.
    pub is_solution: bool,
    /// Whether its tests differ from those handed out.
    pub tests_edited: bool,
    /// Its tests in the order of its files: name, file and line.
    listed: Vec<(String, PathBuf, usize)>,
}

/// The progress of a lesson.
#[derive(Debug, Clone)]
pub enum State {
    /// Nothing is written yet: all tests of all tasks are red and need not be run.
    Untouched,
    /// It doesn't compile.
    Broken(Vec<Message>),
    /// Its tests were run.
    Tested(Vec<Test>),
}

/// The progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The number of green tests.
    pub green: usize,
    /// The number of tests.
    pub all: usize,
}

impl Count {
    /// Returns true if all tests are green.
    pub fn done(self) -> bool {
        self.green == self.all
    }
}

/// Determines the progress of lessons. Only lessons with changes are built.
pub fn look(workspace: &Workspace, lessons: &[Lesson]) -> Result<Vec<Standing>> {
    let mut standings =
        lessons.iter().map(|lesson| untested(workspace, lesson)).collect::<Result<Vec<_>>>()?;
    let touched = |standing: &&Standing| !matches!(standing.state, State::Untouched);
    let packages: Vec<String> =
        standings.iter().filter(touched).map(|standing| standing.lesson.package()).collect();
    if packages.is_empty() {
        return Ok(standings);
    }
    let shown = Progress::start(&match &packages[..] {
        [package] => format!("building {package}"),
        _ => "building your lessons".to_owned(),
    });
    let build = cargo::build_tests(&workspace.root.join("Cargo.toml"), &packages, None, &shown)?;
    build.framework_is_whole(|package| packages.iter().any(|asked| asked == package)).map_err(|trouble| {
        trouble.next("To solve a lesson, edit only its src/lib.rs. `git restore src` restores the framework.")
    })?;
    shown.detail("running tests");
    let results = parallel::map(&standings, |standing| match standing.state {
        State::Untouched => None,
        _ => Some(tested(&build, &standing.lesson)),
    });
    for (standing, state) in standings.iter_mut().zip(results) {
        state.into_iter().for_each(|state| standing.state = state);
    }
    Ok(standings)
}

fn untested(workspace: &Workspace, lesson: &Lesson) -> Result<Standing> {
    let work = files::read(&lesson.work()).map_err(|trouble| {
        trouble.next(format!("`cargo learn reset {}` restores the starter.", lesson.number))
    })?;
    let handout = Handout::read(lesson)?;
    let untouched = handout.is_starter(&work);
    let solution = || starter::make(&workspace.root, lesson).map(|made| made.solution);
    Ok(Standing {
        lesson: lesson.clone(),
        state: if untouched { State::Untouched } else { State::Tested(Vec::new()) },
        is_solution: !untouched && solution().is_ok_and(|solution| solution == work),
        tests_edited: !handout.has_tests_of(lesson)?,
        listed: libtest::tests_of(&lesson.folder),
    })
}

fn tested(build: &cargo::Build, lesson: &Lesson) -> State {
    let package = lesson.package();
    let errors: Vec<Message> = build.errors(&package).cloned().collect();
    let mut tests = Vec::new();
    for binary in
        build.binaries.iter().filter(|binary| binary.package == package && binary.target == "chapter")
    {
        let program =
            Program { path: binary.path.clone(), folder: lesson.folder.clone(), patience: PATIENCE };
        tests.extend(program.run(&[]));
    }
    if errors.is_empty() { State::Tested(tests) } else { State::Broken(distinct(errors)) }
}

/// Removes duplicates: the library and its tests may report the same error.
fn distinct(messages: Vec<Message>) -> Vec<Message> {
    let mut distinct: Vec<Message> = Vec::new();
    for message in messages {
        if !distinct.iter().any(|old| old.text == message.text) {
            distinct.push(message);
        }
    }
    distinct
}

impl Standing {
    /// The result of a test, or `None` if it was not run.
    fn result(&self, name: &str) -> Option<&Test> {
        match &self.state {
            State::Tested(tests) => tests.iter().find(|test| test.name == name),
            _ => None,
        }
    }

    /// Counts the green tests of a task.
    pub fn count(&self, task: u32) -> Count {
        let names = self.listed.iter().filter(|(name, ..)| libtest::task_of(name) == Some(task));
        let (mut green, mut all) = (0, 0);
        for (name, ..) in names {
            all += 1;
            green += usize::from(self.result(name).is_some_and(Test::passed));
        }
        Count { green, all }
    }

    /// The tasks with their progress.
    pub fn tasks(&self) -> impl Iterator<Item = (&Task, Count)> {
        self.lesson.tasks.iter().map(|task| (task, self.count(task.number)))
    }

    /// The number of tasks that are done.
    pub fn done(&self) -> usize {
        self.tasks().filter(|(_, count)| count.done()).count()
    }

    /// Returns true if all tasks are done and no test of given code fails.
    pub fn is_solved(&self) -> bool {
        self.done() == self.lesson.tasks.len() && self.first_red(None).is_none()
    }

    /// Returns true if the starter was changed.
    pub fn is_touched(&self) -> bool {
        !matches!(self.state, State::Untouched)
    }

    /// The first red test of a task, or of all tasks.
    pub fn first_red(&self, task: Option<u32>) -> Option<Red<'_>> {
        let of_task = |name: &str| task.is_none() || libtest::task_of(name) == task;
        let given_is_red = |name: &str| self.result(name).is_some_and(|test| !test.passed());
        let is_red = |name: &str| match libtest::task_of(name) {
            Some(_) => !self.result(name).is_some_and(Test::passed),
            None => given_is_red(name),
        };
        let (name, file, line) = self.listed.iter().find(|(name, ..)| of_task(name) && is_red(name))?;
        let failure = self.result(name).and_then(|test| test.failure.as_ref());
        Some(Red { name, file, line: *line, failure })
    }
}

/// A red test.
#[derive(Debug, Clone, Copy)]
pub struct Red<'a> {
    /// Its name.
    pub name: &'a str,
    /// The file it is in.
    pub file: &'a PathBuf,
    /// The line in the file.
    pub line: usize,
    /// The failure, if the test was run.
    pub failure: Option<&'a Failure>,
}
