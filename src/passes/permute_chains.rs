//! Merging consecutive permutations.

use super::axes::{moves_axes, order_of};
use super::bypass::{bypass, refuse_bypass};
use super::chains::{Chain, shorten};
use super::no_ops::main_input;
use super::reshape_chains::become_operator;
use super::{Facts, Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperandId, OperatorId};

/// Merges consecutive permutations into one, or removes them if they cancel out.
#[derive(Debug, Clone, Copy)]
pub(super) struct PermuteChains;

impl Pass for PermuteChains {
    fn name(&self) -> &str {
        "permute_chains"
    }

    fn doc(&self) -> &str {
        "Merges consecutive permutations (permute, transpose, t), or removes them if they cancel out."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        shorten::<Permutations>(self.name(), graph, context)
    }
}

/// A permutation of a permutation of `from`.
struct Permutations {
    last: OperatorId,
    from: OperandId,
    to: OperandId,
    /// Both permutations combined.
    order: Vec<usize>,
}

impl Permutations {
    fn is_identity(&self) -> bool {
        self.order.iter().copied().eq(0..self.order.len())
    }
}

impl Chain for Permutations {
    type Change = ();

    fn at(graph: &Graph, facts: &Facts, last: OperatorId) -> Option<Self> {
        let operator = graph.operator(last);
        let middle = main_input(operator)?;
        let first = graph.operator(graph.operand(middle).producer()?);
        let from = main_input(first)?;
        if !moves_axes(first.op_type()) || !moves_axes(operator.op_type()) {
            return None;
        }
        let rank = facts.get(graph.operand(from).name())?.rank();
        let (inner, outer) = (order_of(first, rank)?, order_of(operator, rank)?);
        let order = outer.into_iter().map(|axis| inner.get(axis).copied()).collect::<Option<_>>()?;
        let &[to] = operator.outputs() else { return None };
        Some(Self { last, from, to, order })
    }

    fn plan(&self, graph: &Graph, _: &Facts) -> Result<(), String> {
        let refused = self.is_identity().then(|| refuse_bypass(graph, self.to, self.from)).flatten();
        refused.map_or(Ok(()), Err)
    }

    fn apply(&self, graph: &mut Graph, (): ()) -> Result<(), GraphError> {
        if self.is_identity() {
            bypass(graph, self.to, self.from)?;
            return graph.remove_operator(self.last).map(|_| ());
        }
        become_operator(graph, self.last, "Tensor.permute", self.from)?;
        let dims: Vec<String> = self.order.iter().map(usize::to_string).collect();
        graph.set_param(self.last, "dims", format!("({})", dims.join(",")))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(operators: &str) -> (Vec<String>, Outcome) {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0 #0=(2,3,4)f32\n{operators}\nF.sigmoid s 1 1 2 end\npnnx.Output out 1 0 end"
        ));
        let outcome = run(&PermuteChains, &mut graph);
        (lines(&graph), outcome)
    }

    #[test]
    fn two_permutations_become_one() {
        let (lines, _) =
            after("Tensor.permute a 1 1 0 1 dims=(1,2,0)\ntorch.transpose b 1 1 1 2 dim0=0 dim1=-1 $input=1");
        assert_eq!(lines[1], "Tensor.permute(0)->2 dims=(0,2,1)");
    }

    #[test]
    fn permutations_that_cancel_out_are_removed() {
        let (lines, outcome) =
            after("torch.transpose a 1 1 0 1 dim0=1 dim1=2\nTensor.permute b 1 1 1 2 dims=(0,2,1)");
        assert_eq!((outcome.fired, lines[1].as_str()), (1, "F.sigmoid(0)->end"));
    }

    #[test]
    fn a_permutation_of_something_else_stays() {
        assert_eq!(after("nn.ReLU a 1 1 0 1\nTensor.permute b 1 1 1 2 dims=(0,2,1)").1, Outcome::default());
    }
}
