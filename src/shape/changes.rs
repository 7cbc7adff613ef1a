//! Updating shapes when the shapes of the inputs change.

use super::{ShapeError, Shapes};
use crate::graph::{OperandIndex, OperatorIndex, RuntimeGraph};
use crate::op::TensorMeta;

/// The changes made by an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    pub(super) operands: Vec<OperandIndex>,
    pub(super) larger: Vec<OperandIndex>,
    pub(super) operators: Vec<OperatorIndex>,
}

impl Changes {
    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The operands whose type, dimensions or known values changed.
    pub fn operands(&self) -> &[OperandIndex] {
        &self.operands
    }

    /// The operands that need more bytes than ever since the cache was last cleared.
    pub fn larger(&self) -> &[OperandIndex] {
        &self.larger
    }

    /// The operators whose rules were applied again.
    pub fn operators(&self) -> &[OperatorIndex] {
        &self.operators
    }
}

impl Shapes {
    /// Updates the shapes for new inputs. Only operators that depend on an actual change are inferred again; if the inputs are
    /// unchanged, nothing is done.
    ///
    /// `graph` must be the graph from which these shapes were inferred.
    ///
    /// # Errors
    /// As [`Shapes::infer`]; the shapes are then unchanged.
    pub fn update(&mut self, graph: &RuntimeGraph, inputs: &[TensorMeta]) -> Result<Changes, ShapeError> {
        if self.has_inputs(graph, inputs) {
            log::trace!("the shapes of the inputs are unchanged");
            return Ok(Changes::default());
        }
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.apply(graph, &inputs)
    }
}
