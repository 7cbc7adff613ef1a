//! From a file to a plan.

use super::device::{Accelerator, OnDevice};
use super::formats::{self, Formats, Settled, Terms};
use super::plan::Names;
use super::tuning::{TimingCache, Tuner};
use super::{EngineError, Fingerprint, Plan, Port, Precision, Scales};
use crate::Limits;
use crate::graph::{GraphError, OperatorIndex, RuntimeGraph, Stage};
use crate::kernels::parallel::Threads;
use crate::op::{CpuLayer, Creator, Device, Registry, TensorMeta, catch_panic, with_deadline};
use crate::ops::inserted::transfer::Transfer;
use crate::passes::{PassContext, Passes, Statistics};
use crate::pnnx::{self, PnnxError};
use crate::shape::{InputRange, InputShape, Profile, Shapes};
use crate::tensor::Tensor;
use std::path::{Path, PathBuf};

/// Reads a model, improves its graph and builds a [`Plan`].
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
    terms: Terms,
    tuning: Option<TimingCache>,
    card: Option<String>,
    limits: Limits,
    threads: usize,
}

impl Builder {
    /// A builder for this `.param` file and the archive beside it. Nothing is read yet.
    pub fn new(param: impl Into<PathBuf>) -> Self {
        Self::from_graph(RuntimeGraph::new(param))
    }

    /// A builder for a graph that is in memory already.
    pub fn from_pnnx(file: pnnx::Graph) -> Self {
        Self::from_graph(RuntimeGraph::from_pnnx(file))
    }

    /// A builder for a runtime graph that is not built yet, with its files, weights and registry. Limits are the builder's
    /// own.
    pub fn from_graph(source: RuntimeGraph) -> Self {
        Self {
            registry: source.registry().clone(),
            source,
            passes: Passes::default(),
            shapes: Vec::new(),
            ranges: Vec::new(),
            donations: Vec::new(),
            terms: Terms::default(),
            tuning: None,
            card: None,
            limits: Limits::default(),
            threads: 1,
        }
    }

    /// Reads the weights from this archive instead of the one beside the `.param` file.
    #[must_use]
    pub fn with_bin(self, bin: impl Into<PathBuf>) -> Self {
        Self { source: self.source.with_bin(bin), ..self }
    }

    /// Makes up random weights from a seed instead of reading an archive.
    #[must_use]
    pub fn with_random_weights(self, seed: u64) -> Self {
        Self { source: self.source.with_random_weights(seed), ..self }
    }

