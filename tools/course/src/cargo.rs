//! Builds tests with cargo and parses its messages.

use crate::progress::Progress;
use crate::trouble::{Result, Trouble};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};

/// A test program that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBinary {
    /// The package it belongs to.
    pub package: String,
    /// The name of the test target: `chapter`.
    pub target: String,
    /// The path of the program.
    pub path: PathBuf,
}

/// A compiler error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The package.
    pub package: String,
    /// Whether it is an error rather than a warning.
    pub error: bool,
    /// The rendered text, with colours.
    pub text: String,
    /// The files that it refers to.
    pub files: Vec<PathBuf>,
}

/// The result of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Build {
    /// The test programs.
    pub binaries: Vec<TestBinary>,
    /// The compiler's messages without summaries.
    pub messages: Vec<Message>,
    /// Cargo's own output on stderr.
    pub said: String,
}

impl Build {
    /// The errors in a package.
    pub fn errors<'a>(&'a self, package: &'a str) -> impl Iterator<Item = &'a Message> {
        self.messages.iter().filter(move |message| message.error && message.package == package)
    }

    /// Returns an error if a package other than a lesson's does not compile; lessons never require changes there.
    pub fn framework_is_whole(&self, is_of_lesson: impl Fn(&str) -> bool) -> Result<()> {
        let elsewhere = |error: &&Message| error.error && !is_of_lesson(&error.package);
        match self.messages.iter().find(elsewhere) {
            Some(error) => Err(Trouble::new(format!("{} does not compile:\n{}", error.package, error.text))),
            None => Ok(()),
        }
    }
}

/// The cargo that runs this program, or the one on the path.
pub fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The target folder of a manifest's workspace.
pub fn target_folder(manifest: &Path) -> Result<PathBuf> {
    let mut cargo = command();
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let output = cargo.output().map_err(|error| missing(&error))?;
    let metadata: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let folder = metadata.as_ref().and_then(|metadata| metadata["target_directory"].as_str());
    folder.map(PathBuf::from).ok_or_else(|| Trouble::new(String::from_utf8_lossy(&output.stderr).trim()))
}

/// Builds the tests of some packages, or of all if there are none. An error in one package doesn't stop the build of the
/// others.
pub fn build_tests(
    manifest: &Path,
    packages: &[String],
    target: Option<&Path>,
    shown: &Progress,
) -> Result<Build> {
    let mut cargo = command();
    cargo.args(["build", "--tests", "--keep-going", "--message-format=json-diagnostic-rendered-ansi"]);
    cargo.arg("--manifest-path").arg(manifest);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    if packages.is_empty() {
        cargo.arg("--workspace");
    }
    if let Some(target) = target {
        cargo.arg("--target-dir").arg(target);
    }
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let build = std::thread::scope(|scope| {
        let said = scope.spawn(|| listen(stderr, shown));
        let build = collect(stdout, shown);
        build.map(|build| Build { said: said.join().unwrap_or_default(), ..build })
    })?;
    let status = child.wait().map_err(|error| missing(&error))?;
    if !status.success() && !build.messages.iter().any(|message| message.error) {
        return Err(Trouble::new(format!("cargo cannot build the tests:\n{}", build.said.trim())));
    }
    Ok(build)
}

/// Collects all messages.
fn collect(stdout: Option<ChildStdout>, shown: &Progress) -> Result<Build> {
    let mut build = Build::default();
    let mut units = 0;
    for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let line = line.map_err(|error| Trouble::new(format!("cannot read cargo's output: {error}")))?;
        let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
        if build.take(&value) {
            units += 1;
            shown.detail(format!(
                "{units} parts built, {}",
                value["target"]["name"].as_str().unwrap_or_default()
            ));
        }
    }
    Ok(build)
}

/// Reads cargo's stderr, which contains everything but the JSON messages.
fn listen(stderr: Option<ChildStderr>, shown: &Progress) -> String {
    let mut said = String::new();
    for line in
        stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines()).map_while(std::io::Result::ok)
    {
        if line.contains("Blocking waiting for file lock") {
            shown.detail("waiting for another cargo to end");
        }
        said.push_str(&line);
        said.push('\n');
    }
    said
}

fn missing(error: &std::io::Error) -> Trouble {
    Trouble::new(format!("cannot run cargo: {error}"))
        .next("Install Rust with https://rustup.rs, open a new terminal, and try again.")
}

impl Build {
    /// Processes one message. Returns true if it reports something that was just built.
    fn take(&mut self, value: &Value) -> bool {
        let package = package_name(value["package_id"].as_str().unwrap_or_default());
        match value["reason"].as_str() {
            Some("compiler-artifact") => {
                let target = value["target"]["name"].as_str().unwrap_or_default().to_owned();
                let path = value["executable"].as_str().filter(|_| value["profile"]["test"] == true);
                self.binaries.extend(path.map(|path| TestBinary { package, target, path: path.into() }));
                value["fresh"] == false
            }
            Some("compiler-message") => {
                self.messages.extend(message(package, &value["message"]));
                false
            }
            _ => false,
        }
    }
}

fn message(package: String, value: &Value) -> Option<Message> {
    let level = value["level"].as_str()?;
    let spans = value["spans"].as_array()?;
    // A message without spans is a summary ("aborting due to 2 previous errors"), except for linker errors.
    let summary = spans.is_empty() && !value["message"].as_str()?.starts_with("linking");
    if summary || !["error", "warning"].contains(&level) {
        return None;
    }
    let files = spans.iter().filter_map(|span| span["file_name"].as_str()).map(PathBuf::from).collect();
    let text = value["rendered"].as_str()?.trim_end().to_owned();
    Some(Message { package, error: level == "error", text, files })
}

/// In `path+file:///home/lessons/08_conv#lesson08@0.1.0`, the name follows `#`; it is omitted if it equals the folder's name.
fn package_name(id: &str) -> String {
    let (place, behind) = id.rsplit_once('#').unwrap_or((id, ""));
    match behind.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => place.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages() {
        assert_eq!(package_name("path+file:///a/lessons/08_conv#lesson08@0.1.0"), "lesson08");
        assert_eq!(package_name("path+file:///a/lesson08#0.1.0"), "lesson08");
    }

    #[test]
    fn messages_are_read_and_summaries_are_not() {
        let mut build = Build::default();
        let says = |spans: &str, text: &str| {
            let line = format!(
                r#"{{"reason":"compiler-message","package_id":"p#a@1","message":{{"level":"error","message":"{text}","spans":{spans},"rendered":"{text}\n"}}}}"#
            );
            serde_json::from_str::<Value>(&line).unwrap()
        };
        build.take(&says(r#"[{"file_name":"src/lib.rs"}]"#, "mismatched types"));
        build.take(&says("[]", "aborting due to 1 previous error"));
        let files = vec![PathBuf::from("src/lib.rs")];
        let text = "mismatched types".to_owned();
        assert_eq!(build.messages, [Message { package: "a".into(), error: true, text, files }]);
    }
}
