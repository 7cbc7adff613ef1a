//! Builds a plan from a model.

use super::device::{Accelerator, OnDevice};
use super::selection::{self, Formats, Selection, SelectionSettings};
use super::threads::{pool, share, within};
use super::tuning::{TimingCache, Tuner};
use super::{EngineError, Fingerprint, Plan, Port, Precision, Scales};
use crate::Limits;
use crate::graph::{GraphError, OperandIndex, RuntimeGraph, RuntimeOperator, Stage, is_onnx};
use crate::op::{CpuLayer, Creator, Device, Registry, TensorMeta, catch_panic, with_deadline};
use crate::ops::inserted::transfer::Transfer;
use crate::passes::{PassContext, Passes, Statistics};
use crate::pnnx::{self, PnnxError};
use crate::shape::{Contradiction, InputRange, InputShape, Profile, ShapeError, Shapes, contradictions_in};
use crate::tensor::Tensor;
use std::path::{Path, PathBuf};

/// Reads a model, optimises its graph and builds a [`Plan`].
///
/// ```
/// use ixion::engine::Builder;
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let plan = Builder::new(path).with_threads(2).build()?;
/// println!("{} operators", plan.graph().operators().len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    source: RuntimeGraph,
    registry: Registry,
    passes: Passes,
    shapes: Vec<(String, InputShape)>,
    ranges: Vec<InputRange>,
    donations: Vec<(String, String)>,
    settings: SelectionSettings,
    tuning: Option<TimingCache>,
    card: Option<String>,
    limits: Limits,
    threads: usize,
}

impl Builder {
    /// Creates a builder for a `.param` file and the archive next to it. Nothing is read yet.
    pub fn new(param: impl Into<PathBuf>) -> Self {
        Self::from_graph(RuntimeGraph::new(param))
    }

    /// Creates a builder for a graph that is already in memory.
    pub fn from_pnnx(file: pnnx::Graph) -> Self {
        Self::from_graph(RuntimeGraph::from_pnnx(file))
    }

    /// Creates a builder for a runtime graph that is not built yet, with its files, weights and registry. Limits are the
    /// builder's own.
    pub fn from_graph(source: RuntimeGraph) -> Self {
        Self {
            registry: source.registry().clone(),
            source,
            passes: Passes::default(),
            shapes: Vec::new(),
            ranges: Vec::new(),
            donations: Vec::new(),
            settings: SelectionSettings::default(),
            tuning: None,
            card: None,
            limits: Limits::default(),
            threads: 1,
        }
    }

    /// Reads the weights from this archive instead of the one next to the `.param` file.
    #[must_use]
    pub fn with_bin(self, bin: impl Into<PathBuf>) -> Self {
        Self { source: self.source.with_bin(bin), ..self }
    }

    /// Generates random weights from a seed instead of reading an archive.
    #[must_use]
    pub fn with_random_weights(self, seed: u64) -> Self {
        Self { source: self.source.with_random_weights(seed), ..self }
    }

