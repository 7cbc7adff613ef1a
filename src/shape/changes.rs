//! What becomes of the shapes when those of the inputs change.

use super::{ShapeError, Shapes};
use crate::graph::{OperandIndex, OperatorIndex, RuntimeGraph};
use crate::op::TensorMeta;

/// What an update changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    pub(super) operands: Vec<OperandIndex>,
    pub(super) larger: Vec<OperandIndex>,
    pub(super) operators: Vec<OperatorIndex>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The operands whose type, dimensions or known values are others than before.
    pub fn operands(&self) -> &[OperandIndex] {
        &self.operands
    }

    /// The operands that take more bytes than they ever did since the cache was last cleared.
    pub fn larger(&self) -> &[OperandIndex] {
        &self.larger
    }

    /// The operators whose rules were applied again.
    pub fn operators(&self) -> &[OperatorIndex] {
        &self.operators
    }
}

impl Shapes {
    /// Takes over other shapes of the inputs. Those of operators that do not depend on what really changed stay, and
    /// where nothing changed nothing is done.
    ///
    /// `graph` must be the one that these shapes were inferred from.
    ///
    /// # Errors
    /// As [`Shapes::infer`]; the shapes are then as they were.
    pub fn update(&mut self, graph: &RuntimeGraph, inputs: &[TensorMeta]) -> Result<Changes, ShapeError> {
        if self.has_inputs(graph, inputs) {
            log::trace!("the shapes of the inputs are as before");
            return Ok(Changes::default());
        }
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.apply(graph, &inputs)
    }
}
