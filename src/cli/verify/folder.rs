//! A case on disk: a model, its inputs, and the expected outputs.

use crate::cli::failure::toml_message;
use ixion::Limits;
use ixion::graph::is_onnx;
use ixion::tensor::{DType, Tensor};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The default tolerance, both relative and absolute.
const TOLERANCE: f64 = 1e-4;

/// The files of a case, not read yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Folder {
    path: PathBuf,
    pub(super) param: PathBuf,
    pub(super) bin: Option<PathBuf>,
    pub(super) tolerance: f64,
    /// The tolerance of outputs in double precision.
    doubles: f64,
    /// Whether values are compared, and not only shapes and element types.
    pub(super) values: bool,
}

/// The contents of a `case.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    tolerance: Option<f64>,
    /// The tolerance of outputs in double precision.
    tolerance_f64: Option<f64>,
    values: Option<bool>,
    /// The cargo feature that the case needs, for tools that select cases. Not used here, since the model reports an error
    /// without it.
    #[serde(rename = "feature")]
    _feature: Option<Feature>,
}

/// A cargo feature that operators need.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Feature {
    Linalg,
}

impl Folder {
    /// Finds the files of a case. A tolerance on the command line takes precedence over the one in the folder.
    pub(super) fn open(path: &Path, tolerance: Option<f64>) -> Result<Self, String> {
        if !path.is_dir() {
            let what = if path.exists() { "this is not a folder" } else { "there is no such folder" };
            return Err(format!("{}: {what}", path.display()));
        }
        let settings = Settings::read(&path.join("case.toml"))?;
        let param = model_in(path)?;
        let bin =
            Some(ixion::graph::default_bin_path(&param)).filter(|bin| bin.is_file() && !is_onnx(&param));
        let doubles = tolerance.or(settings.tolerance_f64);
        let tolerance = tolerance.or(settings.tolerance).unwrap_or(TOLERANCE);
        let values = settings.values.unwrap_or(true);
        Ok(Self {
            path: path.to_owned(),
            param,
            bin,
            tolerance,
            doubles: doubles.unwrap_or(tolerance),
            values,
        })
    }

    /// The tolerance of an output.
    pub(super) fn tolerance_of(&self, dtype: DType) -> f64 {
        if matches!(dtype, DType::F64 | DType::C128) { self.doubles } else { self.tolerance }
    }

    /// The sets of inputs and outputs: the first from the files `in_N.npy` and `out_N.npy` or from `arrays.npz`, the others from
    /// `arrays_1.npz`, `arrays_2.npz` and so on. Of an ONNX model also the folders `test_data_set_N` of ONNX's own tests.
    pub(super) fn sets(&self) -> Result<Vec<Set>, String> {
        let folders = (0..).map(|number| self.path.join(format!("test_data_set_{number}")));
        let sets: Vec<Set> = folders.take_while(|folder| folder.is_dir()).map(Set::Onnx).collect();
        if !sets.is_empty() {
            return Ok(sets);
        }
        let (path, packed) = (self.path.display(), self.path.join("arrays.npz"));
        let first = match (packed.is_file(), self.path.join("out_0.npy").is_file()) {
            (true, true) => {
                return Err(format!("{path}: expected only one of arrays.npz and out_0.npy, found both"));
            }
            (true, false) => Set::Packed(packed),
            (false, _) => Set::Loose(self.path.clone()),
        };
        let more = self.further_sets()?;
        let misnumbered = (1..).zip(&more).find(|(wanted, (number, _))| wanted != number);
        if let Some((wanted, (_, found))) = misnumbered {
            let found = found.file_name().unwrap_or_default().to_string_lossy();
            return Err(format!("{path}: expected arrays_{wanted}.npz as the next set, found {found}"));
        }
        Ok(std::iter::once(first).chain(more.into_iter().map(|(_, path)| Set::Packed(path))).collect())
    }

    /// The files `arrays_N.npz`, sorted by their numbers.
    fn further_sets(&self) -> Result<Vec<(usize, PathBuf)>, String> {
        let entries = std::fs::read_dir(&self.path);
        let entries = entries.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let numbered = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.strip_prefix("arrays_")?.strip_suffix(".npz")?;
            // Zeros may fill up a number, as in arrays_01.npz, but it has no sign.
            let number = Some(number).filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))?;
            Some((number.parse().ok()?, path))
        };
        let mut found: Vec<(usize, PathBuf)> =
            entries.flatten().filter_map(|entry| numbered(entry.path())).collect();
        found.sort();
        Ok(found)
    }
}

