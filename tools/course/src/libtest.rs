//! Runs test programs and parses their output.

use crate::parallel;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A test and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its name without modules: `task1_a_chain`.
    pub name: String,
    /// The failure, or `None` if the test passed.
    pub failure: Option<Failure>,
}

/// Why a test failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The panic message, or how the test ended otherwise.
    pub message: String,
    /// Where it panicked: file, line and column.
    pub place: Option<(String, u32, u32)>,
    /// The output before the panic.
    pub printed: String,
}

impl Test {
    /// The number of its task; `None` for tests of given code.
    pub fn task(&self) -> Option<u32> {
        task_of(&self.name)
    }

    /// Returns true if the test passed.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }
}

/// The task of a test: 2 of `task2_two_inputs`.
pub fn task_of(name: &str) -> Option<u32> {
    name.strip_prefix("task")?.split_once('_')?.0.parse().ok()
}

/// A test program.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The working directory: its package's folder.
    pub folder: PathBuf,
    /// The time limit of the program, and of a single test if the program exceeds it.
    pub patience: (Duration, Duration),
}

impl Program {
    /// Runs the tests selected by `choice`, which are libtest's arguments: parts of full names, and `--skip`. If the program
    /// crashes or takes too long, each test is run alone, so that one bad test doesn't hide the others.
    pub fn run(&self, choice: &[&str]) -> Vec<Test> {
        let end = self.call(choice, self.patience.0);
        if end.normal() {
            return parse(&end.stdout);
        }
        let list = [choice, &["--list", "--format", "terse"]].concat();
        let names = self.call(&list, self.patience.1).stdout;
        let names: Vec<&str> = names.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        parallel::map(&names, |name| Some(self.alone(name))).into_iter().flatten().collect()
    }

    fn alone(&self, name: &str) -> Test {
        let end = self.call(&["--exact", name], self.patience.1);
        if let Some(test) = parse(&end.stdout).pop().filter(|_| end.normal()) {
            return test;
        }
        let overflow = end.stderr.contains("has overflowed its stack");
        let message = match end.code {
            None if end.late => format!(
                "it was still running after {} s. Does a loop never end?",
                self.patience.1.as_secs_f32().ceil()
            ),
            _ if overflow => "the stack overflowed. Does a function call itself without end?".to_owned(),
            _ => format!("the test program died: {}", end.stderr.trim()),
        };
        let failure = Failure { message, place: None, printed: String::new() };
        Test { name: short(name), failure: Some(failure) }
    }

    fn call(&self, arguments: &[&str], patience: Duration) -> End {
        let mut command = Command::new(&self.path);
        command.args(arguments).args(["--color", "never"]).current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => wait(child, patience),
            Err(error) => End { stderr: format!("{}: {error}", self.path.display()), ..End::default() },
        }
    }
}

#[derive(Default)]
struct End {
    code: Option<i32>,
    late: bool,
    stdout: String,
    stderr: String,
}

impl End {
    /// Returns true for libtest's exit codes: 0 if all tests are green, 101 if a test is red.
    fn normal(&self) -> bool {
        matches!(self.code, Some(0 | 101))
    }
}

fn wait(mut child: Child, patience: Duration) -> End {
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let begin = Instant::now();
    let mut end = End::default();
    loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() < patience => std::thread::sleep(Duration::from_millis(3)),
            Ok(Some(status)) => {
                end.code = status.code();
                break;
            }
            _ => {
                end.late = true;
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
        }
    }
    end.stdout = stdout.join().unwrap_or_default();
    end.stderr = stderr.join().unwrap_or_default();
    end
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
    })
}

fn short(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

/// Parses the output of a test program.
fn parse(stdout: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    for line in stdout.lines() {
        let Some((name, state)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        else {
            continue;
        };
        let name = name.trim_end_matches(" - should panic");
        let failed = state.starts_with("FAILED");
        if failed || state.starts_with("ok") {
            let failure = failed.then(|| failure(&block(stdout, name)));
            tests.push(Test { name: short(name), failure });
        }
    }
    // libtest reports tests in the order in which they finish.
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    tests
}

/// The captured output of a failed test.
fn block(stdout: &str, name: &str) -> String {
    let head = format!("---- {name} stdout ----");
    let lines = stdout.lines().skip_while(|line| **line != head).skip(1);
    let mut block: Vec<&str> = Vec::new();
    for line in lines {
        let ends = line == "failures:" || (line.starts_with("---- ") && line.ends_with(" stdout ----"));
        if ends {
            break;
        }
        block.push(line);
    }
    block.join("\n").trim().to_owned()
}

fn failure(block: &str) -> Failure {
    let is_panic = |line: &str| line.starts_with("thread '") && line.contains(" panicked at ");
    let lines: Vec<&str> = block.lines().collect();
    // The test caught all panics before the last one.
    let Some(at) = lines.iter().rposition(|line| is_panic(line)) else {
        return Failure { message: block.to_owned(), place: None, printed: String::new() };
    };
    let place = lines[at]
        .rsplit_once(" panicked at ")
        .and_then(|(_, place)| parse_place(place.trim_end_matches(':')));
    let message =
        lines[at + 1..].iter().take_while(|line| !line.starts_with("note: run with `RUST_BACKTRACE"));
    let message = message.copied().collect::<Vec<_>>().join("\n").trim().to_owned();
    Failure { message, place, printed: lines[..at].join("\n").trim().to_owned() }
}

fn parse_place(place: &str) -> Option<(String, u32, u32)> {
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file.replace('\\', "/"), line.parse().ok()?, column.parse().ok()?))
}

