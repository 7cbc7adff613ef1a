//! The runtime graph, from the path of a model to named inputs and outputs.

use super::change::Change;
use super::convert::{convert, randomize};
use super::draft::Draft;
use super::operator::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
use super::release::releases;
use super::source::{ReadOptions, default_bin_path, is_onnx, read_model};
use super::{GraphError, Stage, resolve_control, resolve_quantization, restore_losses};
use crate::Limits;
use crate::op::{CpuLayer, Creator, LayerError, Registry, with_deadline};
use crate::pnnx;
use crate::tensor::{Tensor, Workspace};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Calls a function with all numbers below a count.
pub(crate) type Share = dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// The build state of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildState {
    /// The file has not been read.
    NeedsInit,
    /// The file has been read, but the layers have not been created.
    NeedsBuild,
    /// Ready to run.
    Complete,
}

/// A model that can be built and run, operator by operator.
///
/// This is the plain interpreter. It deliberately does no optimisation: it is the reference for optimised engines.
///
/// ```
/// use ixion::graph::RuntimeGraph;
/// use ixion::tensor::Tensor;
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
/// let mut graph = RuntimeGraph::new(model);
/// graph.build()?;
/// let name = graph.inputs()[0].name.clone();
/// graph.set_input(&name, Tensor::from_vec(vec![0.5f32; 32], &[1, 32])?)?;
/// graph.run()?;
/// let output = graph.output("pnnx_output_0")?;
/// assert_eq!(output.shape().dims(), &[1, 128]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RuntimeGraph {
    pub(super) param: Option<PathBuf>,
    bin: Option<PathBuf>,
    #[cfg(feature = "onnx")]
    pub(super) constants: ixion_onnx::Constants,
    /// Whether the lengths of the file's inputs are binding, as those of ONNX files are.
    pub(super) declares_shapes: bool,
    pub(super) limits: Limits,
    random_weights: Option<u64>,
    registry: Registry,
    pub(super) file: Option<pnnx::Graph>,
    /// The decisions of an engine.
    pub(super) changes: Vec<Change>,
    state: BuildState,
    pub(super) operators: Vec<RuntimeOperator>,
    pub(super) operands: Vec<RuntimeOperand>,
    pub(super) inputs: Vec<InputPort>,
    pub(super) outputs: Vec<OutputPort>,
    /// For each operator, the operands that are no longer needed once it has run.
    pub(super) releases: Vec<Vec<OperandIndex>>,
    pub(super) workspace: Option<Workspace>,
}

impl RuntimeGraph {
    /// A graph that will be read from this `.param` file and the archive next to it, or from this ONNX file. Nothing is read
    /// yet.
    pub fn new(param: impl Into<PathBuf>) -> Self {
        Self { param: Some(param.into()), ..Self::unread(BuildState::NeedsInit) }
    }

    /// A runtime graph for a file's graph that is already in memory.
    pub fn from_pnnx(file: pnnx::Graph) -> Self {
        Self { file: Some(file), ..Self::unread(BuildState::NeedsBuild) }
    }

    fn unread(state: BuildState) -> Self {
        Self {
            param: None,
            bin: None,
            #[cfg(feature = "onnx")]
            constants: ixion_onnx::Constants::new(),
            declares_shapes: false,
            limits: Limits::default(),
            random_weights: None,
            registry: Registry::default(),
            file: None,
            changes: Vec::new(),
            state,
            operators: Vec::new(),
            operands: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            releases: Vec::new(),
            workspace: None,
        }
    }

    /// Reads the weights from this archive instead of the one next to the `.param` file.
    #[must_use]
    pub fn with_bin(self, bin: impl Into<PathBuf>) -> Self {
        Self { bin: Some(bin.into()), ..self }
    }

    /// Fixes inputs of an ONNX file to values: they are then no inputs, and what depends on them alone is computed when the file
    /// is read.
    #[cfg(feature = "onnx")]
    #[must_use]
    pub fn with_constants(self, constants: ixion_onnx::Constants) -> Self {
        Self { constants, ..self }
    }

