//! Folding constants that scale or shift the channels of a product into its weights.
//!
//! ```text
//! nn.Linear fc                1 1 x a
//! pnnx.Attribute gamma        0 1 g @data=(96)f32
//! pnnx.Expression scale       3 1 r a g y expr=add(@0,mul(@1,@2))
//!     ↓
//! nn.Linear fc                1 1 x a
//! pnnx.Expression scale       3 1 r a g y expr=add(@0,@1)
//! ```
//!
//! An expression `a + constant` becomes a bias, and the layer scale of ConvNeXt costs nothing.

use super::affine::{Channels, Folded};
use super::formula::{Formula, calls};
use super::site::{is_computed_in, own_producer};
use super::weights;
use crate::passes::visit::{Verdict, Visit, remove};
use crate::passes::{Facts, PassContext};
use crate::pnnx::{Expr, Function, Graph, GraphError, OperandId, OperatorId};
use crate::tensor::resolve_axis;

/// The pass.
pub(super) const FOLD_SCALE: Visit = Visit {
    name: "fold_scale",
    doc: "Folds constants that scale or shift the channels of a convolution or linear layer into its weights.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(found) = find(graph, facts, id) else { return Ok(Verdict::Other) };
    found.folded.store(graph, found.source)?;
    let (input, output) = (found.rest.inputs.first().copied(), graph.operator(id).outputs().first().copied());
    if let (Expr::Input(0), Some(input), Some(output)) = (&found.rest.expr, input, output)
        && remove(graph, id, output, input)? == Verdict::Fired
    {
        return Ok(Verdict::Fired);
    }
    found.rest.store(graph, id)?;
    Ok(Verdict::Fired)
}

struct Found {
    source: OperatorId,
    folded: Folded,
    /// The expression that is left.
    rest: Formula,
}

/// The operator that computes the channels of an expression's input.
struct Source<'g> {
    id: OperatorId,
    channels: Channels<'g>,
    /// The input's channel axis, counted from the end; 1 is the last axis.
    axis: usize,
}

/// The affine function that a call applies to the channels.
struct Step {
    factors: Vec<f64>,
    summands: Option<Vec<f64>>,
}

fn find(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<Found> {
    let operator = graph.get_operator(id).filter(|operator| operator.op_type() == "pnnx.Expression")?;
    let (whole, &output) = (Formula::of(operator)?, operator.outputs().first()?);
    calls(&whole.expr).into_iter().find_map(|call| {
        let Expr::Call { function, args } = call else { return None };
        let [left, right] = args.as_slice() else { return None };
        let is_symmetric = matches!(function, Function::Add | Function::Mul);
        let orders = [(left, right, true), (right, left, is_symmetric)];
        orders.into_iter().filter(|order| order.2).find_map(|(value, constant, _)| {
            let &Expr::Input(input) = value else { return None };
            let operand = whole.inputs.get(input).copied().filter(|_| uses(&whole.expr, value) == 1)?;
            let source = source(graph, facts, id, operand)?;
            let numbers = numbers(graph, facts, &whole, constant, operand, &source)?;
            let step = step(*function, numbers, source.channels.count)?;
            let folded = source.channels.folded(&step.factors, step.summands.as_deref())?;
            let rest = whole.replaced(call, value);
            // The removed constant must not have enlarged the result by broadcasting.
            let kept = rest.inputs.iter().any(|&input| have_same_dims(graph, facts, input, output));
            kept.then_some(Found { source: source.id, folded, rest })
        })
    })
}

fn have_same_dims(graph: &Graph, facts: &Facts, left: OperandId, right: OperandId) -> bool {
    let dims = |operand| facts.meta(graph, operand).map(|meta| meta.dims());
    dims(left).is_some() && dims(left) == dims(right)
}

/// The operator that computes an operand for `reader` only, also through permutations of the axes.
fn source<'g>(graph: &'g Graph, facts: &Facts, reader: OperatorId, operand: OperandId) -> Option<Source<'g>> {
    let meta = facts.meta(graph, operand).filter(|meta| is_computed_in(meta.dtype()))?;
    let (id, operator) = own_producer(graph, operand, reader)?;
    if operator.op_type() == "Tensor.permute" {
        let Source { id, channels, axis } = source(graph, facts, id, *operator.inputs().first()?)?;
        let dims = operator.get::<Vec<i64>>("dims").ok().filter(|dims| dims.len() == meta.rank())?;
        let from = meta.rank().checked_sub(axis)?;
        let to = dims.iter().position(|&dim| resolve_axis(dim, meta.rank()) == Ok(from))?;
        return Some(Source { id, channels, axis: meta.rank() - to });
    }
    let channels = Channels::of(operator)?;
    let axis = channels.axis_from_end();
    (channels.is_linear() || meta.rank() == channels.batched_rank()).then_some(Source { id, channels, axis })
}

/// The affine function that `function` applies to each channel and its number.
fn step(function: Function, numbers: Vec<f64>, count: usize) -> Option<Step> {
    let map = |change: fn(f64) -> f64| numbers.iter().map(|&number| change(number)).collect::<Vec<f64>>();
    let (factors, summands) = match function {
        Function::Mul => (numbers, None),
        Function::Div => (map(f64::recip), None),
        Function::Add => (vec![1.0; count], Some(numbers)),
        Function::Sub => (vec![1.0; count], Some(map(std::ops::Neg::neg))),
        _ => return None,
    };
    Some(Step { factors, summands })
}

