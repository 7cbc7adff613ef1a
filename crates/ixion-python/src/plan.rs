//! Plans: models that are built, in memory or in a file.

use crate::built::{Built, Mapped};
use crate::error::{InputError, LimitError, OrRaise};
use crate::given;
use crate::options::Options;
use crate::ports::TensorInfo;
use crate::process;
use ixion::engine::{EngineError, PlanFile, PlanFileError};
use ixion::{CancelToken, Error};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TensorInfo>()?;
    module.add_class::<Plan>()?;
    module.add_function(wrap_pyfunction!(build, module)?)?;
    module.add_function(wrap_pyfunction!(restore_plan, module)?)
}

/// A model that is built: a graph after all passes, with weights, layouts and tactics. It does not change: any number of models,
/// contexts and threads can share it.
///
/// ``ixion.build`` builds one, and ``ixion.Model`` runs it. ``save`` writes it to a file, which ``load`` (or ``ixion.load``) reads
/// in milliseconds. It can be pickled; a copy is the plan itself.
#[pyclass(module = "ixion", frozen, weakref)]
pub(crate) struct Plan {
    pub(crate) built: Arc<Built>,
    /// The options that it is loaded with in another process.
    options: Option<Py<PyDict>>,
}

impl Plan {
    /// A plan, which has mapped a file or none, and is loaded with these options in another process. Logs its warnings.
    pub(crate) fn new(
        py: Python<'_>,
        plan: ixion::Plan,
        mapped: Option<Mapped>,
        options: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        warn(py, &plan)?;
        Ok(Self { built: Built::new(plan, mapped), options: options.map(Bound::unbind) })
    }
}

/// Logs the warnings of a plan by Python's logger `ixion`.
fn warn(py: Python<'_>, plan: &ixion::Plan) -> PyResult<()> {
    if plan.warnings().is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("ixion",))?;
    for warning in plan.warnings() {
        logger.call_method1("warning", ("%s", warning.message()))?;
    }
    Ok(())
}

#[pymethods]
impl Plan {
    /// Load a plan that ``save`` wrote.
    ///
    /// With ``map``, its weights stay in the file's pages, which all processes that map the file share; the file must not be
    /// modified meanwhile. ``verify`` checks the weights against their checksums first.
    ///
    /// Raises ``PlanError`` if the file is damaged, or was written by another version.
    #[staticmethod]
    #[pyo3(
        signature = (path, **options),
        text_signature = "(path, *, threads=1, device=None, tf32=None, check_kernels=False, plugins=(), limits=None, map=False, verify=False)"
    )]
    fn load(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        load(py, &path, options)
    }

    /// Load a plan from what ``to_bytes`` returned: bytes, or another object with a buffer. The bytes are written to a temporary
    /// file, which ``map`` keeps in use. Options are those of ``load``.
    ///
    /// Raises ``PlanError`` if the bytes are damaged, or were written by another version.
    #[staticmethod]
    #[pyo3(
        signature = (data, **options),
        text_signature = "(data, *, threads=1, device=None, tf32=None, check_kernels=False, plugins=(), limits=None, map=False, verify=False)"
    )]
    fn from_bytes(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        restore(py, &bytes_of(data)?, options)
    }

    /// Write the plan to a file. A temporary file next to it is written and renamed, so that readers see the old file or the new
    /// one, never a part of it, and processes that have mapped the old one keep it.
    ///
    /// Raises ``ModelError`` if the file cannot be written.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.built.check_file()?;
        let plan = self.built.plan();
        py.detach(|| plan.save(&path)).or_raise()
    }

    /// The bytes of the file that ``save`` writes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.built.check_file()?;
        let folder = Folder::new(py)?;
        let path = folder.file();
        let plan = self.built.plan();
        py.detach(|| plan.save(&path)).or_raise()?;
        let open = || -> io::Result<(File, u64)> {
            let file = File::open(&path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let (mut file, length) = open().map_err(Error::from).or_raise()?;
        let length = usize::try_from(length)
            .map_err(|_| LimitError::new_err("the plan is too large for this machine's addresses"))?;
        let read = |bytes: &mut [u8]| py.detach(|| file.read_exact(bytes)).map_err(Error::from).or_raise();
        PyBytes::new_with(py, length, read)
    }

    /// The inputs, in the order in which a model takes them: a list of ``TensorInfo``.
    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        self.built.input_infos()
    }

    /// The outputs, in the order in which a model returns them: a list of ``TensorInfo``.
    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        self.built.output_infos()
    }

    /// The number of threads of one run.
    #[getter]
    fn threads(&self) -> usize {
        self.built.plan().threads()
    }

    /// The size of all weights in bytes.
    #[getter]
    fn weight_bytes(&self) -> u64 {
        self.built.plan().weight_bytes()
    }

    /// The number of operators that run.
    #[getter]
    fn operator_count(&self) -> usize {
        self.built.plan().graph().operators().len()
    }

    /// The text of the model's card, ``model.toml``, or None.
    #[getter]
    fn card(&self) -> Option<&str> {
        self.built.plan().card()
    }

    /// Where the file contradicts the model that was exported: a list of str. Empty for a plan that was loaded.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.built.plan().warnings().iter().map(|warning| warning.message()).collect()
    }

    /// Makes results of models a dict with these keys, one for each output.
    fn _set_keys(&self, keys: Vec<String>) -> PyResult<()> {
        self.built.set_keys(keys)
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Plan {}>", self.built.text())
    }

    fn __copy__(slf: &Bound<'_, Self>) -> Py<Self> {
        slf.clone().unbind()
    }

    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf.clone().unbind()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("ixion._ixion")?.getattr("_restore_plan")?;
        let options = self.options.as_ref().map(|options| options.clone_ref(py));
        let keys = self.built.keys().map(<[String]>::to_vec);
        Ok((restore, (self.to_bytes(py)?, options, keys).into_pyobject(py)?))
    }
}