    /// Generates random weights from a seed instead of reading an archive.
    #[must_use]
    pub fn with_random_weights(self, seed: u64) -> Self {
        Self { random_weights: Some(seed), ..self }
    }

    /// Returns true if the weights are random, and so not those of the model.
    #[doc(hidden)]
    pub fn has_random_weights(&self) -> bool {
        self.random_weights.is_some()
    }

    /// Loads and runs within these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Creates layers from this registry instead of the built-in one.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Replaces the limits, for instance to set a new deadline.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The limits for loading and running.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The build state.
    pub fn state(&self) -> BuildState {
        self.state
    }

    /// Reads the file: the text, and the directory of the archive. May be called again, after which the graph must be rebuilt.
    ///
    /// # Errors
    /// Returns an error for an empty path, a missing or invalid file, or a graph without operators. The graph is then
    /// unchanged.
    pub fn init(&mut self) -> Result<(), GraphError> {
        let Some(param) = &self.param else {
            return if self.file.is_some() { Ok(()) } else { Err(GraphError::EmptyPath) };
        };
        if param.as_os_str().is_empty() {
            return Err(GraphError::EmptyPath);
        }
        let beside = default_bin_path(param);
        let bin = match (&self.bin, self.random_weights) {
            (_, Some(_)) => None,
            (Some(bin), None) => Some(bin.as_path()),
            (None, None) => Some(beside.as_path()).filter(|path| path.is_file() && !is_onnx(param)),
        };
        let options = ReadOptions {
            bin: bin.map(Path::to_owned),
            #[cfg(feature = "onnx")]
            constants: self.constants.clone(),
            limits: self.limits.clone(),
        };
        let file = read_model(param, &options)?;
        if file.operators().next().is_none() {
            return Err(GraphError::NoOperators { file: param.clone() });
        }
        self.declares_shapes = is_onnx(param);
        self.file = Some(file);
        self.state = BuildState::NeedsBuild;
        Ok(())
    }

    /// Makes the graph ready to run: sorts the operators topologically, connects operators and operands, creates and
    /// initialises the layers, and drops the file's graph. Reads the file first if necessary. Does nothing if the graph is
    /// complete.
    ///
    /// # Errors
    /// As [`RuntimeGraph::init`]; an error for missing weights or unsupported operators (all of them are reported together), a
    /// layer that cannot be created or initialised, a cycle, or an operand without a producer.
    pub fn build(&mut self) -> Result<(), GraphError> {
        if self.state == BuildState::Complete {
            return Ok(());
        }
        let limits = self.limits.clone();
        with_deadline(&limits, || {
            self.connect()?;
            self.initialize(&|count, work| (0..count).for_each(work)).map(drop)
        })
    }

    /// The first part of [`RuntimeGraph::build`]: everything except initialising the layers, so that an engine can select their
    /// formats before that.
    pub(crate) fn connect(&mut self) -> Result<(), GraphError> {
        if self.state == BuildState::NeedsInit {
            self.init()?;
        }
        let Some(file) = &mut self.file else { return Err(GraphError::NotBuilt) };
        resolve_control(file, &self.registry, self.param.as_deref())?;
        resolve_quantization(file)?;
        restore_losses(file)?;
        self.registry.resolve(file).map_err(pnnx::PnnxError::from)?;
        let Some(file) = &self.file else { return Err(GraphError::NotBuilt) };
        let path = self.param.as_deref();
        let draft = convert(file, path, &self.registry, self.random_weights, &self.limits)?;
        self.check_weights(file)?;
        let Draft { operators, operands, inputs, outputs, .. } = draft;
        (self.operators, self.operands) = (operators, operands);
        (self.inputs, self.outputs) = (inputs, outputs);
        self.state = BuildState::Complete;
        Ok(())
    }

    /// Between the two parts of [`RuntimeGraph::build`]: restores the stored states of layers, by operator name. Layers without
    /// a stored state get an empty one.
    pub(crate) fn restore(&mut self, states: &BTreeMap<String, Vec<u8>>) -> Result<(), GraphError> {
        let path = self.param.as_deref();
        self.operators.iter_mut().try_for_each(|operator| {
            let state = states.get(&operator.name).map(Vec::as_slice).unwrap_or_default();
            operator.restore(state, path)
        })
    }

