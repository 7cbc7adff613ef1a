//! Models: plans that any number of threads can call.

use crate::built::Built;
use crate::call::{Call, Extra};
use crate::context::Context;
use crate::given::Count;
use crate::options::Options;
use crate::plan::Plan;
use crate::ports::TensorInfo;
use crate::process::lock;
use crate::profile::{self, Profile};
use crate::release::drop_detached;
use crate::slot::Slot;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::available_parallelism;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Model>()?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(restore_model, module)?)
}

/// A model that is ready to run: ``y = model(x)``.
///
/// ``model(*inputs, out=None, timeout=None, **named)`` runs it. Inputs are arrays in the model's order, ``model(x, y)``, or by name,
/// ``model({"x": x, "y": y})`` or ``model(x=x, y=y)``, but not in a list, which would be one input: NumPy arrays, PyTorch tensors
/// and others with ``__dlpack__``, buffers, numbers and lists of numbers. Contiguous arrays are not copied. ``out`` takes arrays
/// that the outputs are written to: one, a sequence with one or None for each output, or a dict by name. They have the outputs'
/// shapes and element types; it is the array of an input, if the model was loaded with ``donate`` for both. ``timeout`` is the
/// number of seconds that the run may take, above 0. An input that is called ``out`` or ``timeout`` is given in a dict.
///
/// A call returns the output, or a tuple if the model has several: PyTorch tensors if the first input is one, else NumPy arrays.
/// If it was compiled from a module that returns a dict of tensors, it returns a dict with the same keys. It raises
/// ``InputError`` if an input or an array of ``out`` is missing, unknown, or of another shape or element type than the model has,
/// ``TimeoutError`` if the run took longer than ``timeout``, and ``LimitError`` if there is not enough memory.
///
/// Any number of threads can call it at once; each call takes one of its contexts, which a new one joins if all are in use. Other
/// Python threads go on while the model runs. Ctrl-C ends a run of the main thread that takes long.
///
/// ``ixion.load`` makes one from a file, and ``Model(plan)`` from a plan. A model is pickled as the path and the options of its
/// file, or, if there is no such file, as the bytes of its plan; ``Model(model.plan)`` never needs the file. Since it does not
/// change, a copy is the model itself.
#[pyclass(module = "ixion", frozen, weakref, dict)]
pub(crate) struct Model {
    built: Arc<Built>,
    plan: Py<Plan>,
    /// The contexts that are not in use.
    idle: Mutex<Vec<Slot>>,
    origin: Option<Origin>,
}

/// The file that a model was loaded from.
struct Origin {
    path: PathBuf,
    options: Option<Py<PyDict>>,
}

impl Model {
    fn of(plan: Bound<'_, Plan>, origin: Option<Origin>) -> Self {
        let built = Arc::clone(&plan.get().built);
        Self { built, plan: plan.unbind(), idle: Mutex::new(Vec::new()), origin }
    }

    /// The name of the file without its extensions, or of the file that the plan was built from.
    fn name(&self) -> String {
        let origin = self.origin.as_ref().map(|origin| origin.path.as_path());
        let path = origin.or_else(|| self.built.plan().graph().path());
        let name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| "model".to_owned());
        let short = ["param", "plan", "pnnx"].into_iter().fold(name.as_str(), |name, extension| {
            name.strip_suffix(extension).and_then(|name| name.strip_suffix('.')).unwrap_or(name)
        });
        short.to_owned()
    }

    /// A context that no other thread uses.
    ///
    /// # Errors
    /// As [`Slot::new`].
    fn take(&self, py: Python<'_>) -> PyResult<Slot> {
        self.built.check_process()?;
        let idle = lock(&self.idle).pop();
        idle.map_or_else(|| Slot::new(py, &self.built), Ok)
    }

    /// Keeps a context for the next call, unless there are enough.
    fn give_back(&self, py: Python<'_>, slot: Slot) {
        if slot.is_usable() {
            let mut idle = lock(&self.idle);
            if idle.len() < most_idle() {
                return idle.push(slot);
            }
        }
        py.detach(move || drop(slot));
    }

    /// The attributes that the program or `ixion.compile` has set.
    fn attributes<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let attributes = slf.getattr("__dict__")?.cast_into::<PyDict>()?.copy()?;
        for name in attributes.keys() {
            // What this package keeps for itself stays here.
            if name.extract::<String>()?.starts_with('_') {
                attributes.del_item(name)?;
            }
        }
        Ok(Some(attributes).filter(|attributes| !attributes.is_empty()))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop_detached(std::mem::take(&mut *lock(&self.idle)));
    }
}

