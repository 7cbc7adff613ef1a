//! Common subexpression elimination.

use super::bypass::{bypass, refuse_bypass};
use super::context::repeatable;
use super::{Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};
use std::collections::HashMap;

/// Merges operators of the same type with equal parameters, attributes and inputs. Plugins, and operators that
/// draw random numbers, are never merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommonSubexpressions;

impl Pass for CommonSubexpressions {
    fn name(&self) -> &str {
        "common_subexpressions"
    }

    fn doc(&self) -> &str {
        "Merges operators that compute the same from the same inputs."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let shareable = repeatable(graph, context);
        let mut seen = Seen::new();
        for id in graph.operator_ids().to_vec() {
            context.limits().check_deadline().map_err(PassError::limit(self.name()))?;
            if !shareable.contains(&id) {
                continue;
            }
            let Some(first) = twin(graph, id, &mut seen) else { continue };
            match refusal(graph, id, first) {
                Some(reason) => outcome.refuse(graph.operator(id).name(), reason),
                None => {
                    merge(graph, id, first).map_err(PassError::edit(self.name()))?;
                    outcome.fired += 1;
                }
            }
        }
        Ok(outcome)
    }
}

/// The operators visited so far, by their keys.
pub type Seen = HashMap<String, Vec<OperatorId>>;

// ANCHOR: key
/// Everything that must be equal for two operators to compute the same, except the bytes of their attributes.
pub fn key(operator: &Operator) -> String {
    // ANCHOR: key_todo -- task 2: write everything that must be equal into one string
    let params = operator.params().iter().map(|(key, value)| (key, value.raw()));
    let attrs = operator.attrs().iter().map(|(key, value)| (key, value.dtype(), value.shape()));
    let (params, attrs): (Vec<_>, Vec<_>) = (params.collect(), attrs.collect());
    let (inputs, names, outputs) = (operator.inputs(), operator.input_names(), operator.outputs().len());
    format!("{:?}", (operator.op_type(), inputs, names, outputs, params, attrs))
    // ANCHOR_END: key_todo
}
// ANCHOR_END: key

/// Returns true if the attributes of two operators with the same keys are equal, byte for byte.
pub fn same_attributes(a: &Operator, b: &Operator) -> bool {
    a.attrs().values().zip(b.attrs().values()).all(|(a, b)| a == b)
}

// ANCHOR: twin
/// The operator in `seen` that computes the same as this one. If there is none, this one is added to `seen`.
pub fn twin(graph: &Graph, id: OperatorId, seen: &mut Seen) -> Option<OperatorId> {
    // ANCHOR: twin_todo -- task 2: find an operator of the same key and attributes, or remember this one
    let operator = graph.operator(id);
    let alike = seen.entry(key(operator)).or_default();
    let twin = alike.iter().copied().find(|&other| same_attributes(operator, graph.operator(other)));
    if twin.is_none() {
        alike.push(id);
    }
    twin
    // ANCHOR_END: twin_todo
}
// ANCHOR_END: twin

/// Pairs each output of `second` with the output of `first`, which computes the same.
pub fn outputs(graph: &Graph, second: OperatorId, first: OperatorId) -> Vec<(OperandId, OperandId)> {
    let [second, first] = [second, first].map(|id| graph.operator(id).outputs());
    second.iter().copied().zip(first.iter().copied()).collect()
}

/// The reason why `second` cannot be merged into `first`, if any of its outputs cannot be bypassed; see [`refuse_bypass`]. An
/// operator with one output returns a tuple if the file unpacks it, and otherwise maybe a tensor, so these are different. So are
/// operators with other recorded results: PNNX does not write which results of a recurrent network an operator returns.
pub fn refusal(graph: &Graph, second: OperatorId, first: OperatorId) -> Option<String> {
    let is_constant = graph.operator(second).inputs().is_empty();
    outputs(graph, second, first).into_iter().find_map(|(second, first)| {
        if is_unpacked(graph, second) != is_unpacked(graph, first) {
            let [second, first] = [second, first].map(|operand| graph.operand(operand).name());
            return Some(format!("only one of `{second}` and `{first}` is unpacked"));
        }
        if is_recorded_otherwise(graph, second, first, is_constant) {
            let [second, first] = [second, first].map(|operand| graph.operand(operand).name());
            return Some(format!("the file records another type or shape for `{second}` than for `{first}`"));
        }
        refuse_bypass(graph, second, first)
    })
}

/// Returns true if an operand is a tuple or a list that the graph unpacks.
fn is_unpacked(graph: &Graph, operand: OperandId) -> bool {
    let consumers = graph.operand(operand).consumers().iter().map(|&consumer| graph.operator(consumer));
    let mut types = consumers.map(Operator::op_type);
    types.any(|op_type| matches!(op_type, "prim::TupleUnpack" | "prim::ListUnpack"))
}

/// Returns true if the file records different element types or shapes for two operands. A constant that has none is a number,
/// not a tensor of one element.
fn is_recorded_otherwise(graph: &Graph, second: OperandId, first: OperandId, is_constant: bool) -> bool {
    let [second, first] = [second, first].map(|operand| graph.operand(operand));
    let (dtypes, shapes) = (second.dtype().zip(first.dtype()), second.shape().zip(first.shape()));
    dtypes.is_some_and(|(second, first)| second != first)
        || shapes.is_some_and(|(second, first)| second != first)
        || is_constant && second.shape().is_some() != first.shape().is_some()
}

