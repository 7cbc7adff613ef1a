//! The inferred shapes of all operands, cached between runs.

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
    /// The largest size of each operand in bytes since the cache was cleared.
    largest: Vec<u64>,
}

impl Shapes {
    /// Applies the shape rules of all operators in order, with symbolic or concrete dimensions.
    ///
    /// `inputs` describes the model's inputs, in order. An operand has no metadata if its rule needs something that is unknown,
    /// such as the values of an integer input; operands that depend on it may then have none either.
    ///
    /// # Errors
    /// Returns an error if there are too few or too many inputs, if they do not match the file, or if the graph is not built;
    /// the error of the first operator that rejects its inputs, with the producers of these inputs.
    pub fn infer(graph: &RuntimeGraph, inputs: &[TensorMeta]) -> Result<Self, ShapeError> {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        Self::infer_known(graph, &inputs)
    }

    /// As [`Shapes::infer`], for inputs of which some are unknown.
    ///
    /// # Errors
    /// As [`Shapes::infer`].
    pub fn infer_known(graph: &RuntimeGraph, inputs: &[Option<TensorMeta>]) -> Result<Self, ShapeError> {
        let mut shapes = Self::default();
        shapes.apply(graph, inputs)?;
        Ok(shapes)
    }

    /// As [`Shapes::infer`], with a symbol for every length of the inputs, see [`symbolic_inputs`].
    ///
    /// # Errors
    /// As [`Shapes::infer`].
    pub fn symbolic(graph: &RuntimeGraph) -> Result<Self, ShapeError> {
        Self::infer_known(graph, &symbolic_inputs(graph))
    }

    /// The metadata of an operand, if known.
    pub fn get(&self, operand: OperandIndex) -> Option<&TensorMeta> {
        self.metas.get(operand.position())?.as_ref()
    }

    /// The metadata of all operands, by position; `None` if unknown.
    pub fn metas(&self) -> &[Option<TensorMeta>] {
        &self.metas
    }

    /// The metadata of several operands; `None` if one of them is unknown.
    pub fn get_all(&self, operands: &[OperandIndex]) -> Option<Vec<TensorMeta>> {
        operands.iter().map(|&operand| self.get(operand).cloned()).collect()
    }

    /// Updates the shapes for new inputs. Only operators that depend on an actual change are inferred again; if the inputs are
    /// unchanged, nothing is done.
    ///
    /// `graph` must be the graph from which these shapes were inferred.
    ///
    /// # Errors
    /// As [`Shapes::infer`]; the shapes are then unchanged.
    pub fn update(&mut self, graph: &RuntimeGraph, inputs: &[TensorMeta]) -> Result<Changes, ShapeError> {
        if self.is_complete(graph) && same_inputs(graph, &self.metas, inputs) {
            log::trace!("the shapes of the inputs are unchanged");
            return Ok(Changes::default());
        }
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.apply(graph, &inputs)
    }

    /// Clears the cache: the next update applies all rules and reports all operands as changed.
    pub fn clear(&mut self) {
        log::debug!("cleared the shapes of {} operands", self.metas.len());
        *self = Self::default();
    }

    fn is_complete(&self, graph: &RuntimeGraph) -> bool {
        !self.metas.is_empty() && self.metas.len() == graph.operands().len()
    }

    /// Sets the inputs, and applies the rules of all operators that depend on a change; of all operators if the cache is empty.
    fn apply(&mut self, graph: &RuntimeGraph, inputs: &[Option<TensorMeta>]) -> Result<Changes, ShapeError> {
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
