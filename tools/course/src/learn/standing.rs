//! How far a lesson is: read from its tests, each time anew.

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

/// How long the tests of a lesson may take together, and how long each alone if they took longer.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// A lesson and how far it is.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The lesson.
    pub lesson: Lesson,
    /// How far it is.
    pub state: State,
    /// Whether the file holds the framework's own solution.
    pub is_solution: bool,
    /// Whether its tests are not as they were handed out.
    pub tests_edited: bool,
    /// Its tests in the order of its files: name, file, line.
    listed: Vec<(String, PathBuf, usize)>,
}

/// How far a lesson is.
#[derive(Debug, Clone)]
pub enum State {
    /// Nothing is written yet: all tests of all tasks are red, no need to run them.
    Untouched,
    /// It doesn't compile.
    Broken(Vec<Message>),
    /// Its tests were run.
    Tested(Vec<Test>),
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// How many of its tests are green.
    pub green: usize,
    /// How many it has.
    pub all: usize,
}

impl Count {
    /// Whether all are green.
    pub fn done(self) -> bool {
        self.green == self.all
    }
}

/// Looks how far some lessons are. Only those are built that somebody has worked on.
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
        trouble.next(
            "A lesson is solved in its own src/lib.rs alone. `git restore src` gives you the framework as it was.",
        )
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
        trouble.next(format!("`cargo learn reset {}` gives you the starter again.", lesson.number))
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

/// The library and its tests may say the same.
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
    /// How a test went; without having been run, it is red.
    fn result(&self, name: &str) -> Option<&Test> {
        match &self.state {
            State::Tested(tests) => tests.iter().find(|test| test.name == name),
            _ => None,
        }
    }

    /// How many tests of a task are green.
    pub fn count(&self, task: u32) -> Count {
        let names = self.listed.iter().filter(|(name, ..)| libtest::task_of(name) == Some(task));
        let (mut green, mut all) = (0, 0);
        for (name, ..) in names {
            all += 1;
            green += usize::from(self.result(name).is_some_and(Test::passed));
        }
        Count { green, all }
    }

    /// The tasks with how far they are.
    pub fn tasks(&self) -> impl Iterator<Item = (&Task, Count)> {
        self.lesson.tasks.iter().map(|task| (task, self.count(task.number)))
    }

    /// How many tasks are done.
    pub fn done(&self) -> usize {
        self.tasks().filter(|(_, count)| count.done()).count()
    }

    /// Whether all tasks are done, and what was given is whole.
    pub fn is_solved(&self) -> bool {
        self.done() == self.lesson.tasks.len() && self.first_red(None).is_none()
    }

    /// Whether somebody has begun.
    pub fn is_touched(&self) -> bool {
        !matches!(self.state, State::Untouched)
    }

    /// The first test that is red, of a task or of all: name, file, line, and why if it was run.
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

/// A test that is red.
#[derive(Debug, Clone, Copy)]
pub struct Red<'a> {
    /// Its name.
    pub name: &'a str,
    /// The file it is in.
    pub file: &'a PathBuf,
    /// Where in the file.
    pub line: usize,
    /// Why, if it was run.
    pub failure: Option<&'a Failure>,
}
