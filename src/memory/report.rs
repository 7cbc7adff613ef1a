//! The memory use of a model in bytes.

use super::{Load, MemoryPlan, Place, Root};
use crate::graph::{RuntimeGraph, RuntimeOperator};

/// The memory use of a planned model. Sizes in the arena are rounded up to its alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryReport {
    /// The weights that layers read, as stored in the file, without those that are constants of the graph.
    pub weights: u64,
    /// The packed copies of weights in the plan that the graph was loaded from; zero if it was not.
    pub packed: u64,
    /// The constants of the graph, such as position tables: tensors that persist between runs and are shared by all contexts.
    pub persistent: u64,
    /// The caller's tensors: inputs and outputs.
    pub caller: u64,
    /// The size of the arena: activations and scratch memory as planned.
    pub peak: u64,
    /// The minimum size of the arena for any placement: the activations and workspace of the fullest step.
    pub lower_bound: u64,
    /// The activations that are alive in the fullest step.
    pub activations: u64,
    /// The scratch memory of the operator that runs in the fullest step.
    pub workspace: u64,
    /// The step that needs the most memory; the first one if there are several.
    pub fullest: usize,
    /// The memory that would be needed if all activations and all scratch memory had their own places.
    pub naive: u64,
}

impl MemoryReport {
    /// Adds up the memory of a graph and its plan. Memory that layers allocate themselves, such as weights that they pack, is
    /// not included.
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
            packed: operators.iter().map(RuntimeOperator::packed_bytes).fold(0, u64::saturating_add),
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

    /// The size of the arena above the lower bound, as a fraction of the lower bound.
    pub fn overhead(&self) -> f64 {
        match self.lower_bound {
            0 => 0.0,
            bound => self.peak as f64 / bound as f64 - 1.0,
        }
    }
}

/// The size of the constant that an operator produces, if it is one.
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
