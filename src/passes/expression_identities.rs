//! Removing arithmetic identities: `x * 1`, `x / 1`, `x - 0`, `x ** 1`, `-(-x)`.
//!
//! `x + 0` is not an identity for floats, since it turns -0 into 0.

use super::visit::{Verdict, Visit, remove};
use super::{Facts, PassContext};
use crate::pnnx::{Expr, Function, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::DType;

/// The pass. Expressions that then only return an input are removed from the graph.
pub(super) const EXPRESSION_IDENTITIES: Visit = Visit {
    name: "expression_identities",
    doc: "Removes arithmetic that changes nothing, such as x * 1, if the element type stays the same.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(expr) = expression(graph.operator(id)) else { return Ok(Verdict::Other) };
    let facts = context.facts(graph);
    let Some(numbers) = numbers(graph, id, facts) else { return Ok(Verdict::Other) };
    let simple = simplified(expr.clone(), numbers);
    if let Some((input, output)) = copied(graph, id, &simple, facts) {
        return remove(graph, id, output, input);
    }
    if simple == expr || simple.input_count() != expr.input_count() {
        return Ok(Verdict::Other);
    }
    graph.set_param(id, "expr", simple.to_string())?;
    Ok(Verdict::Fired)
}

/// The expression that an operator computes.
pub(super) fn expression(operator: &Operator) -> Option<Expr> {
    let raw = operator.param("expr").filter(|_| operator.op_type() == "pnnx.Expression")?;
    Expr::parse(raw.raw()).ok()
}

/// The kind of element that all inputs of an operator have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Floats,
    Integers,
}

fn numbers(graph: &Graph, id: OperatorId, facts: &Facts) -> Option<Numbers> {
    let dtype = |&input: &OperandId| facts.meta(graph, input).map(|meta| meta.dtype());
    let dtypes: Vec<DType> = graph.operator(id).inputs().iter().map(dtype).collect::<Option<_>>()?;
    match dtypes.first()? {
        first if first.is_float() && dtypes.iter().all(|dtype| dtype == first) => Some(Numbers::Floats),
        DType::I64 if dtypes.iter().all(|&dtype| dtype == DType::I64) => Some(Numbers::Integers),
        _ => None,
    }
}

fn simplified(expr: Expr, numbers: Numbers) -> Expr {
    let (function, args) = match expr {
        Expr::Call { function: Function::Size, args } => {
            return Expr::Call { function: Function::Size, args };
        }
        Expr::Call { function, args } => (function, args),
        Expr::List(items) => {
            return Expr::List(items.into_iter().map(|item| simplified(item, numbers)).collect());
        }
        leaf => return leaf,
    };
    let args: Vec<Expr> = args.into_iter().map(|arg| simplified(arg, numbers)).collect();
    let kept = match (function, args.as_slice()) {
        (Function::Mul, [x, one]) | (Function::Mul, [one, x]) if is(one, 1, x, numbers) => Some(x),
        (Function::Sub, [x, zero]) if is(zero, 0, x, numbers) => Some(x),
        (Function::Add, [x, zero]) | (Function::Add, [zero, x])
            if numbers == Numbers::Integers && is(zero, 0, x, numbers) =>
        {
            Some(x)
        }
        (Function::Div | Function::Pow, [x, one]) if numbers == Numbers::Floats && is(one, 1, x, numbers) => {
            Some(x)
        }
        (Function::Neg, [Expr::Call { function: Function::Neg, args }]) => args.first(),
        _ => None,
    };
    kept.cloned().unwrap_or(Expr::Call { function, args })
}

/// Returns true if a literal has this value and a type that does not change the element type of `x`.
fn is(literal: &Expr, number: i64, x: &Expr, numbers: Numbers) -> bool {
    let tensor = is_tensor(x);
    match literal {
        Expr::Int(value) => *value == number && (tensor || numbers == Numbers::Integers),
        Expr::Float(value) => *value == number as f64 && tensor && numbers == Numbers::Floats,
        _ => false,
    }
}

/// Returns true if the value is computed from elements, not from sizes and literals alone.
fn is_tensor(expr: &Expr) -> bool {
    match expr {
        Expr::Input(_) => true,
        Expr::Call { function: Function::Size | Function::Int | Function::Cast(_), .. } => false,
        other => other.children().iter().any(is_tensor),
    }
}

/// The input that the expression returns and the output, if they have the same element type and shape.
fn copied(graph: &Graph, id: OperatorId, expr: &Expr, facts: &Facts) -> Option<(OperandId, OperandId)> {
    let Expr::Input(position) = expr else { return None };
    let operator = graph.operator(id);
    let (&input, &[output]) = (operator.inputs().get(*position)?, operator.outputs()) else { return None };
    facts.are_alike(graph, input, output).then_some((input, output))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(expr: &str, dtype: &str) -> (usize, String) {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0 #0=(2,3){dtype}
             pnnx.Expression e 1 1 0 1 expr={expr}
             F.sigmoid s 1 1 1 2
             pnnx.Output out 1 0 2"
        ));
        let outcome = run(&EXPRESSION_IDENTITIES, &mut graph);
        (outcome.fired, lines(&graph).remove(0))
    }

    #[test]
    fn identities_are_removed() {
        for expr in
            ["mul(@0,1)", "mul(1.0,@0)", "div(@0,1)", "sub(@0,0)", "pow(@0,1.0)", "neg(neg(@0))", "@0"]
        {
            assert_eq!(after(expr, "f32"), (1, "F.sigmoid(0)->2".to_owned()), "{expr}");
        }
        assert_eq!(after("exp(mul(@0,1))", "f32").1, "pnnx.Expression(0)->1 expr=exp(@0)");
        assert_eq!(after("add(@0,0)", "i64").0, 1);
    }

    #[test]
    fn other_arithmetic_stays() {
        for (expr, dtype) in [
            ("add(@0,0)", "f32"),
            ("sub(0,@0)", "f32"),
            ("mul(@0,2)", "f32"),
            ("mul(@0,1.0)", "i64"),
            ("div(@0,1)", "i64"),
            ("mul(@0,1)", "bool"),
            ("mul(size(@0,0),1.0)", "f32"),
            ("sub(@0,@0)", "f32"),
        ] {
            assert_eq!(after(expr, dtype).0, 0, "{expr} of {dtype}");
        }
    }
}
