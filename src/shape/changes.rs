//! What an update of shapes changed.

use crate::graph::{OperandIndex, OperatorIndex};

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
