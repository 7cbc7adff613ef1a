//! Merging chains of element-wise operators into one expression: one loop over the data, without intermediate tensors.

use super::bypass::become_operator;
use super::context::frozen_operators;
use super::elementwise::{as_expression, changed};
use super::{Facts, Outcome, Pass, PassContext, PassError};
use crate::pnnx::{Expr, Graph, GraphError, OperandId, OperatorId};
use crate::tensor::DType;
use std::collections::HashSet;

/// Inlines an element-wise operator into the expression that reads it.
///
/// The operator must have no other consumer and must not be broadcast, so that nothing is computed twice. All tensors must
/// have the same type, f32 or f64, so that every function is still computed in that type.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpressionChains;

/// The maximum number of nodes in an expression.
const MAX_PARTS: usize = 48;
/// The maximum number of inputs of an expression.
const MAX_INPUTS: usize = 8;

impl Pass for ExpressionChains {
    fn name(&self) -> &str {
        "expression_chains"
    }

    fn doc(&self) -> &str {
        "Merges chains of element-wise operators into one expression."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let frozen = frozen_operators(graph);
        for id in graph.operator_ids().to_vec() {
            context.limits().check_deadline().map_err(PassError::limit(self.name()))?;
            // The inlined operator may itself read one that can be inlined.
            loop {
                let (merged, reasons) = step(graph, id, &frozen, context);
                let Some(merged) = merged else {
                    let name = graph.operator(id).name();
                    reasons.into_iter().for_each(|reason| outcome.refuse(name, reason));
                    break;
                };
                merged.apply(graph, id).map_err(PassError::edit(self.name()))?;
                outcome.fired += 1;
            }
        }
        Ok(outcome)
    }
}

/// An operator with one of its predecessors inlined.
struct Merged {
    expr: Expr,
    inputs: Vec<OperandId>,
    inner: OperatorId,
}

/// Inlines the first predecessor that can be, or returns the reasons why none can.
fn step(
    graph: &Graph,
    id: OperatorId,
    frozen: &HashSet<OperatorId>,
    context: &PassContext,
) -> (Option<Merged>, Vec<String>) {
    let mut reasons = Vec::new();
    let Some(outer) = as_expression(graph.operator(id)).filter(|_| !frozen.contains(&id)) else {
        return (None, reasons);
    };
    let mut inputs = graph.operator(id).inputs().to_vec();
    inputs.sort_unstable();
    inputs.dedup();
    for input in inputs {
        let inner = graph.operand(input).producer().filter(|inner| !frozen.contains(inner));
        let Some(inner) = inner else { continue };
        let Some(expr) = as_expression(graph.operator(inner)) else { continue };
        match merge(graph, id, &outer, inner, &expr, context.facts(graph)) {
            Ok(merged) => return (Some(merged), Vec::new()),
            Err(reason) => reasons.push(reason),
        }
    }
    (None, reasons)
}

fn merge(
    graph: &Graph,
    id: OperatorId,
    outer: &Expr,
    inner: OperatorId,
    expr: &Expr,
    facts: &Facts,
) -> Result<Merged, String> {
    let (operator, before) = (graph.operator(id), graph.operator(inner));
    let (&[output], &[middle]) = (operator.outputs(), before.outputs()) else {
        return Err("it has several outputs".to_owned());
    };
    let name = graph.operand(middle).name();
    if graph.operand(middle).consumers().iter().any(|&consumer| consumer != id) {
        return Err(format!("`{name}` is also used elsewhere"));
    }
    if uses(outer, operator.inputs(), middle) != 1 {
        return Err(format!("`{name}` is used several times and would be computed each time"));
    }
    check_facts(graph, &[operator.inputs(), before.inputs(), &[output]].concat(), facts)?;
    let dims = |operand: OperandId| facts.meta(graph, operand).map(|meta| meta.dims());
    if dims(middle) != dims(output) {
        return Err(format!("`{name}` is broadcast and would be computed again for every element"));
    }
    let mut inputs = Vec::new();
    let inlined = inline(expr, &|position| before.inputs().get(position).copied(), &mut inputs, None);
    let expr = inlined.and_then(|inner| {
        let place = Some((middle, inner));
        inline(outer, &|position| operator.inputs().get(position).copied(), &mut inputs, place.as_ref())
    });
    let expr = expr.ok_or("the expression reads an input that does not exist")?;
    let mut parts = 0;
    expr.walk(&mut |_| parts += 1);
    if parts > MAX_PARTS || inputs.len() > MAX_INPUTS {
        return Err(format!(
            "with `{name}` the expression would have {parts} parts and {} inputs; at most {MAX_PARTS} and \
             {MAX_INPUTS} are allowed",
            inputs.len()
        ));
    }
    Ok(Merged { expr, inputs, inner })
}

/// The number of times that an expression reads an operand.
fn uses(expr: &Expr, inputs: &[OperandId], operand: OperandId) -> usize {
    let mut count = 0;
    expr.walk(&mut |part| {
        if let Expr::Input(position) = part {
            count += usize::from(inputs.get(*position) == Some(&operand));
        }
    });
    count
}