    /// Loads, builds and runs within these limits. A deadline among them is one for building; see
    /// [`Context::set_timeout`](super::Context::set_timeout) for runs.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { source: self.source.with_limits(limits.clone()), limits, ..self }
    }

    /// Creates layers from this registry instead of the built-in one.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Improves the graph with these passes instead of all; [`Passes::empty`] leaves it as it is.
    #[must_use]
    pub fn with_passes(self, passes: Passes) -> Self {
        Self { passes, ..self }
    }

    /// Runs on so many threads; 0 stands for all that the machine has. Results do not depend on it. Default: 1.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Says which lengths of an input are fixed, and which are equal: `n,3,?,w`. Others are refused when the plan runs;
    /// passes may make use of what is fixed.
    #[must_use]
    pub fn with_shape(mut self, input: impl Into<String>, shape: InputShape) -> Self {
        self.shapes.push((input.into(), shape));
        self
    }

    /// Says between which shapes an input will be; once there is a range for one input, all need one. The memory for the
    /// largest shapes is had when a context is made, and shapes outside are refused.
    #[must_use]
    pub fn with_range(mut self, range: InputRange) -> Self {
        self.ranges.push(range);
        self
    }

    /// Lets an output take the memory of an input that the caller gives away, as a cache that grows in place does; see
    /// [`Request::donate`](super::Request::donate).
    #[must_use]
    pub fn with_donation(mut self, input: impl Into<String>, output: impl Into<String>) -> Self {
        self.donations.push((input.into(), output.into()));
        self
    }

    /// Chooses layouts from these. Default: [`Formats::Cheapest`].
    #[must_use]
    pub fn with_formats(mut self, formats: Formats) -> Self {
        self.terms.formats = formats;
        self
    }

    /// Chooses from these element types where the model has f32, which stays one of them. Inputs and outputs of the model
    /// keep their types. Default: f32 alone.
    #[must_use]
    pub fn with_precisions(mut self, precisions: impl IntoIterator<Item = Precision>) -> Self {
        self.terms.precisions = precisions.into_iter().collect();
        self.terms.precisions.sort_unstable();
        self.terms.precisions.dedup();
        self
    }

    /// What whole numbers stand for, by operand: what [`Precision::Int8`] needs.
    #[must_use]
    pub fn with_scales(mut self, scales: Scales) -> Self {
        self.terms.scales = scales;
        self
    }

    /// Leaves out ways of computing by the names of their [tactics](crate::op::Tactic): `winograd-4x4`, or `winograd` for
    /// all that begin so. The one that a layer names first, which is for general use, always stays. Default: none is left out.
    #[must_use]
    pub fn without_tactics(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.terms.left_out = names.into_iter().map(Into::into).collect();
        self
    }

    /// Computes in ways of these names, as of [`Builder::without_tactics`], wherever layers can, whatever that costs. Default:
    /// the price decides.
    #[must_use]
    pub fn with_tactics(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.terms.preferred = names.into_iter().map(Into::into).collect();
        self
    }

    /// Measures what element types, layouts and tactics cost on this machine, at the sizes that the plan is made for, instead
    /// of comparing them by a model of a processor. What is in the cache is not measured again. Plans are then not the same on
    /// all machines, nor in each run.
    #[must_use]
    pub fn with_tuning(self, cache: TimingCache) -> Self {
        Self { tuning: Some(cache), ..self }
    }

    /// Runs on a device whatever that has kernels for: those of these layers. All else runs on the CPU, and what one makes and
    /// the other reads is brought there.
    #[cfg(feature = "gpu")]
    #[must_use]
    pub fn with_device(
        mut self,
        device: crate::cuda::device::Device,
        layers: crate::cuda::CudaLayers,
    ) -> Self {
        self.terms.accelerator = Some(Accelerator { device, layers });
        self
    }

    /// The text of a `model.toml`, which goes with the plan. Without it that of the file beside the `.param` file is taken,
    /// if there is one.
    #[must_use]
    pub fn with_card(self, text: impl Into<String>) -> Self {
        Self { card: Some(text.into()), ..self }
    }

    /// The model's fingerprint, and its graph after the passes, which is not built yet.
    ///
    /// # Errors
    /// A model that cannot be read; those of passes.
    pub(super) fn into_improved(mut self) -> Result<(Fingerprint, RuntimeGraph), EngineError> {
        let file = self.read()?;
        let model = Fingerprint::of(&file).map_err(|error| GraphError::from(PnnxError::from(error)))?;
        Ok((model, self.improve(file)?.0))
    }

    /// The graph of the file.
    fn read(&mut self) -> Result<pnnx::Graph, EngineError> {
        let empty = RuntimeGraph::from_pnnx(pnnx::Graph::default()).with_path(self.source.path());
        let source = std::mem::replace(&mut self.source, empty);
        Ok(source.with_registry(self.registry.clone()).into_pnnx()?)
    }

    /// Runs the passes.
    fn improve(&self, mut file: pnnx::Graph) -> Result<(RuntimeGraph, Statistics), EngineError> {
        let (limits, registry) = (self.limits.clone(), self.registry.clone());
        let known = PassContext::default().with_limits(limits.clone()).with_registry(registry.clone());
        let fixed: Vec<(String, TensorMeta)> = fixed_inputs(&file, &self.shapes).collect();
        let known = fixed.into_iter().fold(known, |known, (name, meta)| known.with_input(name, meta));
        let statistics = self.passes.run(&mut file, known)?;
        let graph = RuntimeGraph::from_pnnx(file).with_registry(registry).with_limits(limits);
        Ok((graph.with_path(self.source.path()), statistics))
    }

    /// Reads the model, runs the passes, creates the layers and computes what depends on no input.
    ///
    /// # Errors
    /// As [`RuntimeGraph::build`]; those of passes; profiles and donations that do not fit the model; scales of another model.
    pub fn build(self) -> Result<Plan, EngineError> {
        let limits = self.limits.clone();
        with_deadline(&limits, || self.built())
    }

    fn built(mut self) -> Result<Plan, EngineError> {
        if let Some(cache) = self.tuning.take() {
            self.terms.tuner = Some(Tuner::new(cache, pool(self.threads)?, self.limits.clone()));
        }
        let path = self.source.path().map(PathBuf::from);
        let file = self.read()?;
        self.terms.check_scales(&file)?;
        self.try_plugins(&file, path.as_deref())?;
        let (graph, statistics) = self.improve(file)?;
        let card = self.card.or_else(|| card_beside(path.as_deref()?, &self.limits));
        let parts = Parts {
            graph,
            statistics,
            shapes: self.shapes,
            ranges: self.ranges,
            card,
            limits: self.limits,
            threads: self.threads,
            accelerator: self.terms.accelerator.clone(),
        };
        let settle = |graph: &mut RuntimeGraph, symbols: &[_], profile: Option<&Profile>| {
            let settled = settle(graph, symbols, profile, &self.terms);
            self.terms.tuner.iter().for_each(Tuner::store);
            settled
        };
        parts.assemble(settle)?.with_donations(&self.donations)
    }
}

