//! `handout.toml`: fingerprints of a lesson as it was handed out, to detect the learner's work.

use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use serde::Deserialize;
use std::path::PathBuf;

/// Fingerprints of a generated starter and of the lesson's tests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handout {
    /// The fingerprint of `src/lib.rs`.
    pub starter: String,
    /// The fingerprint of all files in `tests`.
    pub tests: String,
}

impl Handout {
    /// Computes the fingerprints of a starter and of the current tests.
    pub fn of(lesson: &Lesson, starter: &str) -> Result<Self> {
        Ok(Self { starter: fingerprint([starter]), tests: tests(lesson)? })
    }

    /// Reads a lesson's `handout.toml`.
    pub fn read(lesson: &Lesson) -> Result<Self> {
        let path = path(lesson);
        toml::from_str(&files::read(&path)?).map_err(|error| Trouble::file(&path, error))
    }

    /// Writes `handout.toml`. Returns true if the file changed.
    pub fn write(&self, lesson: &Lesson) -> Result<bool> {
        files::write(&path(lesson), &self.text())
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        format!(
            "# Written by `cargo xtask lessons generate`: fingerprints of what was handed out, to detect your own work.\n\
             starter = \"{}\"\ntests = \"{}\"\n",
            self.starter, self.tests
        )
    }

    /// Returns true if a text is the starter as handed out.
    pub fn is_starter(&self, text: &str) -> bool {
        self.starter == fingerprint([text])
    }

    /// Returns true if the lesson's tests are as handed out.
    pub fn has_tests_of(&self, lesson: &Lesson) -> Result<bool> {
        Ok(self.tests == tests(lesson)?)
    }
}

fn path(lesson: &Lesson) -> PathBuf {
    lesson.folder.join("handout.toml")
}

fn tests(lesson: &Lesson) -> Result<String> {
    let folder = lesson.folder.join("tests");
    let mut parts = Vec::new();
    for path in
        files::below(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"))
    {
        parts.push(path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().replace('\\', "/"));
        parts.push(files::read(&path)?);
    }
    Ok(fingerprint(parts.iter().map(String::as_str)))
}

/// 64-bit FNV-1a: enough to detect an edit, and the same on every machine.
fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
