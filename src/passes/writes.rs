//! Operators that must stay as they are because data is written through them.
//!
//! `Tensor.copy` writes into a view of a tensor and returns the whole tensor. The runtime graph finds that tensor by
//! following the operators that created the view, so a pass that changed one of them would change what is written.

use crate::pnnx::{Graph, OperatorId};
use std::collections::HashSet;

/// The operators that write to a tensor, and the views that they write through.
pub fn frozen_operators(graph: &Graph) -> HashSet<OperatorId> {
    let mut frozen = HashSet::new();
    for (id, operator) in graph.operators() {
        if !matches!(operator.op_type(), "Tensor.copy" | "aten::copy") {
            continue;
        }
        frozen.insert(id);
        let mut target = operator.inputs().first().copied();
        while let Some(view) = target.and_then(|operand| graph.get_operand(operand)?.producer()) {
            let operator = graph.operator(view);
            if !is_view(operator.op_type()) || !frozen.insert(view) {
                break;
            }
            target = operator.inputs().first().copied();
        }
    }
    frozen
}

fn is_view(op_type: &str) -> bool {
    let name = op_type.trim_start_matches("aten::").trim_start_matches("Tensor.");
    matches!(name, "slice" | "select" | "reshape" | "view")
}