    /// Loads, builds and runs within these limits. The deadline applies to building only; for runs, see
    /// [`Context::set_timeout`](super::Context::set_timeout).
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { source: self.source.with_limits(limits.clone()), limits, ..self }
    }

    /// Creates layers from this registry instead of the built-in one.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Optimises the graph with these passes instead of all of them; [`Passes::empty`] leaves it unchanged.
    #[must_use]
    pub fn with_passes(self, passes: Passes) -> Self {
        Self { passes, ..self }
    }

    /// Sets the number of threads of a run; 0 means all that are available. Results do not depend on it. Default: 1.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Declares which lengths of an input are fixed and which are equal, such as `n,3,?,w`. Other shapes are rejected when
    /// the plan runs; passes may rely on the fixed lengths.
    #[must_use]
    pub fn with_shape(mut self, input: impl Into<String>, shape: InputShape) -> Self {
        self.shapes.push((input.into(), shape));
        self
    }

    /// Declares the range of an input's shapes. If one input has a range, all need one. The memory for the largest shapes is
    /// allocated when a context is created, and shapes outside of the range are rejected.
    #[must_use]
    pub fn with_range(mut self, range: InputRange) -> Self {
        self.ranges.push(range);
        self
    }

    /// Lets an output take over the memory of an input that the caller donates, such as a cache that grows in place; see
    /// [`Request::donate`](super::Request::donate).
    #[must_use]
    pub fn with_donation(mut self, input: impl Into<String>, output: impl Into<String>) -> Self {
        self.donations.push((input.into(), output.into()));
        self
    }

    /// Sets how formats are selected. Default: [`Formats::Cheapest`].
    #[must_use]
    pub fn with_formats(mut self, formats: Formats) -> Self {
        self.settings.formats = formats;
        self
    }

    /// Allows these element types where the model has f32, which always remains allowed. The model's inputs and outputs keep
    /// their types. Default: f32 only. Where the model itself rounds to whole multiples of a scale, int8 is always allowed,
    /// except for layers whose weights it would round.
    #[must_use]
    pub fn with_precisions(mut self, precisions: impl IntoIterator<Item = Precision>) -> Self {
        self.settings.precisions = precisions.into_iter().collect();
        self.settings.precisions.sort_unstable();
        self.settings.precisions.dedup();
        self
    }

    /// Sets the quantisation scales of operands, which [`Precision::Int8`] requires.
    #[must_use]
    pub fn with_scales(mut self, scales: Scales) -> Self {
        self.settings.scales = scales;
        self
    }

    /// Excludes [tactics](crate::op::Tactic) by name: `winograd-4x4`, or `winograd` for the tactic of that name and
    /// all `winograd-…`. A layer's first tactic, the general one, is never excluded. Default: none.
    #[must_use]
    pub fn without_tactics(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.settings.left_out = names.into_iter().map(Into::into).collect();
        self
    }

    /// Also selects tactics whose results are much less exact than those of a layer's general tactic, where they are faster:
    /// `winograd-6x6`, with about ten times the rounding error. Default: tactics with at most
    /// [three times](super::MAX_ROUNDING) the error, or [twice](super::MAX_ROUNDING_OF_LAST_LAYERS) in the last layers.
    #[must_use]
    pub fn with_fast_tactics(mut self) -> Self {
        self.settings.is_fast = true;
        self
    }

    /// Selects tactics with these names, matched as in [`Builder::without_tactics`], wherever layers have them, regardless of
    /// price. Default: the price decides.
    #[must_use]
    pub fn with_tactics(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.settings.preferred = names.into_iter().map(Into::into).collect();
        self
    }

    /// Measures the cost of element types, layouts and tactics on this machine, at the sizes that the plan is built for,
    /// instead of estimating it with a processor model. Entries of the cache are not measured again. Plans may then differ
    /// between machines and between builds.
    #[must_use]
    pub fn with_tuning(self, cache: TimingCache) -> Self {
        Self { tuning: Some(cache), ..self }
    }

    /// Runs on a device every operator for which `layers` has a kernel. All others run on the CPU, and tensors that one
    /// produces and the other reads are transferred.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn with_device(
        mut self,
        device: crate::cuda::device::Device,
        layers: crate::cuda::CudaLayers,
    ) -> Self {
        self.settings.accelerator = Some(Accelerator { device, layers });
        self
    }

    /// Sets the model card, the text of a `model.toml`, which is stored with the plan. Default: the `model.toml` next to the
    /// `.param` file, if there is one.
    #[must_use]
    pub fn with_card(self, text: impl Into<String>) -> Self {
        Self { card: Some(text.into()), ..self }
    }

    /// Returns the model's fingerprint and its graph after the passes of an int8 plan, which is not built yet.
    ///
    /// # Errors
    /// Returns an error if the model cannot be read or a pass fails.
    pub(super) fn into_improved(mut self) -> Result<(Fingerprint, RuntimeGraph), EngineError> {
        let file = self.read()?;
        let model = Fingerprint::of(&file).map_err(|error| GraphError::from(PnnxError::from(error)))?;
        Ok((model, self.improve(file, true)?.0))
    }

    /// Reads the graph of the file.
    fn read(&mut self) -> Result<pnnx::Graph, EngineError> {
        let empty = RuntimeGraph::from_pnnx(pnnx::Graph::default()).with_path(self.source.path());
        let source = std::mem::replace(&mut self.source, empty);
        let declares_shapes = source.path().is_some_and(is_onnx);
        let file = source.with_registry(self.registry.clone()).into_pnnx()?;
        let declared = if declares_shapes { declared_shapes(&file) } else { Vec::new() };
        self.check_declared(&declared)?;
        // With a profile, shapes are those of its ranges.
        if self.ranges.is_empty() {
            let is_new = |name: &str| self.shapes.iter().all(|(given, _)| given != name);
            let declared: Vec<_> = declared.into_iter().filter(|(name, _)| is_new(name)).collect();
            self.shapes.extend(declared);
        }
        Ok(file)
    }

    /// Checks that given shapes and ranges keep the lengths that the file fixes: others were computed from them.
    fn check_declared(&self, declared: &[(String, InputShape)]) -> Result<(), ShapeError> {
        for (name, declared) in declared {
            for (_, given) in self.shapes.iter().filter(|(given, _)| given == name) {
                declared.check_kept(name, |axis| given.axis(axis))?;
            }
            for range in self.ranges.iter().filter(|range| range.name() == name) {
                for lengths in [range.min(), range.max()] {
                    declared.check_kept(name, |axis| lengths.get(axis).map(ToString::to_string))?;
                }
            }
        }
        Ok(())
    }

    /// Runs the passes, of which some depend on whether layers may be int8.
    fn improve(
        &self,
        mut file: pnnx::Graph,
        allows_int8: bool,
    ) -> Result<(RuntimeGraph, Statistics), EngineError> {
        let (limits, registry) = (self.limits.clone(), self.registry.clone());
        let known = PassContext::default().with_limits(limits.clone()).with_registry(registry.clone());
        let fixed = fixed_inputs(&file, &self.shapes);
        let known = fixed.fold(known, |known, (name, meta)| known.with_input(name, meta));
        let known = known.with_int8(allows_int8);
        let statistics = self.passes.run(&mut file, known)?;
        let graph = RuntimeGraph::from_pnnx(file).with_registry(registry).with_limits(limits);
        Ok((graph.with_path(self.source.path()), statistics))
    }

    /// Reads the model, runs the passes, creates the layers and evaluates the operators that depend on no input.
    ///
    /// # Errors
    /// As [`RuntimeGraph::build`]. Also returns an error if a pass fails, if a profile or a donation does not fit the model, or
    /// if the scales belong to another model or name operands that this one does not have.
    pub fn build(self) -> Result<Plan, EngineError> {
        let limits = self.limits.clone();
        with_deadline(&limits, || self.build_plan())
    }

    fn build_plan(mut self) -> Result<Plan, EngineError> {
        if let Some(cache) = self.tuning.take() {
            self.settings.tuner = Some(Tuner::new(cache, pool(self.threads)?, self.limits.clone()));
        }
        let path = self.source.path().map(PathBuf::from);
        let is_random = self.source.has_random_weights();
        let has_shapes = !self.shapes.is_empty();
        let file = self.read()?;
        self.settings.check_scales(&file)?;
        // Given fixed shapes, passes may remove operands that calibration has seen.
        let unknown_names = self.settings.unknown_names(&file).filter(|_| !has_shapes);
        self.try_plugins(&file, path.as_deref())?;
        let warnings = self.contradictions(&file, path.as_deref(), is_random);
        let allows_int8 = self.settings.precisions.contains(&Precision::Int8);
        let (graph, statistics) = self.improve(file, allows_int8)?;
        let card = self.card.or_else(|| adjacent_card(path.as_deref()?, &self.limits));
        let parts = Parts {
            graph,
            statistics,
            shapes: self.shapes,
            ranges: self.ranges,
            card,
            limits: self.limits,
            threads: self.threads,
            accelerator: self.settings.accelerator.clone(),
        };
        let select = |graph: &mut RuntimeGraph, symbols: &[_], profile: Option<&Profile>| {
            unknown_names.iter().try_for_each(|it| it.check(graph))?;
            let selections = select_formats(graph, symbols, profile, &self.settings);
            self.settings.tuner.iter().for_each(Tuner::store);
            selections
        };
        let plan = parts.assemble(select)?.with_donations(&self.donations)?;
        Ok(Plan { warnings, ..plan })
    }
}