    /// The second part of [`RuntimeGraph::build`]: initialises the layers. `share` calls its argument with all numbers below a
    /// count, possibly on several threads. Returns the file's graph, which is no longer needed.
    pub(crate) fn initialize(&mut self, share: &Share) -> Result<Option<pnnx::Graph>, GraphError> {
        if let Err(error) = self.initialize_layers(share) {
            self.operators.clear();
            self.state = BuildState::NeedsBuild;
            return Err(error);
        }
        self.releases = releases(&self.operators, &self.operands);
        Ok(self.file.take())
    }

    /// Initialises the layers, those of plugins in order, and shares the others among threads, those with the largest weights
    /// first: packing weights takes most of the time of building a plan. Returns the error of the first operator that fails.
    fn initialize_layers(&mut self, share: &Share) -> Result<(), GraphError> {
        let (path, registry) = (self.param.as_deref(), &self.registry);
        let is_built_in = |operator: &RuntimeOperator| {
            let creator = registry.known(operator.op_type());
            creator.is_some_and(|creator| creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN)
        };
        let (mut built_in, plugins): (Vec<_>, Vec<_>) =
            self.operators.iter_mut().enumerate().partition(|(_, operator)| is_built_in(operator));
        // The memory in which the largest weights are read is then used again for the packed weights of the others, and the
        // threads finish at nearly the same time.
        built_in.sort_by_key(|(_, operator)| Reverse(operator.weight_bytes()));
        let failed = Mutex::new(None::<(usize, GraphError)>);
        let built_in: Vec<Mutex<(usize, &mut RuntimeOperator)>> =
            built_in.into_iter().map(Mutex::new).collect();
        share(built_in.len(), &|number| {
            let Some(mut item) = built_in.get(number).and_then(|item| item.lock().ok()) else { return };
            let (position, operator) = &mut *item;
            if let (Err(error), Ok(mut failed)) = (operator.initialize(path), failed.lock())
                && failed.as_ref().is_none_or(|(first, _)| *position < *first)
            {
                *failed = Some((*position, error));
            }
        });
        let first = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (position, operator) in plugins {
            if first.as_ref().is_some_and(|(failed, _)| *failed < position) {
                break;
            }
            operator.initialize(path)?;
        }
        first.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Reads the file and returns its graph, which passes can transform and [`RuntimeGraph::from_pnnx`] takes back. Random
    /// weights are generated if requested.
    ///
    /// # Errors
    /// As [`RuntimeGraph::init`]; an error for missing weights; [`GraphError::AlreadyBuilt`] if the graph has been built, as it
    /// has then dropped its file.
    pub fn into_pnnx(mut self) -> Result<pnnx::Graph, GraphError> {
        if self.state == BuildState::NeedsInit {
            self.init()?;
        }
        let Some(mut file) = self.file.take() else { return Err(GraphError::AlreadyBuilt) };
        // Passes, plans and scales know operators by their names.
        file.write_unique_names();
        resolve_control(&mut file, &self.registry, self.param.as_deref())?;
        resolve_quantization(&mut file)?;
        restore_losses(&mut file)?;
        self.registry.resolve(&mut file).map_err(pnnx::PnnxError::from)?;
        match self.random_weights {
            Some(seed) => randomize(&mut file, seed)?,
            None => self.check_weights(&file)?,
        }
        Ok(file)
    }

    /// The path of the `.param` file, if the graph was read from one.
    pub fn path(&self) -> Option<&Path> {
        self.param.as_deref()
    }

    /// Sets the path that errors report, for a graph that is already in memory.
    pub(crate) fn with_path(self, path: Option<&Path>) -> Self {
        // If the archive is set explicitly, its existence is not checked.
        Self { param: path.map(Path::to_path_buf), bin: path.map(default_bin_path), ..self }
    }

    /// The registry from which the layers are created.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn check_weights(&self, file: &pnnx::Graph) -> Result<(), GraphError> {
        if self.random_weights.is_some() {
            return Ok(());
        }
        let errors = file.check_weights();
        if errors.is_empty() {
            return Ok(());
        }
        if let (Some(param), None) = (&self.param, &self.bin) {
            let beside = default_bin_path(param);
            if !beside.is_file() {
                let count = file.operators().map(|(_, operator)| operator.attrs().len()).sum();
                return Err(GraphError::NoArchive { beside, count });
            }
        }
        Err(GraphError::Weights(errors))
    }

