//! The scales of int8 tensors: `ixion.calibrate` and `ixion.Scales`.

use crate::error::{InputError, ModelError, OrRaise};
use crate::given::Count;
use crate::options::Options;
use crate::process::interruptible;
use crate::progress::Bar;
use crate::samples::Samples;
use ixion::engine::{Calibration, EngineError, Method, PlanFile};
use ixion::vision::ModelCard;
use ixion::{CancelToken, Tensor};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyMapping, PyType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Adds the class and the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Scales>()?;
    PyMapping::register::<Scales>(module.py())?;
    module.add_function(wrap_pyfunction!(calibrate, module)?)
}

/// The scales of int8 tensors: an integer q stands for the number scale · q.
///
/// ``ixion.calibrate`` finds them. ``ixion.load(path, precision=["int8"], scales=scales)`` uses them, and
/// ``scales.save("model.scales.json")`` writes them for later. It is a mapping from the names of operands to numbers.
///
/// Parameters
/// ----------
/// text : str
///     The JSON text, as ``to_json`` returns it.
///
/// Raises
/// ------
/// ixion.ModelError
///     If the text is not that of scales.
#[pyclass(frozen, mapping, module = "ixion")]
#[derive(Debug)]
pub(crate) struct Scales {
    inner: ixion::engine::Scales,
    /// The signal-to-noise ratios of operators in decibels, if they were measured.
    ratios: BTreeMap<String, f64>,
}

impl Scales {
    fn of(inner: ixion::engine::Scales) -> Self {
        Self { inner, ratios: BTreeMap::new() }
    }
}

#[pymethods]
impl Scales {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        ixion::engine::Scales::parse(text.as_bytes()).or_raise().map(Self::of)
    }

    /// Read scales from a file that ``save`` or ``ixion calibrate`` wrote.
    ///
    /// Raises
    /// ------
    /// ixion.ModelError
    ///     If the file cannot be read, or is not one of scales.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        ixion::engine::Scales::load(path).or_raise().map(Self::of)
    }

    /// Write the scales to a file.
    ///
    /// Raises
    /// ------
    /// ixion.ModelError
    ///     If the file cannot be written.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.inner.save(path).or_raise()
    }

    /// The scales as JSON text, which ``Scales(text)`` reads.
    fn to_json(&self) -> PyResult<String> {
        self.inner.to_json().or_raise()
    }

    /// The operators that lose too much in int8 and stay in f32: list of str.
    #[getter]
    fn kept(&self) -> Vec<&str> {
        self.inner.kept().collect()
    }

    /// How the thresholds were chosen, ``entropy`` or ``minmax``; None if that is unknown.
    #[getter]
    fn method(&self) -> Option<&str> {
        self.inner.method()
    }

    /// The signal-to-noise ratio of each operator in int8, in decibels: dict of str to float. Empty unless
    /// ``ixion.calibrate`` returned these scales.
    #[getter]
    fn decibels(&self) -> BTreeMap<String, f64> {
        self.ratios.clone()
    }

    /// The names of the operands: list of str.
    fn keys(&self) -> Vec<&str> {
        self.inner.iter().map(|(name, _)| name).collect()
    }

    /// The scales: list of float.
    fn values(&self) -> Vec<f32> {
        self.inner.iter().map(|(_, scale)| scale).collect()
    }

    /// The names of the operands, each with its scale: list of (str, float).
    fn items(&self) -> Vec<(&str, f32)> {
        self.inner.iter().collect()
    }

    /// The scale of an operand, or ``default``.
    #[pyo3(signature = (operand, default=None))]
    fn get(&self, operand: &str, default: Option<f64>) -> Option<f64> {
        self.inner.get(operand).map(f64::from).or(default)
    }

    fn __getitem__(&self, operand: &str) -> PyResult<f32> {
        self.inner.get(operand).ok_or_else(|| PyKeyError::new_err(operand.to_owned()))
    }

    fn __contains__(&self, operand: &str) -> bool {
        self.inner.get(operand).is_some()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.keys())?.try_iter()
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __eq__(&self, other: &Self) -> PyResult<bool> {
        Ok(self.to_json()? == other.to_json()?)
    }

    fn __repr__(&self) -> String {
        let method = self.inner.method().unwrap_or("an unknown method");
        let kept = self.inner.kept().count();
        format!("<ixion.Scales of {} operands by {method}; {kept} operators stay in f32>", self.inner.len())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (String,))> {
        Ok((py.get_type::<Self>(), (self.to_json()?,)))
    }
}

