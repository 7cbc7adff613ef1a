//! Writing constants of one element as numbers into the expressions that read them.
//!
//! ```text
//! pnnx.Attribute factor       0 1 f @data=(1)f32
//! pnnx.Expression scale       2 1 x f y expr=mul(@0,@1)
//!     ↓
//! pnnx.Expression scale       1 1 x y expr=mul(@0,0.125)
//! ```

use super::formula::Formula;
use super::site::is_computed_in;
use super::weights;
use crate::op::TensorMeta;
use crate::passes::visit::{Verdict, Visit};
use crate::passes::{Facts, PassContext};
use crate::pnnx::{Expr, Graph, GraphError, OperandId, OperatorId};

/// The pass.
pub(super) const LITERAL_CONSTANTS: Visit = Visit {
    name: "literal_constants",
    doc: "Writes constants of one element as numbers into the expressions that read them.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(shorter) = with_numbers(graph, context.facts(graph), id) else { return Ok(Verdict::Other) };
    shorter.store(graph, id)?;
    Ok(Verdict::Fired)
}

/// The expression of an operator with numbers instead of constants, if there are any.
fn with_numbers(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<Formula> {
    let operator = graph.get_operator(id).filter(|operator| operator.op_type() == "pnnx.Expression")?;
    let &[output] = operator.outputs() else { return None };
    let result = facts.meta(graph, output).filter(|meta| is_computed_in(meta.dtype()))?;
    let whole = Formula::of(operator)?;
    let mut shorter = whole.clone();
    for &input in &whole.inputs {
        let Some(number) = number(graph, input, result) else { continue };
        let Some(at) = shorter.inputs.iter().position(|&other| other == input) else { continue };
        let next = shorter.replaced(&Expr::Input(at), &Expr::Float(number));
        // The other inputs alone must have the type and the rank of the result.
        let meta = |&input: &OperandId| facts.meta(graph, input);
        let is_of_type = |input: &OperandId| meta(input).is_some_and(|meta| meta.dtype() == result.dtype());
        let is_of_rank = |input: &OperandId| meta(input).is_some_and(|meta| meta.rank() == result.rank());
        if next.inputs.iter().all(is_of_type) && next.inputs.iter().any(is_of_rank) {
            shorter = next;
        }
    }
    (shorter.inputs.len() < whole.inputs.len()).then_some(shorter)
}

/// The only element of a constant of the type of the result.
fn number(graph: &Graph, operand: OperandId, result: &TensorMeta) -> Option<f64> {
    let stored = weights::constant(graph, operand)?;
    let is_one = stored.elem_count() == 1 && stored.dtype() == result.dtype();
    let number = if is_one { weights::numbers(stored)?.first().copied() } else { None };
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    const MODEL: &str = "pnnx.Input in 0 1 x #x=(2,3)f32\npnnx.Attribute w 0 1 w @data=(1)f32\n\
        pnnx.Expression e 2 1 x w y expr=mul(add(@0,@1),@1)\npnnx.Output out 1 0 y";

    #[test]
    fn a_constant_becomes_a_number() {
        let left = fires(&LITERAL_CONSTANTS, MODEL);
        let line = left.last().unwrap();
        assert!(line.starts_with("pnnx.Expression(x)->y expr=mul(add(@0,"), "{left:?}");
    }

    #[test]
    fn constants_that_decide_the_shape_stay() {
        refuses(&LITERAL_CONSTANTS, &MODEL.replace("w @data=(1)f32", "w @data=(1,1,1)f32"));
        refuses(&LITERAL_CONSTANTS, &MODEL.replace("w @data=(1)f32", "w @data=(3)f32"));
        refuses(&LITERAL_CONSTANTS, &MODEL.replace("w @data=(1)f32", "w @data=(1)f64"));
        refuses_without_weights(&LITERAL_CONSTANTS, MODEL);
    }
}
