//! Where the repository is, and what lessons it has.

use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use std::path::{Path, PathBuf};

/// The repository.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub root: PathBuf,
}

impl Workspace {
    /// The repository that `start` is in: the nearest folder upwards that has `lessons` and `tools/course`.
    pub fn find(start: &Path) -> Result<Self> {
        let is_root = |folder: &&Path| folder.join("lessons").is_dir() && folder.join("Cargo.toml").is_file();
        match start.ancestors().find(is_root) {
            Some(root) => Ok(Self { root: root.to_path_buf() }),
            None => {
                Err(Trouble::new(format!("{} is not inside of the course's repository", start.display()))
                    .next("Change into the folder that you cloned, then call the command again."))
            }
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

    /// Where notes for the learner are kept: hints that were shown, copies of work.
    pub fn notes(&self) -> PathBuf {
        self.root.join(".learn")
    }

    /// A path relative to the repository, with `/` between its parts, as messages show it.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}

/// The name that is most like a mistyped one, if any is alike.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::jaro_winkler(wanted, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.75).map(|(_, name)| name)
}
