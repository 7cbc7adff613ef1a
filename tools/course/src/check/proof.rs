//! Checks that need building and running.

use super::Subject;
use super::report::{Finding, Report};
use super::variants::{self, Mistake};
use crate::cargo::{self, Build};
use crate::lesson::Wrong;
use crate::libtest::{Failure, Program, Test};
use crate::progress::Progress;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use crate::{libtest, parallel, style};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time limit of a test program, and of a single test if the program exceeds it.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(30));

/// The variants of a lesson, and the rule that is violated if one doesn't compile.
const KINDS: [(&str, &str); 3] = [("starter", "compiles"), ("solved", "solution"), ("wrong", "mistake")];

type Planned<'a> = (&'a Subject, Vec<Mistake>);

/// Builds each lesson as handed out, solved, and with each planted mistake, and runs the tests.
pub fn check(
    workspace: &Workspace,
    subjects: &[Subject],
    report: &mut Report,
    shown: &Progress,
) -> Result<()> {
    if subjects.is_empty() {
        return Ok(());
    }
    let mut planned: Vec<Planned> =
        subjects.iter().map(|subject| (subject, mistakes(subject, report))).collect();
    let folder = workspace.root.join("target").join("lessons");
    let target = cargo::target_folder(&workspace.root.join("Cargo.toml"))?;
    let build = loop {
        let manifest = variants::lay_out(&workspace.root, &folder, &planned)?;
        let build = cargo::build_tests(&manifest, &[], Some(&target), shown)?;
        if !drop_uncompiled(&build, &mut planned, report) {
            break build;
        }
    };
    build.framework_is_whole(|package| {
        planned.iter().any(|(subject, _)| KINDS.iter().any(|(kind, _)| variant(subject, kind) == package))
    })?;
    report_compiler(&build, &planned, report);
    report_unbuilt(&build, &planned, report);
    shown.detail("running tests");
    let jobs = jobs(&build, &planned);
    let results = parallel::map(&jobs, Job::run);
    for (job, tests) in jobs.iter().zip(&results) {
        let number = job.subject.lesson.number;
        let is_solved = |job: &&Job| job.subject.lesson.number == number && matches!(job.kind, Kind::Solved);
        let solved = jobs.iter().position(|job| is_solved(&job)).and_then(|at| results.get(at));
        job.judge(tests, solved.map_or(&[], Vec::as_slice), report);
    }
    Ok(())
}

fn mistakes(subject: &Subject, report: &mut Report) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (index, wrong) in subject.lesson.wrongs.iter().enumerate() {
        match variants::plant(&subject.made.solution, wrong) {
            Ok(text) => mistakes.push(Mistake { index, text }),
            Err(trouble) => {
                report.findings.push(Finding::error(Some(subject.lesson.number), "mistake", trouble))
            }
        }
    }
    mistakes
}

/// The package name of a lesson's variant.
fn variant(subject: &Subject, kind: &str) -> String {
    format!("{}-{kind}", subject.lesson.package())
}

/// Removes mistakes that don't compile, which prove nothing. Returns true if there were any.
fn drop_uncompiled(build: &Build, planned: &mut [Planned], report: &mut Report) -> bool {
    let mut dropped = false;
    for (subject, mistakes) in planned {
        let package = variant(subject, "wrong");
        mistakes.retain(|mistake| {
            let file = PathBuf::from(format!("{}.rs", mistake.module()));
            let points_here = |error: &&cargo::Message| error.files.iter().any(|path| path.ends_with(&file));
            let Some(error) = build.errors(&package).find(points_here) else { return true };
            let why = &subject.lesson.wrongs[mistake.index].why;
            let trouble = Trouble::new(format!("'{why}' does not compile:\n{}", error.text));
            let trouble = trouble.next("A planted mistake must compile and fail an assertion.");
            report.findings.push(Finding::error(Some(subject.lesson.number), "mistake", trouble));
            dropped = true;
            false
        });
    }
    dropped
}

fn report_compiler(build: &Build, planned: &[Planned], report: &mut Report) {
    for (subject, _) in planned {
        for (kind, rule) in KINDS {
            let package = variant(subject, kind);
            for message in build.messages.iter().filter(|message| message.package == package) {
                let finding = Finding::error(Some(subject.lesson.number), rule, Trouble::new(&message.text));
                // The library and its tests report the same error twice.
                if !report.findings.contains(&finding) {
                    report.findings.push(finding);
                }
            }
        }
    }
}

/// Reports missing test programs for which the compiler has reported no error.
fn report_unbuilt(build: &Build, planned: &[Planned], report: &mut Report) {
    for (subject, _) in planned {
        for (kind, rule) in KINDS {
            let package = variant(subject, kind);
            let is_built = build.binaries.iter().any(|binary| binary.package == package);
            if !is_built && build.errors(&package).next().is_none() {
                let trouble = Trouble::new(format!("no test program was built for {package}"));
                let trouble = trouble.next("The lesson's tests belong in its tests/tasks/mod.rs.");
                report.findings.push(Finding::error(Some(subject.lesson.number), rule, trouble));
            }
        }
    }
}

/// A test program and its expected outcome.
struct Job<'a> {
    subject: &'a Subject,
    kind: Kind<'a>,
    program: Program,
}

enum Kind<'a> {
    Starter,
    Solved,
    Wrong(&'a Wrong, String),
}

