//! Writing files atomically.

use super::Failure;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a text file: first to a temporary file in the same folder, which then replaces it.
///
/// Devices and pipes are written directly.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let is_special = path.exists() && !path.is_file() && !path.is_dir();
    let written = if is_special { write_to(path, text) } else { replace(path, text) };
    written.map_err(|error| Failure::failed(format!("{}: cannot write the file: {error}", path.display())))
}

/// Refuses an existing target that is not a regular file, which a new file would replace.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    match path.metadata() {
        Ok(found) if !found.is_file() => {
            let what = if found.is_dir() { "a folder" } else { "not a regular file" };
            Err(Failure::failed(format!("{}: this is {what}; give the path of a file", path.display())))
        }
        _ => Ok(()),
    }
}

/// Checks in advance whether a file can be written at this path.
pub(crate) fn check_new_file(path: &Path) -> Result<(), Failure> {
    check_target(path)?;
    let folder = folder_of(path);
    let refused = |why: String| Err(Failure::failed(format!("{}: cannot write here: {why}", path.display())));
    match folder.metadata() {
        Ok(found) if !found.is_dir() => refused(format!("{} is not a folder", folder.display())),
        Ok(_) => match tempfile::tempfile_in(folder) {
            Ok(_) => Ok(()),
            Err(error) => refused(error.kind().to_string()),
        },
        Err(_) => refused(format!("there is no folder {}", folder.display())),
    }
}

/// Refuses a target that is one of the input files, even under another path.
pub(crate) fn check_kept(
    target: &Path,
    kept: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Result<(), Failure> {
    let place = real_path(target);
    if kept.into_iter().any(|file| real_path(file.as_ref()) == place) {
        let message = format!("{} would be overwritten, but it is one of the inputs", target.display());
        return Err(Failure::unusable(message).advise("choose another file"));
    }
    Ok(())
}

/// The path without links and dots, also of a file that does not exist yet.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let beside = || Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// Creates a folder if it does not exist, and checks whether files can be written in it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    std::fs::create_dir_all(path).map_err(|error| refused(format!("cannot create the folder: {error}")))?;
    let tried = tempfile::tempfile_in(path).map(drop);
    tried.map_err(|error| refused(format!("cannot write in this folder: {}", error.kind())))
}

/// Returns true if a path has this extension, ignoring case.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_to(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::options().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one gets the user's umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // The error must not name the temporary file, which the user does not know.
    let mut file = builder.tempfile_in(folder_of(path)).map_err(|error| io::Error::from(error.kind()))?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.svg");
        write_text(&path, "old").unwrap();
        write_text(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_text(&folder.path().join("no/such/x.svg"), "").is_err());
        assert!(write_text(folder.path(), "").is_err());
    }

    #[test]
    fn targets_are_checked_in_advance() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert!(check_new_file(&file).is_ok() && make_folder(&folder.path().join("a/b")).is_ok());
        std::fs::write(&file, "").unwrap();
        for bad in [folder.path().join("no/x"), file.join("x"), folder.path().to_owned()] {
            assert!(check_new_file(&bad).is_err(), "{}", bad.display());
        }
        assert!(make_folder(&file).is_err());
    }

    #[test]
    fn files_that_were_read_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("x.bin"), folder.path().join("y.bin"));
        std::fs::write(&file, "weights").unwrap();
        let roundabout = folder.path().join(".").join("x.bin");
        assert!(check_kept(&roundabout, [other.as_path(), file.as_path()]).is_err());
        assert!(check_kept(&other, [file.as_path()]).is_ok());
    }

    #[test]
    fn folders_are_refused_as_targets() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_target(folder.path()).is_err());
        assert!(check_target(&folder.path().join("new")).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_stay_devices() {
        write_text(Path::new("/dev/null"), "x").unwrap();
        assert!(check_target(Path::new("/dev/null")).is_err() && !Path::new("/dev/null").is_file());
        assert!(write_text(Path::new("/dev/full"), "x").is_err());
    }
}
