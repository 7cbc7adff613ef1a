//! Folding batch norm into the weights of its neighbour: γ · (w·x + b − μ) / √(σ² + ε) + β = w'·x + b'.

use super::affine::{Channels, Folded};
use super::folding::{Affine, Norm, affine};
use super::site::rank;
use super::weights;
use crate::passes::visit::{Verdict, Visit};
use crate::passes::{Match, PassContext, Replacement, Rewrite, Rule};
use crate::pnnx::{Graph, GraphError, Operator, OperatorId};

const BEHIND: &str = "7767517
4 3
pnnx.Input                  input   0 1 x
nn.Linear|nn.Conv1d|nn.Conv2d|nn.Conv3d|nn.ConvTranspose1d|nn.ConvTranspose2d|nn.ConvTranspose3d \
                            product 1 1 x a %*=%*
nn.BatchNorm1d|nn.BatchNorm2d|nn.BatchNorm3d \
                            norm    1 1 a y %*=%*
pnnx.Output                 output  1 0 y
";

/// A linear layer whose output is flattened for batch norm, which accepts only one axis before the channels, and reshaped
/// back.
const FLATTENED: &str = "7767517
6 5
pnnx.Input                  input   0 1 x
nn.Linear                   product 1 1 x a     %*=%*
torch.flatten               flatten 1 1 a b     ?start_dim=0 ?end_dim=*
nn.BatchNorm1d              norm    1 1 b c     %*=%*
Tensor.reshape_as           back    2 1 c a y
pnnx.Output                 output  1 0 y
";

const WITHOUT: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
%product                    product 1 1 x y %*=%*
pnnx.Output                 output  1 0 y
";

/// The pass for batch norm after the operator that computes its channels.
pub(super) fn fold_batch_norm() -> Rewrite {
    Rewrite::new(
        "fold_batch_norm",
        "Folds batch norm after a convolution, transposed convolution or linear layer into its weights.",
    )
    .rule(Rule::new(BEHIND, WITHOUT).when(has_the_same_channels).write(fold))
    .rule(Rule::new(FLATTENED, WITHOUT).when(keeps_the_last_axis).write(fold))
}

/// The pass for batch norm ahead of the operators that read its channels, one or several.
pub(super) const FOLD_BATCH_NORM_AHEAD: Visit = Visit {
    name: "fold_batch_norm_ahead",
    doc: "Folds batch norm ahead of a convolution without padding or a linear layer into its weights.",
    visit: ahead,
};

/// The factors and summands of a batch norm, if its statistics are present and fixed.
fn affine_of(norm: &Operator) -> Option<Affine> {
    let training = norm.get_or("training", false).ok()?;
    if !norm.op_type().starts_with("nn.BatchNorm") || training || norm.inputs().len() != 1 {
        return None;
    }
    let read = |key: &str, default: f64, len: usize| match norm.attr(key) {
        Some(attribute) => weights::numbers(attribute),
        None => Some(vec![default; len]),
    };
    let mean = weights::numbers(norm.attr("running_mean")?)?;
    let variance = weights::numbers(norm.attr("running_var")?)?;
    let (gamma, beta) = (read("weight", 1.0, mean.len())?, read("bias", 0.0, mean.len())?);
    let eps = norm.get_or("eps", 1e-5).ok()?;
    if [variance.len(), gamma.len(), beta.len()] != [mean.len(); 3] {
        return None;
    }
    Some(affine(&Norm { gamma: &gamma, beta: &beta, mean: &mean, variance: &variance, eps }))
}

fn channels<'a>(found: &Match<'a>) -> Result<Channels<'a>, String> {
    Channels::of(found.operator("product")?)
        .ok_or_else(|| "its weights are missing, or are not its own attributes".to_owned())
}

fn has_the_same_channels(found: &Match<'_>) -> Result<(), String> {
    match rank_of_channels(found) == Some(channels(found)?.batched_rank()) {
        true => Ok(()),
        false => Err("its channels may not be the output channels of the operator ahead".to_owned()),
    }
}

/// Checks that a tensor of rank 3 is flattened up to its second axis, which keeps the last.
fn keeps_the_last_axis(found: &Match<'_>) -> Result<(), String> {
    match (rank_of_channels(found), found.setting::<i64>("flatten", "end_dim", -1)?) {
        (Some(3), 1 | -2) => Ok(()),
        (_, end) => Err(format!("the axes up to {end} are flattened")),
    }
}

fn rank_of_channels(found: &Match<'_>) -> Option<usize> {
    let graph = found.graph();
    rank(graph, found.context().facts(graph), found.operand_id("a").ok()?)
}

fn fold(found: &Match<'_>, new: &mut Replacement) -> Result<(), String> {
    let affine = affine_of(found.operator("norm")?).ok_or("its statistics are missing or not fixed")?;
    let folded = channels(found)?.folded(&affine.factors, Some(&affine.summands));
    folded
        .ok_or("its weights cannot be read, or their type cannot represent the result")?
        .write(new, "product")
}