/// The number of contexts that a model keeps when they are not in use, so that a crowd of threads does not leave the memory of
/// as many activations behind. Calls that take turns need no more: whoever waits for the interpreter still has a context.
fn most_idle() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| available_parallelism().map_or(1, usize::from).saturating_mul(2).max(8))
}

#[pymethods]
impl Model {
    #[new]
    fn new(plan: Bound<'_, Plan>) -> Self {
        Self::of(plan, None)
    }

    // Python has a documentation of its own for what is called by operators: that of this is in the documentation of the class.
    #[pyo3(signature = (*inputs, out=None, timeout=None, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call::new(&self.built, inputs, named, Extra { out, timeout })?;
        let mut slot = self.take(py)?;
        let result = call.run(py, &self.built, &mut slot);
        self.give_back(py, slot);
        result
    }

    /// A context of its own, for one thread at a time.
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Context::new(py, &self.built)
    }

    /// Discard the contexts that are not in use, and so the memory of their activations.
    fn clear(&self, py: Python<'_>) {
        let idle = std::mem::take(&mut *lock(&self.idle));
        py.detach(move || drop(idle));
    }

    /// Measure each operator: run the model ``runs`` times, after some runs to warm up. Inputs are those of a call.
    ///
    /// Returns
    /// -------
    /// Profile
    ///     The times of the operators.
    #[pyo3(signature = (*inputs, runs=Count(10), **named), text_signature = "($self, *inputs, runs=10, **named)")]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        runs: Count<usize>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Profile> {
        self.built.check_process()?;
        let inputs = Call::new(&self.built, inputs, named, Extra::default())?.tensors()?;
        profile::profile(py, self.built.plan(), &self.name(), inputs, runs.0)
    }

    /// Draw when each operator of a run begins and ends, as the text of an SVG picture; with ``top``, only the slowest.
    #[pyo3(signature = (*inputs, top=None, **named))]
    fn timeline<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        top: Option<Count<u32>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<String> {
        self.built.check_process()?;
        let inputs = Call::new(&self.built, inputs, named, Extra::default())?.tensors()?;
        profile::timeline(py, self.built.plan(), &self.name(), inputs, top.map(|top| top.0))
    }

    /// The plan that the model runs.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<Plan> {
        self.plan.clone_ref(py)
    }

    /// The file that the model was loaded from, or None.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.origin.as_ref().map(|origin| origin.path.as_path())
    }

    /// The inputs, in the order in which a call takes them: a list of ``TensorInfo``.
    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        self.built.input_infos()
    }

    /// The outputs, in the order in which a call returns them: a list of ``TensorInfo``.
    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        self.built.output_infos()
    }

    /// The number of threads of one run.
    #[getter]
    fn threads(&self) -> usize {
        self.built.plan().threads()
    }

    /// The text of the model's card, ``model.toml``, or None.
    #[getter]
    fn card(&self) -> Option<&str> {
        self.built.plan().card()
    }

    /// Where the file contradicts the model that was exported: a list of str.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.built.plan().warnings().iter().map(|warning| warning.message()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Model {}{}>", self.name(), self.built.text())
    }

    fn __copy__(slf: &Bound<'_, Self>) -> Py<Self> {
        slf.clone().unbind()
    }

    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf.clone().unbind()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, model) = (slf.py(), slf.get());
        let attributes = Self::attributes(slf)?;
        // A file that is gone, such as that of a module compiled without a cache, would not be found elsewhere either.
        let origin = model.origin.as_ref().filter(|origin| origin.path.is_file());
        let Some(Origin { path, options }) = origin else {
            let arguments = (model.plan.clone_ref(py),).into_pyobject(py)?;
            return Ok((slf.get_type().into_any(), arguments, attributes));
        };
        let restore = py.import("ixion._ixion")?.getattr("_restore_model")?;
        let options = options.as_ref().map(|options| options.clone_ref(py));
        Ok((restore, (path.as_path(), options).into_pyobject(py)?, attributes))
    }
}