/// Loads a plan from its file.
///
/// # Errors
/// `PlanError` if the file is no plan.
pub(crate) fn load(py: Python<'_>, path: &Path, options: Option<&Bound<'_, PyDict>>) -> PyResult<Plan> {
    let settings = Options::new(options)?;
    if PlanFile::is_plan(path) {
        settings.check_for(path)?;
    }
    let (mapped, cancel) = (settings.mapped(path), CancelToken::default());
    let plan = process::interruptible(py, &cancel, || settings.loaded(path, &cancel))?.or_raise()?;
    Plan::new(py, plan, mapped, options.map(|given| settings.of_plan(given)).transpose()?)
}

/// Loads a plan from bytes. They are written to a temporary file, since plans are read in pieces.
fn restore(py: Python<'_>, data: &PyBackedBytes, options: Option<&Bound<'_, PyDict>>) -> PyResult<Plan> {
    let settings = Options::new(options)?;
    settings.check_for_plan(&"`data`")?;
    let folder = Folder::new(py)?;
    let path = folder.file();
    let bytes: &[u8] = data;
    py.detach(|| std::fs::write(&path, bytes)).map_err(|error| {
        let file = path.display();
        LimitError::new_err(format!(
            "{BYTES} cannot be written to {file}: {error}; set TMPDIR to a folder with more room"
        ))
    })?;
    let cancel = CancelToken::default();
    let loaded = process::interruptible(py, &cancel, || settings.loaded(&path, &cancel))?;
    let plan = loaded.map_err(without_path).or_raise()?;
    // Nobody else has the file, whose folder is gone.
    Plan::new(py, plan, None, options.map(|given| settings.of_plan(given)).transpose()?)
}

/// What stands for the path of a plan that has none, in messages.
const BYTES: &str = "the bytes of the plan";

/// The bytes of a `bytes`, or a copy of those of another object with a buffer.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = data.extract::<PyBackedBytes>() {
        return Ok(bytes);
    }
    let wanted = "what `to_bytes` returned: bytes, or another object with a buffer";
    let view = PyMemoryView::from(data).map_err(|_| given::wrong("data", wanted, data))?;
    let copy = view.call_method0("tobytes")?;
    Ok(copy.extract::<PyBackedBytes>()?)
}

/// The error without the path of a temporary file.
fn without_path(error: Error) -> Error {
    match error {
        Error::Engine(EngineError::PlanFile(PlanFileError { problem, .. })) => {
            EngineError::PlanFile(PlanFileError { path: PathBuf::from(BYTES), problem }).into()
        }
        other => other,
    }
}

/// A temporary folder for one plan.
struct Folder(PathBuf);

impl Folder {
    fn new(py: Python<'_>) -> PyResult<Self> {
        let path = py.import("tempfile")?.call_method1("mkdtemp", ("", "ixion-"))?;
        Ok(Self(path.extract()?))
    }

    fn file(&self) -> PathBuf {
        self.0.join("model.plan")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A plan keeps its file open, which Unix allows to remove; elsewhere, the system clears the folder later.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Build a model, a ``.param`` file with its archive or an ONNX file, into a ``Plan``. Options are those of ``ixion.load``.
///
/// Raises ``ModelError`` if the file cannot be read or built, ``InputError`` for options that do not apply, and ``LimitError`` if
/// the model is larger than ``limits`` allows.
#[pyfunction]
#[pyo3(
    signature = (path, **options),
    text_signature = "(path, *, threads=1, precision=(), scales=None, layouts='cheapest', tactics=(), without_tactics=(), without_passes=(), fast=False, tune=False, device=None, tf32=None, check_kernels=False, plugins=(), use=None, limits=None, bin=None, random_weights=None, constants=None, donate=None, card=None, shapes=None, **ranges)"
)]
fn build(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Plan> {
    if PlanFile::is_plan(&path) {
        let file = path.display();
        return Err(InputError::new_err(format!(
            "{file} is already a plan; build from the .param file that it was built from, or load it by `ixion.Plan.load`"
        )));
    }
    let settings = Options::new(options)?;
    let plan = settings.make(py, &path)?;
    Plan::new(py, plan, None, options.map(|given| settings.of_plan(given)).transpose()?)
}

/// Unpickles a plan.
#[pyfunction]
#[pyo3(name = "_restore_plan", signature = (data, options, keys=None))]
fn restore_plan(
    py: Python<'_>,
    data: PyBackedBytes,
    options: Option<&Bound<'_, PyDict>>,
    keys: Option<Vec<String>>,
) -> PyResult<Plan> {
    let plan = restore(py, &data, options)?;
    if let Some(keys) = keys {
        plan.built.set_keys(keys)?;
    }
    Ok(plan)
}
