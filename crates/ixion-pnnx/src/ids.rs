//! The ids by which operators and operands refer to each other.

use smallvec::SmallVec;

/// The id of an operator of a [`Graph`](super::Graph). It stays valid while the graph is edited, until the
/// operator is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperatorId(u32);

impl OperatorId {
    /// The id of the operator at an index of its graph's list; `None` beyond 2^32 operators.
    pub(super) fn at(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    /// The index in its graph's list.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The id of an operand of a [`Graph`](super::Graph). It stays valid while the graph is edited, until the
/// operand is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandId(u32);

impl OperandId {
    /// The id of the operand at an index of its graph's list; `None` beyond 2^32 operands.
    pub(super) fn at(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    /// The index in its graph's list.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A list that stores up to four ids inline: most operators have few inputs and outputs.
pub(super) type Few<T> = SmallVec<[T; 4]>;
