//! Comparing models with stored results: `ixion.verify`.

use crate::command::{option, output};
use crate::error::{Error, InputError, OrRaise};
use crate::given::{self, Count};
use crate::pickling::{Reduced, reduced};
use crate::progress::Bar;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Adds the classes and the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Case>()?;
    module.add_class::<Report>()?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(restore_case, module)?)?;
    module.add_function(wrap_pyfunction!(restore_report, module)?)
}

/// A case that ran.
///
/// Attributes
/// ----------
/// name : str
///     The name of its folder.
/// folder : str
///     The folder.
/// verdict : str
///     ``pass``, ``fail`` (an output differs) or ``error`` (no outputs could be compared).
/// kind : str or None
///     The kind of an error: ``read``, ``unsupported``, ``build``, ``run`` or ``panic``.
/// reason : str or None
///     Why the case does not pass.
/// suspects : list of str
///     For ``fail``: operators that may be wrong.
/// unsupported : list of str
///     The types of operators that have no layer, or none on the device.
/// max_abs_diff : float or None
///     The largest absolute difference of all outputs that could be compared; may be inf or nan.
/// seconds : float
///     The time that the case took.
#[pyclass(frozen, get_all, module = "ixion")]
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    name: String,
    folder: String,
    verdict: String,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    suspects: Vec<String>,
    #[serde(default)]
    unsupported: Vec<String>,
    #[serde(default, deserialize_with = "number")]
    max_abs_diff: Option<f64>,
    seconds: f64,
}

/// The fields of a case, in their order.
type CaseFields =
    (String, String, String, Option<String>, Option<String>, Vec<String>, Vec<String>, Option<f64>, f64);

/// A number, or the text that stands for one that JSON does not have.
fn number<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<f64>, D::Error> {
    Ok(match Value::deserialize(reader)? {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    })
}

impl Case {
    fn of(fields: CaseFields) -> Self {
        let (name, folder, verdict, kind, reason, suspects, unsupported, max_abs_diff, seconds) = fields;
        Self { name, folder, verdict, kind, reason, suspects, unsupported, max_abs_diff, seconds }
    }

    fn fields(&self) -> CaseFields {
        let Self { name, folder, verdict, kind, reason, suspects, unsupported, max_abs_diff, seconds } =
            self.clone();
        (name, folder, verdict, kind, reason, suspects, unsupported, max_abs_diff, seconds)
    }

    fn passes(&self) -> bool {
        self.verdict == "pass"
    }

    /// The case in a line.
    fn line(&self) -> String {
        let verdict = match &self.kind {
            Some(kind) => format!("{} ({kind})", self.verdict),
            None => self.verdict.clone(),
        };
        let diff = self.max_abs_diff.map(|diff| format!("max difference {diff:.3e}"));
        let details: Vec<String> =
            diff.into_iter().chain(self.reason.clone()).chain(self.suspects.iter().cloned()).collect();
        format!("{}: {verdict}: {}", self.name, details.join("; "))
    }
}

#[pymethods]
impl Case {
    /// True if the case passes.
    fn __bool__(&self) -> bool {
        self.passes()
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Case {}>", self.line())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, "_restore_case", self.fields())
    }
}

/// The results of all cases.
///
/// A report is true if all cases pass: ``assert ixion.verify("cases/relu")``. Printed, it has a line for each case.
///
/// Attributes
/// ----------
/// cases : list of Case
///     In the order of the folders.
/// passed, failed : int
///     The numbers of cases that pass and that do not.
/// unsupported : dict of str to int
///     The types of operators that have no layer, each with the number of cases that need it.
#[pyclass(frozen, get_all, module = "ixion")]
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Report {
    cases: Vec<Case>,
    passed: usize,
    failed: usize,
    unsupported: BTreeMap<String, usize>,
}

#[pymethods]
impl Report {
    /// True if all cases pass.
    fn __bool__(&self) -> bool {
        self.failed == 0
    }

    /// The number of cases.
    fn __len__(&self) -> usize {
        self.cases.len()
    }

    fn __repr__(&self) -> String {
        let first = self.cases.iter().find(|case| !case.passes());
        let first = first.map_or_else(String::new, |case| format!("; {}", case.line()));
        format!("<ixion.Report {} passed, {} failed{first}>", self.passed, self.failed)
    }

    fn __str__(&self) -> String {
        let counts = format!("{} passed, {} failed", self.passed, self.failed);
        self.cases.iter().map(Case::line).chain([counts]).collect::<Vec<_>>().join("\n")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let cases: Vec<CaseFields> = self.cases.iter().map(Case::fields).collect();
        reduced(py, "_restore_report", (cases, self.passed, self.failed, self.unsupported.clone()))
    }
}

/// Unpickles a case.
#[pyfunction]
#[pyo3(name = "_restore_case")]
fn restore_case(fields: CaseFields) -> Case {
    Case::of(fields)
}

/// Unpickles a report.
#[pyfunction]
#[pyo3(name = "_restore_report")]
fn restore_report(fields: (Vec<CaseFields>, usize, usize, BTreeMap<String, usize>)) -> Report {
    let (cases, passed, failed, unsupported) = fields;
    Report { cases: cases.into_iter().map(Case::of).collect(), passed, failed, unsupported }
}

