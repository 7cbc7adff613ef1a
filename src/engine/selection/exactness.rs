//! How much an operator may round.

use super::settings::{MAX_ROUNDING, MAX_ROUNDING_OF_LAST_LAYERS};
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{Category, Properties};

/// Errors are not averaged enough if no more than this number of operators average them later.
const FEW: usize = 1;

/// The smallest number of operators that average rounding errors, such as convolutions and pooling, between an operand and an
/// output of the model, by the operand's position. Without any, the user sees the errors as they are.
#[derive(Debug)]
pub(super) struct AveragingAfter(Vec<usize>);

impl AveragingAfter {
    /// Those in a graph whose operators are in topological order.
    pub(super) fn of(graph: &RuntimeGraph) -> Self {
        let mut after = Self(vec![usize::MAX; graph.operands().len()]);
        let returned = graph.outputs().iter().map(|port| (port.operand.position(), 0));
        after.lower(returned);
        for operator in graph.operators().iter().rev() {
            let category = Properties::of(operator.op_type()).category;
            let averages = matches!(category, Category::Weighted | Category::Pooling);
            let count = after.count(operator).saturating_add(usize::from(averages));
            after.lower(operator.inputs().iter().map(|input| (input.position(), count)));
        }
        after
    }

    fn lower(&mut self, found: impl Iterator<Item = (usize, usize)>) {
        for (position, count) in found {
            if let Some(after) = self.0.get_mut(position) {
                *after = count.min(*after);
            }
        }
    }

    /// The number of averaging operators after an operator, on the path to an output that has the fewest.
    fn count(&self, operator: &RuntimeOperator) -> usize {
        let after = operator.outputs().iter().filter_map(|output| self.0.get(output.position()));
        after.copied().min().unwrap_or(usize::MAX)
    }

    /// The largest [rounding error](crate::op::CpuLayer::rounding) of a tactic for an operator.
    pub(super) fn max_rounding(&self, operator: &RuntimeOperator) -> f64 {
        match self.count(operator) <= FEW {
            true => MAX_ROUNDING_OF_LAST_LAYERS,
            false => MAX_ROUNDING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Graph;

    /// The names of the operators that may round less than others.
    fn last_layers(text: &str) -> Vec<String> {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
        graph.build().unwrap();
        let after = AveragingAfter::of(&graph);
        let last = graph.operators().iter().filter(|it| after.max_rounding(it) < MAX_ROUNDING);
        last.map(|operator| operator.name().to_owned()).collect()
    }

    #[test]
    fn errors_of_the_last_layers_are_not_averaged() {
        let text = "7767517\n8 7\npnnx.Input in 0 1 x #x=(4,4)f32\ntorch.mm first 2 1 x x a\nF.relu act 1 1 a b\n\
                    torch.mm second 2 1 b b c\ntorch.mm third 2 1 c c d\nF.relu shape 1 1 d e\n\
                    torch.t turn 1 1 e y $input=e\npnnx.Output out 1 0 y\n";
        assert_eq!(last_layers(text), ["second", "third", "shape", "turn"]);
        // The path with the fewest counts.
        let skipped = text
            .replace("7767517\n8 7", "7767517\n9 8")
            .replace("turn 1 1 e y $input=e", "turn 1 1 e f $input=e");
        let skipped =
            skipped.replace("pnnx.Output", "pnnx.Expression sum 2 1 f a y expr=add(@0,@1)\npnnx.Output");
        assert_eq!(last_layers(&skipped), ["first", "second", "third", "shape", "turn", "sum"]);
    }
}
