//! Runs the command and normalises its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The result of a command.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs `ixion` in the folder of the repository's models.
pub(super) fn ixion<const N: usize>(args: [&str; N]) -> Ended {
    ended(command(args).output().unwrap())
}

/// The command, set up to run in the folder of the repository's models.
pub(super) fn command<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    command.args(args).current_dir(models()).env_remove("RUST_LOG").env_remove("RUST_BACKTRACE");
    command
}

pub(super) fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ended { code: output.status.code().unwrap(), stdout, stderr }
}

pub(super) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file")
}

impl Ended {
    /// The standard output, after checking that the command succeeded without warnings.
    #[track_caller]
    pub(super) fn fine(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    /// The error message, after checking the exit code. The path of `folder` is removed.
    #[track_caller]
    pub(super) fn error(self, code: i32, folder: &Path) -> String {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains("error: "), "{}", self.stderr);
        self.stderr.replace(&format!("{}/", folder.display()), "").trim_end().to_owned()
    }

    /// The printed JSON object, after checking that the command succeeded and the version is 1.
    #[track_caller]
    pub(super) fn json(self) -> serde_json::Value {
        let json: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(json["version"], 1);
        json
    }
}

/// Compares with a snapshot in the folder `snapshots`.
pub(super) fn exactly(check: impl FnOnce()) {
    settings().bind(check);
}

/// Like [`exactly`], with placeholders for numbers that differ between runs or processors.
pub(super) fn roughly(check: impl FnOnce()) {
    let mut settings = settings();
    settings.add_filter(r"\d+(\.\d+)? (ns|µs|ms|s)\b", "[time]");
    settings.add_filter(r"\d+\.\d %( +)", "[share]$1");
    settings.add_filter(r"max difference \d\.\de-\d+", "max difference [small]");
    settings.bind(check);
}

fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}