// ANCHOR: merge
/// Makes all consumers of `second` read the outputs of `first`, and removes `second`.
///
/// # Errors
/// Fails if the graph rejects an edit.
pub fn merge(graph: &mut Graph, second: OperatorId, first: OperatorId) -> Result<(), GraphError> {
    // ANCHOR: merge_todo -- task 2: bypass each output of the second, then remove the second
    for (output, same) in outputs(graph, second, first) {
        bypass(graph, output, same)?;
    }
    graph.remove_operator(second)?;
    Ok(())
    // ANCHOR_END: merge_todo
}
// ANCHOR_END: merge

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;
    use crate::pnnx::Attribute;

    #[test]
    fn equal_operators_are_merged_and_so_are_their_consumers() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0
             F.softmax a 1 1 0 1 dim=1 $input=0
             nn.ReLU b 1 1 1 2
             F.softmax c 1 1 0 3 dim=1 $input=0
             nn.ReLU d 1 1 3 4
             pnnx.Expression e 2 1 2 4 5 expr=add(@0,@1)
             pnnx.Output out 1 0 5",
        );
        assert_eq!(run(&CommonSubexpressions, &mut graph).fired, 2);
        assert_eq!(
            lines(&graph),
            ["F.softmax(0)->1 dim=1", "nn.ReLU(1)->2", "pnnx.Expression(2,2)->5 expr=add(@0,@1)"]
        );
    }

    #[test]
    fn other_parameters_random_numbers_and_plugins_are_not_merged() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0
             F.softmax a 1 1 0 1 dim=1 $input=0
             F.softmax b 1 1 0 2 dim=0 $input=0
             torch.randn_like c 1 1 0 3
             torch.randn_like d 1 1 0 4
             my.Own e 1 1 0 5
             my.Own f 1 1 0 6
             RandomNormal g 0 1 7 shape=(2)
             RandomNormal h 0 1 8 shape=(2)
             pnnx.Output out 8 0 1 2 3 4 5 6 7 8",
        );
        assert_eq!(run(&CommonSubexpressions, &mut graph), Outcome::default());
    }

    #[test]
    fn a_tuple_and_its_first_item_are_different() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0
             nn.LSTM a 1 1 0 1
             prim::TupleUnpack b 1 2 1 2 3
             nn.LSTM c 1 1 0 4
             nn.LSTM d 1 1 0 5
             prim::TupleUnpack e 1 2 5 6 7
             pnnx.Output out 4 0 2 3 4 6",
        );
        // The second tuple is merged into the first one, and then the operators that unpack them.
        let outcome = run(&CommonSubexpressions, &mut graph);
        let types: Vec<&str> = graph.operators().map(|(_, operator)| operator.op_type()).collect();
        assert_eq!(types.iter().filter(|op_type| **op_type == "nn.LSTM").count(), 2, "{outcome:?}");
    }

    #[test]
    fn results_of_other_shapes_are_different() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0 #0=(5,2,3)f32
             nn.GRU a 1 1 0 1 #1=(1,2,4)f32
             nn.GRU b 1 1 0 2 #2=(5,2,4)f32
             nn.GRU c 1 1 0 3 #3=(1,2,4)f32
             nn.ReLU d 1 1 1 4
             nn.ReLU e 1 1 2 5
             nn.Sigmoid f 1 1 3 6
             pnnx.Output out 3 0 4 5 6",
        );
        let outcome = run(&CommonSubexpressions, &mut graph);
        assert_eq!(outcome.fired, 1, "{outcome:?}");
        assert!(
            outcome.refused[0].reason.contains("another type or shape for `2` than for `1`"),
            "{outcome:?}"
        );
    }

    #[test]
    fn attributes_are_compared_by_their_bytes() {
        let fired = |second: &[f32]| {
            let mut graph = graph(
                "pnnx.Input in 0 1 0
                 pnnx.Attribute a 0 1 1 @data=(2)f32
                 pnnx.Attribute b 0 1 2 @data=(2)f32
                 pnnx.Expression c 3 1 0 1 2 3 expr=add(add(@0,@1),@2)
                 pnnx.Output out 1 0 3",
            );
            for (name, values) in [("a", &[1.0, 2.0][..]), ("b", second)] {
                let id = graph.operator_named(name).unwrap();
                graph.set_attribute(id, "data", Attribute::from_f32s(vec![2], values).unwrap()).unwrap();
            }
            run(&CommonSubexpressions, &mut graph).fired
        };
        assert_eq!((fired(&[1.0, 2.0]), fired(&[1.0, 3.0])), (1, 0));
    }

    #[test]
    fn a_number_is_not_a_tensor_of_one_element() {
        let fired = |recorded: &str| {
            let mut graph = graph(&format!(
                "pnnx.Input in 0 1 0
                 pnnx.Expression a 0 1 1 expr=0
                 pnnx.Expression b 0 1 2 expr=0{recorded}
                 Tensor.index c 2 1 0 2 3 expr=[@1]
                 pnnx.Output out 2 0 1 3"
            ));
            run(&CommonSubexpressions, &mut graph).fired
        };
        assert_eq!((fired(""), fired(" #2=(1)i64")), (1, 0));
    }

    #[test]
    fn outputs_of_the_model_keep_their_names() {
        let mut graph =
            graph("pnnx.Input in 0 1 0\nnn.ReLU a 1 1 0 1\nnn.ReLU b 1 1 0 2\npnnx.Output out 2 0 1 2");
        let outcome = run(&CommonSubexpressions, &mut graph);
        assert_eq!(outcome.fired, 0);
        assert!(outcome.refused[0].reason.contains("both keep their names"));
    }
}
