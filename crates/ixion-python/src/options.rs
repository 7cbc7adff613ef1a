//! Keyword options: how a model is built or loaded. They have the meaning and the defaults of the command's.

use crate::built::Mapped;
use crate::device::{DeviceOptions, Tf32Use};
use crate::error::{InputError, OrRaise, of_model, to_py};
use crate::given::{self, Lengths};
use crate::hints::hinted;
use ixion::engine::{Builder, EngineError, Formats, PlanFile, Precision, Scales, TimingCache};
use ixion::graph::{ReadOptions, RuntimeGraph, read_model};
use ixion::onnx::Constants;
use ixion::op::{PluginName, Registry};
use ixion::passes::Passes;
use ixion::plugin::Plugin;
use ixion::shape::{InputRange, InputShape, ShapeError};
use ixion::vision::ModelCard;
use ixion::{CancelToken, Limits, Plan};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a model is built or loaded.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The number of threads of a run; 0 is all that are available. `None`: 1.
    threads: Option<usize>,
    bin: Option<PathBuf>,
    /// Values of inputs of an ONNX file.
    constants: Constants,
    seed: Option<u64>,
    precision: Vec<Precision>,
    scales: Option<Scales>,
    formats: Option<Formats>,
    tactics: Vec<String>,
    without_tactics: Vec<String>,
    without_passes: Vec<String>,
    is_fast: bool,
    tuning: Option<Tuning>,
    device: DeviceOptions,
    plugins: Vec<PathBuf>,
    routes: Vec<(String, PluginName)>,
    shapes: Vec<(String, InputShape)>,
    ranges: Vec<(String, [Vec<usize>; 3])>,
    donations: Vec<(String, String)>,
    /// The text of the model's card.
    card: Option<String>,
    limits: Limits,
    /// The time that building may take.
    timeout: Option<Duration>,
    is_verified: bool,
    is_mapped: bool,
}

/// Where measured times are kept.
#[derive(Debug)]
enum Tuning {
    /// In the user's folder for caches.
    Cache,
    File(PathBuf),
}

/// The names of all options. Any other keyword is the name of an input, with its shape.
const NAMES: [&str; 23] = [
    "threads",
    "precision",
    "scales",
    "layouts",
    "tactics",
    "without_tactics",
    "fast",
    "tune",
    "device",
    "tf32",
    "check_kernels",
    "plugins",
    "limits",
    "map",
    "verify",
    "bin",
    "random_weights",
    "constants",
    "without_passes",
    "use",
    "shapes",
    "donate",
    "card",
];

/// The options that a plan keeps when it is sent to another process.
const OF_PLANS: [&str; 6] = ["threads", "plugins", "device", "tf32", "check_kernels", "limits"];

impl Options {
    /// Reads keyword options.
    ///
    /// # Errors
    /// `InputError` if an option is unknown, or if its value is none of those that it may have.
    pub(crate) fn new(given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        // Everything that reads a model comes by here first.
        crate::logging::start()?;
        let mut options = Self::default();
        // Values may be objects of the program, whose code could change the dictionary.
        let items: Vec<_> = given.into_iter().flatten().collect();
        for (name, value) in items {
            let name = name.extract::<String>().map_err(|_| refused("the names of options must be text"))?;
            options.set(&name, &value)?;
        }
        options.check()?;
        Ok(options)
    }

