//! The rules of all layers, one after the other.

use super::symbols::{settle, symbolic_inputs};
use super::{Changes, ShapeError};
use crate::graph::{
    BuildState, GraphError, InputPort, LayerError, OperandIndex, RuntimeGraph, RuntimeOperator, Stage,
    TensorMeta, guarded,
};
use crate::tensor::{DType, TensorError};

/// The shapes and element types of all operands of a graph, for given inputs.
///
/// ```
/// use ixion::graph::{RuntimeGraph, TensorMeta};
/// use ixion::shape::Shapes;
/// use ixion::tensor::DType;
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let mut graph = RuntimeGraph::new(model);
/// graph.build()?;
/// let output = graph.outputs()[0].operand;
///
/// let symbolic = Shapes::symbolic(&graph)?;
/// assert_eq!(symbolic.get(output).unwrap().to_string(), "pnnx_input_0.0×10 f32");
///
/// let pictures = TensorMeta::new(DType::F32, [5, 1, 8, 8]);
/// let shapes = Shapes::infer(&graph, &[pictures])?;
/// assert_eq!(shapes.get(output).unwrap().to_string(), "5×10 f32");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    metas: Vec<Option<TensorMeta>>,
    /// The most bytes that each operand has taken since the cache was cleared.
    largest: Vec<u64>,
    is_complete: bool,
}

impl Shapes {
    /// Applies the rule of every operator in order: with symbols or with numbers.
    ///
    /// `inputs` describes the model's inputs, in their order. An operand whose rule needs what is not known, such as the
    /// values of an integer input, has no description, and neither need those behind it.
    ///
    /// # Errors
    /// Too few or too many inputs, or others than the file names; a graph that is not built; the first operator that does
    /// not fit its inputs, with the operators that these come from.
    pub fn infer(graph: &RuntimeGraph, inputs: &[TensorMeta]) -> Result<Self, ShapeError> {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        Self::infer_known(graph, &inputs)
    }

    /// The same with the inputs of which something is known.
    ///
    /// # Errors
    /// As [`Shapes::infer`].
    pub fn infer_known(graph: &RuntimeGraph, inputs: &[Option<TensorMeta>]) -> Result<Self, ShapeError> {
        let mut shapes = Self::default();
        shapes.apply(graph, inputs)?;
        Ok(shapes)
    }

    /// The same with a symbol for every length of the inputs, see [`symbolic_inputs`].
    ///
    /// # Errors
    /// As [`Shapes::infer`].
    pub fn symbolic(graph: &RuntimeGraph) -> Result<Self, ShapeError> {
        Self::infer_known(graph, &symbolic_inputs(graph))
    }

    /// What is known of an operand.
    pub fn get(&self, operand: OperandIndex) -> Option<&TensorMeta> {
        self.metas.get(operand.position())?.as_ref()
    }

    /// What is known of all operands, by their position.
    pub fn metas(&self) -> &[Option<TensorMeta>] {
        &self.metas
    }

    /// What is known of several operands, where something is known of all.
    pub fn get_all(&self, operands: &[OperandIndex]) -> Option<Vec<TensorMeta>> {
        operands.iter().map(|&operand| self.get(operand).cloned()).collect()
    }

    /// Forgets everything: the next update applies all rules and reports all operands.
    pub fn clear(&mut self) {
        log::debug!("the shapes of {} operands are forgotten", self.metas.len());
        *self = Self::default();
    }

    /// Whether these are the inputs that everything was inferred from.
    pub(super) fn has_inputs(&self, graph: &RuntimeGraph, inputs: &[TensorMeta]) -> bool {
        let same = |(port, input): (&InputPort, &TensorMeta)| self.get(port.operand) == Some(input);
        self.is_complete
            && graph.inputs().len() == inputs.len()
            && graph.inputs().iter().zip(inputs).all(same)
    }

    /// Takes over the inputs and applies the rules of all operators that depend on what changed.
    pub(super) fn apply(
        &mut self,
        graph: &RuntimeGraph,
        inputs: &[Option<TensorMeta>],
    ) -> Result<Changes, ShapeError> {
        check_inputs(graph, inputs)?;
        let mut update = Update::new(self, graph);
        let result = update.run(inputs);
        let Update { before, changes, .. } = update;
        if let Err(error) = result {
            before.into_iter().for_each(|(position, old)| self.metas[position] = old);
            return Err(error);
        }
        self.is_complete = true;
        self.report(graph, &changes);
        Ok(changes)
    }

