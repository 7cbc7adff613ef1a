//! Replacing spelled-out activation functions by named ones.
//!
//! ```text
//! mul(@0,sigmoid(@0))                                            silu(@0)
//! mul(mul(@0,0.5),add(erf(mul(@0,0.707106769)),1.0))             gelu(@0)
//! ```

use super::algebra::Polynomial;
use super::formula::{Formula, UNKNOWN, calls, replace};
use super::site::{NewOperator, is_computed_in};
use crate::passes::PassContext;
use crate::passes::elementwise::as_operator;
use crate::passes::visit::{Verdict, Visit};
use crate::pnnx::{Expr, Graph, GraphError, OperatorId};
use std::sync::LazyLock;

/// The pass.
pub(super) const NAME_ACTIVATION: Visit =
    Visit { name: "name_activation", doc: "Replaces spelled-out activation functions by named ones.", visit };

/// Spelled-out functions and their names. Other spellings are recognised too, since expressions are compared expanded.
const NAMES: &[(&str, &str)] = &[
    ("reciprocal(add(1,exp(neg(@0))))", "sigmoid(@0)"),
    ("mul(@0,sigmoid(@0))", "silu(@0)"),
    ("mul(mul(@0,0.5),add(1,erf(mul(@0,0.7071067811865476))))", "gelu(@0)"),
    (
        "mul(mul(@0,0.5),add(1,tanh(mul(0.7978845608028654,add(@0,mul(0.044715,pow(@0,3)))))))",
        "gelu_tanh(@0)",
    ),
    ("div(relu6(add(@0,3)),6)", "hardsigmoid(@0)"),
    ("mul(@0,div(relu6(add(@0,3)),6))", "hardswish(@0)"),
    ("mul(@0,tanh(softplus(@0)))", "mish(@0)"),
];

/// A spelled-out function of [`UNKNOWN`], and its short form.
struct Rule {
    long: Polynomial,
    short: Expr,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rule = |(long, short): &(&str, &str)| {
        let long = replace(&Expr::parse(long).ok()?, &Expr::Input(0), &Expr::Input(UNKNOWN));
        Some(Rule { long: Polynomial::of(&long)?, short: Expr::parse(short).ok()? })
    };
    NAMES.iter().filter_map(rule).collect()
});

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(operator) = graph.get_operator(id).filter(|operator| operator.op_type() == "pnnx.Expression")
    else {
        return Ok(Verdict::Other);
    };
    let is_float = |&operand| facts.meta(graph, operand).is_some_and(|meta| is_computed_in(meta.dtype()));
    let Some(whole) = Formula::of(operator).filter(|_| operator.inputs().iter().all(is_float)) else {
        return Ok(Verdict::Other);
    };
    let named = named(&whole.expr);
    if let &[input] = whole.inputs.as_slice()
        && let Some((op_type, params)) = as_operator(&named)
    {
        let new = NewOperator::new(op_type, operator.name()).input(input, Some("input"));
        let new = params.into_iter().fold(new, |new, (key, value)| new.param(key, value));
        new.replace(graph, &[id])?;
        return Ok(Verdict::Fired);
    }
    if named == whole.expr {
        return Ok(Verdict::Other);
    }
    Formula { expr: named, ..whole }.store(graph, id)?;
    Ok(Verdict::Fired)
}

/// An expression with all spelled-out functions replaced by named ones, innermost first.
fn named(expr: &Expr) -> Expr {
    let Expr::Call { function, args } = expr else { return expr.clone() };
    let inside = Expr::Call { function: *function, args: args.iter().map(named).collect() };
    let candidates = candidates(&inside);
    let short = RULES.iter().find_map(|rule| candidates.iter().find_map(|candidate| candidate.named(rule)));
    short.unwrap_or(inside)
}

/// An expression as a function of one of its own parts.
struct Candidate {
    part: Expr,
    function: Polynomial,
    calls: usize,
}