fn ahead(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(affine) = graph.get_operator(id).and_then(affine_of) else { return Ok(Verdict::Other) };
    let norm = graph.operator(id);
    let (&[input], &[output]) = (norm.inputs(), norm.outputs()) else { return Ok(Verdict::Other) };
    let readers = graph.operand(output).consumers().to_vec();
    let rank = rank(graph, facts, output);
    let fold = |&reader: &OperatorId| {
        let operator = graph.get_operator(reader)?;
        let channels = Channels::of(operator).filter(|channels| rank == Some(channels.batched_rank()))?;
        is_without_padding(operator).then(|| channels.folded_from_input(&affine.factors, &affine.summands))?
    };
    let Some(folded) = readers.iter().map(fold).collect::<Option<Vec<Folded>>>() else {
        return Ok(Verdict::Other);
    };
    if folded.is_empty() {
        return Ok(Verdict::Other);
    }
    for (reader, folded) in readers.iter().zip(folded) {
        folded.store(graph, *reader)?;
    }
    graph.replace_uses(output, input)?;
    graph.remove_operator(id)?;
    Ok(Verdict::Fired)
}

/// Returns true if an operator does not pad its input. Padding is not normalised, so it would need a value other than 0.
fn is_without_padding(operator: &Operator) -> bool {
    match operator.param("padding") {
        None => true,
        Some(padding) if padding.raw() == "valid" => true,
        Some(padding) => {
            let all = padding.as_i64s().or_else(|_| padding.as_i64().map(|one| vec![one]));
            all.is_ok_and(|all| all.iter().all(|&places| places == 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    const STATISTICS: &str =
        "affine=True eps=1e-3 @running_mean=(6)f32 @running_var=(6)f32 @weight=(6)f32 @bias=(6)f32";

    fn behind_of(product: &str, settings: &str, norm: &str, input: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x={input}f32\n{product} p 1 1 x a {settings}\n\
             {norm} bn 1 1 a y {STATISTICS}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn it_is_folded_into_all_kinds_of_products() {
        for (product, settings, norm, input) in [
            ("nn.Conv1d", "bias=False @weight=(6,4,3)f32", "nn.BatchNorm1d", "(2,4,9)"),
            ("nn.Conv2d", "bias=True @weight=(6,4,3,3)f32 @bias=(6)f32", "nn.BatchNorm2d", "(2,4,9,8)"),
            ("nn.Conv2d", "groups=2 padding=(1,1) @weight=(6,2,3,3)f32", "nn.BatchNorm2d", "(2,4,9,8)"),
            ("nn.Conv3d", "@weight=(6,4,2,3,1)f32", "nn.BatchNorm3d", "(1,4,5,5,4)"),
            ("nn.ConvTranspose1d", "@weight=(4,6,3)f32", "nn.BatchNorm1d", "(2,4,9)"),
            (
                "nn.ConvTranspose2d",
                "groups=2 stride=(2,2) @weight=(4,3,3,3)f32 @bias=(6)f32",
                "nn.BatchNorm2d",
                "(2,4,5,6)",
            ),
            ("nn.ConvTranspose3d", "groups=1 @weight=(4,6,2,2,2)f32", "nn.BatchNorm3d", "(1,4,3,3,3)"),
            ("nn.Linear", "bias=True @weight=(6,4)f32 @bias=(6)f32", "nn.BatchNorm1d", "(5,4)"),
        ] {
            let left = fires(&fold_batch_norm(), &behind_of(product, settings, norm, input));
            assert_eq!(left.len(), 1, "{left:?}");
            assert!(left[0].starts_with(&format!("{product}(x)->")), "{left:?}");
        }
    }

    #[test]
    fn the_rank_in_the_file_is_enough() {
        let model = "pnnx.Input in 0 1 x #x=(1,2,5,5)f32\nmy.Own own 1 1 x a\n\
            nn.Conv2d p 1 1 a b @weight=(6,2,3,3)f32 #b=(1,6,3,3)f32\n\
            nn.BatchNorm2d bn 1 1 b y @running_mean=(6)f32 @running_var=(6)f32\npnnx.Output out 1 0 y";
        let mut graph = super::super::testing::model(model);
        assert_eq!(crate::passes::testing::run(&fold_batch_norm(), &mut graph).fired, 1);
    }

    #[test]
    fn norms_without_weights_are_folded() {
        let model = "pnnx.Input in 0 1 x #x=(1,2,5,5)f32\n\
            nn.Conv2d p 1 1 x a @weight=(6,2,3,3)f32\n\
            nn.BatchNorm2d bn 1 1 a y affine=False @running_mean=(6)f32 @running_var=(6)f32\n\
            pnnx.Output out 1 0 y";
        assert_eq!(fires(&fold_batch_norm(), model).len(), 1);
    }

    #[test]
    fn norms_are_folded_into_half_precision_weights_that_hold_the_result() {
        let model = |numbers: &str| {
            behind_of("nn.Conv2d", "@weight=(6,4,3,3)f32", "nn.BatchNorm2d", "(2,4,9,8)")
                .replace("f32", numbers)
        };
        let left = super::super::testing::fires_within(&fold_batch_norm(), &model("f16"), 3e-2);
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn channels_on_another_axis_are_left_alone() {
        // The channels of batch norm are the second axis, those of a linear layer the last.
        refuses(&fold_batch_norm(), &behind_of("nn.Linear", "@weight=(6,4)f32", "nn.BatchNorm1d", "(2,6,4)"));
        // Without a batch, they are the first axis of a convolution.
        refuses(&fold_batch_norm(), &behind_of("nn.Conv1d", "@weight=(6,4,4)f32", "nn.BatchNorm1d", "(4,9)"));
    }

    #[test]
    fn a_value_that_others_read_is_left_alone() {
        let model = behind_of("nn.Conv2d", "@weight=(6,4,1,1)f32", "nn.BatchNorm2d", "(1,4,2,2)");
        let outcome = refuses(&fold_batch_norm(), &model.replace("out 1 0 y", "out 2 0 y a"));
        assert!(outcome.refused[0].reason.contains("also used by"), "{outcome:?}");
    }

    #[test]
    fn missing_weights_are_left_alone() {
        refuses_without_weights(
            &fold_batch_norm(),
            &behind_of("nn.Conv2d", "@weight=(6,4,1,1)f32", "nn.BatchNorm2d", "(1,4,2,2)"),
        );
    }

    fn ahead_of(product: &str, settings: &str, norm: &str, input: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x={input}f32\n{norm} bn 1 1 x a {STATISTICS}\n\
             {product} p 1 1 a y {settings}\npnnx.Output out 1 0 y"
        )
    }

    #[test]
    fn it_is_folded_into_the_products_after_it() {
        for (product, settings, norm, input) in [
            ("nn.Conv1d", "@weight=(5,6,3)f32", "nn.BatchNorm1d", "(2,6,9)"),
            ("nn.Conv2d", "@weight=(4,6,1,1)f32 @bias=(4)f32", "nn.BatchNorm2d", "(2,6,9,8)"),
            ("nn.Conv2d", "groups=3 padding=(0,0) @weight=(9,2,3,3)f32", "nn.BatchNorm2d", "(2,6,9,8)"),
            ("nn.Linear", "@weight=(5,6)f32", "nn.BatchNorm1d", "(3,6)"),
        ] {
            let left = fires(&FOLD_BATCH_NORM_AHEAD, &ahead_of(product, settings, norm, input));
            assert_eq!(left.len(), 1, "{left:?}");
        }
    }

    #[test]
    fn padding_and_other_readers_keep_the_norm() {
        let padded =
            ahead_of("nn.Conv2d", "padding=(1,1) @weight=(4,6,3,3)f32", "nn.BatchNorm2d", "(2,6,9,8)");
        refuses(&FOLD_BATCH_NORM_AHEAD, &padded);
        let read = ahead_of("nn.Conv2d", "@weight=(4,6,1,1)f32", "nn.BatchNorm2d", "(2,6,9,8)");
        refuses(&FOLD_BATCH_NORM_AHEAD, &read.replace("out 1 0 y", "out 2 0 y a"));
        refuses(
            &FOLD_BATCH_NORM_AHEAD,
            &ahead_of("nn.ConvTranspose2d", "@weight=(6,4,1,1)f32", "nn.BatchNorm2d", "(2,6,9,8)"),
        );
        refuses(
            &FOLD_BATCH_NORM_AHEAD,
            &ahead_of("nn.Linear", "@weight=(5,9)f32", "nn.BatchNorm1d", "(2,6,9)"),
        );
    }

    #[test]
    fn flattening_for_batch_norm_is_removed_with_it() {
        let model = "pnnx.Input in 0 1 x #x=(2,7,4)f32\n\
            nn.Linear fc 1 1 x a @weight=(6,4)f32\n\
            torch.flatten flat 1 1 a b start_dim=0 end_dim=1\n\
            nn.BatchNorm1d bn 1 1 b c eps=1e-5 @running_mean=(6)f32 @running_var=(6)f32\n\
            Tensor.reshape_as back 2 1 c a y\n\
            pnnx.Output out 1 0 y";
        assert_eq!(fires(&fold_batch_norm(), model).len(), 1);
        assert_eq!(fires(&fold_batch_norm(), &model.replace("start_dim=0 ", "")).len(), 1);
        refuses(&fold_batch_norm(), &model.replace("out 1 0 y", "out 2 0 y a"));
        refuses(&fold_batch_norm(), &model.replace("(2,7,4)", "(2,2,7,4)").replace("end_dim=1", "end_dim=2"));
    }
}
