//! What a pass is.

use super::{PassContext, PassError};
use crate::pnnx::Graph;
use std::fmt;

/// A change of a graph that keeps what the graph computes.
///
/// A pass keeps the names of the model's inputs and outputs, and the operands that it leaves in the graph keep their
/// values: their element types and dimensions are known by name.
pub trait Pass: fmt::Debug + Send + Sync {
    /// The name by which it is switched on and off, such as `fold_batch_norm`.
    fn name(&self) -> &str;

    /// What it does, in one sentence.
    fn doc(&self) -> &str;

    /// Looks for faults of the pass itself, such as a pattern that cannot be read. Default: none.
    ///
    /// # Errors
    /// [`PassError::Pattern`].
    fn validate(&self) -> Result<(), PassError> {
        Ok(())
    }

    /// Changes the graph wherever it can.
    ///
    /// # Errors
    /// A [`PassError`]: the deadline, a limit, or a fault of the pass. Not being able to fire is no error.
    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError>;
}

/// What a pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How often it changed the graph.
    pub fired: usize,
    /// Where it nearly did.
    pub refused: Vec<Refusal>,
}

impl Outcome {
    /// Notes why an operator was left alone.
    pub fn refuse(&mut self, operator: impl Into<String>, reason: impl Into<String>) {
        let refusal = Refusal { operator: operator.into(), reason: reason.into() };
        if !self.refused.contains(&refusal) {
            self.refused.push(refusal);
        }
    }
}

/// Why a place that looks like the pattern of a pass was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The operator: the last one of the place.
    pub operator: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.operator, self.reason)
    }
}
