//! Merging consecutive reshapes, and consecutive permutations.

use super::axes::{is_permutation, is_reshape, order_of};
use super::bypass::become_operator;
use super::no_ops::main_input;
use super::visit::{Verdict, Visit, remove};
use super::{Facts, PassContext};
use crate::op::TensorMeta;
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::Dim;

/// The pass for reshapes. Only the last shape matters, since all keep the elements in order.
pub(super) const RESHAPE_CHAINS: Visit = Visit {
    name: "reshape_chains",
    doc: "Merges consecutive reshapes (reshape, view, flatten, squeeze, unsqueeze), or removes them if they cancel out.",
    visit: |graph, context, id| merge(graph, context, id, is_reshape, reshape),
};

/// The pass for permutations.
pub(super) const PERMUTE_CHAINS: Visit = Visit {
    name: "permute_chains",
    doc: "Merges consecutive permutations (permute, transpose, t), or removes them if they cancel out.",
    visit: |graph, context, id| merge(graph, context, id, is_permutation, permute),
};

/// An operator and the one that computes its main input.
struct Pair<'g> {
    graph: &'g Graph,
    facts: &'g Facts,
    first: &'g Operator,
    second: &'g Operator,
    /// What the first one reads.
    from: OperandId,
    /// What the second one returns.
    to: OperandId,
}

/// The change to the second operator of a pair.
enum Change {
    /// None: not enough is known of the two.
    Nothing,
    /// It is removed, since the pair returns what it reads.
    Vanish,
    /// It reads what the first one reads.
    Rewire,
    /// It becomes an operator of this type, with this parameter, that reads what the first one reads.
    Become(&'static str, &'static str, String),
}

/// Merges an operator with the one before it, if both are of one kind.
fn merge(
    graph: &mut Graph,
    context: &PassContext,
    second: OperatorId,
    is_of_kind: fn(&str) -> bool,
    change: fn(&Pair<'_>) -> Result<Change, String>,
) -> Result<Verdict, GraphError> {
    let Some(pair) = pair(graph, context, second, is_of_kind) else { return Ok(Verdict::Other) };
    let (from, to) = (pair.from, pair.to);
    match change(&pair) {
        Err(reason) => return Ok(Verdict::Refused(reason)),
        Ok(Change::Nothing) => return Ok(Verdict::Other),
        Ok(Change::Vanish) => return remove(graph, second, to, from),
        Ok(Change::Rewire) => {
            let operator = graph.operator(second);
            let main = main_input(operator);
            let position = operator.inputs().iter().position(|&input| Some(input) == main);
            graph.replace_input(second, position.unwrap_or(0), from)?;
        }
        Ok(Change::Become(op_type, key, value)) => {
            become_operator(graph, second, op_type, &[from], Some("input"))?;
            graph.set_param(second, key, value.as_str())?;
        }
    }
    Ok(Verdict::Fired)
}

/// The pair whose second operator is this one, if both are of this kind.
fn pair<'g>(
    graph: &'g Graph,
    context: &'g PassContext,
    second: OperatorId,
    is_of_kind: fn(&str) -> bool,
) -> Option<Pair<'g>> {
    let operator = |id| Some(graph.operator(id)).filter(|operator| is_of_kind(operator.op_type()));
    let second = operator(second)?;
    let first = operator(graph.operand(main_input(second)?).producer()?)?;
    let &[to] = second.outputs() else { return None };
    Some(Pair { graph, facts: context.facts(graph), first, second, from: main_input(first)?, to })
}