    /// Sets an option, or the shape of an input. `None` leaves an option as it is.
    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if NAMES.contains(&name) && value.is_none() {
            return Ok(());
        }
        match name {
            "threads" => self.threads = Some(given::threads(value)?),
            "precision" => self.precision = given::precisions(value)?,
            "scales" => self.scales = Some(given::scales(value)?),
            "layouts" => self.formats = Some(given::formats(value)?),
            "tactics" => self.tactics = given::names(value, name)?,
            "without_tactics" => self.without_tactics = given::names(value, name)?,
            "without_passes" => self.without_passes = given::names(value, name)?,
            "fast" => self.is_fast = given::flag(value, name)?,
            "verify" => self.is_verified = given::flag(value, name)?,
            "map" => self.is_mapped = given::flag(value, name)?,
            "tune" => self.tuning = tuning(value)?,
            "device" => self.device.id = Some(given::text(value, name)?),
            "tf32" => self.device.tf32 = Some(tf32(value)?),
            "check_kernels" => self.device.is_checked = given::flag(value, name)?,
            "plugins" => self.plugins = given::paths(value, name)?,
            "bin" => self.bin = Some(given::path(value, name)?),
            "constants" => self.constants = given::constants(value)?,
            "random_weights" => self.seed = Some(given::number(value, name)?),
            "limits" => (self.limits, self.timeout) = given::limits(value)?,
            "donate" => self.donations = given::pairs(value, name)?,
            "use" => self.routes = routes(value)?,
            "shapes" => {
                for (input, shape) in given::mapping(value, name)? {
                    self.set_shape(&input, &shape)?;
                }
            }
            "card" => self.card = Some(card(value)?),
            input => {
                let shaped = self.set_shape(input, value);
                shaped.map_err(|error| hinted(value.py(), error, input, &NAMES))?;
            }
        }
        Ok(())
    }

    fn set_shape(&mut self, input: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match given::lengths(input, value)? {
            Lengths::Shape(shape) => self.shapes.push((input.to_owned(), shape)),
            Lengths::Range(range) => self.ranges.push((input.to_owned(), range)),
        }
        Ok(())
    }

    /// Checks that the options fit each other.
    fn check(&self) -> PyResult<()> {
        match (self.precision.contains(&Precision::Int8), &self.scales) {
            (true, None) => Err(refused(
                "int8 needs scales, which map its integers to floats; `ixion.calibrate` finds them: pass them by `scales=`",
            )),
            (false, Some(_)) => Err(refused(
                "scales are for int8, which `precision` does not include; `precision=[\"int8\"], scales=…` uses them",
            )),
            _ if self.seed.is_some() && self.bin.is_some() => {
                Err(refused("random weights replace an archive; leave out `bin` or `random_weights`"))
            }
            _ if self.device.is_incomplete() => Err(refused(
                "`tf32` and `check_kernels` are for devices; pass `device` as well, or leave them out",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the options apply to a file.
    ///
    /// # Errors
    /// `InputError` if the file is a plan and an option would change what is fixed in a plan, or if it is none and an option is
    /// only for plans.
    pub(crate) fn check_for(&self, path: &Path) -> PyResult<()> {
        let file = path.display();
        if PlanFile::is_plan(path) {
            return self.check_for_plan(&file);
        }
        // A missing file is reported when it is read.
        let only_for_plans = if self.is_mapped { "map" } else { "verify" };
        match path.is_file() && (self.is_mapped || self.is_verified) {
            true => Err(refused(&format!(
                "`{only_for_plans}` requires a plan, which {file} is not; `ixion.build` builds one, and its method `save` \
                 writes it"
            ))),
            false => Ok(()),
        }
    }

    /// As [`Options::check_for`], for what is expected to be a plan. `plan` is its path, or what stands for it in messages.
    ///
    /// # Errors
    /// `InputError` if an option would change what is fixed in a plan.
    pub(crate) fn check_for_plan(&self, plan: &dyn Display) -> PyResult<()> {
        match self.fixed_in_plans() {
            None => Ok(()),
            Some(option) => Err(refused(&format!(
                "{plan} is a plan, in which `{option}` is fixed; build one with other options from the .param file"
            ))),
        }
    }

    /// An option that is given, but does not apply to plans.
    fn fixed_in_plans(&self) -> Option<&'static str> {
        let given = [
            ("bin", self.bin.is_some()),
            ("constants", !self.constants.is_empty()),
            ("random_weights", self.seed.is_some()),
            ("precision", !self.precision.is_empty()),
            ("scales", self.scales.is_some()),
            ("layouts", self.formats.is_some()),
            ("tactics", !self.tactics.is_empty()),
            ("without_tactics", !self.without_tactics.is_empty()),
            ("without_passes", !self.without_passes.is_empty()),
            ("fast", self.is_fast),
            ("tune", self.tuning.is_some()),
            ("use", !self.routes.is_empty()),
            ("donate", !self.donations.is_empty()),
            ("card", self.card.is_some()),
            ("shapes", !self.shapes.is_empty() || !self.ranges.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// The options among `given`, from which these are, for another process that has another current folder.
    ///
    /// # Errors
    /// Fails if a path cannot be made absolute.
    pub(crate) fn portable<'py>(&self, given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let portable = given.copy()?;
        let absolute = |path: &PathBuf| match path.exists() {
            true => std::path::absolute(path),
            // The system may search for a library of this name.
            false => Ok(path.clone()),
        };
        if !self.plugins.is_empty() {
            let plugins = self.plugins.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
            portable.set_item("plugins", plugins)?;
        }
        for name in ["bin", "scales", "tune"] {
            let value = given.get_item(name)?;
            if let Some(path) = value.and_then(|value| value.extract::<PathBuf>().ok()) {
                portable.set_item(name, absolute(&path)?)?;
            }
        }
        Ok(portable)
    }

    /// As [`Options::portable`], but only those that a plan keeps when it is sent to another process.
    ///
    /// # Errors
    /// As [`Options::portable`].
    pub(crate) fn of_plan<'py>(&self, given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let kept = PyDict::new(given.py());
        for (name, value) in self.portable(given)? {
            let name: String = name.extract()?;
            if OF_PLANS.contains(&name.as_str()) {
                kept.set_item(name, value)?;
            }
        }
        Ok(kept)
    }

    /// The limits, with a deadline counted from now, and a token that cancels the work.
    pub(crate) fn limits(&self, cancel: &CancelToken) -> Limits {
        let limits = Limits { cancel: Some(cancel.clone()), ..self.limits.clone() };
        match self.timeout {
            Some(timeout) => limits.with_timeout(timeout),
            None => limits,
        }
    }

    /// The built-in layers and those of plugins.
    ///
    /// # Errors
    /// Fails if a library is not a plugin, if a layer is already registered, or if a route names an unknown layer.
    pub(crate) fn registry(&self) -> ixion::Result<Registry> {
        let mut registry = Registry::default();
        for library in &self.plugins {
            // SAFETY: the program named the library as a plugin, and the documentation of `plugins` states that its code runs.
            let plugin = unsafe { Plugin::load(library) }?;
            plugin.register(&mut registry)?;
        }
        for (op_type, name) in &self.routes {
            registry.route(op_type, name)?;
        }
        Ok(registry)
    }

    /// A builder for a `.param` file.
    ///
    /// # Errors
    /// Fails if a plugin cannot be loaded, if a pass is unknown, if there is no such device, or if an input with a range is not
    /// in the file.
    pub(crate) fn builder(&self, path: &Path, cancel: &CancelToken) -> ixion::Result<Builder> {
        let limits = self.limits(cancel);
        let graph = RuntimeGraph::new(path).with_limits(limits.clone()).with_registry(self.registry()?);
        let graph = graph.with_constants(self.constants.clone());
        let graph = match (&self.bin, self.seed) {
            (Some(bin), _) => graph.with_bin(bin),
            (None, Some(seed)) => graph.with_random_weights(seed),
            (None, None) => graph,
        };
        let ranges = self.ranges_of(path, &limits)?;
        let mut builder = Builder::from_graph(graph)
            .with_limits(limits)
            .with_passes(self.passes()?)
            .with_threads(self.threads.unwrap_or(1))
            .with_formats(self.formats.clone().unwrap_or(Formats::Cheapest))
            .with_precisions(self.precision.iter().copied())
            .without_tactics(self.without_tactics.iter().cloned())
            .with_tactics(self.tactics.iter().cloned());
        if self.is_fast {
            builder = builder.with_fast_tactics();
        }
        if let Some(tuning) = &self.tuning {
            builder = builder.with_tuning(tuning.cache());
        }
        if let Some(scales) = &self.scales {
            builder = builder.with_scales(scales.clone());
        }
        if let Some(card) = &self.card {
            builder = builder.with_card(card);
        }
        builder = self.device.of_builder(builder)?;
        builder = self.shapes.iter().fold(builder, |it, (input, shape)| it.with_shape(input, shape.clone()));
        builder = ranges.into_iter().fold(builder, Builder::with_range);
        Ok(self.donations.iter().fold(builder, |it, (input, output)| it.with_donation(input, output)))
    }

    /// All passes but those that are left out; none, if these include `all`.
    fn passes(&self) -> ixion::Result<Passes> {
        let mut passes = Passes::default();
        for name in &self.without_passes {
            match name.as_str() {
                "all" => passes.set_all_enabled(false),
                name => passes.set_enabled(name, false)?,
            }
        }
        Ok(passes)
    }

    /// How the model is read, without weights of a text.
    fn read_options(&self, limits: &Limits) -> ReadOptions {
        ReadOptions { bin: None, constants: self.constants.clone(), limits: limits.clone() }
    }

    /// The ranges, with the element types from the model's text.
    fn ranges_of(&self, path: &Path, limits: &Limits) -> ixion::Result<Vec<InputRange>> {
        if self.ranges.is_empty() {
            return Ok(Vec::new());
        }
        let text = read_model(path, &self.read_options(limits))?;
        let range = |(input, [min, optimum, max]): &(String, [Vec<usize>; 3])| -> ixion::Result<InputRange> {
            let operand =
                text.operator_named(input).and_then(|id| text.operator(id).outputs().first().copied());
            let dtype = operand.and_then(|operand| text.operand(operand).dtype());
            let reason = || "the model does not specify the element type of an input of this name".to_owned();
            let dtype = dtype.ok_or_else(|| ShapeError::Profile { name: input.clone(), reason: reason() })?;
            Ok(InputRange::new(input, dtype, min.clone(), optimum.clone(), max.clone())?)
        };
        self.ranges.iter().map(range).collect()
    }

    /// Builds the plan of a `.param` file, or loads that of a file that `Plan.save` wrote.
    ///
    /// # Errors
    /// As [`Builder::build`], [`PlanFile::open`] and [`PlanFile::load`].
    pub(crate) fn plan(&self, path: &Path, cancel: &CancelToken) -> ixion::Result<Plan> {
        match PlanFile::is_plan(path) {
            true => self.loaded(path, cancel),
            false => Ok(self.builder(path, cancel)?.build()?),
        }
    }

    /// Loads a plan that `Plan.save` wrote.
    ///
    /// # Errors
    /// As [`PlanFile::open`] and [`PlanFile::load`].
    pub(crate) fn loaded(&self, path: &Path, cancel: &CancelToken) -> ixion::Result<Plan> {
        let limits = self.limits(cancel);
        let file = match self.is_mapped {
            // SAFETY: the program asked for `map`, whose documentation forbids to modify the file. Ixion itself replaces files
            // and never modifies one in place.
            true => unsafe { PlanFile::map(path, &limits) },
            false => PlanFile::open(path, &limits),
        };
        let file = file.map_err(EngineError::from)?.with_registry(self.registry()?);
        if self.is_verified {
            file.verify()?;
        }
        let file = self.device.of_file(file.with_threads(self.threads.unwrap_or(1)))?;
        Ok(file.load()?)
    }

    /// The file, if it is about to be mapped.
    pub(crate) fn mapped(&self, path: &Path) -> Option<Mapped> {
        // To open anything else might take forever.
        if self.is_mapped && path.is_file() { Mapped::open(path) } else { None }
    }

    /// Builds or loads a plan without the interpreter. A signal, such as that of Ctrl-C, ends the work.
    ///
    /// # Errors
    /// As [`Options::check_for`] and [`Options::plan`].
    pub(crate) fn make(&self, py: Python<'_>, path: &Path) -> PyResult<Plan> {
        self.check_for(path)?;
        let cancel = CancelToken::default();
        let built = crate::process::interruptible(py, &cancel, || self.plan(path, &cancel))?;
        // Operators may refuse the shapes that the caller gave.
        let is_as_stated = self.shapes.is_empty() && self.ranges.is_empty();
        built.map_err(|error| {
            let error = if is_as_stated { of_model(error) } else { to_py(error) };
            self.with_hint(py, error)
        })
    }

    /// An error with the option that was probably meant, if it is about an input that the model does not have.
    fn with_hint(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let text = error.value(py).to_string();
        if !text.contains("no input `") && !text.contains("of an input of this name") {
            return error;
        }
        let mut inputs =
            self.shapes.iter().map(|(input, _)| input).chain(self.ranges.iter().map(|(input, _)| input));
        match inputs.find(|input| text.contains(&format!("`{input}`"))) {
            Some(input) => hinted(py, error, input, &NAMES),
            None => error,
        }
    }
}

impl Tuning {
    fn cache(&self) -> TimingCache {
        match self {
            Self::File(path) => TimingCache::open(path),
            Self::Cache => match ixion::cli::caches() {
                Some(folder) => TimingCache::open(folder.join("ixion").join("timings.json")),
                None => TimingCache::in_memory(),
            },
        }
    }
}

/// `tune`: true, or the file that keeps measured times.
fn tuning(value: &Bound<'_, PyAny>) -> PyResult<Option<Tuning>> {
    if let Ok(is_tuned) = value.extract::<bool>() {
        return Ok(is_tuned.then_some(Tuning::Cache));
    }
    let path = value.extract::<PathBuf>();
    path.map(|path| Some(Tuning::File(path)))
        .map_err(|_| given::wrong("tune", "True, False or the path of a file for measured times", value))
}

/// `tf32`: where a device may multiply f32 as TF32.
fn tf32(value: &Bound<'_, PyAny>) -> PyResult<Tf32Use> {
    match given::text(value, "tf32")?.as_str() {
        "none" => Ok(Tf32Use::None),
        "convolutions" => Ok(Tf32Use::Convolutions),
        "all" => Ok(Tf32Use::All),
        _ => Err(given::wrong("tf32", "\"none\", \"convolutions\" or \"all\"", value)),
    }
}

/// `card`: the text of a model card, which must be valid.
fn card(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = given::text(value, "card")?;
    ModelCard::parse("card", &text).or_raise()?;
    Ok(text)
}

/// `use`: layers by the types of the operators that they run.
fn routes(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, PluginName)>> {
    let parsed = |(op_type, name): (String, String)| Ok((op_type, name.parse::<PluginName>().or_raise()?));
    given::pairs(value, "use")?.into_iter().map(parsed).collect()
}

/// The exception for an option that cannot be used.
pub(crate) fn refused(text: &str) -> PyErr {
    InputError::new_err(text.to_owned())
}
