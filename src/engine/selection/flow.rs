//! Where int8 is worth passing on: operators that only move elements neither begin it nor end it, and those that compute element
//! by element only continue it.

use super::moving::{passes_int8, reads_int8};
use super::settings::SelectionSettings;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, catch_panic};

/// Which operands' elements operators compute in int8, and which they read in int8, themselves or through others that only move
/// elements.
///
/// Quantising other operands would make them smaller while they are moved, but gain little, and lose accuracy of which
/// calibration knows nothing: that of coordinates, for example, which a detector computes and then joins.
#[derive(Debug)]
pub(super) struct Flow {
    /// By the operand's position. Those without a scale, such as indices, count as computed.
    computed: Vec<bool>,
    read: Vec<bool>,
}

/// What an operator does with int8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its layer takes int8.
    Computes,
    /// Its layer takes int8, and computes element by element.
    Maps,
    /// Int8 passes through it.
    Moves,
    /// Its tensors are never int8.
    Neither,
}

impl Role {
    fn of(graph: &RuntimeGraph, operator: &RuntimeOperator, settings: &SelectionSettings) -> Self {
        let step = |operand: &OperandIndex| settings.step(operator, graph.operand(*operand).name());
        let steps = operator.inputs().iter().chain(operator.outputs()).filter_map(step);
        if passes_int8(operator.op_type(), steps.map(Some)) {
            return Self::Moves;
        }
        let has_step = operator.inputs().first().and_then(step).is_some();
        match has_step && reads_int8(operator) {
            true if maps(operator) => Self::Maps,
            true => Self::Computes,
            false => Self::Neither,
        }
    }
}

impl Flow {
    /// The flow through a graph whose operators are in topological order.
    pub(super) fn of(graph: &RuntimeGraph, settings: &SelectionSettings) -> Self {
        let has_no_scale = graph.operands().iter().map(|it| settings.scales.get(it.name()).is_none());
        let mut flow = Self { computed: has_no_scale.collect(), read: vec![false; graph.operands().len()] };
        let roles = graph.operators().iter().map(|operator| (operator, Role::of(graph, operator, settings)));
        let roles: Vec<(&RuntimeOperator, Role)> = roles.collect();
        let continues = |role: Role| matches!(role, Role::Moves | Role::Maps);
        for (operator, role) in &roles {
            if *role == Role::Computes || (continues(*role) && flow.inputs_are_computed(operator)) {
                mark(&mut flow.computed, operator.outputs());
            }
        }
        for (operator, role) in roles.iter().rev() {
            if *role == Role::Computes || (continues(*role) && flow.outputs_are_read(operator)) {
                mark(&mut flow.read, operator.inputs());
            }
        }
        flow
    }

    /// Returns true if int8 may pass through an operator that only moves elements: others compute all of its inputs in int8,
    /// or read one of its outputs in int8.
    pub(super) fn passes(&self, operator: &RuntimeOperator) -> bool {
        self.inputs_are_computed(operator) || self.outputs_are_read(operator)
    }

    /// Returns true if int8 should not be considered for an operator, because it computes element by element and is not between
    /// others that compute in int8: it would gain little, and lose accuracy, for example that of coordinates.
    pub(super) fn ends_at(&self, operator: &RuntimeOperator) -> bool {
        maps(operator) && !(self.inputs_are_computed(operator) && self.outputs_are_read(operator))
    }

    fn inputs_are_computed(&self, operator: &RuntimeOperator) -> bool {
        operator.inputs().iter().all(|input| self.computed.get(input.position()) == Some(&true))
    }

    fn outputs_are_read(&self, operator: &RuntimeOperator) -> bool {
        operator.outputs().iter().any(|output| self.read.get(output.position()) == Some(&true))
    }
}

/// Returns true if an operator's layer computes element by element.
fn maps(operator: &RuntimeOperator) -> bool {
    let is_pointwise = |layer: &dyn CpuLayer| catch_panic(|| Ok(layer.is_pointwise())).unwrap_or(false);
    operator.layer().is_some_and(is_pointwise)
}

fn mark(flags: &mut [bool], operands: &[OperandIndex]) {
    for operand in operands {
        if let Some(flag) = flags.get_mut(operand.position()) {
            *flag = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::engine::{Precision, Scales};
    use crate::pnnx::Graph;

    /// A pooled tensor that is flattened, and the sigmoid of an input that is flattened and joined with it.
    const GRAPH: &str = "7767517\n8 7\npnnx.Input in 0 1 x #x=(1,2,4,4)f32
pnnx.Input other 0 1 o #o=(1,3,2,2)f32
F.max_pool2d p 1 1 x a ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) stride=(2,2)
torch.flatten f 1 1 a b end_dim=-1 start_dim=1 $input=a
F.sigmoid s 1 1 o c $input=o
torch.flatten g 1 1 c d end_dim=-1 start_dim=1 $input=c
torch.cat j 2 1 b d y dim=1
pnnx.Output out 1 0 y\n";

    /// A graph, and settings with a scale for each operand.
    fn with_scales(text: &str) -> (RuntimeGraph, SelectionSettings) {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
        graph.build().unwrap();
        let names = graph.operands().iter().map(|operand| (operand.name().to_owned(), 0.5));
        let (scales, precisions): (Scales, _) = (names.collect(), vec![Precision::Int8]);
        (graph, SelectionSettings { precisions, scales, ..SelectionSettings::default() })
    }

    fn passing(text: &str) -> Vec<String> {
        let (graph, settings) = with_scales(text);
        let flow = Flow::of(&graph, &settings);
        let moving = graph.operators().iter().filter(|it| Role::of(&graph, it, &settings) == Role::Moves);
        moving.filter(|operator| flow.passes(operator)).map(|it| it.name().to_owned()).collect()
    }

    #[test]
    fn int8_passes_only_from_or_to_operators_that_compute_with_it() {
        assert_eq!(passing(GRAPH), ["f"]);
        let pooled = GRAPH
            .replace("8 7", "9 8")
            .replace("torch.flatten f 1 1 a b end_dim=-1 start_dim=1 $input=a", "Tensor.clone f 1 1 a b")
            .replace("torch.flatten g 1 1 c d end_dim=-1 start_dim=1 $input=c", "Tensor.clone g 1 1 c d")
            .replace(
                "pnnx.Output out 1 0 y",
                "F.adaptive_avg_pool2d q 1 1 y z output_size=(1,1)\npnnx.Output out 1 0 z",
            );
        assert_eq!(passing(&pooled), ["f", "g", "j"]);
    }

    /// Activations of a pooled tensor, one of which is pooled again, and one of an input.
    const MAPPED: &str = "7767517\n7 6
pnnx.Input in 0 1 x #x=(1,2,4,4)f32
F.max_pool2d p 1 1 x a ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) stride=(2,2)
F.silu between 1 1 a b
F.adaptive_avg_pool2d q 1 1 b c output_size=(1,1)
F.silu after 1 1 a d
F.silu before 1 1 x e
pnnx.Output out 3 0 c d e\n";

    #[test]
    fn activations_continue_int8_only_between_operators_that_compute_with_it() {
        let (graph, settings) = with_scales(MAPPED);
        let flow = Flow::of(&graph, &settings);
        let ends = graph.operators().iter().filter(|operator| flow.ends_at(operator)).map(|it| it.name());
        assert_eq!(ends.collect::<Vec<_>>(), ["after", "before"]);
    }
}