    fn report(&self, graph: &RuntimeGraph, changes: &Changes) {
        log::debug!(
            "shapes: {} of {} operators inferred, {} operands changed, {} need a larger buffer",
            changes.operators.len(),
            graph.operators().len(),
            changes.operands.len(),
            changes.larger.len()
        );
    }
}

/// One walk through the operators.
struct Update<'a> {
    shapes: &'a mut Shapes,
    graph: &'a RuntimeGraph,
    /// By the operand's position.
    is_changed: Vec<bool>,
    /// What was there, for the way back after an error.
    before: Vec<(usize, Option<TensorMeta>)>,
    changes: Changes,
    /// The inputs of the operator that is looked at.
    inputs: Vec<TensorMeta>,
}

impl<'a> Update<'a> {
    fn new(shapes: &'a mut Shapes, graph: &'a RuntimeGraph) -> Self {
        let count = graph.operands().len();
        if shapes.metas.len() != count {
            *shapes = Shapes { metas: vec![None; count], largest: vec![0; count], is_complete: false };
        }
        let is_changed = vec![false; count];
        Self {
            shapes,
            graph,
            is_changed,
            before: Vec::new(),
            changes: Changes::default(),
            inputs: Vec::new(),
        }
    }

    fn run(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        let graph = self.graph;
        for (port, input) in graph.inputs().iter().zip(inputs) {
            self.set(port.operand, input.clone());
        }
        for operator in graph.operators() {
            let is_stale = operator.inputs().iter().any(|input| self.is_changed[input.position()]);
            if is_stale || !self.shapes.is_complete {
                self.infer(operator)?;
            }
        }
        let shapes = &mut *self.shapes;
        for &operand in &self.changes.operands {
            let bytes = shapes.get(operand).and_then(TensorMeta::byte_len).unwrap_or(0);
            let largest = &mut shapes.largest[operand.position()];
            if bytes > *largest {
                *largest = bytes;
                self.changes.larger.push(operand);
            }
        }
        Ok(())
    }

    fn set(&mut self, operand: OperandIndex, meta: Option<TensorMeta>) {
        let (position, runtime) = (operand.position(), self.graph.operand(operand));
        let meta = meta.map(|meta| {
            let meta = if runtime.scale().is_some() { meta.with_dtype(DType::I8) } else { meta };
            meta.with_format(runtime.format()).with_scale(runtime.scale())
        });
        let place = &mut self.shapes.metas[position];
        if *place == meta && self.shapes.is_complete {
            return;
        }
        self.is_changed[position] = true;
        self.changes.operands.push(operand);
        self.before.push((position, std::mem::replace(place, meta)));
    }

    fn infer(&mut self, operator: &RuntimeOperator) -> Result<(), ShapeError> {
        let outputs = self.outputs(operator)?;
        log::trace!("{} `{}`: {}", operator.op_type(), operator.name(), Listed(outputs.as_deref()));
        let producer = operator.outputs().first().and_then(|&output| self.graph.operand(output).producer());
        self.changes.operators.extend(producer);
        let mut outputs = outputs.unwrap_or_default().into_iter();
        for &operand in operator.outputs() {
            self.set(operand, outputs.next());
        }
        Ok(())
    }

    /// What the layer says of its outputs; none where it cannot know.
    fn outputs(&mut self, operator: &RuntimeOperator) -> Result<Option<Vec<TensorMeta>>, ShapeError> {
        let Some(layer) = operator.layer() else { return Err(GraphError::NotBuilt.into()) };
        self.inputs.clear();
        for &input in operator.inputs() {
            let Some(meta) = self.shapes.get(input) else { return Ok(None) };
            self.inputs.push(real(meta));
        }
        let inferred = guarded(|| self.with_constant(operator, layer.infer(&self.inputs)?));
        match inferred {
            Ok(outputs) if outputs.len() != operator.outputs().len() => {
                let wanted = format!("{} outputs", operator.outputs().len());
                let found = outputs.len().to_string();
                Err(self.error(operator, LayerError::BrokenPromise { wanted, found }))
            }
            Ok(mut outputs) => {
                settle(operator, &mut outputs);
                Ok(Some(outputs))
            }
            Err(error) if needs_more(&error) && self.inputs.iter().any(|input| !input.is_known()) => {
                log::debug!("{} `{}`: not known: {error}", operator.op_type(), operator.name());
                Ok(None)
            }
            Err(error) => Err(self.error(operator, error)),
        }
    }

