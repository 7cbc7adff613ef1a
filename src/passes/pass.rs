//! The trait [`Pass`], a pass with its priority, and the outcome of a run.

use super::{PassContext, PassError};
use crate::pnnx::Graph;
use std::fmt;
use std::sync::Arc;

/// A graph transformation that preserves what the graph computes.
///
/// A pass must keep the names of the model's inputs and outputs. An operand that stays in the graph must keep its value,
/// since its element type and dimensions are looked up by name.
pub trait Pass: fmt::Debug + Send + Sync {
    /// The name that enables and disables the pass, such as `fold_batch_norm`.
    fn name(&self) -> &str;

    /// A description in one sentence.
    fn doc(&self) -> &str;

    /// Checks the pass itself, for example that its patterns parse. The default accepts everything.
    ///
    /// # Errors
    /// [`PassError::Pattern`] if a pattern or replacement is invalid.
    fn validate(&self) -> Result<(), PassError> {
        Ok(())
    }

    /// Changes the graph wherever it can.
    ///
    /// # Errors
    /// A [`PassError`] if the deadline has passed, a limit is exceeded, or the pass is faulty. A pass that finds nothing to
    /// do returns `Ok`.
    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError>;
}

/// A pass with its priority.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Passes of a lower priority run first.
    pub priority: u32,
    /// Whether it runs.
    pub enabled: bool,
    /// The pass.
    pub pass: Arc<dyn Pass>,
}

impl Entry {
    /// An enabled pass.
    pub fn new(priority: u32, pass: impl Pass + 'static) -> Self {
        Self { priority, enabled: true, pass: Arc::new(pass) }
    }
}

/// The result of running a pass once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of changes to the graph.
    pub fired: usize,
    /// Near matches that were left alone.
    pub refused: Vec<Refusal>,
}

impl Outcome {
    /// Records why an operator was left alone. Duplicates are dropped.
    pub fn refuse(&mut self, operator: impl Into<String>, reason: impl Into<String>) {
        let refusal = Refusal { operator: operator.into(), reason: reason.into() };
        // Passes visit one operator after another.
        let mut same = self.refused.iter().rev().take_while(|known| known.operator == refusal.operator);
        if same.all(|known| *known != refusal) {
            self.refused.push(refusal);
        }
    }
}

/// The reason why a pass left a near match alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the match's last operator.
    pub operator: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.operator, self.reason)
    }
}