impl Builder {
    /// Where there is a deadline, has plugins make their layers and say their shapes once. Of one that never returns, passes
    /// would only see that time ran out.
    fn try_plugins(&self, file: &pnnx::Graph, path: Option<&Path>) -> Result<(), EngineError> {
        let is_own = |creator: &Creator| creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN;
        let mut creators =
            file.operators().filter_map(|(_, operator)| self.registry.known(operator.op_type()));
        if self.limits.deadline.is_none() || creators.all(is_own) {
            return Ok(());
        }
        let graph = RuntimeGraph::from_pnnx(file.clone()).with_registry(self.registry.clone());
        let mut graph = graph.with_limits(self.limits.clone()).with_path(path);
        graph.connect()?;
        let symbols = InputShape::apply(&graph, &self.shapes)?;
        match Shapes::infer_known(&graph, &symbols).map_err(EngineError::from) {
            Err(error @ EngineError::Stuck { .. }) => Err(error),
            // Passes may mend it, and if not, this comes again.
            _ => Ok(()),
        }
    }
}

/// What a plan is made of.
pub(super) struct Parts {
    /// A graph that no pass will change any more, and that is not built yet.
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
    /// Creates the layers, has their formats settled, and computes what depends on no input.
    pub(super) fn assemble(
        self,
        settle: impl FnOnce(
            &mut RuntimeGraph,
            &[Option<TensorMeta>],
            Option<&Profile>,
        ) -> Result<Vec<Settled>, EngineError>,
    ) -> Result<Plan, EngineError> {
        let mut graph = self.graph;
        graph.connect()?;
        let symbols = InputShape::apply(&graph, &self.shapes)?;
        let profile = if self.ranges.is_empty() { None } else { Some(Profile::new(&graph, self.ranges)?) };
        let settled = settle(&mut graph, &symbols, profile.as_ref())?;
        let pool = pool(self.threads)?;
        let source = match &pool {
            Some(pool) => pool.install(|| graph.initialize()),
            None => graph.initialize(),
        }?;
        let source = source.ok_or(GraphError::AlreadyBuilt)?;
        let constants = constants(&graph, &self.limits)?;
        let device = on_device(self.accelerator.as_ref(), &graph, &constants)?;
        Ok(Plan {
            source,
            settled,
            card: self.card,
            statistics: self.statistics,
            shapes: Shapes::infer_known(&graph, &symbols)?,
            symbols,
            given: self.shapes,
            profile,
            constants,
            device,
            inputs: inputs(&graph),
            outputs: outputs(&graph),
            names: names(&graph),
            donations: Vec::new(),
            limits: Limits { deadline: None, ..self.limits },
            pool,
            graph,
        })
    }
}

/// What a plan has on a device, where operators run there.
fn on_device(
    accelerator: Option<&Accelerator>,
    graph: &RuntimeGraph,
    constants: &[Option<Tensor>],
) -> Result<Option<OnDevice>, EngineError> {
    let mut operators = graph.operators().iter();
    let Some(first) = operators.find(|operator| operator.device() != Device::Cpu) else { return Ok(None) };
    let needed = || EngineError::NeedsDevice { operator: first.name().to_owned() };
    let made = OnDevice::new(accelerator.ok_or_else(needed)?, graph, constants);
    made.map(Some).map_err(|(position, source)| match position {
        Some(position) => {
            let operator = graph.operator(OperatorIndex::new(position));
            EngineError::of_operator(operator, graph.path(), Stage::Initialize, source)
        }
        None => EngineError::of_device(source),
    })
}

/// Settles formats for the sizes that are most likely. Where these are not possible at all, nothing is settled.
fn settle(
    graph: &mut RuntimeGraph,
    symbols: &[Option<TensorMeta>],
    profile: Option<&Profile>,
    terms: &Terms,
) -> Result<Vec<Settled>, EngineError> {
    let optimum = match profile {
        Some(profile) => profile.optimum().into_iter().map(Some).collect(),
        None => formats::optimum(graph, symbols),
    };
    match formats::settle(graph, (&optimum, symbols), terms) {
        Err(error) if profile.is_none() && formats::is_about_sizes(&error) => {
            log::debug!("formats are those of the model: {error}");
            Ok(Vec::new())
        }
        settled => settled,
    }
}

