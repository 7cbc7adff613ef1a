//! `lesson.toml`: a lesson's title, its tasks with their hints, and the planted mistakes that its tests must catch.

use crate::files;
use crate::trouble::{Result, Trouble};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// A lesson as its `lesson.toml` describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// The title, as the board shows it.
    pub title: String,
    /// The page of the book, relative to `book/src`.
    pub page: String,
    /// The number of hours that a learner needs.
    pub hours: Hours,
    /// The tasks, in order.
    #[serde(rename = "task", default)]
    pub tasks: Vec<Task>,
    /// Planted mistakes.
    #[serde(rename = "wrong", default)]
    pub wrongs: Vec<Wrong>,
    /// The number in the folder's name.
    #[serde(skip)]
    pub number: u32,
    /// The folder.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A range of hours, written as `[2, 3]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "[u32; 2]")]
pub struct Hours {
    /// The hours of a quick learner.
    pub least: u32,
    /// The hours of a thorough learner.
    pub most: u32,
}

impl TryFrom<[u32; 2]> for Hours {
    type Error = String;

    fn try_from([least, most]: [u32; 2]) -> std::result::Result<Self, String> {
        match 0 < least && least <= most {
            true => Ok(Self { least, most }),
            false => Err(format!("hours: expected a range such as [2, 3], not [{least}, {most}]")),
        }
    }
}

impl Hours {
    /// In words, as on a page: `two to three hours`.
    pub fn in_words(self) -> String {
        const WORDS: [&str; 9] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];
        let word = |number: u32| match WORDS.get(number as usize) {
            Some(word) => (*word).to_owned(),
            None => number.to_string(),
        };
        match self {
            Self { least: 1, most: 1 } => "one hour".to_owned(),
            Self { least, most } if least == most => format!("{} hours", word(most)),
            Self { least, most } => format!("{} to {} hours", word(least), word(most)),
        }
    }
}

/// In digits: `2–3 h`.
impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => f.pad(&format!("{} h", self.most)),
            false => f.pad(&format!("{}–{} h", self.least, self.most)),
        }
    }
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The number, counted from 1.
    pub number: u32,
    /// The title, as in the page's heading.
    pub title: String,
    /// Two or three hints, from vague to nearly the code.
    pub hints: Vec<String>,
}

/// A wrong solution: the correct solution with one piece of text replaced.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// The task whose tests must fail.
    pub task: u32,
    /// A description of the mistake.
    pub why: String,
    /// Text that occurs exactly once in the solution.
    pub find: String,
    /// The replacement.
    pub put: String,
}

impl Lesson {
    /// Reads the lesson in `folder`, whose name begins with its number: `08_conv`.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.split('_').next().and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| {
            Trouble::file(folder, "the name of a lesson's folder begins with its number, as in 08_conv")
        })?;
        let path = folder.join("lesson.toml");
        let lesson = toml::from_str(&files::read(&path)?).map_err(|error| Trouble::file(&path, error))?;
        Ok(Self { number, folder: folder.to_path_buf(), ..lesson })
    }

    /// The name of the package and crate: `lesson08`.
    pub fn package(&self) -> String {
        format!("lesson{:02}", self.number)
    }

    /// The folder's name: `08_conv`.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file that the learner edits.
    pub fn work(&self) -> PathBuf {
        self.folder.join("src").join("lib.rs")
    }

    /// The task with this number.
    pub fn task(&self, number: u32) -> Option<&Task> {
        self.tasks.iter().find(|task| task.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::Hours;

    #[test]
    fn hours_are_said_in_words_and_in_digits() {
        let said =
            |hours: [u32; 2]| Hours::try_from(hours).map(|hours| format!("{} ({hours})", hours.in_words()));
        assert_eq!(said([1, 1]).unwrap(), "one hour (1 h)");
        assert_eq!(said([2, 2]).unwrap(), "two hours (2 h)");
        assert_eq!(said([3, 10]).unwrap(), "three to 10 hours (3–10 h)");
        assert!(said([3, 2]).unwrap_err().contains("not [3, 2]"));
        assert!(said([0, 2]).is_err());
    }
}
