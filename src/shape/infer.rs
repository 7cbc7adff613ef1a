//! What the rules of all operators say, kept from one run to the next.

use super::rule::{check_inputs, stored};
use super::symbols::symbolic_inputs;
use super::update::{Update, larger, same_inputs};
use super::walk::infer_all;
use super::{Changes, ShapeError};
use crate::graph::{InputPort, OperandIndex, OperatorIndex, RuntimeGraph};
use crate::op::TensorMeta;

/// The shapes and element types of all operands of a graph, for given inputs.
///
/// ```
/// use ixion::graph::RuntimeGraph;
/// use ixion::op::TensorMeta;
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

    /// Whether everything was inferred from these inputs.
    pub(super) fn has_inputs(&self, graph: &RuntimeGraph, inputs: &[TensorMeta]) -> bool {
        self.is_complete(graph) && same_inputs(graph, &self.metas, inputs)
    }

    fn is_complete(&self, graph: &RuntimeGraph) -> bool {
        !self.metas.is_empty() && self.metas.len() == graph.operands().len()
    }

    /// Takes over the inputs and applies the rules of all operators that depend on what changed; of all operators, where
    /// nothing is known yet.
    pub(super) fn apply(
        &mut self,
        graph: &RuntimeGraph,
        inputs: &[Option<TensorMeta>],
    ) -> Result<Changes, ShapeError> {
        let stored_input = |(port, input): (&InputPort, &Option<TensorMeta>)| {
            input.clone().map(|input| stored(graph.operand(port.operand), input))
        };
        check_inputs(graph, inputs)?;
        let inputs: Vec<_> = graph.inputs().iter().zip(inputs).map(stored_input).collect();
        let (operands, operators) = if self.is_complete(graph) {
            let mut update = Update::new(graph, &mut self.metas);
            update.run(&inputs)?;
            update.changed()
        } else {
            self.metas = infer_all(graph, &inputs)?;
            self.largest = vec![0; self.metas.len()];
            let operators = (0..graph.operators().len()).map(OperatorIndex::new).collect();
            ((0..self.metas.len()).map(OperandIndex::new).collect(), operators)
        };
        let larger = larger(&self.metas, &operands, &mut self.largest);
        let changes = Changes { operands, larger, operators };
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
