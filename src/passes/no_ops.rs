//! Operators that return their input.

use super::axes::{is_reshape, moves_axes, order_of};
use super::bypass::{bypass, refuse_bypass};
use super::writes::frozen_operators;
use super::{Facts, Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, OperandId, Operator};

/// Removes operators that return their input unchanged: copies, dropout, conversions to the same type, reshapes to the
/// same shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoOps;

impl Pass for NoOps {
    fn name(&self) -> &str {
        "no_ops"
    }

    fn doc(&self) -> &str {
        "Removes operators that return their input unchanged: copies, dropout, reshapes to the same shape."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let frozen = frozen_operators(graph);
        for id in graph.operator_ids().to_vec() {
            let operator = graph.operator(id);
            let (Some(input), &[output]) = (main_input(operator), operator.outputs()) else { continue };
            let always = is_copy(operator) || pads_nothing(operator) || joins_one(operator);
            if frozen.contains(&id) || !(always || may_do_nothing(operator)) {
                continue;
            }
            if !always && !does_nothing(graph, operator, input, output, context.facts(graph)) {
                continue;
            }
            if let Some(reason) = refuse_bypass(graph, output, input) {
                outcome.refuse(operator.name(), reason);
                continue;
            }
            bypass(graph, output, input).map_err(PassError::edit(self.name()))?;
            graph.remove_operator(id).map_err(PassError::edit(self.name()))?;
            outcome.fired += 1;
        }
        Ok(outcome)
    }
}

/// The main tensor that an operator reads: the input named `input`, else the first one.
pub(super) fn main_input(operator: &Operator) -> Option<OperandId> {
    operator.named_input("input").or_else(|| operator.inputs().first().copied())
}

/// Returns true if an operator only copies. No operator writes to the tensors of a graph, so a copy equals the original.
fn is_copy(operator: &Operator) -> bool {
    match operator.op_type() {
        "nn.Identity" | "torch.clone" | "Tensor.clone" | "Tensor.contiguous" | "Tensor.detach"
        | "aten::detach" | "aten::resolve_conj" | "aten::resolve_neg" => operator.inputs().len() == 1,
        name if name.to_lowercase().contains("dropout") => {
            operator.inputs().len() == 1 && operator.get_or("training", false) == Ok(false)
        }
        _ => false,
    }
}

fn pads_nothing(operator: &Operator) -> bool {
    let key = match operator.op_type() {
        "F.pad" => "pad",
        name if name.starts_with("nn.") && name.contains("Pad") => "padding",
        _ => return false,
    };
    let zeros = |sizes: Vec<i64>| !sizes.is_empty() && sizes.iter().all(|&size| size == 0);
    operator.inputs().len() == 1 && operator.get::<Vec<i64>>(key).is_ok_and(zeros)
}

fn joins_one(operator: &Operator) -> bool {
    operator.op_type() == "torch.cat" && operator.inputs().len() == 1
}

/// Returns true for operators that do nothing if they keep the element type and shape.
fn may_do_nothing(operator: &Operator) -> bool {
    let listed = matches!(
        operator.op_type(),
        "Tensor.to" | "Tensor.type_as" | "Tensor.expand" | "Tensor.expand_as" | "Tensor.slice"
    );
    listed || is_reshape(operator.op_type()) || moves_axes(operator.op_type())
}

