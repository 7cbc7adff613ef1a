//! What can only be found by building and running.

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

/// How long a test program may take here, and how long a single test if it took longer.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(30));

/// What a lesson is built as, and the rule that is broken when this doesn't compile.
const KINDS: [(&str, &str); 3] = [("starter", "compiles"), ("solved", "solution"), ("wrong", "mistake")];

type Planned<'a> = (&'a Subject, Vec<Mistake>);

/// Builds the lessons as handed out, solved and with each planted mistake, and runs their tests.
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

/// The package that a lesson is as one of the kinds.
fn variant(subject: &Subject, kind: &str) -> String {
    format!("{}-{kind}", subject.lesson.package())
}

/// Takes out mistakes that don't compile, which proves nothing; says whether there were any.
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
            let trouble = trouble.next("A planted mistake must compile and fail by an assertion.");
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
                // A library and its tests say the same twice.
                if !report.findings.contains(&finding) {
                    report.findings.push(finding);
                }
            }
        }
    }
}

/// Without a test program nothing is proved; why there is none, the compiler has said, or else it is said here.
fn report_unbuilt(build: &Build, planned: &[Planned], report: &mut Report) {
    for (subject, _) in planned {
        for (kind, rule) in KINDS {
            let package = variant(subject, kind);
            let is_built = build.binaries.iter().any(|binary| binary.package == package);
            if !is_built && build.errors(&package).next().is_none() {
                let trouble = Trouble::new(format!("no test program was built of {package}"));
                let trouble = trouble.next("The tests belong into tests/tasks/mod.rs of the lesson.");
                report.findings.push(Finding::error(Some(subject.lesson.number), rule, trouble));
            }
        }
    }
}

/// A test program with what is expected of it.
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
        let Kind::Wrong(wrong, module) = &self.kind else { return self.program.run(&[]) };
        // Only the tests of the mistake's task count.
        let others = self.subject.lesson.tasks.iter().filter(|task| task.number != wrong.task);
        let others = others.map(|task| format!("::task{}_", task.number)).chain(["::given_".to_owned()]);
        let others: Vec<String> = others.collect();
        let mut choice = vec![module.as_str()];
        choice.extend(others.iter().flat_map(|other| ["--skip", other.as_str()]));
        self.program.run(&choice)
    }

    /// Says what is wrong with the results of this program; `solved` are those of the solution.
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

    /// A task's test must fail with one of the lesson's own todos, everything else must pass.
    fn starter_trouble(&self, test: &Test) -> Option<Trouble> {
        let name = &test.name;
        match (&test.failure, test.task()) {
            (None, Some(_)) => Some(
                Trouble::new(format!("{name} is green before anything is written"))
                    .next("Let it call what is to be written, or name it given_…"),
            ),
            (Some(failure), Some(_)) => {
                let said = failure.message.strip_prefix("not yet implemented: ").unwrap_or(&failure.message);
                let known = self.subject.made.todos.iter().any(|todo| todo.message == said);
                (!known).then(|| {
                    Trouble::new(format!(
                        "{name} fails in the starter, but not with the words of a todo:\n{said}"
                    ))
                    .next("The learner should be told what to write, whatever is called first.")
                })
            }
            (Some(failure), None) => Some(Trouble::new(format!(
                "{name} tests what is given, and fails in the starter:\n{}",
                failure.message
            ))),
            (None, None) => None,
        }
    }

    /// At least one test of its task, green with the solution, must fail by an assertion.
    fn mistake_trouble(&self, wrong: &Wrong, tests: &[Test], solved: &[Test]) -> Option<Trouble> {
        let is_green = |test: &Test| solved.iter().any(|solved| solved.name == test.name && solved.passed());
        let counts = |test: &&Test| test.task() == Some(wrong.task) && is_green(test);
        let of_task: Vec<&Test> = tests.iter().filter(counts).collect();
        let folder = format!("{}/tests/", self.subject.lesson.name());
        let failures: Vec<&Failure> = of_task.iter().filter_map(|test| test.failure.as_ref()).collect();
        if failures.iter().any(|failure| is_assertion(failure, &folder)) {
            return None;
        }
        let why = &wrong.why;
        Some(match failures.first() {
            None => Trouble::new(format!(
                "'{why}' is not noticed: {} of task {} stay green",
                style::count(of_task.len(), "test"),
                wrong.task
            ))
            .next("Add a test whose result it changes."),
            Some(failure) => Trouble::new(format!(
                "'{why}' fails, but not by an assertion:\n{}",
                failure.message
            ))
            .next("A test should say what is wrong: assert it, with a message that names the likely reason."),
        })
    }
}

fn solution_trouble(test: &Test) -> Option<Trouble> {
    let failure = test.failure.as_ref()?;
    Some(Trouble::new(format!("{} is red with the framework's own code:\n{}", test.name, failure.message)))
}

/// Whether a test said itself what is wrong, instead of something that it calls.
fn is_assertion(failure: &Failure, tests: &str) -> bool {
    let own = failure.place.as_ref().is_some_and(|(file, ..)| file.contains(tests));
    failure.message.starts_with("assertion ") || (own && !failure.message.starts_with("called `"))
}

/// The names of the tests of a task in a lesson's source.
pub fn tests_of_task(folder: &Path, task: u32) -> usize {
    libtest::tests_of(folder).iter().filter(|(name, ..)| libtest::task_of(name) == Some(task)).count()
}
