//! Replacing spelled-out layer norm and root mean square norm by one operator.
//!
//! The last expression may contain further arithmetic on the norm. Expressions may be spelled in any way.

use super::algebra::same;
use super::formula::{Formula, UNKNOWN, calls, renumbered, replace};
use super::site::is_computed_in;
use super::weights;
use crate::op::TensorMeta;
use crate::passes::{Draft, Match, Rewrite, Rule};
use crate::pnnx::{Attribute, Expr, Function, Operator};
use crate::tensor::{Dim, resolve_axis};
use std::collections::BTreeSet;

const LAYER_NORM: &str = "7767517
6 5
pnnx.Input                  input    0 1 x
torch.mean                  mean     1 1 x m            dim=* keepdim=True ?dtype=None
pnnx.Expression             square   3 1 x m ... s      expr=*
torch.mean                  variance 1 1 s v            dim=* keepdim=True ?dtype=None
pnnx.Expression             whole    4 1 x m v ... y    expr=*
pnnx.Output                 output   1 0 y
";

const CENTRED_NORM: &str = "7767517
7 6
pnnx.Input                  input    0 1 x
torch.mean                  mean     1 1 x m            dim=* keepdim=True ?dtype=None
pnnx.Expression             centre   2 1 x m c          expr=sub(@0,@1)
pnnx.Expression             square   2 1 c ... s        expr=*
torch.mean                  variance 1 1 s v            dim=* keepdim=True ?dtype=None
pnnx.Expression             whole    3 1 c v ... y      expr=*
pnnx.Output                 output   1 0 y
";

const RMS_NORM: &str = "7767517
5 4
pnnx.Input                  input    0 1 x
pnnx.Expression             square   2 1 x ... s        expr=*
torch.mean                  variance 1 1 s v            dim=* keepdim=True ?dtype=None
pnnx.Expression             whole    3 1 x v ... y      expr=*
pnnx.Output                 output   1 0 y
";

/// The pass for layer norm.
pub(super) fn fuse_layer_norm() -> Rewrite {
    Rewrite::new(
        "fuse_layer_norm",
        "Replaces layer norm that is spelled out as means, squares and roots by one operator.",
    )
    .rule(Rule::computed(LAYER_NORM, |found| {
        squares(found, "sub(@0,@1)", &["x", "m"])?;
        norm(found, "nn.LayerNorm", "sub(@0,@1)", &["x", "m"])
    }))
    .rule(Rule::computed(CENTRED_NORM, |found| {
        squares(found, "@0", &["c"])?;
        norm(found, "nn.LayerNorm", "@0", &["c"])
    }))
}

/// The pass for root mean square norm.
pub(super) fn fuse_rms_norm() -> Rewrite {
    Rewrite::new("fuse_rms_norm", "Replaces spelled-out root mean square norm by one operator.").rule(
        Rule::computed(RMS_NORM, |found| {
            squares(found, "@0", &["x"])?;
            norm(found, "nn.RMSNorm", "@0", &["x"])
        }),
    )
}

/// Checks that the operator `square` computes the square of the expression `text` over these operands.
fn squares(found: &Match<'_>, text: &str, operands: &[&str]) -> Result<(), String> {
    let operator = found.operator("square")?;
    let whole = Formula::of(operator).ok_or_else(|| format!("`{}` cannot be read", operator.name()))?;
    let wanted = spell(found, &whole, &format!("pow({text},2)"), operands)?;
    if same(&whole.expr, &wanted) {
        Ok(())
    } else {
        Err(format!("`{}` does not compute a square", operator.name()))
    }
}

/// An expression over operands of the pattern, renumbered to the inputs of a formula.
fn spell(found: &Match<'_>, whole: &Formula, text: &str, operands: &[&str]) -> Result<Expr, String> {
    let numbers = operands.iter().map(|name| position(found, whole, name)).collect::<Result<Vec<_>, _>>()?;
    let expr = Expr::parse(text).map_err(|error| error.to_string())?;
    Ok(renumbered(&expr, &numbers))
}

/// The input number of an operand of the pattern in a formula.
fn position(found: &Match<'_>, whole: &Formula, name: &str) -> Result<usize, String> {
    let operand = found.operand_id(name)?;
    let position = whole.inputs.iter().position(|&input| input == operand);
    position.ok_or_else(|| format!("`{}` is not used", found.graph().operand(operand).name()))
}

