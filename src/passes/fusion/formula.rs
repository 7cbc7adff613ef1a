//! Element-wise operators as formulas that can be taken apart and put together again.

use super::site::NewOperator;
use crate::passes::elementwise::{as_expression, changed};
use crate::pnnx::{Expr, Graph, GraphError, OperandId, Operator, OperatorId};

/// The input number of a placeholder, in an expression that is being changed.
pub(super) const UNKNOWN: usize = usize::MAX;

/// The expression that an operator computes from the elements at one position of its inputs.
#[derive(Debug, Clone)]
pub(super) struct Formula {
    /// The expression over `inputs`.
    pub(super) expr: Expr,
    /// The operands that the expression reads, each one once.
    pub(super) inputs: Vec<OperandId>,
}

impl Formula {
    /// The formula of an operator, if it is element-wise and has inputs.
    pub(super) fn of(operator: &Operator) -> Option<Self> {
        let expr = as_expression(operator)?;
        (!operator.inputs().is_empty()).then(|| Self::with(expr, operator.inputs()))
    }

    /// Renumbers the inputs of an expression, merging equal operands and dropping unused ones.
    fn with(expr: Expr, all: &[OperandId]) -> Self {
        let mut inputs = Vec::new();
        let expr = replace_inputs(&expr, &mut |index| {
            let Some(&operand) = all.get(index) else { return Expr::Input(UNKNOWN) };
            let known = inputs.iter().position(|&other| other == operand);
            Expr::Input(known.unwrap_or_else(|| {
                inputs.push(operand);
                inputs.len() - 1
            }))
        });
        Self { expr, inputs }
    }

    /// The formula with each occurrence of a part replaced.
    pub(super) fn replaced(&self, part: &Expr, by: &Expr) -> Self {
        Self::with(replace(&self.expr, part, by), &self.inputs)
    }

    /// Replaces an operator by a `pnnx.Expression` with this formula.
    pub(super) fn store(&self, graph: &mut Graph, id: OperatorId) -> Result<(), GraphError> {
        let mut new = NewOperator::new("pnnx.Expression", graph.operator(id).name());
        for &input in &self.inputs {
            new = new.input(input, None);
        }
        new.param("expr", self.expr.to_string()).replace(graph, &[id])
    }
}

/// All calls of an expression, parents first.
pub(super) fn calls(expr: &Expr) -> Vec<&Expr> {
    let mut calls = Vec::new();
    expr.walk(&mut |node| {
        if matches!(node, Expr::Call { .. }) {
            calls.push(node);
        }
    });
    calls
}

fn replace_inputs(expr: &Expr, by: &mut dyn FnMut(usize) -> Expr) -> Expr {
    changed(expr, &mut |node| if let Expr::Input(index) = node { Some(by(*index)) } else { None })
}

/// An expression with input `n` renumbered to `numbers[n]`.
pub(super) fn renumbered(expr: &Expr, numbers: &[usize]) -> Expr {
    replace_inputs(expr, &mut |index| Expr::Input(numbers.get(index).copied().unwrap_or(index)))
}

/// An expression with each occurrence of a part replaced.
pub(super) fn replace(expr: &Expr, part: &Expr, by: &Expr) -> Expr {
    changed(expr, &mut |node| (node == part).then(|| by.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::testing::graph;

    fn formula(expr: &str) -> Option<String> {
        let lines = format!(
            "pnnx.Input in 0 2 x z\npnnx.Expression e 3 1 x z x y expr={expr}\npnnx.Output out 1 0 y"
        );
        let graph = graph(&lines);
        let formula = Formula::of(graph.operator(graph.operator_named("e").unwrap()))?;
        let names = formula.inputs.iter().map(|&input| graph.operand(input).name());
        Some(format!("{} of {}", formula.expr, names.collect::<Vec<_>>().join(",")))
    }

    #[test]
    fn operands_are_merged_and_unused_ones_dropped() {
        assert_eq!(formula("add(mul(@0,@1),@2)").unwrap(), "add(mul(@0,@1),@0) of x,z");
        assert_eq!(formula("tanh(@1)").unwrap(), "tanh(@0) of z");
        assert_eq!(formula("[size(@0,0)]"), None);
    }

    #[test]
    fn parts_are_replaced_wherever_they_are() {
        let expr: Expr = "add(sin(@0),mul(sin(@0),@1))".parse().unwrap();
        let part: Expr = "sin(@0)".parse().unwrap();
        assert_eq!(replace(&expr, &part, &Expr::Input(7)).to_string(), "add(@7,mul(@7,@1))");
        assert_eq!(renumbered(&expr, &[3, 0]).to_string(), "add(sin(@3),mul(sin(@3),@0))");
        assert_eq!(calls(&expr).len(), 4);
    }
}