/// The text of the card beside a model, if there is one that can be read.
fn card_beside(param: &Path, limits: &Limits) -> Option<String> {
    let path = param.with_file_name("model.toml");
    let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let text = match limits.check_tensor("the file", length) {
        Ok(()) => std::fs::read_to_string(&path).map_err(|error| error.to_string()),
        Err(limit) => Err(limit.to_string()),
    };
    text.inspect_err(|error| log::warn!("{}: not taken along: {error}", path.display())).ok()
}

/// The inputs whose shapes were said, by the names that the file has for their operators.
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
    let value = |operator: &crate::graph::RuntimeOperator| match operator.layer() {
        Some(layer) if operator.inputs().is_empty() => {
            catch_panic(|| layer.constant(limits)).map_err(|source| {
                EngineError::of_operator(operator, graph.path(), crate::graph::Stage::Forward, source)
            })
        }
        _ => Ok(None),
    };
    let mut values = graph.operators().iter().map(value).collect::<Result<Vec<_>, _>>()?;
    // What is brought to a device and depends on no input is brought there once.
    for (position, operator) in graph.operators().iter().enumerate() {
        let source = operator.inputs().first().and_then(|&input| graph.operand(input).producer());
        if let (Transfer::TYPE, Some(source)) = (operator.op_type(), source) {
            values[position] = values[source.position()].clone();
        }
    }
    Ok(values)
}

fn inputs(graph: &RuntimeGraph) -> Vec<Port> {
    let port = |port: &crate::graph::InputPort| Port {
        name: port.name.clone(),
        operand: port.operand.position(),
        dtype: graph.operand(port.operand).dtype(),
    };
    graph.inputs().iter().map(port).collect()
}

fn outputs(graph: &RuntimeGraph) -> Vec<Port> {
    let port = |port: &crate::graph::OutputPort| Port {
        name: port.name.clone(),
        operand: port.operand.position(),
        dtype: graph.operand(port.operand).dtype(),
    };
    graph.outputs().iter().map(port).collect()
}

/// Names of ports come before names of operands, and of equal names the first one counts.
fn names(graph: &RuntimeGraph) -> Names {
    let mut names = Names::default();
    let operand = |index| graph.operand(index).name().to_owned();
    let inputs = graph.inputs().iter().map(|port| port.name.clone()).enumerate();
    let operands = graph.inputs().iter().map(|port| operand(port.operand)).enumerate();
    for (position, name) in inputs.chain(operands) {
        names.inputs.entry(name).or_insert(position);
    }
    let outputs = graph.outputs().iter().map(|port| port.name.clone()).enumerate();
    let operands = graph.outputs().iter().map(|port| operand(port.operand)).enumerate();
    for (position, name) in outputs.chain(operands) {
        names.outputs.entry(name).or_insert(position);
    }
    names
}

/// So many threads, of which 0 stands for all that the process may use. None for one: the caller's does.
fn pool(threads: usize) -> Result<Option<Threads>, EngineError> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    if threads == 1 {
        return Ok(None);
    }
    Threads::new(threads)
        .map(Some)
        .map_err(|error| EngineError::Threads { count: threads, reason: error.to_string() })
}

impl Plan {
    fn with_donations(mut self, donations: &[(String, String)]) -> Result<Self, EngineError> {
        for (input, output) in donations {
            let pair = (self.known_input(input)?, self.known_output(output)?);
            let taken = self.donations.iter().any(|&(i, o)| i == pair.0 || o == pair.1);
            if taken {
                let reason = "one of them is donated already".to_owned();
                return Err(EngineError::Donation { input: input.clone(), output: output.clone(), reason });
            }
            self.donations.push(pair);
        }
        Ok(self)
    }

    /// The position of an input that must be there.
    pub(super) fn known_input(&self, name: &str) -> Result<usize, GraphError> {
        let known = || self.inputs.iter().map(|port| port.name.clone()).collect();
        let unknown = || GraphError::UnknownName { what: "input", name: name.to_owned(), known: known() };
        self.input(name).ok_or_else(unknown)
    }

    /// The position of an output that must be there.
    pub(super) fn known_output(&self, name: &str) -> Result<usize, GraphError> {
        let known = || self.outputs.iter().map(|port| port.name.clone()).collect();
        let unknown = || GraphError::UnknownName { what: "output", name: name.to_owned(), known: known() };
        self.output(name).ok_or_else(unknown)
    }
}