/// Checks that all tensors have the same type, f32 or f64.
fn check_facts(graph: &Graph, operands: &[OperandId], facts: &Facts) -> Result<(), String> {
    let mut common: Option<DType> = None;
    for &operand in operands {
        let name = graph.operand(operand).name();
        let dtype = facts.get(name).map(|meta| meta.dtype());
        let dtype = dtype.ok_or_else(|| format!("the element type of `{name}` is unknown"))?;
        if !matches!(dtype, DType::F32 | DType::F64) || common.is_some_and(|common| common != dtype) {
            return Err(format!("`{name}` is {dtype}"));
        }
        common = Some(dtype);
    }
    Ok(())
}

/// Rewrites an expression to a common list of inputs, adding those that it needs. `place` is an operand and the expression
/// to inline for it.
fn inline(
    expr: &Expr,
    operand_of: &dyn Fn(usize) -> Option<OperandId>,
    inputs: &mut Vec<OperandId>,
    place: Option<&(OperandId, Expr)>,
) -> Option<Expr> {
    let mut are_known = true;
    let inlined = changed(expr, &mut |node| {
        let Expr::Input(position) = node else { return None };
        let operand = operand_of(*position);
        are_known &= operand.is_some();
        let operand = operand?;
        if let Some((_, inner)) = place.filter(|(middle, _)| *middle == operand) {
            return Some(inner.clone());
        }
        let known = inputs.iter().position(|&input| input == operand);
        Some(Expr::Input(known.unwrap_or_else(|| {
            inputs.push(operand);
            inputs.len() - 1
        })))
    });
    are_known.then_some(inlined)
}

impl Merged {
    fn apply(self, graph: &mut Graph, id: OperatorId) -> Result<(), GraphError> {
        become_operator(graph, id, "pnnx.Expression", &self.inputs, None)?;
        graph.set_param(id, "expr", self.expr.to_string())?;
        graph.remove_operator(self.inner).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    /// The lines and refusals after the pass, for operators between inputs `0`, `1` of n×m f32, `2` of m f32 and an output.
    fn after(operators: &str, output: &str) -> (Vec<String>, Vec<String>) {
        let mut graph = graph(&format!(
            "pnnx.Input in0 0 1 0 #0=(%n,%m)f32
             pnnx.Input in1 0 1 1 #1=(%n,%m)f32
             pnnx.Input in2 0 1 2 #2=(%m)f32
             {operators}
             pnnx.Output out 1 0 {output}"
        ));
        let outcome = run(&ExpressionChains, &mut graph);
        (lines(&graph), outcome.refused.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_chain_is_one_expression() {
        let (lines, _) = after(
            "pnnx.Expression a 2 1 0 1 3 expr=add(@0,@1)
             nn.ReLU b 1 1 3 4
             pnnx.Expression c 2 1 4 0 5 expr=mul(sub(@1,@0),2.0)
             F.silu d 1 1 5 6 $input=5",
            "6",
        );
        assert_eq!(lines, ["pnnx.Expression(0,1)->6 expr=silu(mul(sub(@0,relu(add(@0,@1))),2.0))"]);
    }

    #[test]
    fn both_operands_of_a_product_can_be_inlined() {
        let (lines, _) = after(
            "nn.ReLU a 1 1 0 3\nnn.Sigmoid b 1 1 1 4\npnnx.Expression c 2 1 3 4 5 expr=mul(@0,@1)",
            "5",
        );
        assert_eq!(lines, ["pnnx.Expression(1,0)->5 expr=mul(relu(@1),sigmoid(@0))"]);
    }

    #[test]
    fn nothing_is_computed_twice() {
        let (_, refused) = after(
            "nn.ReLU a 1 1 0 3\nnn.Tanh b 1 1 3 4\nnn.SiLU c 1 1 3 5\ntorch.cat d 2 1 4 5 6 dim=0",
            "6",
        );
        assert_eq!(refused, ["`b`: `3` is also used elsewhere", "`c`: `3` is also used elsewhere"]);
        let (_, refused) = after("nn.ReLU a 1 1 0 3\npnnx.Expression b 1 1 3 4 expr=mul(@0,@0)", "4");
        assert_eq!(refused, ["`b`: `3` is used several times and would be computed each time"]);
        let (_, refused) = after("nn.ReLU a 1 1 2 3\npnnx.Expression b 2 1 0 3 4 expr=add(@0,@1)", "4");
        assert_eq!(refused, ["`b`: `3` is broadcast and would be computed again for every element"]);
    }

    #[test]
    fn only_floats_of_one_type() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0 #0=(2)i64
             pnnx.Expression a 1 1 0 1 expr=add(@0,1)
             pnnx.Expression b 1 1 1 2 expr=div(@0,2)
             pnnx.Output out 1 0 2",
        );
        let outcome = run(&ExpressionChains, &mut graph);
        assert_eq!(outcome.refused[0].to_string(), "`b`: `1` is i64");
    }

    #[test]
    fn expressions_stay_short() {
        let relus: String = (0..100).map(|i| format!("nn.Tanh r{i} 1 1 x{i} x{}\n", i + 1)).collect();
        let (lines, refused) = after(&format!("nn.Tanh first 1 1 0 x0\n{relus}"), "x100");
        assert_eq!(lines.len(), 3);
        assert!(refused[0].contains("49 parts"), "{refused:?}");
    }
}