fn reshape(pair: &Pair<'_>) -> Result<Change, String> {
    let known = |operand: OperandId| {
        let name = pair.graph.operand(operand).name();
        pair.facts.get(name).ok_or_else(|| format!("the shape of `{name}` is unknown"))
    };
    let (from, to) = (known(pair.from)?, known(pair.to)?);
    if from.dims() == to.dims() {
        return Ok(Change::Vanish);
    }
    let main = main_input(pair.second);
    let inputs = pair.second.inputs().iter();
    let inputs = inputs.map(|&input| if Some(input) == main { Ok(from) } else { known(input) });
    let inputs: Vec<TensorMeta> = inputs.map(|meta| meta.cloned()).collect::<Result<_, _>>()?;
    let outputs = pair.facts.outputs_of(pair.second.name(), &inputs);
    if outputs.is_some_and(|outputs| outputs.first().is_some_and(|output| output.dims() == to.dims())) {
        return Ok(Change::Rewire);
    }
    let shape = shape_text(to.dims()).ok_or_else(|| format!("more than one size of {to} is unknown"))?;
    Ok(Change::Become("Tensor.reshape", "shape", shape))
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

fn permute(pair: &Pair<'_>) -> Result<Change, String> {
    let merged = || -> Option<Vec<usize>> {
        let rank = pair.facts.meta(pair.graph, pair.from)?.rank();
        let (inner, outer) = (order_of(pair.first, rank)?, order_of(pair.second, rank)?);
        outer.into_iter().map(|axis| inner.get(axis).copied()).collect()
    };
    let Some(order) = merged() else { return Ok(Change::Nothing) };
    if order.iter().copied().eq(0..order.len()) {
        return Ok(Change::Vanish);
    }
    let dims: Vec<String> = order.iter().map(usize::to_string).collect();
    Ok(Change::Become("Tensor.permute", "dims", format!("({})", dims.join(","))))
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(pass: Visit, operators: &str) -> (Vec<String>, Outcome) {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0 #0=(2,3,4)f32\n{operators}\nF.sigmoid s 1 1 2 end\npnnx.Output out 1 0 end"
        ));
        let outcome = run(&pass, &mut graph);
        (lines(&graph), outcome)
    }

    fn reshaped(operators: &str) -> (Vec<String>, Outcome) {
        after(RESHAPE_CHAINS, operators)
    }

    fn permuted(operators: &str) -> (Vec<String>, Outcome) {
        after(PERMUTE_CHAINS, operators)
    }

    #[test]
    fn only_the_last_shape_matters() {
        let (lines, outcome) =
            reshaped("Tensor.view a 1 1 0 1 shape=(-1)\nTensor.reshape b 1 1 1 2 shape=(-1,6)");
        assert_eq!(outcome.fired, 1);
        assert_eq!(lines[1], "Tensor.reshape(0)->2 shape=(-1,6)");
        let (lines, _) =
            reshaped("torch.unsqueeze a 1 1 0 1 dim=1\ntorch.flatten b 1 1 1 2 start_dim=0 end_dim=-1");
        assert_eq!(lines[1], "torch.flatten(0)->2 end_dim=-1 start_dim=0");
    }

    #[test]
    fn a_shape_of_one_unknown_length_is_written_out() {
        let (lines, outcome) =
            reshaped("Tensor.reshape a 1 1 0 1 shape=(5,-1,7)\nnn.Flatten b 1 1 1 2 start_dim=1 end_dim=-1");
        assert_eq!(outcome.fired, 1);
        assert_eq!(lines[1], "Tensor.reshape(0)->2 shape=(5,-1)");
    }

    #[test]
    fn reshapes_that_cancel_out_are_removed() {
        let (lines, outcome) = reshaped("torch.unsqueeze a 1 1 0 1 dim=1\ntorch.squeeze b 1 1 1 2 dim=1");
        assert_eq!((outcome.fired, lines[1].as_str()), (1, "F.sigmoid(0)->end"));
    }

    #[test]
    fn a_shape_of_several_unknown_lengths_is_refused() {
        let (_, outcome) =
            reshaped("torch.unsqueeze a 1 1 0 1 dim=0\ntorch.flatten b 1 1 1 2 start_dim=1 end_dim=2");
        assert_eq!(outcome.fired, 0);
        assert_eq!(
            outcome.refused[0].to_string(),
            "`b`: more than one size of 1×(in.0 * in.1)×in.2 f32 is unknown"
        );
    }

    #[test]
    fn two_permutations_become_one() {
        let (lines, _) = permuted(
            "Tensor.permute a 1 1 0 1 dims=(1,2,0)\ntorch.transpose b 1 1 1 2 dim0=0 dim1=-1 $input=1",
        );
        assert_eq!(lines[1], "Tensor.permute(0)->2 dims=(0,2,1)");
    }

    #[test]
    fn permutations_that_cancel_out_are_removed() {
        let (lines, outcome) =
            permuted("torch.transpose a 1 1 0 1 dim0=1 dim1=2\nTensor.permute b 1 1 1 2 dims=(0,2,1)");
        assert_eq!((outcome.fired, lines[1].as_str()), (1, "F.sigmoid(0)->end"));
    }

    #[test]
    fn a_permutation_of_something_else_stays() {
        let (_, outcome) = permuted("nn.ReLU a 1 1 0 1\nTensor.permute b 1 1 1 2 dims=(0,2,1)");
        assert_eq!(outcome, Outcome::default());
    }
}