/// The full names of the tests in a file's text: each function after a `#[test]`. A file that begins with `#![cfg(…)]` counts
/// as having none: its tests need a feature, and a lesson is solved without them.
pub fn tests_in(text: &str) -> Vec<(String, usize)> {
    let mut lines = text.lines().map(str::trim);
    if lines
        .find(|line| !line.is_empty() && !line.starts_with("//"))
        .is_some_and(|line| line.starts_with("#![cfg("))
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut behind = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        behind |= line == "#[test]";
        if let Some(rest) = line.strip_prefix("fn ").filter(|_| behind) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push((rest[..end].to_owned(), number + 1));
            behind = false;
        }
    }
    found
}

/// Lists the tests of a lesson in the order of its files, without running them: name, file and line.
pub fn tests_of(folder: &Path) -> Vec<(String, PathBuf, usize)> {
    let files = crate::files::below(&folder.join("tests"));
    let read = |path: PathBuf| {
        let text = crate::files::read(&path).unwrap_or_default();
        tests_in(&text).into_iter().map(move |(name, line)| (name, path.clone(), line))
    };
    files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).flat_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: &str = "
running 3 tests
test tasks::given_text ... ok
test tasks::task1_sum ... FAILED
test tasks::task2_mean - should panic ... ok

failures:

---- tasks::task1_sum stdout ----
[src/lib.rs:3:5] x = 4

thread 'tasks::task1_sum' (71) panicked at lessons/01_sum/tests/tasks/mod.rs:9:5:
assertion `left == right` failed: was one left out?
  left: 1
 right: 2
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tasks::task1_sum

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn an_answer_is_read() {
        let tests = parse(RED);
        assert_eq!(
            tests.iter().map(|test| test.name.as_str()).collect::<Vec<_>>(),
            ["given_text", "task1_sum", "task2_mean"]
        );
        assert_eq!(tests.iter().map(Test::passed).collect::<Vec<_>>(), [true, false, true]);
        let failure = tests[1].failure.clone().unwrap();
        assert_eq!(
            failure.message,
            "assertion `left == right` failed: was one left out?\n  left: 1\n right: 2"
        );
        assert_eq!(failure.place, Some(("lessons/01_sum/tests/tasks/mod.rs".to_owned(), 9, 5)));
        assert_eq!(failure.printed, "[src/lib.rs:3:5] x = 4");
    }

    #[test]
    fn a_panic_that_the_test_caught_is_not_its_failure() {
        let caught =
            "thread 't' (7) panicked at src/lib.rs:1:1:\ndoes not fit\nnote: run with `RUST_BACKTRACE=1`";
        let failure =
            failure(&format!("{caught}\n\nthread 't' (7) panicked at tests/a.rs:2:3:\nis it refused?"));
        assert_eq!(failure.message, "is it refused?");
        assert_eq!(failure.place, Some(("tests/a.rs".to_owned(), 2, 3)));
    }

    #[test]
    fn a_test_may_return_an_error() {
        let failure = failure("Error: no such file");
        assert_eq!((failure.message.as_str(), failure.place), ("Error: no such file", None));
    }

    #[test]
    fn tests_are_found_in_source() {
        let text =
            "fn helper() {}\n#[test]\n#[should_panic]\nfn task1_a() {}\n\n#[test]\nfn given_b() {\n}\n";
        assert_eq!(tests_in(text), [("task1_a".to_owned(), 4), ("given_b".to_owned(), 7)]);
        assert_eq!(tests_in(&format!("//! More.\n\n#![cfg(feature = \"more\")]\n\n{text}")), []);
        assert_eq!(tests_in(&format!("{text}mod inner {{\n#![cfg(unix)]\n}}\n")).len(), 2);
        assert_eq!((task_of("task12_a"), task_of("given_a"), task_of("tasks_a")), (Some(12), None, None));
    }
}