/// Inputs of a model and the expected outputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Set {
    /// Files `in_N.npy` and `out_N.npy` in this folder.
    Loose(PathBuf),
    /// Arrays `in_N` and `out_N` in this file of `numpy.savez`.
    Packed(PathBuf),
    /// ONNX tensors `input_N.pb` and `output_N.pb` in this folder.
    Onnx(PathBuf),
}

impl Set {
    /// The name of the file, if the folder can have several sets.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Set::Loose(_) => None,
            Set::Packed(path) | Set::Onnx(path) => {
                path.file_name().map(|name| name.to_string_lossy().into_owned())
            }
        }
    }

    /// Loads the inputs, `count` of them, and all outputs, at least one.
    pub(super) fn load(&self, count: usize, limits: &Limits) -> Result<(Vec<Tensor>, Vec<Tensor>), String> {
        let (path, inputs, outputs) = match self {
            Set::Loose(path) => (path, loose(path, "in", limits)?, loose(path, "out", limits)?),
            Set::Packed(path) => {
                let mut arrays = Tensor::load_npz(path, limits).map_err(|error| error.to_string())?;
                (path, packed(&mut arrays, "in"), packed(&mut arrays, "out"))
            }
            Set::Onnx(path) => (path, onnx(path, "input", limits)?, onnx(path, "output", limits)?),
        };
        let (path, found) = (path.display(), inputs.len());
        if found != count {
            let name = if matches!(self, Set::Onnx(_)) { "a tensor input_N.pb" } else { "an array in_N" };
            return Err(format!("{path}: expected {name} for each of {count} inputs, found {found}"));
        }
        if outputs.is_empty() {
            let name = if matches!(self, Set::Onnx(_)) { "output_0.pb" } else { "out_0" };
            return Err(format!("{path}: there is no {name} to compare with"));
        }
        Ok((inputs, outputs))
    }
}

/// The arrays `STEM_0.npy`, `STEM_1.npy` and so on, as many as there are.
fn loose(folder: &Path, stem: &str, limits: &Limits) -> Result<Vec<Tensor>, String> {
    let paths = (0..).map(|index| folder.join(format!("{stem}_{index}.npy")));
    let load = |path| Tensor::load_npy(path, limits).map_err(|error| error.to_string());
    paths.take_while(|path| path.is_file()).map(load).collect()
}

/// The tensors `STEM_0.pb`, `STEM_1.pb` and so on, as many as there are.
fn onnx(folder: &Path, stem: &str, limits: &Limits) -> Result<Vec<Tensor>, String> {
    let paths = (0..).map(|index| folder.join(format!("{stem}_{index}.pb")));
    let load = |path| ixion::onnx::read_tensor(path, limits).map(|(_, tensor)| tensor);
    paths
        .take_while(|path| path.is_file())
        .map(|path| load(path).map_err(|error| error.to_string()))
        .collect()
}

/// The arrays named `STEM_0`, `STEM_1` and so on, as many as there are.
fn packed(arrays: &mut Vec<(String, Tensor)>, stem: &str) -> Vec<Tensor> {
    let mut take = |index: usize| {
        let name = format!("{stem}_{index}");
        let at = arrays.iter().position(|(key, _)| *key == name)?;
        Some(arrays.swap_remove(at).1)
    };
    (0..).map_while(&mut take).collect()
}

impl Settings {
    fn read(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("{}: cannot read the file: {error}", path.display())),
        };
        let settings: Self = toml::from_str(&text).map_err(|error| toml_message(path, &text, &error))?;
        for (key, found) in [("tolerance", settings.tolerance), ("tolerance_f64", settings.tolerance_f64)] {
            if let Some(found) = found.filter(|found| !(*found >= 0.0 && found.is_finite())) {
                return Err(format!(
                    "{}: {key}: expected a finite number of at least 0, got {found}",
                    path.display()
                ));
            }
        }
        Ok(settings)
    }
}

