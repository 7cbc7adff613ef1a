//! A small repository that contains a course; each test gets a fresh copy.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and uses what it needs"
)]

use course::check::Subject;
use course::starter;
use course::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Fixture {
    folder: tempfile::TempDir,
}

/// The result of a command.
pub struct Answer {
    pub code: i32,
    pub text: String,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("fixture"), folder.path());
        Self { folder }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn workspace(&self) -> Workspace {
        Workspace::find(self.root()).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Replaces a text that is in the file.
    pub fn replace(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} has no {old}:\n{text}");
        self.write(name, &text.replacen(old, new, 1));
    }

    /// The learner writes task 1 of lesson 1.
    pub fn solve_sum(&self, body: &str) {
        let text = self.read("lessons/01_sum/src/lib.rs");
        let line = text.lines().find(|line| line.contains("todo!(\"lesson 01, task 1")).unwrap();
        self.write("lessons/01_sum/src/lib.rs", &text.replace(line, body));
    }

    pub fn subject(&self, lesson: &str) -> Subject {
        let lesson = self.workspace().lesson(lesson).unwrap();
        Subject { made: starter::make(self.root(), &lesson).unwrap(), lesson }
    }

    /// Calls the tool in the repository.
    pub fn call(&self, arguments: &[&str]) -> Answer {
        self.call_in(self.root(), arguments, &[])
    }

    pub fn call_in(&self, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Answer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_course"));
        command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", self.path("target"));
        command.env("CARGO", env!("CARGO")).env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS");
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let here = self.root().to_string_lossy().into_owned();
        // Whether it takes longer than a second depends on the machine.
        let lines = text.lines().filter(|line| !line.ends_with(" …")).collect::<Vec<_>>().join("\n");
        Answer {
            code: output.status.code().unwrap_or(-1),
            text: lines.replace(&here, "HERE").replace('\\', "/"),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
