//! `handout.toml`: what a lesson was when it was handed out, so that the learner's work can be told from it.

use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use serde::Deserialize;
use std::path::PathBuf;

/// Fingerprints of what is generated, and of the tests that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handout {
    /// Of `src/lib.rs`.
    pub starter: String,
    /// Of all files in `tests`.
    pub tests: String,
}

impl Handout {
    /// The fingerprints of a starter and of the tests as they are.
    pub fn of(lesson: &Lesson, starter: &str) -> Result<Self> {
        Ok(Self { starter: fingerprint([starter]), tests: tests(lesson)? })
    }

    /// What was written down for a lesson.
    pub fn read(lesson: &Lesson) -> Result<Self> {
        let path = path(lesson);
        toml::from_str(&files::read(&path)?).map_err(|error| Trouble::file(&path, error))
    }

    /// Writes it down; the result says whether anything changed.
    pub fn write(&self, lesson: &Lesson) -> Result<bool> {
        files::write(&path(lesson), &self.text())
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        format!(
            "# Written by `cargo xtask lessons generate`: what was handed out, so that your work can be told from it.\n\
             starter = \"{}\"\ntests = \"{}\"\n",
            self.starter, self.tests
        )
    }

    /// Whether a text is the starter as it was handed out.
    pub fn is_starter(&self, text: &str) -> bool {
        self.starter == fingerprint([text])
    }

    /// Whether the tests are as they were handed out.
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

/// FNV-1a with 64 bits: enough to notice an edit, and the same on every machine.
fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
