//! What a model takes, in bytes.

use super::{Load, MemoryPlan, Place, Root};
use crate::graph::{RuntimeGraph, RuntimeOperator};

/// The memory of a planned model. Sizes in the arena are rounded up to its alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryReport {
    /// The weights that layers read, as the file holds them.
    pub weights: u64,
    /// The constants of the graph, such as tables of positions: tensors that stay from run to run, shared by all contexts.
    pub persistent: u64,
    /// The caller's tensors: inputs and outputs.
    pub caller: u64,
    /// The arena: the most that activations and scratch memory take, as they were arranged.
    pub peak: u64,
    /// The most that is needed at a time, however it is arranged: activations and workspace of the fullest step.
    pub lower_bound: u64,
    /// The activations that are alive in the fullest step.
    pub activations: u64,
    /// The scratch memory of the operator that runs in the fullest step.
    pub workspace: u64,
    /// The fullest step; the first of them where several are.
    pub fullest: usize,
    /// What would be needed if every activation and all scratch memory had a place of its own.
    pub naive: u64,
}

impl MemoryReport {
    /// Adds up what a graph and a plan for it take. What layers keep beside it, such as packed weights, is not known.
    pub fn new(graph: &RuntimeGraph, plan: &MemoryPlan) -> Self {
        let operators = graph.operators();
        let loads = plan.loads();
        let total = |load: &Load| load.activations.saturating_add(load.workspace);
        let fullest =
            (0..loads.len()).rev().max_by_key(|&step| loads.get(step).map(total)).unwrap_or_default();
        let load = loads.get(fullest).copied().unwrap_or_default();
        let constants: Vec<Option<u64>> =
            operators.iter().enumerate().map(|(step, operator)| constant(operator, step, plan)).collect();
        let read = operators.iter().zip(&constants).filter(|(_, constant)| constant.is_none());
        Self {
            weights: read.map(|(operator, _)| operator.weight_bytes()).fold(0, u64::saturating_add),
            persistent: constants.iter().flatten().copied().fold(0, u64::saturating_add),
            caller: caller(graph, plan),
            peak: plan.arena_bytes as u64,
            lower_bound: total(&load) as u64,
            activations: load.activations as u64,
            workspace: load.workspace as u64,
            fullest,
            naive: plan.naive_bytes as u64,
        }
    }

    /// How much of the arena is more than the lower bound, as a fraction of it.
    pub fn overhead(&self) -> f64 {
        match self.lower_bound {
            0 => 0.0,
            bound => self.peak as f64 / bound as f64 - 1.0,
        }
    }
}

/// How large the constant is that an operator stands for, if it does.
fn constant(operator: &RuntimeOperator, step: usize, plan: &MemoryPlan) -> Option<u64> {
    let [output] = operator.outputs() else { return None };
    let place = plan.places.get(output.position())?.as_ref()?;
    (place.root == Root::Constant(step)).then(|| bytes(place))
}

fn bytes(place: &Place) -> u64 {
    place.layout.shape().num_elements().saturating_mul(place.dtype.size()) as u64
}

fn caller(graph: &RuntimeGraph, plan: &MemoryPlan) -> u64 {
    let inputs = graph.inputs().iter().map(|port| port.operand);
    let operands = inputs.chain(graph.outputs().iter().map(|port| port.operand));
    let places = operands.filter_map(|operand| plan.places.get(operand.position())?.as_ref());
    places.map(bytes).fold(0, u64::saturating_add)
}