/// The norm of `x`, which is `centred` over the root of `v`, and the rest of the operator `whole`.
fn norm(found: &Match<'_>, op_type: &str, centred: &str, operands: &[&str]) -> Result<Draft, String> {
    let whole = Formula::of(found.operator("whole")?)
        .ok_or("the expression on the mean of the squares cannot be read")?;
    let x = found.meta("x")?;
    let features = x.dims().last().and_then(Dim::fixed).and_then(|n| usize::try_from(n).ok());
    let features = features
        .filter(|_| is_computed_in(x.dtype()))
        .ok_or("its type is neither f32 nor f64, or the length of its last axis is unknown")?;
    let mut means = ["mean", "variance"].into_iter().filter_map(|name| found.operator(name).ok());
    if !means.all(|mean| is_of_rows(mean, x)) {
        return Err("its mean is not over the last axis".to_owned());
    }
    let spread = position(found, &whole, "v")?;
    let eps = epsilon(&whole.expr, spread).ok_or("nothing is added to the mean of the squares")?;
    let centred = spell(found, &whole, centred, operands)?;
    let plain = format!("mul({centred},rsqrt(add(@{spread},{eps:e})))");
    let weights = weights_of(found, &whole, x, features);
    let part = calls(&whole.expr)
        .into_iter()
        .find_map(|part| Some((part, spelled(part, &plain, &weights, op_type == "nn.LayerNorm")?)));
    let (part, used) = part.ok_or("the expression on the mean of the squares is not a norm")?;
    let rest = whole.replaced(part, &Expr::Input(UNKNOWN));
    let affine = if used.iter().any(|(key, _)| *key == "weight") { "True" } else { "False" };
    let params = format!("eps={eps:?} normalized_shape=({features}) elementwise_affine={affine}");
    let (name, lines) = match rest.expr {
        Expr::Input(UNKNOWN) => ("whole", format!("{op_type} whole 1 1 x y {params}\n")),
        _ => ("norm", format!("{op_type} norm 1 1 x normed {params}\n{}", going_on(found, &rest)?)),
    };
    let draft = Draft::new(lines + "pnnx.Output output 1 0 y");
    Ok(used.into_iter().fold(draft, |draft, (key, weight)| draft.with_attribute(name, key, weight)))
}

/// Returns true if a mean is over the last axis only.
fn is_of_rows(mean: &Operator, x: &TensorMeta) -> bool {
    let axes =
        mean.param("dim").and_then(|dim| dim.as_i64s().or_else(|_| dim.as_i64().map(|dim| vec![dim])).ok());
    let axes = axes.unwrap_or_default();
    matches!(axes.as_slice(), [axis] if resolve_axis(*axis, x.rank()).is_ok_and(|axis| axis + 1 == x.rank()))
}

/// The line of the expression that reads the norm.
fn going_on(found: &Match<'_>, rest: &Formula) -> Result<String, String> {
    let all = found.operator("whole")?.inputs();
    let place = |input| all.iter().position(|other| other == input).map(|place| format!(" whole.{place}"));
    let names = rest.inputs.iter().map(place).collect::<Option<String>>().ok_or("an input is missing")?;
    let expr = replace(&rest.expr, &Expr::Input(UNKNOWN), &Expr::Input(rest.inputs.len()));
    Ok(format!("pnnx.Expression whole {} 1{names} normed y expr={expr}\n", rest.inputs.len() + 1))
}

/// The constants among the inputs of a formula that can be weights of the norm, by input number.
fn weights_of(
    found: &Match<'_>,
    whole: &Formula,
    x: &TensorMeta,
    features: usize,
) -> Vec<(usize, Attribute)> {
    let weight = |input| {
        let stored = weights::constant(found.graph(), input)?;
        let (last, rest) = stored.shape().split_last()?;
        // More axes than the input has would become axes of the result.
        let fits = *last == features
            && rest.iter().all(|&len| len == 1)
            && stored.shape().len() <= x.rank()
            && stored.dtype() == x.dtype();
        let bytes = stored.bytes().ok().filter(|_| fits)?.into_owned();
        Attribute::new(stored.dtype(), vec![features], bytes).ok()
    };
    let numbered = whole.inputs.iter().enumerate();
    numbered.filter_map(|(index, &input)| Some((index, weight(input)?))).collect()
}

