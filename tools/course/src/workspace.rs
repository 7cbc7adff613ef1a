//! The repository and its lessons.

use crate::lesson::Lesson;
use crate::part::{self, Part};
use crate::trouble::{Result, Trouble};
use std::path::{Path, PathBuf};

/// The repository.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub root: PathBuf,
}

impl Workspace {
    /// The repository that `start` is in: the nearest folder upwards that has `lessons` and a `Cargo.toml`.
    pub fn find(start: &Path) -> Result<Self> {
        let is_root = |folder: &&Path| folder.join("lessons").is_dir() && folder.join("Cargo.toml").is_file();
        match start.ancestors().find(is_root) {
            Some(root) => Ok(Self { root: root.to_path_buf() }),
            None => Err(Trouble::new(format!("{} is not inside the course's repository", start.display()))
                .next("Change into the folder that you cloned, then run the command again.")),
        }
    }

    /// The lessons, by number.
    pub fn lessons(&self) -> Result<Vec<Lesson>> {
        let folder = self.root.join("lessons");
        let entries = std::fs::read_dir(&folder).map_err(|error| Trouble::file(&folder, error))?;
        let folders =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.join("lesson.toml").is_file());
        let mut lessons = folders.map(|folder| Lesson::read(&folder)).collect::<Result<Vec<_>>>()?;
        lessons.sort_by_key(|lesson| lesson.number);
        Ok(lessons)
    }

    /// The parts of the course, in order.
    pub fn parts(&self) -> Result<Vec<Part>> {
        part::read(&self.root.join("lessons"))
    }

    /// Finds a lesson by number or name: `8`, `08`, `lesson08`, `08_conv` and `conv` are equivalent.
    pub fn lesson(&self, wanted: &str) -> Result<Lesson> {
        find(&self.lessons()?, wanted)
    }

    /// The folder for the learner's state: hints that were shown, and backups.
    pub fn notes(&self) -> PathBuf {
        self.root.join(".learn")
    }

    /// A path relative to the repository, with `/` between its parts, as messages show it.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}

/// Finds a lesson by its number, its name, or the path of one of its files.
pub fn find(lessons: &[Lesson], wanted: &str) -> Result<Lesson> {
    if let Some(lesson) = lesson_of_path(lessons, Path::new(&wanted.replace('\\', "/"))) {
        return Ok(lesson.clone());
    }
    let typed = wanted.trim().to_lowercase();
    let number: Option<u32> = typed.strip_prefix("lesson").unwrap_or(&typed).trim().parse().ok();
    let is_meant = |lesson: &&Lesson| Some(lesson.number) == number;
    if let Some(lesson) = lessons.iter().find(is_meant) {
        return Ok(lesson.clone());
    }
    let alike = |lesson: &&Lesson| {
        !typed.is_empty() && (lesson.name().contains(&typed) || lesson.title.to_lowercase().contains(&typed))
    };
    match lessons.iter().filter(alike).collect::<Vec<_>>()[..] {
        [lesson] => Ok(lesson.clone()),
        [] => Err(unknown(lessons, wanted, &typed)),
        ref several => {
            let names: Vec<String> = several.iter().map(|lesson| lesson.name()).collect();
            Err(Trouble::new(format!("'{wanted}' could be {}", names.join(" or "))).next("Give its number."))
        }
    }
}

/// The lesson whose folder a path goes through.
pub fn lesson_of_path<'a>(lessons: &'a [Lesson], path: &Path) -> Option<&'a Lesson> {
    lessons.iter().find(|lesson| path.iter().any(|part| *part == *lesson.name()))
}

fn unknown(lessons: &[Lesson], wanted: &str, typed: &str) -> Trouble {
    let words = lessons.iter().flat_map(|lesson| {
        let title = lesson.title.to_lowercase();
        let words = format!("{title} {} {}", lesson.name().replace('_', " "), lesson.package());
        words.split_whitespace().map(|word| (word.to_owned(), lesson)).collect::<Vec<_>>()
    });
    let words: Vec<(String, &Lesson)> = words.filter(|(word, _)| word.len() > 2).collect();
    let near = nearest(typed, words.iter().map(|(word, _)| word.as_str()));
    let near = near.and_then(|near| words.iter().find(|(word, _)| word == near));
    let trouble = Trouble::new(format!("there is no lesson '{wanted}'"));
    match (near, lessons.first().zip(lessons.last())) {
        (Some((_, lesson)), _) => trouble.next(format!("Did you mean {}, {}?", lesson.number, lesson.title)),
        (None, Some((first, last))) => trouble.next(format!(
            "Lessons are numbered {} to {}; `cargo learn` lists them.",
            first.number, last.number
        )),
        (None, None) => trouble.next("There are no lessons yet."),
    }
}

/// The name most similar to a mistyped one, if any is similar enough.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::jaro_winkler(wanted, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.75).map(|(_, name)| name)
}