/// Run models on stored inputs and compare the outputs with stored ones.
///
/// A case is a folder with ``model.param`` (or a single other ``.param``, or a single ``.plan``) and its archive; inputs
/// ``in_0.npy``, ``in_1.npy``, …; and the expected outputs ``out_0.npy``, …, or an ``arrays.npz`` with all of them.
/// ``case.toml`` may set its tolerance; ``ixion verify --help`` has the details.
///
/// Parameters
/// ----------
/// folders : path or iterable of paths
///     The folders of the cases.
/// tolerance : float, optional
///     The relative and absolute tolerance of all cases. Default: that of the case, or 1e-4.
/// jobs : int, optional
///     The number of cases that run at the same time. Default: the number of processors.
/// interpret : bool or "optimised"
///     Interpret the file's graph operator by operator instead of running a plan; with ``"optimised"``, the graph after
///     all passes.
/// precision : str or sequence of str
///     Element types that the engine may use besides f32: ``f16``, ``bf16``, ``int8``.
/// scales : Scales, path or dict
///     What ``ixion.calibrate`` found; required by ``int8``.
/// device : str, optional
///     The device that runs the cases, such as ``cuda``.
/// plugins : path or sequence of paths
///     Libraries of further operators. Their code runs, so load only what you trust.
/// checksums : bool
///     Verify the checksums of the weights first.
/// timeout : float, optional
///     The longest time for a case, in seconds.
/// progress : callable, optional
///     Such as ``tqdm.tqdm``: called with ``total``, the number of cases; its result with ``update(1)`` after each, and
///     ``close()`` at the end.
///
/// Returns
/// -------
/// Report
///     What does not pass is in the report and raises nothing.
///
/// Raises
/// ------
/// ixion.InputError
///     If an argument cannot be used.
/// ixion.PluginError
///     If a library is not a plugin.
#[pyfunction]
#[pyo3(
    signature = (
        folders, *, tolerance=None, jobs=None, interpret=None, precision=None, scales=None, device=None, plugins=None,
        checksums=false, timeout=None, progress=None
    ),
    text_signature = "(folders, *, tolerance=None, jobs=None, interpret=None, precision=(), scales=None, device=None, \
                      plugins=(), checksums=False, timeout=None, progress=None)"
)]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
fn verify(
    py: Python<'_>,
    folders: &Bound<'_, PyAny>,
    tolerance: Option<f64>,
    jobs: Option<Count<u16>>,
    interpret: Option<&Bound<'_, PyAny>>,
    precision: Option<&Bound<'_, PyAny>>,
    scales: Option<&Bound<'_, PyAny>>,
    device: Option<String>,
    plugins: Option<&Bound<'_, PyAny>>,
    checksums: bool,
    timeout: Option<f64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let folders = given::paths(folders, "folders")?;
    let precision = precision.map(|given| given::names(given, "precision")).transpose()?;
    let plugins = plugins.map(|given| given::paths(given, "plugins")).transpose()?;
    let interpret = interpret.map(graph_of).transpose()?.flatten();
    let bar = Bar::new(progress)?;
    if folders.is_empty() {
        return Ok(Report { cases: Vec::new(), passed: 0, failed: 0, unsupported: BTreeMap::new() });
    }
    let scales = scales.map(ScalesFile::new).transpose()?;
    let mut words: Vec<OsString> = vec!["verify".into(), "--json".into()];
    words.extend(tolerance.map(|it| option("--tolerance", it.to_string())));
    words.extend(jobs.map(|it| option("--jobs", it.0.to_string())));
    words.extend(timeout.map(|it| option("--timeout", it.to_string())));
    words.extend(interpret.map(|it| option("--interpret", it)));
    words.extend(precision.into_iter().flatten().map(|it| option("--precision", it)));
    words.extend(scales.iter().map(|it| option("--scales", it.path.clone())));
    words.extend(device.map(|it| option("--device", it)));
    words.extend(plugins.into_iter().flatten().map(|it| option("--plugin", it)));
    words.extend(checksums.then(|| OsString::from("--checksums")));
    words.push("--".into());
    words.extend(folders.into_iter().map(OsString::from));
    let text = output(py, words, bar);
    let closed = scales.map_or(Ok(()), ScalesFile::close);
    let text = text?;
    closed?;
    serde_json::from_slice(&text).map_err(|error| Error::new_err(error.to_string()))
}

/// A file of scales: that of the program, or one for scales that are in memory.
struct ScalesFile<'py> {
    path: PathBuf,
    /// The temporary folder of the file.
    folder: Option<Bound<'py, PyAny>>,
}

impl<'py> ScalesFile<'py> {
    fn new(scales: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = scales.extract::<PathBuf>() {
            return Ok(Self { path, folder: None });
        }
        let found = given::scales(scales)?;
        let folder = scales.py().import("tempfile")?.call_method0("TemporaryDirectory")?;
        let path = folder.getattr("name")?.extract::<PathBuf>()?.join("scales.json");
        found.save(&path).or_raise()?;
        Ok(Self { path, folder: Some(folder) })
    }

    /// Removes the temporary folder.
    fn close(self) -> PyResult<()> {
        match self.folder {
            Some(folder) => folder.call_method0("cleanup").map(|_| ()),
            None => Ok(()),
        }
    }
}

/// The graph to interpret, by its name in `--interpret`; `None` for a plan.
fn graph_of(interpret: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    if let Ok(name) = interpret.cast::<PyString>() {
        return match name.to_string().as_str() {
            "plain" => Ok(Some("plain")),
            "optimised" => Ok(Some("optimised")),
            other => Err(InputError::new_err(format!(
                "interpret: expected a bool, \"plain\" or \"optimised\", got \"{other}\""
            ))),
        };
    }
    Ok(interpret.extract::<bool>()?.then_some("plain"))
}