/// Find the scales of int8 tensors by running a model in f32 on samples.
///
/// Use about a hundred samples that are like the inputs in use, and none from the test set. The model runs two or three times on
/// each. Samples of an iterable are kept meanwhile; those that are paths are read when their turn comes.
///
/// Parameters
/// ----------
/// path : str or os.PathLike
///     The model's text, such as ``model.pnnx.param``.
/// samples : iterable, or a path
///     The inputs of the runs. Each is an array for the only input; a tuple with an array for each input; a dict of arrays by
///     the inputs' names; or the path of an image, ``.npy``, ``.npz`` or ``.csv`` file. An ``ixion.Picture`` or an image of
///     Pillow may take the place of an array: pictures are prepared as described by the ``model.toml`` next to the model.
///     The path of a folder stands for all such files in it; an array, a dict or a picture is a single sample.
/// max : int, optional
///     Use no more samples than this: the first ones of an iterable, or files of the folder that are evenly spaced.
/// method : "entropy" or "minmax"
///     ``minmax`` takes the largest magnitude of a tensor as its threshold. ``entropy`` clips rare large values if that
///     represents the others better.
/// least : float
///     Operators whose output in int8 has a lower signal-to-noise ratio than this, in decibels, stay in f32.
/// progress : callable, optional
///     Such as ``tqdm.tqdm``: called with ``total``, the number of runs; its result with ``update(1)`` after each run, and
///     ``close()`` at the end.
/// **options
///     Those of ``ixion.load`` that concern the model: ``bin``, ``plugins``, ``use``, ``without_passes``, ``limits``.
///
/// Returns
/// -------
/// Scales
///     For ``ixion.load(path, precision=["int8"], scales=scales)``.
///
/// Raises
/// ------
/// ixion.ModelError
///     If the model cannot be used, or is a plan, whose formats are fixed.
/// ixion.InputError
///     If there are no samples, or they do not fit the model.
#[pyfunction]
#[pyo3(signature = (path, samples, *, max=None, method="entropy", least=20.0, progress=None, **options))]
fn calibrate<'py>(
    py: Python<'py>,
    path: PathBuf,
    samples: &Bound<'py, PyAny>,
    max: Option<Count<usize>>,
    method: &str,
    least: f64,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Scales> {
    let method = method_of(method)?;
    if least.is_nan() {
        return Err(InputError::new_err("least: expected a number of decibels, such as 20, got nan"));
    }
    let max = max.map(|max| max.0);
    if max == Some(0) {
        return Err(InputError::new_err("max: expected a number above 0, got 0"));
    }
    let options = Options::new(options)?;
    let bar = Bar::new(progress)?;
    let cancel = CancelToken::default();
    let calibration = start(py, &path, &options, &cancel)?;
    let card = ModelCard::for_model(&path).or_raise()?;
    let samples = Samples::new(samples, max, calibration.graph(), card, options.limits(&cancel))?;
    if samples.is_empty() {
        return Err(InputError::new_err("samples: expected at least one sample, got none"));
    }
    let rounds = if method == Method::Entropy { 3 } else { 2 };
    bar.begin(py, rounds * samples.len())?;
    let found = Rounds { calibration, samples, bar: &bar, cancel }.run(py, method, least);
    bar.close(py, found)
}

fn method_of(name: &str) -> PyResult<Method> {
    match name {
        "entropy" => Ok(Method::Entropy),
        "minmax" => Ok(Method::MinMax),
        other => {
            Err(InputError::new_err(format!("method: expected \"entropy\" or \"minmax\", got \"{other}\"")))
        }
    }
}

/// Reads the model.
fn start(py: Python<'_>, path: &Path, options: &Options, cancel: &CancelToken) -> PyResult<Calibration> {
    if PlanFile::is_plan(path) {
        let message = format!("{} is a plan, whose formats are fixed", path.display());
        return Err(ModelError::new_err(format!(
            "{message}\n  hint: calibrate the model that it was built from"
        )));
    }
    options.check_for(path)?;
    let read = || -> ixion::Result<Calibration> { Ok(Calibration::new(options.builder(path, cancel)?)?) };
    interruptible(py, cancel, read)?.or_raise()
}

/// A model that runs on all samples, once in each round.
struct Rounds<'a, 'py> {
    calibration: Calibration,
    samples: Samples<'py>,
    bar: &'a Bar,
    cancel: CancelToken,
}

impl<'py> Rounds<'_, 'py> {
    fn run(&mut self, py: Python<'py>, method: Method, least: f64) -> PyResult<Scales> {
        self.round(py, Calibration::see_range)?;
        if method == Method::Entropy {
            self.round(py, Calibration::see_magnitudes)?;
        }
        let calibration = &mut self.calibration;
        let scales = py.detach(move || calibration.scales(method));
        self.round(py, |calibration, inputs| calibration.see_loss(inputs, &scales))?;
        let losses = self.calibration.losses();
        let ratios = losses.iter().map(|loss| (loss.operator.clone(), loss.decibels())).collect();
        Ok(Scales { inner: self.calibration.keep_below(scales, least), ratios })
    }

    fn round(
        &mut self,
        py: Python<'py>,
        see: impl Fn(&mut Calibration, Vec<Tensor>) -> Result<(), EngineError> + Sync,
    ) -> PyResult<()> {
        for place in 0..self.samples.len() {
            let (samples, calibration) = (&self.samples, &mut self.calibration);
            let seen = samples
                .inputs(py, place, calibration.graph())
                .and_then(|inputs| interruptible(py, &self.cancel, || see(calibration, inputs))?.or_raise());
            seen.map_err(|error| samples.noted(py, error, place))?;
            self.bar.step(py)?;
        }
        Ok(())
    }
}
