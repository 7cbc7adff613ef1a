//! The nodes and edges of the runtime graph, and its named inputs and outputs.

use super::GraphError;
use super::error::{OperatorPlace, Stage};
use crate::op::{
    Cost, CpuLayer, Device, LayerError, PACKED, RuntimeAttribute, RuntimeParameter, Step, Tactic, TensorMeta,
    catch_panic, drop_layer,
};
use crate::pnnx::Dim;
use crate::tensor::{DType, Format, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// Index of a [`RuntimeOperator`] in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperatorIndex(pub(super) usize);

impl OperatorIndex {
    /// The index of the operator at a position.
    pub fn new(position: usize) -> Self {
        Self(position)
    }

    /// The position in [`RuntimeGraph::operators`](super::RuntimeGraph::operators).
    pub fn position(self) -> usize {
        self.0
    }
}

/// Index of a [`RuntimeOperand`] in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandIndex(pub(super) usize);

impl OperandIndex {
    /// The index of the operand at a position.
    pub fn new(position: usize) -> Self {
        Self(position)
    }

    /// The position in [`RuntimeGraph::operands`](super::RuntimeGraph::operands).
    pub fn position(self) -> usize {
        self.0
    }
}

/// One operator: its connections, its parameters and weights, and the layer that runs it.
///
/// The layer is initialised once, and terminated when the operator is dropped.
#[derive(Debug)]
pub struct RuntimeOperator {
    pub(super) name: String,
    pub(super) op_type: String,
    pub(super) line: Option<usize>,
    pub(super) inputs: Vec<OperandIndex>,
    pub(super) input_names: Vec<Option<String>>,
    pub(super) outputs: Vec<OperandIndex>,
    pub(super) params: BTreeMap<String, RuntimeParameter>,
    pub(super) attrs: BTreeMap<String, RuntimeAttribute>,
    pub(super) layer: Option<Box<dyn CpuLayer>>,
    pub(super) device: Device,
    /// The tactic on `device`, if that is not the CPU.
    pub(super) device_tactic: u32,
    pub(super) is_initialized: bool,
    /// The message of a panic of the layer during a run; the layer is then not called again.
    pub(super) panicked: Option<String>,
    pub(super) has_run: bool,
    /// The inputs that the layer was last configured for.
    pub(super) configured: Option<Vec<TensorMeta>>,
}

#[doc(hidden)]
impl RuntimeOperator {
    /// An operator without connections, parameters, weights or layer.
    pub fn new(name: impl Into<String>, op_type: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            op_type: op_type.into(),
            line: None,
            inputs: Vec::new(),
            input_names: Vec::new(),
            outputs: Vec::new(),
            params: BTreeMap::new(),
            attrs: BTreeMap::new(),
            layer: None,
            device: Device::Cpu,
            device_tactic: Tactic::DEFAULT.id,
            is_initialized: false,
            panicked: None,
            has_run: false,
            configured: None,
        }
    }

    /// Sets the line of the file.
    #[must_use]
    pub fn with_line(mut self, line: Option<usize>) -> Self {
        self.line = line;
        self
    }

    /// Sets the inputs and their argument names. Missing names are `None`.
    #[must_use]
    pub fn with_inputs(mut self, inputs: Vec<OperandIndex>, names: Vec<Option<String>>) -> Self {
        self.input_names = names;
        self.input_names.resize(inputs.len(), None);
        self.inputs = inputs;
        self
    }

    /// Sets the outputs.
    #[must_use]
    pub fn with_outputs(mut self, outputs: Vec<OperandIndex>) -> Self {
        self.outputs = outputs;
        self
    }

    /// Sets the parameters.
    #[must_use]
    pub fn with_params(mut self, params: BTreeMap<String, RuntimeParameter>) -> Self {
        self.params = params;
        self
    }

    /// Sets the weights.
    #[must_use]
    pub fn with_attrs(mut self, attrs: BTreeMap<String, RuntimeAttribute>) -> Self {
        self.attrs = attrs;
        self
    }

    /// Sets the layer that runs it.
    #[must_use]
    pub(super) fn with_layer(mut self, layer: Box<dyn CpuLayer>) -> Self {
        self.layer = Some(layer);
        self
    }
}

impl RuntimeOperator {
    /// The operator's name, unique in its graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operator's type, such as `nn.Conv2d`.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The line of the file that it came from, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The operands that it reads, in order; an operand that is used twice is listed twice.
    pub fn inputs(&self) -> &[OperandIndex] {
        &self.inputs
    }

    /// The names of the inputs in the file (`$key=…`), one entry for each input.
    pub fn input_names(&self) -> &[Option<String>] {
        &self.input_names
    }

    /// The operands that it writes, in order.
    pub fn outputs(&self) -> &[OperandIndex] {
        &self.outputs
    }

    /// The parameters by key.
    pub fn params(&self) -> &BTreeMap<String, RuntimeParameter> {
        &self.params
    }

    /// The weights by key.
    pub fn attrs(&self) -> &BTreeMap<String, RuntimeAttribute> {
        &self.attrs
    }

    /// The layer that runs it; `None` for the model's inputs, and before the graph is built.
    pub fn layer(&self) -> Option<&dyn CpuLayer> {
        self.layer.as_deref()
    }

    /// The device on which it runs: the CPU, unless an engine chose another.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The identifier of its tactic on a device other than the CPU.
    #[cfg(feature = "gpu")]
    pub(crate) fn device_tactic(&self) -> u32 {
        self.device_tactic
    }

    /// The cost of one run; zero if there is no layer.
    ///
    /// # Errors
    /// [`LayerError::Panic`] if the layer panics.
    pub fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<Cost, LayerError> {
        catch_panic(|| Ok(self.layer().map(|layer| layer.cost(inputs, outputs)).unwrap_or_default()))
    }

