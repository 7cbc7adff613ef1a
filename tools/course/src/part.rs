//! The parts of the course, which `lessons/parts.toml` names.

use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use serde::Deserialize;
use std::path::Path;

/// Lessons that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The title, as the board shows it.
    pub title: String,
    /// The number of its first lesson. It goes up to the first one of the next part.
    pub first: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(rename = "part", default)]
    parts: Vec<Part>,
}

/// Reads the parts of the lessons in `folder`, in order; none where nobody named any.
pub fn read(folder: &Path) -> Result<Vec<Part>> {
    let path = folder.join("parts.toml");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let Parts { parts } =
        toml::from_str(&files::read(&path)?).map_err(|error| Trouble::file(&path, error))?;
    match parts.is_sorted_by(|part, next| part.first < next.first) {
        true => Ok(parts),
        false => Err(Trouble::file(&path, "each part begins with a later lesson than the one before")),
    }
}

/// The number of the part that a lesson belongs to, counted from 1; none ahead of the first part.
pub fn of(parts: &[Part], lesson: &Lesson) -> Option<usize> {
    Some(parts.partition_point(|part| part.first <= lesson.number)).filter(|&number| number > 0)
}