/// The weights of the norm that an expression computes. `None` if it is not the norm `plain`, optionally with a weight and,
/// if `may_be_shifted`, a bias.
fn spelled(
    part: &Expr,
    plain: &str,
    weights: &[(usize, Attribute)],
    may_be_shifted: bool,
) -> Option<Vec<(&'static str, Attribute)>> {
    // Besides weight and bias, a norm reads at most three operands. So only few pairs are tried.
    let mut read = BTreeSet::new();
    part.walk(&mut |node| read.extend(if let Expr::Input(input) = node { Some(*input) } else { None }));
    if read.len() > 5 {
        return None;
    }
    let weights: Vec<_> = weights.iter().filter(|(input, _)| read.contains(input)).collect();
    let is = |text: String| Expr::parse(&text).is_ok_and(|expr| same(part, &expr));
    for (w, weight) in &weights {
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
    fn every_spelling_of_layer_norm_is_recognised() {
        for expr in [
            "add(mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))),@4)",
            "add(mul(@3,div(sub(@0,@1),sqrt(add(@2,1e-5)))),@4)",
            "add(@4,mul(div(sub(@0,@1),pow(add(@2,1e-5),0.5)),@3))",
            "mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))",
            "mul(sub(@0,@1),rsqrt(add(@2,1e-5)))",
        ] {
            let left = fires(&fuse_layer_norm(), &layer_norm(expr));
            assert_eq!(left.len(), 3, "{left:?}");
            assert!(left[2].starts_with("nn.LayerNorm(x)->y"), "{left:?}");
        }
    }

    #[test]
    fn an_expression_may_contain_further_arithmetic() {
        let model = layer_norm("add(@0,mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))))");
        let left = fires(&fuse_layer_norm(), &model);
        assert!(left[2].starts_with("nn.LayerNorm(x)->"), "{left:?}");
        assert!(left[3].ends_with("expr=add(@0,@1)"), "{left:?}");
        // Weights with more axes than the input enlarge the result, which a norm does not.
        let weighted = layer_norm("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))");
        let left = fires(&fuse_layer_norm(), &weighted.replace("@data=(8)", "@data=(1,1,1,8)"));
        assert!(left.last().is_some_and(|last| last.starts_with("pnnx.Expression(")), "{left:?}");
    }

    #[test]
    fn the_difference_may_be_computed_once() {
        let model = "pnnx.Input in 0 1 x #x=(2,3,8)f32\npnnx.Attribute w 0 1 w @data=(8)f32\n\
            torch.mean m 1 1 x m dim=(-1) keepdim=True\npnnx.Expression c 2 1 x m c expr=sub(@0,@1)\n\
            pnnx.Expression s 1 1 c s expr=pow(@0,2)\ntorch.mean v 1 1 s v dim=(-1) keepdim=True\n\
            pnnx.Expression n 3 1 c v w y expr=mul(div(@0,sqrt(add(@1,1e-5))),@2)\npnnx.Output out 1 0 y";
        let left = fires(&fuse_layer_norm(), model);
        assert!(left[1].starts_with("nn.LayerNorm(x)->y"), "{left:?}");
        refuses(&fuse_layer_norm(), &model.replace("expr=sub(@0,@1)", "expr=add(@0,@1)"));
        refuses(&fuse_layer_norm(), &model.replace("2 1 x m c", "2 1 m x c"));
        refuses(&fuse_layer_norm(), &model.replace("out 1 0 y", "out 2 0 y c"));
        refuses(&fuse_layer_norm(), &model.replace("out 1 0 y", "out 2 0 y m"));
    }

    #[test]
    fn the_last_axis_may_be_given_in_two_ways() {
        let model = layer_norm("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))");
        for dim in ["dim=-1", "dim=(2)"] {
            assert_eq!(fires(&fuse_layer_norm(), &model.replace("dim=(-1)", dim)).len(), 3, "{dim}");
        }
    }

    #[test]
    fn squares_that_the_rest_needs_keep_the_operators() {
        let model = layer_norm("add(@4,mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))))");
        let outcome = refuses(&fuse_layer_norm(), &model.replace("x m v w b y", "x m v w s y"));
        assert!(outcome.refused[0].reason.contains("`s` would vanish"), "{outcome:?}");
    }

    #[test]
    fn a_norm_is_found_among_many_means() {
        let many = 150;
        let means: String =
            (0..many).map(|at| format!("torch.mean o{at} 1 1 r o{at} dim=(-1) keepdim=True\n")).collect();
        let names: String = (0..many).map(|at| format!(" o{at}")).collect();
        let sum = (0..many).fold("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))".to_owned(), |sum, at| {
            format!("add({sum},@{})", at + 4)
        });
        let model = layer_norm(&sum).replace("n 5 1 x m v w b", &format!("n {} 1 x m v w{names}", many + 4));
        let model = model
            .replace("torch.mean m", &format!("pnnx.Input in2 0 1 r #r=(2,3,8)f32\n{means}torch.mean m"));
        assert!(fires(&fuse_layer_norm(), &model).iter().any(|line| line.starts_with("nn.LayerNorm(x)")));
        // If there is no norm, all means are tried.
        refuses(&fuse_layer_norm(), &model.replace("rsqrt", "sqrt"));
    }

    #[test]
    fn a_norm_is_found_among_many_constants() {
        let many = 100;
        let constants: String =
            (0..many).map(|at| format!("pnnx.Attribute c{at} 0 1 c{at} @data=(8)f32\n")).collect();
        let names: String = (0..many).map(|at| format!(" c{at}")).collect();
        let norm = "add(mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))),@4)";
        let sum = (0..many).fold(norm.to_owned(), |sum, at| format!("add({sum},@{})", at + 5));
        let model = layer_norm(&sum)
            .replace("n 5 1 x m v w b", &format!("n {} 1 x m v w b{names}", many + 5))
            .replace("torch.mean m", &format!("{constants}torch.mean m"));
        assert!(fires(&fuse_layer_norm(), &model).iter().any(|line| line.starts_with("nn.LayerNorm(x)")));
        refuses(&fuse_layer_norm(), &model.replace("rsqrt", "sqrt"));
    }

    #[test]
    fn near_norms_stay() {
        const NORM: &str = "add(mul(@3,mul(sub(@0,@1),rsqrt(add(@2,1e-5)))),@4)";
        refuses(&fuse_layer_norm(), &layer_norm("mul(@3,mul(sub(@0,@1),rsqrt(add(@2,@4))))"));
        refuses(&fuse_layer_norm(), &layer_norm("mul(@3,mul(sub(@1,@0),sqrt(add(@2,1e-5))))"));
        refuses(&fuse_layer_norm(), &layer_norm("add(@1,mul(sub(@0,@1),rsqrt(add(@2,1e-5))))"));
        let model = layer_norm(NORM);
        refuses(&fuse_layer_norm(), &model.replace("dim=(-1)", "dim=(1)").replace("(2,3,8)", "(2,8,8)"));
        refuses(&fuse_layer_norm(), &model.replace("pow(sub(@0,@1),2)", "pow(sub(@0,@1),4)"));
        refuses(&fuse_layer_norm(), &model.replace("out 1 0 y", "out 2 0 y v"));
        refuses(&fuse_layer_norm(), &model.replace("out 1 0 y", "out 2 0 y m"));
        refuses(&fuse_layer_norm(), &model.replace("f32", "f16"));
    }

    fn rms_norm(expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x=(2,3,8)f32\npnnx.Input in2 0 1 r #r=(2,3,8)f32\npnnx.Attribute w 0 1 w @data=(8)f32\n\
             pnnx.Expression s 1 1 x s expr=pow(@0,2)\ntorch.mean v 1 1 s v dim=(-1) keepdim=True\n\
             pnnx.Expression n 4 1 r w x v y expr={expr}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn root_mean_square_norm_is_recognised() {
        let left = fires(&fuse_rms_norm(), &rms_norm("mul(@1,mul(@2,rsqrt(add(@3,1e-6))))"));
        assert!(left[1].starts_with("nn.RMSNorm(x)->y"), "{left:?}");
        let left = fires(&fuse_rms_norm(), &rms_norm("add(@0,mul(@1,mul(@2,rsqrt(add(@3,1e-6)))))"));
        assert!(left[2].ends_with("expr=add(@0,@1)"), "{left:?}");
        refuses(&fuse_rms_norm(), &rms_norm("mul(@1,mul(@0,rsqrt(add(@3,1e-6))))"));
        refuses(
            &fuse_rms_norm(),
            &rms_norm("mul(@1,mul(@2,rsqrt(add(@3,1e-6))))").replace("keepdim=True", "keepdim=False"),
        );
    }
}
