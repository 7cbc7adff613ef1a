//! The scales of a model's operands, and the file that keeps them.

use crate::pnnx::{self, PnnxError, WeightError, replace, write_beside};
use crate::{LimitError, Limits};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The int8 scales of operands: the integer q, from −127 to 127, represents the value scale · q.
///
/// `ixion calibrate` determines them from inputs; the file is JSON. Operands are identified by their names after the passes.
///
/// ```
/// use ixion::engine::Scales;
/// let scales: Scales = [("0", 0.02), ("1", 0.5)].into_iter().collect();
/// assert_eq!(scales.get("1"), Some(0.5));
/// assert_eq!(scales.get("out"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Scales {
    /// The file that they were read from.
    path: Option<PathBuf>,
    model: Option<Fingerprint>,
    method: Option<String>,
    scales: BTreeMap<String, f32>,
    keep: BTreeSet<String>,
}

/// Wherever they come from.
impl PartialEq for Scales {
    fn eq(&self, other: &Self) -> bool {
        let is_of_same = self.model == other.model && self.method == other.method;
        is_of_same && self.scales == other.scales && self.keep == other.keep
    }
}

/// Identifies a model: equal for two models with the same graph and the same weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// CRC-32 of the `.param` text.
    pub graph: u32,
    /// CRC-32 of the checksums of all weights, in the order of the text.
    pub weights: u32,
}

impl Fingerprint {
    /// The fingerprint of a model as in its file, before any pass. Reads all weights.
    ///
    /// # Errors
    /// Returns an error if weights cannot be read or are damaged.
    pub fn of(file: &pnnx::Graph) -> Result<Self, WeightError> {
        let mut weights = crc32fast::Hasher::new();
        for (_, operator) in file.operators() {
            for attribute in operator.attrs().values() {
                weights.update(&attribute.checksum()?.to_le_bytes());
            }
        }
        Ok(Self { graph: crc32fast::hash(file.to_param_text().as_bytes()), weights: weights.finalize() })
    }
}

/// Scales that cannot be loaded, saved or used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ScalesError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: ScalesProblem,
}

/// The problem with a scales file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScalesProblem {
    /// The system refused.
    #[error("cannot {action} the scales: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] PnnxError),
    /// The file is larger than the limits allow.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The text is not JSON, or not a scales file.
    #[error("not a scales file: {0}; create one with `ixion calibrate` from a model and inputs")]
    Syntax(serde_json::Error),
    /// The file has another version.
    #[error(
        "the scales have version {0}, but this version of Ixion reads {VERSION}; calibrate the model again"
    )]
    Version(u32),
    /// A scale is not a positive finite number.
    #[error("the scale of operand `{name}` is {found}; it must be a positive finite number")]
    Scale {
        /// The operand.
        name: String,
        /// The scale.
        found: f32,
    },
}

/// The version of the format that is written and read.
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScalesFile {
    ixion_scales: u32,
    model: Option<Fingerprint>,
    method: Option<String>,
    scales: BTreeMap<String, f32>,
    keep_f32: BTreeSet<String>,
}

impl Scales {
    /// Returns true for a valid scale: positive and finite, with a finite reciprocal.
    pub(in crate::engine) fn is_scale(scale: f32) -> bool {
        scale > 0.0 && scale.is_finite() && (1.0 / scale).is_finite()
    }

    /// The scale for values from −`threshold` to `threshold`; values outside are clipped. `None` if the threshold is too small
    /// or too large for a valid scale.
    pub(super) fn for_threshold(threshold: f32) -> Option<f32> {
        let scale = threshold / 127.0;
        Self::is_scale(scale).then_some(scale)
    }

    /// The scale of an operand, if it has one.
    pub fn get(&self, operand: &str) -> Option<f32> {
        self.scales.get(operand).copied()
    }

