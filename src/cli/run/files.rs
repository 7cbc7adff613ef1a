//! Parsing `[NAME=]FILE` on the command line into files and the inputs that they are for.

use crate::cli::Failure;
use std::path::{Path, PathBuf};

/// A file with one or several inputs.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Source {
    /// The name of the input that it was given for, if any.
    pub(in crate::cli) name: Option<String>,
    pub(in crate::cli) path: PathBuf,
    pub(in crate::cli) kind: Kind,
}

/// The kind of a file, by its extension.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) enum Kind {
    /// A NumPy array.
    Npy,
    /// An archive of NumPy arrays, or the one of this name in it.
    Npz(Option<String>),
    /// A table of numbers.
    Csv,
    /// An image.
    Picture,
}

/// All files given. A folder is replaced by the images in it, sorted by name.
pub(in crate::cli) fn sources(texts: &[String]) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    for text in texts {
        let (name, file) = named(text)?;
        match Path::new(file) {
            folder if folder.is_dir() => {
                let pictures = pictures_in(folder)?.into_iter();
                found.extend(pictures.map(|path| Source { name: name.clone(), path, kind: Kind::Picture }));
            }
            _ => found.push(Source::of(name, file)?),
        }
    }
    Ok(found)
}

/// Splits `[NAME=]FILE`. The part before `=` is a name unless it contains a path separator or the whole text is an existing
/// file.
fn named(text: &str) -> Result<(Option<String>, &str), Failure> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains(['/', '\\']));
    let (name, file) = match named {
        Some((name, file)) if !Path::new(text).exists() => (Some(name.to_owned()), file),
        _ => (None, text),
    };
    if file.is_empty() {
        return Err(Failure::unusable(format!("--input {text}: expected a file after `=`")));
    }
    Ok((name, file))
}

fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable =
        |error| Failure::unusable(format!("{}: cannot read the folder: {error}", folder.display()));
    let mut pictures = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && matches!(kind(&path, None), Ok(Kind::Picture)) {
            pictures.push(path);
        }
    }
    if pictures.is_empty() {
        let message = format!("{}: there is no .png or .jpg in this folder", folder.display());
        return Err(Failure::unusable(message));
    }
    pictures.sort();
    Ok(pictures)
}

impl Source {
    pub(super) fn is_picture(&self) -> bool {
        self.kind == Kind::Picture
    }

    /// A file that is for the next input, whatever characters its path has.
    pub(in crate::cli) fn file(path: &Path) -> Result<Self, Failure> {
        Ok(Self { name: None, path: path.to_owned(), kind: kind(path, None)? })
    }

    fn of(name: Option<String>, file: &str) -> Result<Self, Failure> {
        let (file, entry) = match file.rsplit_once(".npz:") {
            Some((stem, entry)) => (format!("{stem}.npz"), Some(entry.to_owned())),
            None => (file.to_owned(), None),
        };
        let path = PathBuf::from(file);
        let kind = kind(&path, entry)?;
        Ok(Self { name, path, kind })
    }
}

fn kind(path: &Path, entry: Option<String>) -> Result<Kind, Failure> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match extension.as_str() {
        "npy" => Ok(Kind::Npy),
        "npz" => Ok(Kind::Npz(entry)),
        "csv" => Ok(Kind::Csv),
        "png" | "jpg" | "jpeg" => Ok(Kind::Picture),
        _ => {
            let message = format!(
                "{}: inputs are .npy, .npz, .csv, .png or .jpg files, or a folder of images",
                path.display()
            );
            Err(Failure::unusable(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Option<String>, String, Kind) {
        let source = sources(&[text.to_owned()]).unwrap().remove(0);
        (source.name, source.path.display().to_string(), source.kind)
    }

    #[test]
    fn names_and_entries_are_split_off() {
        assert_eq!(parse("a.npy"), (None, "a.npy".into(), Kind::Npy));
        assert_eq!(parse("x=a.JPG"), (Some("x".into()), "a.JPG".into(), Kind::Picture));
        assert_eq!(parse("x=b=c.csv"), (Some("x".into()), "b=c.csv".into(), Kind::Csv));
        assert_eq!(parse("dir=1/a.npy"), (Some("dir".into()), "1/a.npy".into(), Kind::Npy));
        assert_eq!(parse("./dir=1/a.npy"), (None, "./dir=1/a.npy".into(), Kind::Npy));
        assert_eq!(
            parse("x=z.npz:first"),
            (Some("x".into()), "z.npz".into(), Kind::Npz(Some("first".into())))
        );
        assert_eq!(parse("z.npz"), (None, "z.npz".into(), Kind::Npz(None)));
    }

    #[test]
    fn files_of_unknown_kinds_are_refused() {
        for text in ["x=", "model.param", "a.txt", "npy"] {
            assert!(sources(&[text.to_owned()]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_folder_is_replaced_by_its_images() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("x={}", folder.path().display());
        assert!(sources(std::slice::from_ref(&text)).is_err());
        for name in ["b.PNG", "a.jpeg", "c.txt", "d.npy"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("e.png")).unwrap();
        let found = sources(&[text]).unwrap();
        let names: Vec<_> = found.iter().filter_map(|source| source.path.file_name()).collect();
        assert_eq!(names, ["a.jpeg", "b.PNG"]);
        assert!(
            found.iter().all(|source| source.name.as_deref() == Some("x") && source.kind == Kind::Picture)
        );
    }
}
