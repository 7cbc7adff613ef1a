//! Replacing an operand by another one with the same value.

use crate::pnnx::{Graph, GraphError, OperandId, OperatorId, Parameter};

/// Returns true if the model returns an operand, alone or in a tuple, list or dictionary.
pub(super) fn is_returned(graph: &Graph, operand: OperandId) -> bool {
    let mut open = vec![operand];
    while let Some(operand) = open.pop() {
        let consumers = graph.get_operand(operand).map_or(&[][..], |operand| operand.consumers());
        for consumer in consumers.iter().map(|&consumer| graph.operator(consumer)) {
            match consumer.op_type() {
                "pnnx.Output" => return true,
                "prim::TupleConstruct" | "prim::ListConstruct" | "prim::DictConstruct" => {
                    open.extend(consumer.outputs());
                }
                _ => {}
            }
        }
    }
    false
}

/// Returns true if an operand is an input of the model.
pub(super) fn is_input(graph: &Graph, operand: OperandId) -> bool {
    let producer = graph.get_operand(operand).and_then(|operand| operand.producer());
    producer.is_some_and(|producer| graph.operator(producer).op_type() == "pnnx.Input")
}

/// Returns true if an operand is a list in the text, `[…]`, whose meaning depends on its consumer.
pub(super) fn is_list(graph: &Graph, operand: OperandId) -> bool {
    let producer = graph.get_operand(operand).and_then(|operand| operand.producer());
    producer.is_some_and(|producer| {
        let operator = graph.operator(producer);
        let starts_list = |expr: &Parameter| expr.raw().starts_with('[');
        match operator.op_type() {
            "pnnx.Expression" => operator.param("expr").is_some_and(starts_list),
            op_type => op_type.starts_with("prim::"),
        }
    })
}

/// The reason why `old` cannot be replaced by `new`, which has the same value: one of them is a list, or an input or output
/// of the model would lose its name.
pub fn refuse_bypass(graph: &Graph, old: OperandId, new: OperandId) -> Option<String> {
    let name = |id: OperandId| graph.operand(id).name().to_owned();
    if is_list(graph, old) || is_list(graph, new) {
        return Some(format!("`{}` or `{}` is a list", name(old), name(new)));
    }
    if !is_returned(graph, old) {
        return None;
    }
    let what = if is_input(graph, new) {
        "an input of the model"
    } else if is_returned(graph, new) {
        "another output"
    } else {
        return None;
    };
    Some(format!(
        "`{}` is an output of the model and `{}` is {what}: both keep their names",
        name(old),
        name(new)
    ))
}

/// Makes all consumers of `old` read `new`, and removes `old`. If the model returns `old`, `new` takes over its name. Must
/// not be called if [`refuse_bypass`] returns a reason.
///
/// # Errors
/// Fails if the graph rejects an edit.
///
/// # Panics
/// Like [`Graph::operand`], if one of them is not in the graph.
pub fn bypass(graph: &mut Graph, old: OperandId, new: OperandId) -> Result<(), GraphError> {
    let (name, returned) = (graph.operand(old).name().to_owned(), is_returned(graph, old));
    graph.replace_uses(old, new)?;
    if let Some(producer) = graph.operand(old).producer() {
        graph.disconnect_output(producer, old)?;
    }
    graph.remove_operand(old)?;
    if returned {
        graph.rename_operand(new, &name)?;
    }
    Ok(())
}

/// Changes the type of an operator, removes all its parameters, and connects it to these inputs alone.
pub(super) fn become_operator(
    graph: &mut Graph,
    id: OperatorId,
    op_type: &str,
    inputs: &[OperandId],
    name: Option<&str>,
) -> Result<(), GraphError> {
    for key in graph.operator(id).params().keys().cloned().collect::<Vec<_>>() {
        graph.remove_param(id, &key)?;
    }
    for index in (0..graph.operator(id).inputs().len()).rev() {
        graph.disconnect_input(id, index)?;
    }
    inputs.iter().try_for_each(|&input| graph.connect_input(id, input, name))?;
    graph.set_op_type(id, op_type)
}
