//! File access: errors contain the path, writes are atomic.

use crate::trouble::{Result, Trouble};
use std::fs;
use std::path::{Path, PathBuf};

/// Reads a text file and normalises line ends to `\n`.
pub fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| Trouble::file(path, error))?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
}

/// Writes a file atomically and creates its folders. A file that already has this text is left untouched, so that cargo
/// doesn't rebuild it. Returns true if the file was written.
pub fn write(path: &Path, text: &str) -> Result<bool> {
    if read(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    let failed = |error| Trouble::file(path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.{}.new", std::process::id()));
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).map_err(|error| {
        let _ = fs::remove_file(&draft);
        failed(error)
    })?;
    Ok(true)
}

/// All files below a folder, sorted by path. Empty if the folder does not exist.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