fn jobs<'a>(build: &Build, planned: &'a [Planned<'a>]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for (subject, mistakes) in planned {
        let mut add = |package: &str, kind: Kind<'a>| {
            let package = variant(subject, package);
            let Some(binary) = build.binaries.iter().find(|binary| binary.package == package) else { return };
            let folder = subject.lesson.folder.clone();
            jobs.push(Job {
                subject,
                kind,
                program: Program { path: binary.path.clone(), folder, patience: PATIENCE },
            });
        };
        add("starter", Kind::Starter);
        add("solved", Kind::Solved);
        for mistake in mistakes {
            add(
                "wrong",
                Kind::Wrong(&subject.lesson.wrongs[mistake.index], format!("{}::", mistake.module())),
            );
        }
    }
    jobs
}

impl Job<'_> {
    fn run(&self) -> Vec<Test> {
        match &self.kind {
            Kind::Wrong(_, module) => self.program.run(&[module.as_str()]),
            Kind::Starter | Kind::Solved => self.program.run(&[]),
        }
    }

    /// Checks the results of this program; `solved` are the results of the solution.
    fn judge(&self, tests: &[Test], solved: &[Test], report: &mut Report) {
        let number = self.subject.lesson.number;
        let mut findings = Vec::new();
        let mut error = |rule, trouble| findings.push(Finding::error(Some(number), rule, trouble));
        let summary = report.lessons.iter_mut().find(|lesson| lesson.number == number);
        match &self.kind {
            Kind::Starter => {
                tests
                    .iter()
                    .filter_map(|test| self.starter_trouble(test))
                    .for_each(|trouble| error("starter", trouble));
                summary
                    .into_iter()
                    .for_each(|lesson| lesson.red = tests.iter().filter(|test| !test.passed()).count());
            }
            Kind::Solved => {
                tests.iter().filter_map(solution_trouble).for_each(|trouble| error("solution", trouble));
                summary
                    .into_iter()
                    .for_each(|lesson| lesson.green = tests.iter().filter(|test| test.passed()).count());
            }
            Kind::Wrong(wrong, _) => match self.mistake_trouble(wrong, tests, solved) {
                Some(trouble) => error("mistake", trouble),
                None => summary.into_iter().for_each(|lesson| lesson.caught += 1),
            },
        }
        report.findings.extend(findings);
    }

    /// In the starter, a task's tests must fail with one of the lesson's todos; all other tests must pass.
    fn starter_trouble(&self, test: &Test) -> Option<Trouble> {
        let name = &test.name;
        match (&test.failure, test.task()) {
            (None, Some(_)) => Some(
                Trouble::new(format!("{name} is green before anything is written"))
                    .next("Let it call the code to be written, or name it given_…"),
            ),
            (Some(failure), Some(_)) => {
                let said = failure.message.strip_prefix("not yet implemented: ").unwrap_or(&failure.message);
                let known = self.subject.made.todos.iter().any(|todo| todo.message == said);
                (!known).then(|| {
                    Trouble::new(format!(
                        "{name} fails in the starter, but not with the message of a todo:\n{said}"
                    ))
                    .next("The first function that a test calls should tell the learner what to write.")
                })
            }
            (Some(failure), None) => Some(Trouble::new(format!(
                "{name} tests given code, but fails in the starter:\n{}",
                failure.message
            ))),
            (None, None) => None,
        }
    }

    /// At least one test of the mistake's task that is green with the solution must fail with an assertion.
    fn mistake_trouble(&self, wrong: &Wrong, tests: &[Test], solved: &[Test]) -> Option<Trouble> {
        let is_green = |test: &Test| solved.iter().any(|solved| solved.name == test.name && solved.passed());
        let counts = |test: &&Test| test.task() == Some(wrong.task) && is_green(test);
        let of_task: Vec<&Test> = tests.iter().filter(counts).collect();
        let folder = format!("{}/tests/", variant(self.subject, "wrong"));
        let failures: Vec<&Failure> = of_task.iter().filter_map(|test| test.failure.as_ref()).collect();
        if failures.iter().any(|failure| is_assertion(failure, &folder)) {
            return None;
        }
        let why = &wrong.why;
        Some(match failures.first() {
            None => Trouble::new(format!(
                "'{why}' is not caught: {} of task {} stay green",
                style::count(of_task.len(), "test"),
                wrong.task
            ))
            .next("Add a test whose result the mistake changes."),
            Some(failure) => Trouble::new(format!(
                "'{why}' fails, but not with an assertion:\n{}",
                failure.message
            ))
            .next(
                "A test should explain the failure: use an assertion whose message names the likely cause.",
            ),
        })
    }
}

fn solution_trouble(test: &Test) -> Option<Trouble> {
    let failure = test.failure.as_ref()?;
    Some(Trouble::new(format!("{} is red with the framework's own code:\n{}", test.name, failure.message)))
}

/// Returns true if the test itself failed, rather than code that it calls.
fn is_assertion(failure: &Failure, tests: &str) -> bool {
    let own = failure.place.as_ref().is_some_and(|(file, ..)| file.contains(tests));
    failure.message.starts_with("assertion ") || (own && !failure.message.starts_with("called `"))
}

/// The number of tests of a task in a lesson's source.
pub fn tests_of_task(folder: &Path, task: u32) -> usize {
    libtest::tests_of(folder).iter().filter(|(name, ..)| libtest::task_of(name) == Some(task)).count()
}