impl Builder {
    /// The operators that contradict what the file records. Layers of plugins are not created for this, so nothing is known of a
    /// model that has any. Weights that are random say nothing.
    fn contradictions(&self, file: &pnnx::Graph, path: Option<&Path>, is_random: bool) -> Vec<Contradiction> {
        let is_recorded = |operand: &pnnx::OperandId| file.operand(*operand).shape().is_some();
        let mut outputs = file.operators().filter(|(_, operator)| !operator.inputs().is_empty());
        let says_something = outputs.any(|(_, operator)| operator.outputs().iter().any(is_recorded));
        if !says_something || self.has_plugins(file) {
            return Vec::new();
        }
        let graph = RuntimeGraph::from_pnnx(file.clone()).with_registry(self.registry.clone());
        let graph = graph.with_limits(self.limits.clone()).with_path(path);
        contradictions_in(if is_random { graph.with_random_weights(0) } else { graph })
    }

    /// If there is a deadline, creates the layers of plugins and infers their shapes once, to detect a plugin that never
    /// returns: passes would only see that the time is up.
    fn try_plugins(&self, file: &pnnx::Graph, path: Option<&Path>) -> Result<(), EngineError> {
        if self.limits.deadline.is_none() || !self.has_plugins(file) {
            return Ok(());
        }
        let graph = RuntimeGraph::from_pnnx(file.clone()).with_registry(self.registry.clone());
        let mut graph = graph.with_limits(self.limits.clone()).with_path(path);
        graph.connect()?;
        let symbols = InputShape::apply(&graph, &self.shapes)?;
        match Shapes::infer_known(&graph, &symbols).map_err(EngineError::from) {
            Err(error @ EngineError::Stuck { .. }) => Err(error),
            // Passes may fix any other error; if not, it occurs again later.
            _ => Ok(()),
        }
    }

