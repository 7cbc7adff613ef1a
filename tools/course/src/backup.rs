//! Backups of the learner's work, made before a file is replaced.

use crate::files;
use crate::lesson::Lesson;
use crate::trouble::Result;
use crate::workspace::Workspace;
use std::path::PathBuf;

fn path(workspace: &Workspace, lesson: &Lesson, number: usize) -> PathBuf {
    workspace.notes().join("backup").join(format!("{}-{number}.rs", lesson.name()))
}

fn existing(workspace: &Workspace, lesson: &Lesson) -> impl Iterator<Item = PathBuf> {
    (1..).map(move |number| path(workspace, lesson, number)).take_while(|path| path.exists())
}

/// Backs up a text and returns the path of the copy. A text that has a backup already isn't copied again.
pub fn keep(workspace: &Workspace, lesson: &Lesson, text: &str) -> Result<PathBuf> {
    let same = existing(workspace, lesson).find(|path| files::read(path).is_ok_and(|old| old == text));
    if let Some(same) = same {
        return Ok(same);
    }
    let next = path(workspace, lesson, existing(workspace, lesson).count() + 1);
    files::write(&next, text)?;
    Ok(next)
}

/// The most recent backup.
pub fn newest(workspace: &Workspace, lesson: &Lesson) -> Option<PathBuf> {
    existing(workspace, lesson).last()
}