fn does_nothing(
    graph: &Graph,
    operator: &Operator,
    input: OperandId,
    output: OperandId,
    facts: &Facts,
) -> bool {
    let [before, after] = [input, output].map(|operand| facts.get(graph.operand(operand).name()));
    let (Some(before), Some(after)) = (before, after) else { return false };
    let same = before.dtype() == after.dtype() && before.dims() == after.dims();
    let stays =
        || order_of(operator, before.rank()).is_some_and(|order| order.into_iter().eq(0..before.rank()));
    same && (!moves_axes(operator.op_type()) || stays())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run, run_in};
    use super::*;
    use crate::op::TensorMeta;
    use crate::tensor::DType;

    /// The number of times the pass fires on operators between an input of rank 3 in f32, whose lengths are symbols, and a
    /// sigmoid.
    fn fired(operators: &str, last: usize) -> usize {
        let text = format!(
            "pnnx.Input in 0 1 0 #0=(2,3,4)f32\n{operators}\nF.sigmoid s 1 1 {last} end\npnnx.Output out 1 0 end"
        );
        run(&NoOps, &mut graph(&text)).fired
    }

    #[test]
    fn copies_and_dropout_vanish() {
        let three = "torch.clone a 1 1 0 1 memory_format=torch.contiguous_format
             nn.Dropout2d b 1 1 1 2 p=0.5
             F.dropout c 1 1 2 3 p=0.5 training=False $input=2";
        assert_eq!(fired(three, 3), 3);
        assert_eq!(fired("F.dropout a 1 1 0 1 training=True", 1), 0);
        assert_eq!(fired("F.pad a 1 1 0 1 mode=constant pad=(0,0,0,0) value=None", 1), 1);
        assert_eq!(fired("F.pad a 1 1 0 1 mode=constant pad=(0,1,0,-1) value=None", 1), 0);
        assert_eq!(fired("torch.cat a 1 1 0 1 dim=0", 1), 1);
        assert_eq!(fired("torch.cat a 2 1 0 0 1 dim=0", 1), 0);
    }

    #[test]
    fn others_vanish_if_type_and_shape_are_known_to_stay() {
        assert_eq!(fired("Tensor.to a 1 1 0 1 dtype=torch.float copy=False", 1), 1);
        assert_eq!(fired("Tensor.to a 1 1 0 1 dtype=torch.double copy=False", 1), 0);
        assert_eq!(fired("Tensor.permute a 1 1 0 1 dims=(0,1,-1)", 1), 1);
        assert_eq!(fired("Tensor.permute a 1 1 0 1 dims=(0,2,1)", 1), 0);
        assert_eq!(fired("Tensor.slice a 1 1 0 1 dim=1 start=0 end=2147483647 step=1", 1), 1);
        assert_eq!(fired("Tensor.slice a 1 1 0 1 dim=1 start=0 end=3 step=1", 1), 0);
        assert_eq!(fired("Tensor.expand a 1 1 0 1 sizes=(-1,-1,-1)", 1), 1);
    }

    #[test]
    fn sizes_in_the_file_prove_nothing_but_given_sizes_do() {
        let text = "pnnx.Input in 0 1 0 #0=(2,3,4)f32
             Tensor.reshape a 1 1 0 1 shape=(2,3,4)
             Tensor.permute b 1 1 1 2 dims=(1,0,2)
             pnnx.Output out 1 0 2";
        assert_eq!(run(&NoOps, &mut graph(text)).fired, 0);
        let fixed = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [2, 3, 4]));
        assert_eq!(run_in(&NoOps, &mut graph(text), fixed).fired, 1);
        // Swapping axes of the same length is not a no-op.
        let square = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [3, 3, 4]));
        let square_text = text.replace("(2,3,4)", "(3,3,4)");
        let mut graph = graph(&square_text);
        assert_eq!(run_in(&NoOps, &mut graph, square).fired, 1);
        assert_eq!(lines(&graph), ["Tensor.permute(0)->2 dims=(1,0,2)"]);
    }

    #[test]
    fn an_input_that_is_returned_stays_two_operands() {
        let mut graph = graph("pnnx.Input in 0 1 0\nnn.Identity a 1 1 0 1\npnnx.Output out 1 0 1");
        let outcome = run(&NoOps, &mut graph);
        assert_eq!(
            outcome.refused[0].to_string(),
            "`a`: `1` is an output of the model and `0` is an input of the model: both keep their names"
        );
    }
}