    /// Returns true if it has run since the inputs were last set.
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// The size of its weights in the model in bytes; copies that a plan packs are not included.
    pub fn weight_bytes(&self) -> u64 {
        let own = self.attrs.iter().filter(|(key, _)| *key != PACKED);
        own.map(|(_, attribute)| attribute.byte_len()).fold(0, u64::saturating_add)
    }

    /// The size in bytes of the packed copies of its weights in the plan that it was loaded from; zero if it was not.
    pub fn packed_bytes(&self) -> u64 {
        self.attrs.get(PACKED).map_or(0, RuntimeAttribute::byte_len)
    }

    /// Restores the layer's stored state.
    pub(super) fn restore(&mut self, state: &[u8], path: Option<&Path>) -> Result<(), GraphError> {
        let Some(layer) = &mut self.layer else { return Ok(()) };
        let result = catch_panic(|| layer.deserialize(state));
        result.map_err(|source| self.error(path, Stage::Restore, source))
    }

    /// Initialises the layer if it runs on the CPU.
    pub(super) fn initialize(&mut self, path: Option<&Path>) -> Result<(), GraphError> {
        let Some(layer) = self.layer.as_mut().filter(|_| self.device == Device::Cpu) else { return Ok(()) };
        let result = catch_panic(|| layer.initialize());
        self.is_initialized = result.is_ok();
        result.map_err(|source| self.error(path, Stage::Initialize, source))
    }

    /// An error of this operator.
    pub(crate) fn error(&self, path: Option<&Path>, stage: Stage, source: LayerError) -> GraphError {
        GraphError::Operator { place: self.place(path), stage, source: Box::new(source), inputs: Vec::new() }
    }

    pub(crate) fn place(&self, file: Option<&Path>) -> Box<OperatorPlace> {
        Box::new(OperatorPlace {
            op_type: self.op_type.clone(),
            name: self.name.clone(),
            file: file.map(Path::to_path_buf),
            line: self.line,
        })
    }
}

impl Drop for RuntimeOperator {
    fn drop(&mut self) {
        let Some(mut layer) = self.layer.take() else { return };
        let is_initialized = self.is_initialized;
        let terminated = catch_panic(|| {
            if is_initialized {
                layer.terminate();
            }
            Ok(())
        });
        if let Err(error) = terminated {
            log::error!("{} `{}` cannot be terminated: {error}", self.op_type, self.name);
        }
        drop_layer(layer);
    }
}

/// One edge of the graph: a tensor that one operator writes and others read.
#[derive(Debug, Clone)]
pub struct RuntimeOperand {
    pub(super) name: String,
    pub(super) dtype: Option<DType>,
    pub(super) shape: Option<Vec<Dim>>,
    pub(super) format: Format,
    pub(super) step: Option<Step>,
    pub(super) device: Device,
    pub(super) producer: Option<OperatorIndex>,
    pub(super) consumers: Vec<OperatorIndex>,
    pub(super) is_output: bool,
    pub(super) data: Option<Tensor>,
}

#[doc(hidden)]
impl RuntimeOperand {
    /// An operand without producer and consumers.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            dtype: None,
            shape: None,
            format: Format::Plain,
            step: None,
            device: Device::Cpu,
            producer: None,
            consumers: Vec::new(),
            is_output: false,
            data: None,
        }
    }

    /// Sets the element type and the shape that the file states, if any.
    #[must_use]
    pub fn with_hint(self, dtype: Option<DType>, shape: Option<Vec<Dim>>) -> Self {
        Self { dtype, shape, ..self }
    }

    /// Adds an operator that reads it; called once for each use.
    pub fn add_consumer(&mut self, operator: OperatorIndex) {
        self.consumers.push(operator);
    }

    /// Sets the operator that writes it.
    pub fn set_producer(&mut self, operator: OperatorIndex) {
        self.producer = Some(operator);
    }

    /// Marks it as an output of the model.
    pub fn mark_output(&mut self) {
        self.is_output = true;
    }
}

impl RuntimeOperand {
    /// The operand's name, unique in its graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The element type that the file states. A hint only: the layer determines the actual type.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The shape that the file states. A hint only, recorded from the sample that the model was exported with.
    pub fn shape(&self) -> Option<&[Dim]> {
        self.shape.as_deref()
    }

    /// The memory format: plain, unless an engine chose another.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The scale, if an engine chose to quantise it: the distance between adjacent representable numbers.
    pub fn scale(&self) -> Option<f32> {
        self.step.map(|step| step.scale)
    }

    /// The step, if an engine chose to quantise it.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// The device whose memory holds it: the CPU, unless an engine chose another.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The operator that writes it.
    pub fn producer(&self) -> Option<OperatorIndex> {
        self.producer
    }

    /// The operators that read it, one entry for each use.
    pub fn consumers(&self) -> &[OperatorIndex] {
        &self.consumers
    }

    /// Returns true if it is an output of the model.
    pub fn is_output(&self) -> bool {
        self.is_output
    }

    /// The tensor, while it is held: from its creation until its last consumer has run. Outputs of the model are kept.
    pub fn data(&self) -> Option<&Tensor> {
        self.data.as_ref()
    }
}

/// A named input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPort {
    /// The name of the `pnnx.Input` operator. Callers may also use the name of its operand.
    pub name: String,
    /// The operand that holds the input.
    pub operand: OperandIndex,
}

/// A named output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPort {
    /// The name of the operand, or of the `pnnx.Output` operator if that returns a single operand.
    pub name: String,
    /// The operand that is returned.
    pub operand: OperandIndex,
}