    /// Adds the values of small integers that do not depend on anything, and sizes that only computing them tells.
    fn with_constant(
        &self,
        operator: &RuntimeOperator,
        mut outputs: Vec<TensorMeta>,
    ) -> Result<Vec<TensorMeta>, LayerError> {
        if let (Some(layer), [output], true) =
            (operator.layer(), &mut outputs[..], operator.inputs().is_empty())
            && (output.may_have_values() || output.shape().is_err())
            && let Some(tensor) = layer.constant(self.graph.limits())?
        {
            *output = TensorMeta::of(&tensor.view());
        }
        Ok(outputs)
    }

    /// The error with what is known of the operator's inputs, and where they come from.
    fn error(&self, operator: &RuntimeOperator, source: LayerError) -> ShapeError {
        let notes: Vec<String> = operator.inputs().iter().map(|&input| self.origin(input)).collect();
        self.graph.operator_error(operator, Stage::Infer, source, &notes).into()
    }

    fn origin(&self, index: OperandIndex) -> String {
        let operand = self.graph.operand(index);
        let shape = self.shapes.get(index).map_or_else(|| "unknown".to_owned(), TensorMeta::to_string);
        match operand.producer().map(|producer| self.graph.operator(producer)) {
            Some(producer) => {
                format!("`{}` from {} `{}` is {shape}", operand.name(), producer.op_type(), producer.name())
            }
            None => {
                let port = self.graph.inputs().iter().find(|port| port.operand == index);
                format!("input `{}` is {shape}", port.map_or(operand.name(), |port| &port.name))
            }
        }
    }
}

/// What a rule sees: whole numbers that an engine chose for real ones are its own affair.
fn real(meta: &TensorMeta) -> TensorMeta {
    match meta.scale() {
        Some(_) => meta.with_dtype(DType::F32).with_format(meta.format()),
        None => meta.clone(),
    }
}

/// Whether an error says that something is not known, and not that something known is wrong.
fn needs_more(error: &LayerError) -> bool {
    matches!(error, LayerError::Unsupported(_) | LayerError::Tensor(TensorError::InvalidArgument(_)))
}

/// Checks that there are as many inputs as the model has, and that they may be its inputs.
pub(super) fn check_inputs(graph: &RuntimeGraph, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
    if graph.state() != BuildState::Complete {
        return Err(GraphError::NotBuilt.into());
    }
    if graph.inputs().len() != inputs.len() {
        let names = graph.inputs().iter().map(|port| port.name.clone()).collect();
        return Err(ShapeError::InputCount { found: inputs.len(), names });
    }
    let mut pairs = graph.inputs().iter().zip(inputs);
    pairs.try_for_each(|(port, input)| input.as_ref().map_or(Ok(()), |input| check_input(graph, port, input)))
}

/// As the interpreter does: type and rank are those of the file, lengths may be others.
fn check_input(graph: &RuntimeGraph, port: &InputPort, input: &TensorMeta) -> Result<(), ShapeError> {
    let (name, operand) = (port.name.clone(), graph.operand(port.operand));
    if let Some(wanted) = operand.dtype().filter(|&wanted| wanted != input.dtype()) {
        return Err(ShapeError::InputDType { name, wanted, found: input.dtype() });
    }
    match operand.shape() {
        Some(wanted) if wanted.len() != input.rank() => {
            Err(ShapeError::InputRank { name, wanted: wanted.len(), found: input.to_string() })
        }
        _ => Ok(()),
    }
}

/// The outputs of an operator as the log names them.
struct Listed<'a>(Option<&'a [TensorMeta]>);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(metas) = self.0 else { return f.write_str("not known") };
        let texts: Vec<String> = metas.iter().map(TensorMeta::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}