impl Candidate {
    /// The short form, if this is the long form applied to the part, and the short form has fewer calls.
    fn named(&self, rule: &Rule) -> Option<Expr> {
        let is_it = calls(&rule.short).len() < self.calls && self.function.same(&rule.long);
        is_it.then(|| replace(&rule.short, &Expr::Input(0), &self.part))
    }
}

/// The parts of which an expression is a function, with that function. It has at least two calls, as there is none that is
/// shorter than a single one.
fn candidates(expr: &Expr) -> Vec<Candidate> {
    let mut parts: Vec<&Expr> = Vec::new();
    expr.walk(&mut |part| {
        if matches!(part, Expr::Call { .. } | Expr::Input(_)) && !parts.contains(&part) {
            parts.push(part);
        }
    });
    let candidate = |part: &Expr| {
        let function = replace(expr, part, &Expr::Input(UNKNOWN));
        let mut is_only_unknown = true;
        function.walk(&mut |node| is_only_unknown &= !matches!(node, Expr::Input(n) if *n != UNKNOWN));
        let calls = calls(&function).len();
        if !is_only_unknown || calls < 2 {
            return None;
        }
        let function = Polynomial::of(&function)?;
        Some(Candidate { part: part.clone(), function, calls })
    };
    parts.into_iter().skip(1).filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    fn model(expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x=(2,3)f32\npnnx.Input in2 0 1 z #z=(2,3)f32\n\
             pnnx.Expression e 2 1 x z y expr={expr}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn every_spelling_is_recognised() {
        for (expr, named) in [
            ("mul(@0,sigmoid(@0))", "F.silu(x)->y"),
            ("div(@0,add(1,exp(neg(@0))))", "F.silu(x)->y"),
            ("mul(mul(@0,0.5),add(erf(div(@0,1.41421354)),1.0))", "F.gelu(x)->y"),
            ("mul(@0,mul(add(1,erf(mul(@0,0.707106769))),0.5))", "F.gelu(x)->y"),
            (
                "mul(mul(@0,0.5),add(tanh(mul(add(@0,mul(pow(@0,3.0),0.044715)),0.797884583)),1.0))",
                "F.gelu(x)->y approximate=tanh",
            ),
            (
                "mul(0.5,mul(@0,add(1,tanh(mul(mul(@0,0.797884583),add(mul(mul(@0,0.044715),@0),1.0))))))",
                "F.gelu(x)->y approximate=tanh",
            ),
            ("mul(@0,div(relu6(add(@0,3.0)),6.0))", "F.hardswish(x)->y"),
            ("mul(@0,hardsigmoid(@0))", "F.hardswish(x)->y"),
            ("div(clamp(add(3,@0),0,6),6)", "F.hardsigmoid(x)->y"),
            ("mul(mul(@0,sigmoid(@0)),@1)", "pnnx.Expression(x,z)->y expr=mul(silu(@0),@1)"),
            ("mul(add(@0,@1),sigmoid(add(@0,@1)))", "pnnx.Expression(x,z)->y expr=silu(add(@0,@1))"),
        ] {
            assert_eq!(fires(&NAME_ACTIVATION, &model(expr)), [named], "{expr}");
        }
    }

    #[test]
    fn near_matches_keep_their_spelling() {
        for expr in [
            "mul(@0,sigmoid(@1))",
            "mul(@0,sigmoid(mul(@0,1.702)))",
            "mul(mul(@0,0.5),add(erf(div(@0,1.5)),1.0))",
            "mul(@0,div(relu6(add(@0,2.0)),6.0))",
            "add(@0,@1)",
            "silu(add(@0,@1))",
        ] {
            refuses(&NAME_ACTIVATION, &model(expr));
        }
        refuses(&NAME_ACTIVATION, &model("mul(@0,sigmoid(@0))").replace("f32", "f16"));
    }
}