/// What pickling asks for: a function, its arguments, and attributes.
type Reduced<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// Load a model: a ``.param`` file with its archive of weights, an ONNX file, or a plan that ``Plan.save`` wrote.
///
/// Parameters
/// ----------
/// path : str or os.PathLike
///     The file.
/// threads : int
///     The number of threads of one run; 0 uses all processors. Results do not depend on it.
/// precision : str or sequence of str
///     Element types that may be used in addition to f32, where that is faster: ``"f16"``, ``"bf16"``, ``"int8"``.
/// scales : Scales, path or dict
///     What ``ixion.calibrate`` found; required by ``"int8"``.
/// layouts : str
///     ``"cheapest"``, ``"plain"``, ``"alternating"`` or ``"narrowest"``.
/// tactics, without_tactics : str or sequence of str
///     Tactics, such as ``"winograd-4x4"``, to use wherever there are, and not to use.
/// fast : bool
///     Also use tactics whose results are much less exact, where they are faster.
/// tune : bool or path
///     Measure the alternatives on this machine. Times are kept in the user's folder for caches, or in the given file.
/// device : str
///     ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.
/// tf32 : str
///     Where a device may multiply f32 as TF32, which has 10 instead of 23 bits of precision: ``"none"``, ``"convolutions"`` (the
///     default, as in PyTorch) or ``"all"``, which are convolutions and matrix products.
/// check_kernels : bool
///     Check every memory access of the kernels of the device ``"cuda-emulator"``.
/// plugins : path or sequence of paths
///     Libraries with layers. Their code runs, so name only what you trust.
/// use : dict of str to str
///     Layers by operator type, such as ``{"nn.Conv2d": "acme/Conv/1"}``.
/// limits : int, str or dict
///     The memory that weights and activations may take together, such as ``"4G"``, or a dict with any of ``memory``,
///     ``max_total_bytes``, ``max_tensor_bytes``, ``max_ops``, ``max_rank``, and ``timeout``, the seconds that loading may take.
/// map : bool
///     Map a plan into memory: processes on a machine share its weights. The file must not be modified meanwhile: if it was cut,
///     calls raise ``PlanError``, and if it is cut during a run, the system ends the process.
/// verify : bool
///     Check the weights of a plan against their checksums first.
/// bin : path
///     The archive of weights, if it is not next to the file.
/// random_weights : int
///     Use random weights from this seed instead of an archive.
/// constants : dict
///     Inputs of an ONNX file that never change, such as ``{"sr": 16000}``: they are removed, and branches and loops that depend
///     on them are known.
/// without_passes : str or sequence of str
///     Passes to leave out; ``"all"`` leaves the graph as it is.
/// donate : dict of str to str
///     Inputs whose memory an output may take over, such as a cache that grows: ``donate={"cache": "new_cache"}``. A call gives
///     such an array away by ``model(x, cache, out={"new_cache": cache})``; in other calls, it is copied.
/// card : str
///     The text of a model card, instead of the ``model.toml`` next to the file.
/// shapes : dict
///     The shapes of inputs by name; for inputs that are called as one of these parameters.
/// **ranges
///     The shapes of inputs: ``image=("n", 3, 224, 224)`` or ``image="n,3,224,224"``, in which numbers are fixed lengths, equal
///     names equal lengths, and ``None`` or ``?`` any length; or three shapes, the smallest, the most likely and the largest.
///
/// Returns
/// -------
/// Model
///     The model. What contradicts the model that was exported is logged as warnings of the logger ``ixion``.
///
/// Raises
/// ------
/// ixion.ModelError
///     If the file cannot be read or built; ``NotFoundError`` if it does not exist, ``PlanError`` for a plan.
/// ixion.InputError
///     If an option is unknown, or does not apply.
/// ixion.LimitError
///     If the model is larger than ``limits`` allows.
#[pyfunction]
#[pyo3(
    signature = (path, **options),
    text_signature = "(path, *, threads=1, precision=(), scales=None, layouts='cheapest', tactics=(), without_tactics=(), without_passes=(), fast=False, tune=False, device=None, tf32=None, check_kernels=False, plugins=(), use=None, limits=None, map=False, verify=False, bin=None, random_weights=None, constants=None, donate=None, card=None, shapes=None, **ranges)"
)]
fn load(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
    let settings = Options::new(options)?;
    // The current folder may change while the model is built.
    let absolute = std::path::absolute(&path);
    let mapped = settings.mapped(&path);
    let plan = settings.make(py, &path)?;
    let kept = options.map(|given| settings.of_plan(given)).transpose()?;
    let plan = Bound::new(py, Plan::new(py, plan, mapped, kept)?)?;
    // What was read from a pipe cannot be read again.
    if !path.is_file() {
        return Ok(Model::of(plan, None));
    }
    let options = options.map(|given| settings.portable(given)).transpose()?.map(Bound::unbind);
    Ok(Model::of(plan, Some(Origin { path: absolute?, options })))
}

/// Unpickles a model that was loaded from a file.
#[pyfunction]
#[pyo3(name = "_restore_model")]
fn restore_model(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
    load(py, path, options)
}
