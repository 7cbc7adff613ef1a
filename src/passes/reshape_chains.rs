//! Merging consecutive reshapes.

use super::axes::is_reshape;
use super::bypass::{bypass, refuse_bypass};
use super::chains::{Chain, shorten};
use super::no_ops::main_input;
use super::{Facts, Outcome, Pass, PassContext, PassError};
use crate::op::TensorMeta;
use crate::pnnx::{Graph, GraphError, OperandId, OperatorId};
use crate::tensor::Dim;

/// Merges consecutive reshapes into one. Only the last shape matters, since all keep the elements in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReshapeChains;

impl Pass for ReshapeChains {
    fn name(&self) -> &str {
        "reshape_chains"
    }

    fn doc(&self) -> &str {
        "Merges consecutive reshapes (reshape, view, flatten, squeeze, unsqueeze), or removes them if they cancel out."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        shorten::<Reshapes>(self.name(), graph, context)
    }
}

/// A reshape of a reshape of `from`.
struct Reshapes {
    last: OperatorId,
    from: OperandId,
    to: OperandId,
}

/// The change to the last reshape.
enum Change {
    /// It is removed: it restores the shape of the first one's input.
    Nothing,
    /// It reads the first one's input.
    Rewire,
    /// It becomes a `Tensor.reshape` of the first one's input to this shape.
    Reshape(String),
}

impl Chain for Reshapes {
    type Change = Change;

    fn at(graph: &Graph, _: &Facts, last: OperatorId) -> Option<Self> {
        let operator = graph.operator(last);
        let middle = main_input(operator).filter(|_| is_reshape(operator.op_type()))?;
        let first = graph.operator(graph.operand(middle).producer()?);
        let from = main_input(first).filter(|_| is_reshape(first.op_type()))?;
        let &[to] = operator.outputs() else { return None };
        Some(Self { last, from, to })
    }

    fn plan(&self, graph: &Graph, facts: &Facts) -> Result<Change, String> {
        let known = |operand: OperandId| {
            let name = graph.operand(operand).name();
            facts.get(name).ok_or_else(|| format!("the shape of `{name}` is unknown"))
        };
        let (from, to) = (known(self.from)?, known(self.to)?);
        if from.dims() == to.dims() {
            return match refuse_bypass(graph, self.to, self.from) {
                Some(reason) => Err(reason),
                None => Ok(Change::Nothing),
            };
        }
        let operator = graph.operator(self.last);
        let main = main_input(operator);
        let inputs =
            operator.inputs().iter().map(|&input| if Some(input) == main { Ok(from) } else { known(input) });
        let inputs: Vec<TensorMeta> = inputs.map(|meta| meta.cloned()).collect::<Result<_, _>>()?;
        let outputs = facts.outputs_of(operator.name(), &inputs);
        if outputs.is_some_and(|outputs| outputs.first().is_some_and(|output| output.dims() == to.dims())) {
            return Ok(Change::Rewire);
        }
        Ok(Change::Reshape(
            shape_text(to.dims()).ok_or_else(|| format!("more than one size of {to} is unknown"))?,
        ))
    }

    fn apply(&self, graph: &mut Graph, plan: Change) -> Result<(), GraphError> {
        let shape = match plan {
            Change::Nothing => {
                bypass(graph, self.to, self.from)?;
                return graph.remove_operator(self.last).map(|_| ());
            }
            Change::Rewire => {
                let operator = graph.operator(self.last);
                let main = main_input(operator);
                let position = operator.inputs().iter().position(|&input| Some(input) == main);
                return graph.replace_input(self.last, position.unwrap_or(0), self.from);
            }
            Change::Reshape(shape) => shape,
        };
        become_operator(graph, self.last, "Tensor.reshape", self.from)?;
        graph.set_param(self.last, "shape", shape.as_str())?;
        Ok(())
    }
}

/// Changes the type of an operator, removing all its parameters and connecting it to one input.
pub(super) fn become_operator(
    graph: &mut Graph,
    id: OperatorId,
    op_type: &str,
    input: OperandId,
) -> Result<(), GraphError> {
    for key in graph.operator(id).params().keys().cloned().collect::<Vec<_>>() {
        graph.remove_param(id, &key)?;
    }
    for index in (0..graph.operator(id).inputs().len()).rev() {
        graph.disconnect_input(id, index)?;
    }
    graph.connect_input(id, input, Some("input"))?;
    graph.set_op_type(id, op_type)
}

/// The parameter `shape` of a reshape to these lengths, at most one of which may be unknown.
fn shape_text(dims: &[Dim]) -> Option<String> {
    let unknown = dims.iter().filter(|dim| dim.fixed().is_none()).count();
    // A 0 would copy a length of the input, and an unknown length could not be computed.
    if unknown > 1 || dims.is_empty() || dims.iter().any(|dim| dim.fixed() == Some(0)) {
        return None;
    }
    let texts: Vec<String> = dims.iter().map(|dim| dim.fixed().unwrap_or(-1).to_string()).collect();
    Some(format!("({})", texts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(operators: &str, last: usize) -> (Vec<String>, Outcome) {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0 #0=(2,3,4)f32\n{operators}\nF.sigmoid s 1 1 {last} end\npnnx.Output out 1 0 end"
        ));
        let outcome = run(&ReshapeChains, &mut graph);
        (lines(&graph), outcome)
    }

    #[test]
    fn only_the_last_shape_matters() {
        let (lines, outcome) =
            after("Tensor.view a 1 1 0 1 shape=(-1)\nTensor.reshape b 1 1 1 2 shape=(-1,6)", 2);
        assert_eq!(outcome.fired, 1);
        assert_eq!(lines[1], "Tensor.reshape(0)->2 shape=(-1,6)");
        let (lines, _) =
            after("torch.unsqueeze a 1 1 0 1 dim=1\ntorch.flatten b 1 1 1 2 start_dim=0 end_dim=-1", 2);
        assert_eq!(lines[1], "torch.flatten(0)->2 end_dim=-1 start_dim=0");
    }

    #[test]
    fn a_shape_of_one_unknown_length_is_written_out() {
        let (lines, outcome) =
            after("Tensor.reshape a 1 1 0 1 shape=(5,-1,7)\nnn.Flatten b 1 1 1 2 start_dim=1 end_dim=-1", 2);
        assert_eq!(outcome.fired, 1);
        assert_eq!(lines[1], "Tensor.reshape(0)->2 shape=(5,-1)");
    }

    #[test]
    fn reshapes_that_cancel_out_are_removed() {
        let (lines, outcome) = after("torch.unsqueeze a 1 1 0 1 dim=1\ntorch.squeeze b 1 1 1 2 dim=1", 2);
        assert_eq!((outcome.fired, lines[1].as_str()), (1, "F.sigmoid(0)->end"));
    }

    #[test]
    fn a_shape_of_several_unknown_lengths_is_refused() {
        let (_, outcome) =
            after("torch.unsqueeze a 1 1 0 1 dim=0\ntorch.flatten b 1 1 1 2 start_dim=1 end_dim=2", 2);
        assert_eq!(outcome.fired, 0);
        assert_eq!(
            outcome.refused[0].to_string(),
            "`b`: more than one size of 1×(in.0 * in.1)×in.2 f32 is unknown"
        );
    }
}
