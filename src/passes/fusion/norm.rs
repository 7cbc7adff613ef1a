//! Layer norm and root mean square norm that were spelled out.
//!
//! ```text
//! torch.mean mean             1 1 x m dim=(-1) keepdim=True
//! pnnx.Expression square      2 1 x m s expr=pow(sub(@0,@1),2)
//! torch.mean variance         1 1 s v dim=(-1) keepdim=True
//! pnnx.Expression norm        4 1 w x m v y expr=mul(@0,mul(sub(@1,@2),rsqrt(add(@3,1.0e-05))))
//!     ↓
//! nn.LayerNorm norm           1 1 x y eps=1.0e-05 normalized_shape=(64) @weight=(64)f32
//! ```
//!
//! The last expression may go on with the result, and may be spelled in any way. `sub(@0,@1)` may be an operator of its
//! own, too, which both expressions read.

use super::algebra::same;
use super::formula::{Formula, UNKNOWN, calls, replace};
use super::site::{NewOperator, is_computed_in, meta, producer};
use super::visit::{Verdict, Visit};
use super::weights;
use crate::passes::Facts;
use crate::pnnx::{Attribute, Expr, Function, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::Dim;

/// The pass for layer norm.
pub(super) const FUSE_LAYER_NORM: Visit = Visit {
    name: "fuse_layer_norm",
    doc: "Layer norm that was spelled out in means, squares and roots becomes one operator.",
    visit: |graph, facts, id| visit(graph, facts, id, centred),
};

/// The pass for root mean square norm.
pub(super) const FUSE_RMS_NORM: Visit = Visit {
    name: "fuse_rms_norm",
    doc: "Root mean square norm that was spelled out becomes one operator.",
    visit: |graph, facts, id| visit(graph, facts, id, root_mean_square),
};

/// The statistics of an input's last axis: operators, from the last to the first, that nobody else needs.
struct Statistics {
    x: OperandId,
    mean: Option<OperandId>,
    /// The input less its mean, where an operator of its own computes that.
    centred: Option<OperandId>,
    operators: Vec<OperatorId>,
}

/// A norm, and the expression that reads its result.
struct Norm {
    operator: NewOperator,
    rest: Formula,
    statistics: Statistics,
}

type Recognise = fn(&Graph, OperandId, OperatorId) -> Option<Statistics>;

fn visit(
    graph: &mut Graph,
    facts: &Facts,
    id: OperatorId,
    recognise: Recognise,
) -> Result<Verdict, GraphError> {
    let Some(norm) = find(graph, facts, id, recognise) else { return Ok(Verdict::Other) };
    if norm.rest.expr == Expr::Input(UNKNOWN) {
        let old = [&[id], norm.statistics.operators.as_slice()].concat();
        norm.operator.replace(graph, &old)?;
        return Ok(Verdict::Fired);
    }
    norm.store_ahead(graph, id)?;
    Ok(Verdict::Fired)
}

impl Norm {
    /// Puts the norm ahead of the expression that goes on with its result.
    fn store_ahead(self, graph: &mut Graph, id: OperatorId) -> Result<(), GraphError> {
        let mut expr = NewOperator::new("pnnx.Expression", &self.operator.name);
        let mut norm = self.operator;
        norm.name = format!("{}_norm", norm.name);
        let result = norm.insert(graph, id)?;
        let last = Expr::Input(self.rest.inputs.len());
        let whole = replace(&self.rest.expr, &Expr::Input(UNKNOWN), &last);
        for &input in self.rest.inputs.iter().chain([&result]) {
            expr = expr.input(input, None);
        }
        let old = [&[id], self.statistics.operators.as_slice()].concat();
        expr.param("expr", whole.to_string()).replace(graph, &old)
    }
}

fn find(graph: &Graph, facts: &Facts, id: OperatorId, recognise: Recognise) -> Option<Norm> {
    let operator = graph.get_operator(id).filter(|operator| operator.op_type() == "pnnx.Expression")?;
    let whole = Formula::of(operator)?;
    whole.inputs.iter().find_map(|&spread| {
        let statistics = recognise(graph, spread, id)?;
        let x = meta(graph, facts, statistics.x).filter(|meta| is_computed_in(meta.dtype()))?;
        let features = usize::try_from(x.dims().last().and_then(Dim::fixed)?).ok()?;
        let index = |operand| whole.inputs.iter().position(|&input| input == operand);
        let eps = epsilon(&whole.expr, index(spread)?)?;
        let weights = whole.inputs.iter().enumerate().filter_map(|(index, &input)| {
            let stored = weights::constant(graph, input)?;
            let (last, rest) = stored.shape().split_last()?;
            // More axes than the input has would become axes of the result.
            let fits = *last == features
                && rest.iter().all(|&len| len == 1)
                && stored.shape().len() <= x.rank()
                && stored.dtype() == x.dtype();
            Some((
                index,
                Attribute::new(stored.dtype(), vec![features], stored.bytes().ok()?.into_owned()).ok()?,
            ))
            .filter(|_| fits)
        });
        let weights: Vec<(usize, Attribute)> = weights.collect();
        let centred = match (statistics.centred, statistics.mean) {
            (Some(centred), _) => format!("@{}", index(centred)?),
            (None, Some(mean)) => format!("sub(@{},@{})", index(statistics.x)?, index(mean)?),
            (None, None) => format!("@{}", index(statistics.x)?),
        };
        let plain = format!("mul({centred},rsqrt(add(@{},{eps:e})))", index(spread)?);
        let (part, used) = calls(&whole.expr).into_iter().find_map(|part| {
            let used = spelled(part, &plain, &weights, statistics.mean.is_some())?;
            Some((part, used))
        })?;
        let rest = whole.replaced(part, &Expr::Input(UNKNOWN));
        // The statistics must have gone with the part.
        let gone = [Some(spread), statistics.mean, statistics.centred]
            .into_iter()
            .flatten()
            .all(|operand| !rest.inputs.contains(&operand));
        let op_type = if statistics.mean.is_some() { "nn.LayerNorm" } else { "nn.RMSNorm" };
        let mut new = NewOperator::new(op_type, operator.name()).input(statistics.x, None);
        new = new.param("eps", eps).param("normalized_shape", vec![features as i64]);
        new = new.param("elementwise_affine", used.iter().any(|(key, _)| *key == "weight"));
        for (key, weight) in used {
            new = new.attr(key, weight);
        }
        gone.then_some(Norm { operator: new, rest, statistics })
    })
}

/// The weights with which an expression is the norm, if it is.
fn spelled(
    part: &Expr,
    plain: &str,
    weights: &[(usize, Attribute)],
    may_be_shifted: bool,
) -> Option<Vec<(&'static str, Attribute)>> {
    let is = |text: String| Expr::parse(&text).is_ok_and(|expr| same(part, &expr));
    for (w, weight) in weights {
        for (b, bias) in weights.iter().filter(|(b, _)| may_be_shifted && b != w) {
            if is(format!("add(mul({plain},@{w}),@{b})")) {
                return Some(vec![("weight", weight.clone()), ("bias", bias.clone())]);
            }
        }
        if is(format!("mul({plain},@{w})")) {
            return Some(vec![("weight", weight.clone())]);
        }
    }
    is(plain.to_owned()).then(Vec::new)
}

/// The number that an expression adds to an input.
fn epsilon(expr: &Expr, input: usize) -> Option<f64> {
    calls(expr).into_iter().find_map(|call| match call {
        Expr::Call { function: Function::Add, args } => match args.as_slice() {
            [Expr::Input(index), Expr::Float(eps)] | [Expr::Float(eps), Expr::Input(index)]
                if *index == input && *eps > 0.0 =>
            {
                Some(*eps)
            }
            _ => None,
        },
        _ => None,
    })
}

/// The operator that computes an operand as a mean over the last axis, which it keeps.
fn mean(graph: &Graph, operand: OperandId) -> Option<(OperatorId, &Operator)> {
    let (id, operator) = producer(graph, operand)?;
    let dim = operator.param("dim")?;
    let dims = dim.as_i64s().or_else(|_| dim.as_i64().map(|dim| vec![dim])).ok()?;
    let is_mean = operator.op_type() == "torch.mean" && operator.inputs().len() == 1 && dims == [-1];
    let untyped = operator.param("dtype").is_none_or(|dtype| dtype.is_none());
    (is_mean && untyped && operator.get_or("keepdim", false).ok()?).then_some((id, operator))
}

fn is_read_by(graph: &Graph, operand: OperandId, readers: &[OperatorId]) -> bool {
    graph
        .get_operand(operand)
        .is_some_and(|operand| operand.consumers().iter().all(|id| readers.contains(id)))
}

/// `v` in v = mean(pow(x - m, 2)), m = mean(x).
fn centred(graph: &Graph, spread: OperandId, last: OperatorId) -> Option<Statistics> {
    let (variance, averaging) = mean(graph, spread)?;
    let squares = *averaging.inputs().first()?;
    let (squaring, operator) = producer(graph, squares)?;
    let whole = Formula::of(operator).filter(|_| is_read_by(graph, squares, &[variance]))?;
    is_read_by(graph, spread, &[last]).then_some(())?;
    if let &[centred] = whole.inputs.as_slice() {
        let (centring, operator) = producer(graph, centred)?;
        let difference = Formula::of(operator)?;
        let &[x, mean_of] = difference.inputs.as_slice() else { return None };
        let centre = mean_of_input(graph, mean_of, x)?;
        let own = is_read_by(graph, centred, &[squaring, last]) && is_read_by(graph, mean_of, &[centring]);
        let operators = vec![variance, squaring, centring, centre];
        return (is(&whole, "square(@0)") && is(&difference, "sub(@0,@1)") && own).then_some(Statistics {
            x,
            mean: Some(mean_of),
            centred: Some(centred),
            operators,
        });
    }
    let &[a, b] = whole.inputs.as_slice() else { return None };
    let (x, mean_of) = if mean(graph, b).is_some() { (a, b) } else { (b, a) };
    let centre = mean_of_input(graph, mean_of, x)?;
    let own = is_read_by(graph, mean_of, &[squaring, last]);
    let operators = vec![variance, squaring, centre];
    (is(&whole, "square(sub(@0,@1))") && own).then_some(Statistics {
        x,
        mean: Some(mean_of),
        centred: None,
        operators,
    })
}

/// The operator that computes an operand as the mean of `x`.
fn mean_of_input(graph: &Graph, operand: OperandId, x: OperandId) -> Option<OperatorId> {
    mean(graph, operand).filter(|(_, operator)| operator.inputs() == [x]).map(|(id, _)| id)
}

fn is(formula: &Formula, text: &str) -> bool {
    Expr::parse(text).is_ok_and(|expr| same(&formula.expr, &expr))
}

/// `v` in v = mean(x²).
fn root_mean_square(graph: &Graph, spread: OperandId, last: OperatorId) -> Option<Statistics> {
    let (averaging, operator) = mean(graph, spread)?;
    let squares = *operator.inputs().first()?;
    let (squaring, operator) = producer(graph, squares)?;
    let whole = Formula::of(operator)?;
    let &[x] = whole.inputs.as_slice() else { return None };
    let own = is_read_by(graph, spread, &[last]) && is_read_by(graph, squares, &[averaging]);
    let operators = vec![averaging, squaring];
    (is(&whole, "square(@0)") && own).then_some(Statistics { x, mean: None, centred: None, operators })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    fn layer_norm(expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x=(2,3,8)f32\npnnx.Attribute w 0 1 w @data=(8)f32\npnnx.Attribute b 0 1 b @data=(8)f32\n\
             torch.mean m 1 1 x m dim=(-1) keepdim=True\npnnx.Expression s 2 1 x m s expr=pow(sub(@0,@1),2)\n\
             torch.mean v 1 1 s v dim=(-1) keepdim=True\npnnx.Expression n 5 1 x m v w b y expr={expr}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn every_spelling_of_layer_norm_is_one() {
        for expr in [
            "add(mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))),@4)",
            "add(mul(@3,div(sub(@0,@1),sqrt(add(@2,1e-5)))),@4)",
            "add(@4,mul(div(sub(@0,@1),pow(add(@2,1e-5),0.5)),@3))",
            "mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))",
            "mul(sub(@0,@1),rsqrt(add(@2,1e-5)))",
        ] {
            let left = fires(&FUSE_LAYER_NORM, &layer_norm(expr));
            assert_eq!(left.len(), 3, "{left:?}");
            assert!(left[2].starts_with("nn.LayerNorm(x)->y"), "{left:?}");
        }
    }

    #[test]
    fn an_expression_may_go_on_with_the_norm() {
        let model = layer_norm("add(@0,mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))))");
        let left = fires(&FUSE_LAYER_NORM, &model);
        assert!(left[2].starts_with("nn.LayerNorm(x)->"), "{left:?}");
        assert!(left[3].ends_with("expr=add(@0,@1)"), "{left:?}");
        // Weights with more axes than the input make the result larger, which a norm does not.
        let weighted = layer_norm("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))");
        let left = fires(&FUSE_LAYER_NORM, &weighted.replace("@data=(8)", "@data=(1,1,1,8)"));
        assert!(left.last().is_some_and(|last| last.starts_with("pnnx.Expression(")), "{left:?}");
    }

    #[test]
    fn the_difference_may_be_computed_once() {
        let model = "pnnx.Input in 0 1 x #x=(2,3,8)f32\npnnx.Attribute w 0 1 w @data=(8)f32\n\
            torch.mean m 1 1 x m dim=(-1) keepdim=True\npnnx.Expression c 2 1 x m c expr=sub(@0,@1)\n\
            pnnx.Expression s 1 1 c s expr=pow(@0,2)\ntorch.mean v 1 1 s v dim=(-1) keepdim=True\n\
            pnnx.Expression n 3 1 c v w y expr=mul(div(@0,sqrt(add(@1,1e-5))),@2)\npnnx.Output out 1 0 y";
        let left = fires(&FUSE_LAYER_NORM, model);
        assert!(left[1].starts_with("nn.LayerNorm(x)->y"), "{left:?}");
        refuses(&FUSE_LAYER_NORM, &model.replace("expr=sub(@0,@1)", "expr=add(@0,@1)"));
        refuses(&FUSE_LAYER_NORM, &model.replace("2 1 x m c", "2 1 m x c"));
        refuses(&FUSE_LAYER_NORM, &model.replace("out 1 0 y", "out 2 0 y c"));
        refuses(&FUSE_LAYER_NORM, &model.replace("out 1 0 y", "out 2 0 y m"));
    }

    #[test]
    fn what_is_nearly_a_norm_stays() {
        const NORM: &str = "add(mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))),@4)";
        refuses(&FUSE_LAYER_NORM, &layer_norm("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,@4))))"));
        refuses(&FUSE_LAYER_NORM, &layer_norm("mul(@3,mul(sub(@1,@0),sqrt(add(@2,1e-5))))"));
        refuses(&FUSE_LAYER_NORM, &layer_norm("add(@1,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))"));
        let model = layer_norm(NORM);
        refuses(&FUSE_LAYER_NORM, &model.replace("dim=(-1)", "dim=(1)").replace("(2,3,8)", "(2,8,8)"));
        refuses(&FUSE_LAYER_NORM, &model.replace("pow(sub(@0,@1),2)", "pow(sub(@0,@1),4)"));
        refuses(&FUSE_LAYER_NORM, &model.replace("out 1 0 y", "out 2 0 y v"));
        refuses(&FUSE_LAYER_NORM, &model.replace("out 1 0 y", "out 2 0 y m"));
        refuses(&FUSE_LAYER_NORM, &model.replace("f32", "f16"));
    }

    fn rms_norm(expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x=(2,3,8)f32\npnnx.Input in2 0 1 r #r=(2,3,8)f32\npnnx.Attribute w 0 1 w @data=(8)f32\n\
             pnnx.Expression s 1 1 x s expr=pow(@0,2)\ntorch.mean v 1 1 s v dim=(-1) keepdim=True\n\
             pnnx.Expression n 4 1 r w x v y expr={expr}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn root_mean_square_norm_is_one() {
        let left = fires(&FUSE_RMS_NORM, &rms_norm("mul(@1,mul(@2,rsqrt(add(@3,1e-6))))"));
        assert!(left[1].starts_with("nn.RMSNorm(x)->y"), "{left:?}");
        let left = fires(&FUSE_RMS_NORM, &rms_norm("add(@0,mul(@1,mul(@2,rsqrt(add(@3,1e-6)))))"));
        assert!(left[2].ends_with("expr=add(@0,@1)"), "{left:?}");
        refuses(&FUSE_RMS_NORM, &rms_norm("mul(@1,mul(@0,rsqrt(add(@3,1e-6))))"));
        refuses(
            &FUSE_RMS_NORM,
            &rms_norm("mul(@1,mul(@2,rsqrt(add(@3,1e-6))))").replace("keepdim=True", "keepdim=False"),
        );
    }
}