    /// All operators in execution order, without the inputs and outputs of the model: see [`RuntimeGraph::inputs`] and
    /// [`RuntimeGraph::outputs`].
    pub fn operators(&self) -> &[RuntimeOperator] {
        &self.operators
    }

    /// The operator with this name.
    pub fn operator_named(&self, name: &str) -> Option<&RuntimeOperator> {
        self.operators.iter().find(|operator| operator.name == name)
    }

    /// The operator with this index.
    pub fn operator(&self, index: OperatorIndex) -> &RuntimeOperator {
        &self.operators[index.0]
    }

    /// The operands that are no longer needed once the operator at a position has run.
    pub(crate) fn released_after(&self, position: usize) -> &[OperandIndex] {
        &self.releases[position]
    }

    /// All operands.
    pub fn operands(&self) -> &[RuntimeOperand] {
        &self.operands
    }

    /// The operand with this index.
    pub fn operand(&self, index: OperandIndex) -> &RuntimeOperand {
        &self.operands[index.0]
    }

    /// The error of an operator that failed in a stage, with notes on its inputs.
    pub(crate) fn operator_error(
        &self,
        operator: &RuntimeOperator,
        stage: Stage,
        source: LayerError,
        notes: &[String],
    ) -> GraphError {
        operator.error(self.param.as_deref(), stage, source).with_inputs(notes)
    }

    /// The input operands of an operator, each with the name of its producer, or with the name of the input for inputs of the
    /// model.
    pub fn inputs_by_producer<'a>(
        &'a self,
        operator: &'a RuntimeOperator,
    ) -> impl Iterator<Item = (&'a str, &'a RuntimeOperand)> {
        operator.inputs.iter().map(|&index| {
            let operand = self.operand(index);
            let input = || self.inputs.iter().find(|port| port.operand == index);
            let producer = match operand.producer {
                Some(producer) => self.operator(producer).name(),
                None => input().map_or("", |port| port.name.as_str()),
            };
            (producer, operand)
        })
    }

    /// The model's inputs, in file order.
    pub fn inputs(&self) -> &[InputPort] {
        &self.inputs
    }

    /// The model's outputs, in the order in which the model returns them; tuples are flattened depth first.
    pub fn outputs(&self) -> &[OutputPort] {
        &self.outputs
    }

    /// The tensor of an output; shared, not copied.
    ///
    /// # Errors
    /// [`GraphError::UnknownName`], or [`GraphError::NotRun`] before the first run.
    pub fn output(&self, name: &str) -> Result<Tensor, GraphError> {
        let port =
            self.outputs.iter().find(|port| port.name == name || self.operand(port.operand).name == name);
        let port = port.ok_or_else(|| GraphError::UnknownName {
            what: "output",
            name: name.to_owned(),
            known: self.outputs.iter().map(|port| port.name.clone()).collect(),
        })?;
        self.value_of(port)
    }

    /// The tensors of all outputs, in the order of [`RuntimeGraph::outputs`].
    ///
    /// # Errors
    /// [`GraphError::NotRun`] before the first run.
    pub fn output_values(&self) -> Result<Vec<Tensor>, GraphError> {
        self.outputs.iter().map(|port| self.value_of(port)).collect()
    }

    fn value_of(&self, port: &OutputPort) -> Result<Tensor, GraphError> {
        let data = self.operand(port.operand).data.clone();
        data.ok_or_else(|| GraphError::NotRun(port.name.clone()))
    }
}