    /// Returns true if a layer of the model is not built in.
    fn has_plugins(&self, file: &pnnx::Graph) -> bool {
        let is_own = |creator: &Creator| creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN;
        let mut creators =
            file.operators().filter_map(|(_, operator)| self.registry.known(operator.op_type()));
        !creators.all(is_own)
    }
}

/// The parts that a plan is assembled from.
pub(super) struct Parts {
    /// The graph after all passes, not built yet.
    pub(super) graph: RuntimeGraph,
    pub(super) statistics: Statistics,
    pub(super) shapes: Vec<(String, InputShape)>,
    pub(super) ranges: Vec<InputRange>,
    pub(super) card: Option<String>,
    pub(super) limits: Limits,
    pub(super) threads: usize,
    pub(super) accelerator: Option<Accelerator>,
}

impl Parts {
    /// Creates the layers, selects their formats, and evaluates the operators that depend on no input.
    pub(super) fn assemble(
        self,
        select: impl FnOnce(
            &mut RuntimeGraph,
            &[Option<TensorMeta>],
            Option<&Profile>,
        ) -> Result<Vec<Selection>, EngineError>,
    ) -> Result<Plan, EngineError> {
        let mut graph = self.graph;
        graph.connect()?;
        let symbols = InputShape::apply(&graph, &self.shapes)?;
        let profile = if self.ranges.is_empty() { None } else { Some(Profile::new(&graph, self.ranges)?) };
        let selections = select(&mut graph, &symbols, profile.as_ref())?;
        let pool = pool(self.threads)?;
        let source = within(&pool, || graph.initialize(&share))?.ok_or(GraphError::AlreadyBuilt)?;
        let constants = constants(&graph, &self.limits)?;
        let device = on_device(self.accelerator.as_ref(), &graph, &constants)?;
        Ok(Plan {
            source,
            selections,
            card: self.card,
            statistics: self.statistics,
            shapes: Shapes::infer_known(&graph, &symbols)?,
            symbols,
            given: self.shapes,
            profile,
            constants,
            device,
            inputs: graph.inputs().iter().map(|it| port(&graph, &it.name, it.operand)).collect(),
            outputs: graph.outputs().iter().map(|it| port(&graph, &it.name, it.operand)).collect(),
            donations: Vec::new(),
            warnings: Vec::new(),
            limits: Limits { deadline: None, ..self.limits },
            pool,
            graph,
        })
    }
}

/// The device part of a plan; `None` if no operator runs on a device.
fn on_device(
    accelerator: Option<&Accelerator>,
    graph: &RuntimeGraph,
    constants: &[Option<Tensor>],
) -> Result<Option<OnDevice>, EngineError> {
    let mut operators = graph.operators().iter();
    let Some(first) = operators.find(|operator| operator.device() != Device::Cpu) else { return Ok(None) };
    let needed = || EngineError::NeedsDevice { operator: first.name().to_owned() };
    let created = OnDevice::new(accelerator.ok_or_else(needed)?, graph, constants);
    created.map(Some).map_err(|error| EngineError::on_device(graph, Stage::Initialize, error))
}

