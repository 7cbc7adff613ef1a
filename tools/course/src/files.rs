//! Files: read with the path in the error, written atomically.

use crate::trouble::{Result, Trouble};
use std::fs;
use std::path::{Path, PathBuf};

/// The text of a file, with `\n` as the only end of a line.
pub fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| Trouble::file(path, error))?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
}

/// Writes a file as a whole or not at all, with the folders that it needs. A file that already has this text is left as
/// it is, so that cargo doesn't build it again; the result says whether anything was written.
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

/// All files below a folder, sorted by path; none if there is no such folder.
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
