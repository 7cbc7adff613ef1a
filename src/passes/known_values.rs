//! Integers that are known before a model runs, such as sizes, as constants of the arithmetic that reads them.
//!
//! ```text
//! pnnx.Expression sizes       1 1 x n expr=[size(@0,-1)]
//! Tensor.to number            1 1 n f dtype=torch.float
//!     ↓
//! pnnx.Attribute n_folded     0 1 n_folded @data=(1)i64
//! Tensor.to number            1 1 n_folded f dtype=torch.float
//! ```

use super::PassContext;
use super::constant_folding::{is_read_as_literal, store};
use super::elementwise::as_expression;
use super::visit::{Verdict, Visit};
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, OperatorId};
use crate::tensor::{DType, Dim};

/// The pass. Inputs that set parameters are left to the pass `known_parameters`.
pub(super) const KNOWN_VALUES: Visit = Visit {
    name: "known_values",
    doc: "Stores integers that are known before a model runs, such as sizes, as constants of the arithmetic that reads them.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let operator = graph.operator(id);
    let &[output] = operator.outputs() else { return Ok(Verdict::Other) };
    let is_wanted = is_computed_with(graph, context, output) && !is_read_as_literal(graph, output);
    if operator.inputs().is_empty() || !is_wanted {
        return Ok(Verdict::Other);
    }
    let Some(value) = known(graph, context, output) else { return Ok(Verdict::Other) };
    store(graph, output, value)?;
    Ok(Verdict::Fired)
}

/// Returns true if a reader of an operand computes floats from its elements.
fn is_computed_with(graph: &Graph, context: &PassContext, operand: OperandId) -> bool {
    let facts = context.facts(graph);
    let is_float =
        |output: &OperandId| facts.meta(graph, *output).is_some_and(|meta| meta.dtype().is_float());
    graph.operand(operand).consumers().iter().any(|&id| {
        let reader = graph.operator(id);
        let is_of_elements = reader.inputs().len() == 1 || as_expression(reader).is_some();
        is_of_elements && reader.outputs().iter().all(is_float)
    })
}

/// The elements of a number or vector of integers, if all are known.
fn known(graph: &Graph, context: &PassContext, operand: OperandId) -> Option<Attribute> {
    let meta = context.facts(graph).meta(graph, operand)?;
    if meta.dtype() != DType::I64 || meta.rank() > 1 {
        return None;
    }
    let values: Vec<i64> = meta.values()?.iter().map(Dim::fixed).collect::<Option<_>>()?;
    let shape = if meta.rank() == 0 { Vec::new() } else { vec![values.len()] };
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Attribute::new(DType::I64, shape, bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(sizes: &str) -> Vec<String> {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 x #x=(2,3)f32
             pnnx.Expression e 1 1 x n expr={sizes}
             Tensor.to f 1 1 n y copy=False dtype=torch.float $input=n
             pnnx.Output out 1 0 y"
        ));
        run(&KNOWN_VALUES, &mut graph);
        lines(&graph)
    }

    #[test]
    fn known_sizes_become_constants() {
        let lines = after("[7,add(2,3)]");
        assert!(lines.iter().any(|line| line.starts_with("Tensor.to(n_folded)->y")), "{lines:?}");
    }

    #[test]
    fn symbolic_sizes_stay() {
        let lines = after("[size(@0,1)]");
        assert!(lines.iter().any(|line| line.starts_with("Tensor.to(n)->y")), "{lines:?}");
    }
}
