//! A case on disk: a model, inputs, and the outputs that it should have.

use crate::cli::failure::toml_message;
use ixion::Limits;
use ixion::tensor::Tensor;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The tolerance where neither the command line nor the folder says another, relative and absolute alike.
const TOLERANCE: f64 = 1e-4;

/// The files of a case, found but not read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Folder {
    path: PathBuf,
    pub(super) param: PathBuf,
    pub(super) bin: Option<PathBuf>,
    pub(super) tolerance: f64,
    /// Whether values are compared, and not only shapes and element types.
    pub(super) values: bool,
}

/// The contents of a `case.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    tolerance: Option<f64>,
    values: Option<bool>,
}

impl Folder {
    /// Finds the files of a case. A tolerance on the command line goes before the one in the folder.
    pub(super) fn open(path: &Path, tolerance: Option<f64>) -> Result<Self, String> {
        if !path.is_dir() {
            let what = if path.exists() { "this is no folder" } else { "there is no such folder" };
            return Err(format!("{}: {what}", path.display()));
        }
        let settings = Settings::read(&path.join("case.toml"))?;
        let param = text_in(path)?;
        let bin = Some(ixion::graph::archive_beside(&param)).filter(|bin| bin.is_file());
        let tolerance = tolerance.or(settings.tolerance).unwrap_or(TOLERANCE);
        Ok(Self { path: path.to_owned(), param, bin, tolerance, values: settings.values.unwrap_or(true) })
    }

    /// The arrays `in_0.npy` and so on, as many as the model has inputs.
    pub(super) fn inputs(&self, count: usize, limits: &Limits) -> Result<Vec<Tensor>, String> {
        let found = self.count("in");
        if found != count {
            let path = self.path.display();
            return Err(format!(
                "{path}: the model has {count} inputs, but there are {found} files in_N.npy"
            ));
        }
        self.arrays("in", count, limits)
    }

    /// The arrays `out_0.npy` and so on, as many as there are.
    pub(super) fn outputs(&self, limits: &Limits) -> Result<Vec<Tensor>, String> {
        match self.count("out") {
            0 => Err(format!("{}: there is no out_0.npy to compare with", self.path.display())),
            count => self.arrays("out", count, limits),
        }
    }

    fn count(&self, stem: &str) -> usize {
        (0..).take_while(|index| self.path.join(format!("{stem}_{index}.npy")).is_file()).count()
    }

    fn arrays(&self, stem: &str, count: usize, limits: &Limits) -> Result<Vec<Tensor>, String> {
        let load = |index| Tensor::load_npy(self.path.join(format!("{stem}_{index}.npy")), limits);
        (0..count).map(|index| load(index).map_err(|error| error.to_string())).collect()
    }
}

impl Settings {
    fn read(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("{}: cannot read the file: {error}", path.display())),
        };
        let settings: Self = toml::from_str(&text).map_err(|error| toml_message(path, &text, &error))?;
        match settings.tolerance {
            Some(tolerance) if !(tolerance >= 0.0 && tolerance.is_finite()) => Err(format!(
                "{}: tolerance is {tolerance}, but must be a number of at least 0",
                path.display()
            )),
            _ => Ok(settings),
        }
    }
}

/// The text of the model in a folder: `model.param`, or the only other one.
fn text_in(folder: &Path) -> Result<PathBuf, String> {
    let usual = folder.join("model.param");
    if usual.is_file() {
        return Ok(usual);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let texts: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "param")).collect();
    match <[PathBuf; 1]>::try_from(texts) {
        Ok([text]) => Ok(text),
        Err(texts) => {
            let path = folder.display();
            Err(format!("{path}: there are {} .param files; one, or model.param, is wanted", texts.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_text_is_model_param_or_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::open(folder.path(), None).unwrap_err().contains("there are 0 .param files"));
        fs::write(folder.path().join("net.pnnx.param"), "").unwrap();
        fs::write(folder.path().join("net.pnnx.bin"), "").unwrap();
        let case = Folder::open(folder.path(), None).unwrap();
        assert!(case.param.ends_with("net.pnnx.param") && case.bin.is_some());
        fs::write(folder.path().join("other.param"), "").unwrap();
        assert!(Folder::open(folder.path(), None).unwrap_err().contains("there are 2 .param files"));
        fs::write(folder.path().join("model.param"), "").unwrap();
        let case = Folder::open(folder.path(), None).unwrap();
        assert!(case.param.ends_with("model.param") && case.bin.is_none());
    }

    #[test]
    fn settings_are_read_strictly() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.param"), "").unwrap();
        let open = |text: &str, tolerance| {
            fs::write(folder.path().join("case.toml"), text).unwrap();
            Folder::open(folder.path(), tolerance).map(|case| (case.tolerance, case.values))
        };
        assert_eq!(open("", None), Ok((1e-4, true)));
        assert_eq!(open("tolerance = 1e-3\nvalues = false\n", None), Ok((1e-3, false)));
        assert_eq!(open("tolerance = 1e-3\n", Some(0.5)), Ok((0.5, true)));
        assert!(open("tolerance = -1.0\n", None).is_err());
        assert!(
            open("\ntolerence = 1e-3\n", None)
                .unwrap_err()
                .contains("case.toml:2: unknown field `tolerence`")
        );
    }
}