/// The model in a folder: `model.param`, or else the only .param file, the only plan, or the only ONNX file.
fn model_in(folder: &Path) -> Result<PathBuf, String> {
    let usual = folder.join("model.param");
    if usual.is_file() {
        return Ok(usual);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let ending = |wanted: &str| -> Vec<&PathBuf> {
        paths.iter().filter(|path| path.extension().is_some_and(|found| found == wanted)).collect()
    };
    match (&ending("param")[..], &ending("plan")[..], &ending("onnx")[..]) {
        (&[model], _, _) | ([], &[model], _) | ([], [], &[model]) => Ok(model.clone()),
        (texts, _, _) => {
            let path = folder.display();
            Err(format!(
                "{path}: expected model.param or a single .param file, found {} .param files",
                texts.len()
            ))
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
        assert!(Folder::open(folder.path(), None).unwrap_err().contains("found 0 .param files"));
        fs::write(folder.path().join("net.pnnx.param"), "").unwrap();
        fs::write(folder.path().join("net.pnnx.bin"), "").unwrap();
        let case = Folder::open(folder.path(), None).unwrap();
        assert!(case.param.ends_with("net.pnnx.param") && case.bin.is_some());
        fs::write(folder.path().join("other.param"), "").unwrap();
        assert!(Folder::open(folder.path(), None).unwrap_err().contains("found 2 .param files"));
        fs::write(folder.path().join("model.param"), "").unwrap();
        let case = Folder::open(folder.path(), None).unwrap();
        assert!(case.param.ends_with("model.param") && case.bin.is_none());
    }

    #[test]
    fn arrays_are_loose_or_packed_and_of_several_sets() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("model.param", b"");
        let case = Folder::open(folder.path(), None).unwrap();
        let load = |set: &Set| set.load(1, &Limits::default());
        let sets = case.sets().unwrap();
        assert_eq!(sets, [Set::Loose(folder.path().to_owned())]);
        assert!(load(&sets[0]).unwrap_err().contains("expected an array in_N for each of 1 inputs, found 0"));
        let tensor = Tensor::scalar(1f32);
        tensor.save_npy(folder.path().join("in_0.npy")).unwrap();
        assert!(load(&sets[0]).unwrap_err().contains("there is no out_0"));
        tensor.save_npy(folder.path().join("out_0.npy")).unwrap();
        assert_eq!(load(&sets[0]), Ok((vec![tensor.clone()], vec![tensor])));
        write("arrays.npz", b"");
        write("arrays_1.npz", b"");
        assert!(case.sets().unwrap_err().contains("only one of arrays.npz"));
        fs::remove_file(folder.path().join("out_0.npy")).unwrap();
        let names = || -> Vec<Option<String>> { case.sets().unwrap().iter().map(Set::name).collect() };
        assert_eq!(names(), [Some("arrays.npz".to_owned()), Some("arrays_1.npz".to_owned())]);
        fs::remove_file(folder.path().join("arrays.npz")).unwrap();
        assert_eq!(names(), [None, Some("arrays_1.npz".to_owned())], "the first set may be loose");
        write("arrays_02.npz", b"");
        write("arrays_+3.npz", b"");
        assert_eq!(names().len(), 3);
        assert_eq!(names()[2], Some("arrays_02.npz".to_owned()));
        fs::remove_file(folder.path().join("arrays_02.npz")).unwrap();
        write("arrays_3.npz", b"");
        let gap = case.sets().unwrap_err();
        assert!(gap.ends_with("expected arrays_2.npz as the next set, found arrays_3.npz"), "{gap}");
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
        let both = |tolerance| {
            fs::write(folder.path().join("case.toml"), "tolerance_f64 = 1e-9\n").unwrap();
            let case = Folder::open(folder.path(), tolerance).unwrap();
            [DType::F32, DType::C128].map(|dtype| case.tolerance_of(dtype))
        };
        assert_eq!((both(None), both(Some(0.5))), ([1e-4, 1e-9], [0.5, 0.5]));
        assert!(open("tolerance = -1.0\n", None).is_err() && open("tolerance_f64 = inf\n", None).is_err());
        assert!(
            open("\ntolerence = 1e-3\n", None)
                .unwrap_err()
                .contains("case.toml:2: unknown field `tolerence`")
        );
    }
}