    /// The operands with their scales, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f32)> {
        self.scales.iter().map(|(name, &scale)| (name.as_str(), scale))
    }

    /// The number of operands that have a scale.
    pub fn len(&self) -> usize {
        self.scales.len()
    }

    /// Returns true if no operand has a scale.
    pub fn is_empty(&self) -> bool {
        self.scales.is_empty()
    }

    /// Returns true if an operator must stay as in the model, because it loses too much in int8.
    pub fn keeps(&self, operator: &str) -> bool {
        self.keep.contains(operator)
    }

    /// The operators that must stay as in the model, in the order of their names.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.keep.iter().map(String::as_str)
    }

    /// The file that they were read from, if they were.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The model that the scales were computed for, if known.
    pub fn model(&self) -> Option<&Fingerprint> {
        self.model.as_ref()
    }

    /// The calibration method, such as `entropy`, if known.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// Replaces the scales of these operands.
    #[must_use]
    pub(super) fn with_scales(mut self, scales: impl IntoIterator<Item = (String, f32)>) -> Self {
        self.scales.extend(scales);
        self
    }

    /// Sets the model that the scales were computed for.
    #[must_use]
    pub(super) fn with_model(self, model: Fingerprint) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Sets the calibration method.
    #[must_use]
    pub(super) fn with_method(self, method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..self }
    }

    /// Adds operators that must stay as in the model.
    #[must_use]
    pub fn with_kept(mut self, operators: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.keep.extend(operators.into_iter().map(Into::into));
        self
    }

    /// Reads a file written by [`Scales::save`].
    ///
    /// # Errors
    /// Returns a [`ScalesError`] that names the file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScalesError> {
        let path = path.as_ref();
        let scales = Self::read(path).map_err(|problem| problem.of(path))?;
        Ok(Self { path: Some(path.to_owned()), ..scales })
    }

    fn read(path: &Path) -> Result<Self, ScalesProblem> {
        let io = |action| move |source| ScalesProblem::Io { action, source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(io("open"))?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io("read"))?;
        let limits = Limits { max_tensor_bytes: MAX_BYTES, ..Limits::default() };
        limits.check_tensor("the file", bytes.len() as u64)?;
        Self::parse(&bytes)
    }

    /// Parses the text of such a file.
    ///
    /// # Errors
    /// Returns the [`ScalesProblem`] if the text is invalid.
    pub fn parse(text: &[u8]) -> Result<Self, ScalesProblem> {
        let stored: ScalesFile = serde_json::from_slice(text).map_err(ScalesProblem::Syntax)?;
        let ScalesFile { ixion_scales: version, model, method, scales, keep_f32: keep } = stored;
        if version != VERSION {
            return Err(ScalesProblem::Version(version));
        }
        match scales.iter().find(|&(_, &scale)| !Self::is_scale(scale)) {
            Some((name, &found)) => Err(ScalesProblem::Scale { name: name.clone(), found }),
            None => Ok(Self { path: None, model, method, scales, keep }),
        }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Never fails in practice: JSON can represent every scale.
    pub fn to_json(&self) -> Result<String, ScalesProblem> {
        let Self { model, method, scales, keep, path: _ } = self.clone();
        let stored = ScalesFile { ixion_scales: VERSION, model, method, scales, keep_f32: keep };
        let mut text = serde_json::to_string_pretty(&stored).map_err(ScalesProblem::Syntax)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes them to a temporary file next to `path`, which is then renamed, so that readers see the old file or the new one.
    ///
    /// # Errors
    /// Returns a [`ScalesError`] that names the file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ScalesError> {
        let path = path.as_ref();
        let write = || -> Result<(), ScalesProblem> {
            let text = self.to_json()?;
            let file = write_beside(path, |file| {
                let io = |source| PnnxError::Io { path: path.to_owned(), action: "write the scales", source };
                file.write_all(text.as_bytes()).map_err(io)
            })?;
            Ok(replace(file, path)?)
        };
        write().map_err(|problem| problem.of(path))
    }
}

/// A hundred bytes for each of a million operands.
const MAX_BYTES: u64 = 100 << 20;

impl ScalesProblem {
    fn of(self, path: &Path) -> ScalesError {
        ScalesError { path: path.to_owned(), problem: self }
    }
}

/// Drops invalid scales.
impl<N: Into<String>> FromIterator<(N, f32)> for Scales {
    fn from_iter<I: IntoIterator<Item = (N, f32)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().filter(|&(_, scale)| Self::is_scale(scale));
        Self { scales: pairs.map(|(name, scale)| (name.into(), scale)).collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scales() -> Scales {
        let scales: Scales =
            [("0", 0.02), ("x", 1e-12), ("bad", -1.0), ("none", f32::NAN)].into_iter().collect();
        scales.with_kept(["conv1"]).with_method("entropy").with_model(Fingerprint { graph: 7, weights: 9 })
    }

    #[test]
    fn saved_scales_are_loaded_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.scales.json");
        scales().save(&path).unwrap();
        let found = Scales::load(&path).unwrap();
        assert_eq!(found, scales());
        assert_eq!((found.len(), found.get("x"), found.get("bad")), (2, Some(1e-12), None));
        assert!(found.keeps("conv1") && !found.keeps("conv2"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file_and_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        let fails = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Scales::load(&path).unwrap_err().to_string();
            assert!(error.contains("s.json"), "{error}");
            error
        };
        assert!(fails("{").contains("line 1"));
        assert!(fails("{}").contains("ixion_scales"));
        let text = scales().to_json().unwrap();
        assert!(fails(&text.replace("\"ixion_scales\": 1", "\"ixion_scales\": 2")).contains("version 2"));
        assert!(fails(&text.replace("0.02", "-0.02")).contains("operand `0`"));
        assert!(fails(&text.replace("0.02", "1e60")).contains("operand `0`"));
        assert!(fails(&text.replace("keep_f32", "keep")).contains("keep"));
        let missing = Scales::load(folder.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json") && missing.contains("open"), "{missing}");
    }

    #[test]
    fn a_fingerprint_depends_on_weights() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
        let graph = crate::graph::RuntimeGraph::new(model);
        let found = Fingerprint::of(&graph.into_pnnx().unwrap()).unwrap();
        let random = crate::graph::RuntimeGraph::new(model).with_random_weights(1);
        let other = Fingerprint::of(&random.into_pnnx().unwrap()).unwrap();
        assert_eq!(found.graph, other.graph);
        assert_ne!(found.weights, other.weights);
    }
}
