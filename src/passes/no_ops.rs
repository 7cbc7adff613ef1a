//! Operators that return their input.

use super::PassContext;
use super::axes::order_of;
use super::visit::{Verdict, Visit, remove};
use crate::op::{Elements, Properties};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};

/// The pass: copies, dropout, conversions to the same type, reshapes to the same shape.
pub(super) const NO_OPS: Visit = Visit {
    name: "no_ops",
    doc: "Removes operators that return their input unchanged: copies, dropout, reshapes to the same shape.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let operator = graph.operator(id);
    let (Some(input), &[output]) = (main_input(operator), operator.outputs()) else {
        return Ok(Verdict::Other);
    };
    if !does_nothing(graph, operator, input, output, context) {
        return Ok(Verdict::Other);
    }
    remove(graph, id, output, input)
}

/// The main tensor that an operator reads: the input named `input`, else the first one.
pub(super) fn main_input(operator: &Operator) -> Option<OperandId> {
    operator.named_input("input").or_else(|| operator.inputs().first().copied())
}

/// Returns true if an operator returns its input. No operator writes to the tensors of a graph, so a copy is as good.
fn does_nothing(
    graph: &Graph,
    operator: &Operator,
    input: OperandId,
    output: OperandId,
    context: &PassContext,
) -> bool {
    use Elements::{Cast, Copied, Expanded, Joined, Padded, Permuted, Reshaped, Sliced, Unsqueezed};
    let is_alone = operator.inputs().len() == 1;
    let is_alike = || context.facts(graph).are_alike(graph, input, output);
    let keeps_axes = || {
        let rank = context.facts(graph).meta(graph, input).map(|meta| meta.rank());
        rank.and_then(|rank| order_of(operator, rank)).is_some_and(|order| order.is_sorted())
    };
    match Properties::of(operator.op_type()).elements {
        Copied => is_alone && operator.get_or("training", false) == Ok(false),
        Padded => is_alone && pads_nothing(operator),
        Joined => is_alone,
        Permuted => is_alike() && keeps_axes(),
        Reshaped | Unsqueezed | Sliced | Expanded | Cast => is_alike(),
        _ => false,
    }
}

fn pads_nothing(operator: &Operator) -> bool {
    let key = if operator.has_param("pad") { "pad" } else { "padding" };
    let zeros = |sizes: Vec<i64>| !sizes.is_empty() && sizes.iter().all(|&size| size == 0);
    operator.get::<Vec<i64>>(key).is_ok_and(zeros)
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
        run(&NO_OPS, &mut graph(&text)).fired
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
        assert_eq!(run(&NO_OPS, &mut graph(text)).fired, 0);
        let fixed = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [2, 3, 4]));
        assert_eq!(run_in(&NO_OPS, &mut graph(text), fixed).fired, 1);
        // Swapping axes of the same length is not a no-op.
        let square = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [3, 3, 4]));
        let square_text = text.replace("(2,3,4)", "(3,3,4)");
        let mut graph = graph(&square_text);
        assert_eq!(run_in(&NO_OPS, &mut graph, square).fired, 1);
        assert_eq!(lines(&graph), ["Tensor.permute(0)->2 dims=(1,0,2)"]);
    }

    #[test]
    fn an_input_that_is_returned_stays_two_operands() {
        let mut graph = graph("pnnx.Input in 0 1 0\nnn.Identity a 1 1 0 1\npnnx.Output out 1 0 1");
        let outcome = run(&NO_OPS, &mut graph);
        assert_eq!(
            outcome.refused[0].to_string(),
            "`a`: `1` is an output of the model and `0` is an input of the model: both keep their names"
        );
    }
}