/// Selects formats for the most likely sizes. Without a profile these are a guess: if they are invalid, nothing is selected.
fn select_formats(
    graph: &mut RuntimeGraph,
    symbols: &[Option<TensorMeta>],
    profile: Option<&Profile>,
    settings: &SelectionSettings,
) -> Result<Vec<Selection>, EngineError> {
    let optimum = match profile {
        Some(profile) => profile.optimum().into_iter().map(Some).collect(),
        None => selection::optimum(graph, symbols),
    };
    match selection::select_formats(graph, (&optimum, symbols), settings) {
        Err(error) if profile.is_none() && selection::is_about_sizes(&error) => {
            log::debug!("keeping the formats of the model: {error}");
            Ok(Vec::new())
        }
        selections => selections,
    }
}

/// The text of the model card next to a `.param` file; `None` if it does not exist or cannot be read.
fn adjacent_card(param: &Path, limits: &Limits) -> Option<String> {
    let path = param.with_file_name("model.toml");
    let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let text = match limits.check_tensor("the file", length) {
        Ok(()) => std::fs::read_to_string(&path).map_err(|error| error.to_string()),
        Err(limit) => Err(limit.to_string()),
    };
    text.inspect_err(|error| log::warn!("{}: ignoring the model card: {error}", path.display())).ok()
}

/// The shapes that an ONNX file declares for its inputs. Those of a PNNX file are only the shapes of a sample.
fn declared_shapes(file: &pnnx::Graph) -> Vec<(String, InputShape)> {
    let inputs = file.operators().filter(|(_, operator)| operator.op_type() == "pnnx.Input");
    let shape = |operator: &pnnx::Operator| {
        let dims = file.operand(*operator.outputs().first()?).shape()?;
        Some((operator.name().to_owned(), InputShape::declared(dims)))
    };
    inputs.filter_map(|(_, operator)| shape(operator)).collect()
}

/// The inputs with a given shape, by the names of their operators in the file.
fn fixed_inputs<'a>(
    file: &'a pnnx::Graph,
    shapes: &'a [(String, InputShape)],
) -> impl Iterator<Item = (String, TensorMeta)> {
    shapes.iter().filter_map(|(name, shape)| {
        let input = file.operator(file.operator_named(name)?);
        let dtype = file.operand(*input.outputs().first()?).dtype()?;
        Some((name.clone(), TensorMeta::new(dtype, shape.dims(name))))
    })
}

/// The values of operators that depend on no input.
fn constants(graph: &RuntimeGraph, limits: &Limits) -> Result<Vec<Option<Tensor>>, EngineError> {
    let value = |operator: &RuntimeOperator| match operator.layer() {
        Some(layer) if operator.inputs().is_empty() => {
            catch_panic(|| layer.constant(limits)).map_err(EngineError::at(graph, operator, Stage::Forward))
        }
        _ => Ok(None),
    };
    let mut values = graph.operators().iter().map(value).collect::<Result<Vec<_>, _>>()?;
    // A transferred constant is a constant as well, so it is transferred only once.
    for (position, operator) in graph.operators().iter().enumerate() {
        let source = operator.inputs().first().and_then(|&input| graph.operand(input).producer());
        if let (Transfer::TYPE, Some(source)) = (operator.op_type(), source) {
            values[position] = values[source.position()].clone();
        }
    }
    Ok(values)
}

fn port(graph: &RuntimeGraph, name: &str, operand: OperandIndex) -> Port {
    let dtype = graph.operand(operand).dtype();
    Port { name: name.to_owned(), operand: operand.position(), dtype }
}

impl Plan {
    fn with_donations(mut self, donations: &[(String, String)]) -> Result<Self, EngineError> {
        for (input, output) in donations {
            let pair = (self.known_input(input)?, self.known_output(output)?);
            let taken = self.donations.iter().any(|&(i, o)| i == pair.0 || o == pair.1);
            if taken {
                let reason = "one of them already belongs to a donation".to_owned();
                return Err(EngineError::Donation { input: input.clone(), output: output.clone(), reason });
            }
            self.donations.push(pair);
        }
        Ok(self)
    }
}
