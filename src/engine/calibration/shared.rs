//! Scales of tensors that hold the same values.

use super::Scales;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{Elements, Properties};

/// Tensors share a scale only if their own ones differ by at most this factor, which costs the finest of them one bit.
const MAX_RATIO: f32 = 2.0;

/// Gives tensors between which operators only move elements the same scale, the largest of theirs, so that int8 passes through
/// these operators unchanged. Tensors stay apart if one of them would lose too much.
pub(super) fn share(graph: &RuntimeGraph, scales: Scales) -> Scales {
    let own = |operand: usize| scales.get(graph.operands().get(operand)?.name());
    let mut groups = Groups::new((0..graph.operands().len()).map(own).collect());
    for operator in graph.operators() {
        let (inputs, outputs) = moved(operator);
        let moved: Vec<usize> = inputs.iter().chain(outputs).map(|operand| operand.position()).collect();
        if let [first, others @ ..] = moved.as_slice() {
            others.iter().for_each(|&other| groups.join(*first, other));
        }
    }
    let shared = graph.operands().iter().enumerate();
    let shared = shared.filter_map(|(at, operand)| Some((operand.name().to_owned(), groups.scale(at)?)));
    scales.with_scales(shared.collect::<Vec<_>>())
}

/// The inputs whose elements an operator only moves, and the outputs to which it moves them.
pub(super) fn moved(operator: &RuntimeOperator) -> (&[OperandIndex], &[OperandIndex]) {
    let (inputs, outputs) = match Properties::of(operator.op_type()).elements {
        Elements::Computed | Elements::Cast | Elements::Padded => (0, 0),
        // `aten::max` finds the largest element of one tensor, but of two it computes the maximum of each pair.
        Elements::Moved if operator.layer().is_some_and(|layer| layer.is_pointwise()) => (0, 0),
        Elements::Joined | Elements::Stacked => (operator.inputs().len(), 1),
        Elements::Divided | Elements::Unbound => (1, operator.outputs().len()),
        _ => (1, 1),
    };
    let (inputs, outputs) = (operator.inputs().get(..inputs), operator.outputs().get(..outputs));
    (inputs.unwrap_or_default(), outputs.unwrap_or_default())
}

/// Operands in groups of the same scale.
struct Groups {
    /// An operand of the same group for each operand; itself, if the group is named after it.
    parents: Vec<usize>,
    /// The smallest and the largest scale of the groups, by the operand that they are named after.
    ranges: Vec<Option<[f32; 2]>>,
}

impl Groups {
    fn new(scales: Vec<Option<f32>>) -> Self {
        let ranges = scales.into_iter().map(|scale| scale.map(|scale| [scale; 2]));
        let ranges: Vec<Option<[f32; 2]>> = ranges.collect();
        Self { parents: (0..ranges.len()).collect(), ranges }
    }

    /// The operand that a group is named after.
    fn name(&self, operand: usize) -> usize {
        let mut at = operand;
        while let Some(&parent) = self.parents.get(at)
            && parent != at
        {
            at = parent;
        }
        at
    }

    fn range(&self, operand: usize) -> Option<[f32; 2]> {
        self.ranges.get(self.name(operand)).copied().flatten()
    }

    /// The scale of an operand's group.
    fn scale(&self, operand: usize) -> Option<f32> {
        self.range(operand).map(|[_, largest]| largest)
    }

    /// Joins the groups of two operands, if all of their scales are similar.
    fn join(&mut self, a: usize, b: usize) {
        let (Some([least, most]), Some(other)) = (self.range(a), self.range(b)) else { return };
        let range = [least.min(other[0]), most.max(other[1])];
        if range[1] > range[0] * MAX_RATIO {
            return;
        }
        let (name, joined) = (self.name(a), self.name(b));
        if let Some(parent) = self.parents.get_mut(joined) {
            *parent = name;
        }
        if let Some(found) = self.ranges.get_mut(name) {
            *found = Some(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Graph;

    fn shared(scales: &[(&str, f32)]) -> Scales {
        let text = "7767517\n6 6\npnnx.Input in 0 1 x #x=(1,2,4,4)f32
F.relu r 1 1 x a
F.max_pool2d p 1 1 a b ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) stride=(2,2)
torch.flatten f 1 1 b c end_dim=-1 start_dim=1 $input=b
torch.cat j 2 1 c c y dim=1
pnnx.Output out 1 0 y\n";
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
        graph.build().unwrap();
        share(&graph, scales.iter().copied().collect())
    }

    #[test]
    fn operators_that_move_elements_keep_the_scale() {
        let found = shared(&[("x", 0.9), ("a", 0.5), ("b", 0.4), ("c", 0.4), ("y", 0.45)]);
        let of = |name: &str| found.get(name).unwrap();
        assert_eq!(["x", "a", "b", "c", "y"].map(of), [0.9, 0.5, 0.5, 0.5, 0.5]);
    }

    #[test]
    fn tensors_that_would_lose_too_much_stay_apart() {
        let found = shared(&[("a", 5.0), ("b", 0.5), ("c", 0.4), ("y", 0.9)]);
        let found = ["x", "a", "b", "c", "y"].map(|name| found.get(name));
        assert_eq!(found, [None, Some(5.0), Some(0.5), Some(0.5), Some(0.9)]);
    }
}