/// The numbers, one for each channel, of a literal or a stored tensor.
fn numbers(
    graph: &Graph,
    facts: &Facts,
    whole: &Formula,
    constant: &Expr,
    operand: OperandId,
    source: &Source<'_>,
) -> Option<Vec<f64>> {
    let count = source.channels.count;
    let stored = match constant {
        Expr::Int(number) => return Some(vec![*number as f64; count]),
        Expr::Float(number) => return Some(vec![*number; count]),
        Expr::Input(input) => weights::constant(graph, *whole.inputs.get(*input)?)?,
        _ => return None,
    };
    let meta = facts.meta(graph, operand)?;
    let is_channel =
        |(from_end, &len): (usize, &usize)| len == 1 || (from_end + 1 == source.axis && len == count);
    let fits = stored.dtype() == meta.dtype() && stored.shape().len() <= meta.rank();
    if !fits || !stored.shape().iter().rev().enumerate().all(is_channel) {
        return None;
    }
    let numbers = weights::numbers(stored)?;
    match numbers.as_slice() {
        &[one] => Some(vec![one; count]),
        _ => Some(numbers),
    }
}

/// The number of times that a part occurs in an expression.
fn uses(expr: &Expr, part: &Expr) -> usize {
    let mut count = 0;
    expr.walk(&mut |node| count += usize::from(node == part));
    count
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    fn scaled(product: &str, input: &str, constant: &str, expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x={input}f32\npnnx.Attribute c 0 1 c @data={constant}f32\n\
             {} p 1 1 x a {}\npnnx.Expression e 2 1 a c y expr={expr}\npnnx.Output out 1 0 y",
            product.split_once(' ').unwrap().0,
            product.split_once(' ').unwrap().1,
        )
    }

    const LINEAR: &str = "nn.Linear @weight=(6,4)f32 @bias=(6)f32";
    const CONV: &str = "nn.Conv2d @weight=(6,4,3,3)f32";

    #[test]
    fn constants_of_channels_are_folded() {
        for (product, input, constant, expr) in [
            (LINEAR, "(2,3,4)", "(6)", "add(@0,@1)"),
            (LINEAR, "(2,3,4)", "(1,1,6)", "mul(@1,@0)"),
            (LINEAR, "(2,3,4)", "(1)", "sub(@0,@1)"),
            (CONV, "(1,4,5,5)", "(6,1,1)", "add(@0,@1)"),
            (CONV, "(1,4,5,5)", "(1,6,1,1)", "div(@0,@1)"),
            ("nn.ConvTranspose2d groups=2 @weight=(4,3,3,3)f32", "(1,4,5,5)", "(1,6,1,1)", "mul(@0,@1)"),
        ] {
            let left = fires(&FOLD_SCALE, &scaled(product, input, constant, expr));
            assert_eq!(left.len(), 2, "{left:?}");
        }
    }

    #[test]
    fn channels_may_have_been_moved() {
        let model = "pnnx.Input in 0 1 x #x=(2,3,5,4)f32\npnnx.Attribute g 0 1 g @data=(6,1,1)f32\n\
            nn.Linear p 1 1 x a @weight=(6,4)f32\nTensor.permute move 1 1 a b dims=(0,3,1,2) $input=a\n\
            pnnx.Expression e 2 1 g b y expr=mul(@0,@1)\npnnx.Output out 1 0 y";
        assert_eq!(fires(&FOLD_SCALE, model).len(), 3);
        refuses(&FOLD_SCALE, &model.replace("(6,1,1)", "(5)"));
        refuses(&FOLD_SCALE, &model.replace("(6,1,1)", "(3,1)"));
        refuses(&FOLD_SCALE, &model.replace("out 1 0 y", "out 2 0 y a"));
    }

    #[test]
    fn the_rest_of_an_expression_stays() {
        let model = "pnnx.Input in 0 1 x #x=(2,3,4)f32\npnnx.Input in2 0 1 r #r=(2,3,6)f32\n\
            pnnx.Attribute g 0 1 g @data=(6)f32\n\
            nn.Linear p 1 1 x a @weight=(6,4)f32 @bias=(6)f32\n\
            pnnx.Expression e 3 1 r a g y expr=add(@0,mul(@1,@2))\npnnx.Output out 1 0 y";
        let left = fires(&FOLD_SCALE, model);
        assert_eq!(left.last().unwrap(), "pnnx.Expression(r,a)->y expr=add(@0,@1)");
        let both = model.replace("add(@0,mul(@1,@2))", "relu(mul(add(@1,1.5),@2))");
        let left = fires(&FOLD_SCALE, &both);
        assert!(left.last().unwrap().contains("relu("), "{left:?}");
    }

    #[test]
    fn other_axes_other_readers_and_missing_weights_are_left_alone() {
        refuses(&FOLD_SCALE, &scaled(LINEAR, "(2,6,4)", "(6,1)", "mul(@0,@1)"));
        refuses(&FOLD_SCALE, &scaled(CONV, "(1,4,8,8)", "(6)", "mul(@0,@1)"));
        refuses(&FOLD_SCALE, &scaled(LINEAR, "(1,4)", "(3,6)", "mul(@0,@1)"));
        // The constant enlarges the result.
        refuses(&FOLD_SCALE, &scaled(LINEAR, "(4)", "(1,6)", "mul(@0,@1)"));
        refuses(&FOLD_SCALE, &scaled(LINEAR, "(2,3,4)", "(6)", "sub(@1,@0)"));
        refuses(&FOLD_SCALE, &scaled(LINEAR, "(2,3,4)", "(6)", "add(mul(@0,@1),@0)"));
        let read = scaled(LINEAR, "(2,3,4)", "(6)", "mul(@0,@1)").replace("out 1 0 y", "out 2 0 y a");
        refuses(&FOLD_SCALE, &read);
        refuses_without_weights(&FOLD_SCALE, &scaled(LINEAR, "(2,3,4)", "(6)", "mul(@0,@1)"));
    }
}
