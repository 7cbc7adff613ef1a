//! The parts of the course, as listed in `lessons/parts.toml`.

use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use serde::Deserialize;
use std::path::Path;

/// A group of consecutive lessons.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The title, as the board shows it.
    pub title: String,
    /// The number of its first lesson. The part ends before the first lesson of the next part.
    pub first: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(rename = "part", default)]
    parts: Vec<Part>,
}

/// Reads the parts of the lessons in `folder`, in order. Returns none if there is no `parts.toml`.
pub fn read(folder: &Path) -> Result<Vec<Part>> {
    let path = folder.join("parts.toml");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let Parts { parts } =
        toml::from_str(&files::read(&path)?).map_err(|error| Trouble::file(&path, error))?;
    match parts.is_sorted_by(|part, next| part.first < next.first) {
        true => Ok(parts),
        false => Err(Trouble::file(&path, "the first lessons of the parts must be in ascending order")),
    }
}

/// The number of a lesson's part, counted from 1, or `None` if the lesson precedes the first part.
pub fn of(parts: &[Part], lesson: &Lesson) -> Option<usize> {
    Some(parts.partition_point(|part| part.first <= lesson.number)).filter(|&number| number > 0)
}
