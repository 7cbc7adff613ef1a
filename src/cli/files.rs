//! Writing files so that nothing half-written is ever left.

use super::failure::Failure;
use std::io::{self, Write};
use std::path::Path;

/// Writes a text file: to a temporary file beside its place first, which then takes its place.
///
/// A device or pipe is written to directly.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let is_special = path.exists() && !path.is_file() && !path.is_dir();
    let written = if is_special { write_to(path, text) } else { replace(path, text) };
    written.map_err(|error| Failure::failed(format!("{}: cannot write the file: {error}", path.display())))
}

/// Refuses a target that is there and no ordinary file: a new file would take its place.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    match path.metadata() {
        Ok(found) if !found.is_file() => {
            let what = if found.is_dir() { "a folder" } else { "no ordinary file" };
            Err(Failure::failed(format!("{}: this is {what}; give the path of a file", path.display())))
        }
        _ => Ok(()),
    }
}

fn write_to(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::options().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one is to end as an ordinary file under the user's umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(parent)?;
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
    fn folders_and_devices_are_no_targets() {
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
