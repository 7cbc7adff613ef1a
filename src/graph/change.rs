//! The decisions of an engine about a graph, as a plan stores them.

use super::operator::{OperandIndex, OperatorIndex};
use crate::op::{Device, LayerError, Step, TensorFormat};

/// A decision of an engine, in a form that can be stored and repeated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// See [`RuntimeGraph::set_format`](super::RuntimeGraph::set_format).
    Format(OperandFormat),
    /// See [`RuntimeGraph::set_tactic`](super::RuntimeGraph::set_tactic).
    Tactic(OperatorIndex, u32),
    /// See [`RuntimeGraph::place_on`](super::RuntimeGraph::place_on).
    Device(OperatorIndex, Device, u32),
    /// See [`RuntimeGraph::insert`](super::RuntimeGraph::insert).
    Insert(Vec<Inserted>),
}

/// The reason why a decision cannot be repeated.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It was made for another graph.
    Changes(String),
    /// The layer of this operator refuses its tactic.
    Tactic(OperatorIndex, LayerError),
}

/// The format of an operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperandFormat {
    pub(crate) operand: OperandIndex,
    pub(crate) format: TensorFormat,
    pub(crate) step: Option<Step>,
}

/// An [`Insertion`](super::Insertion) without its layer. `made` is the operand that it reads, with the format of its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inserted {
    pub(crate) made: OperandFormat,
    pub(crate) readers: Vec<(OperatorIndex, usize)>,
    pub(crate) is_output: bool,
}
