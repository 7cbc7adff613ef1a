//! Batch norm disappears in the weights of its neighbour: γ · (w·x + b − μ) / √(σ² + ε) + β is w'·x + b'.
//!
//! ```text
//! nn.Conv2d conv              1 1 x a
//! nn.BatchNorm2d bn           1 1 a y
//!     ↓
//! nn.Conv2d conv              1 1 x y
//! ```

use super::affine::{Channels, Folded};
use super::site::{meta, only_reader, own_producer, producer};
use super::visit::{Verdict, Visit};
use super::weights;
use crate::passes::Facts;
use crate::passes::bypass::{bypass, refuse_bypass};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};

/// The pass for batch norm behind what makes its channels.
pub(super) const FOLD_BATCH_NORM: Visit = Visit {
    name: "fold_batch_norm",
    doc: "Batch norm behind a convolution, transposed convolution or linear layer goes into its weights.",
    visit: behind,
};

/// The pass for batch norm ahead of what reads its channels.
pub(super) const FOLD_BATCH_NORM_AHEAD: Visit = Visit {
    name: "fold_batch_norm_ahead",
    doc: "Batch norm ahead of a convolution without padding or a linear layer goes into its weights.",
    visit: ahead,
};

/// What batch norm makes of a channel: channel · factor + summand.
struct Affine {
    factors: Vec<f64>,
    summands: Vec<f64>,
}

impl Affine {
    fn of(norm: &Operator) -> Option<Self> {
        let is_norm = matches!(norm.op_type(), "nn.BatchNorm1d" | "nn.BatchNorm2d" | "nn.BatchNorm3d");
        let training = norm.get_or("training", false).ok()?;
        if !is_norm || training || norm.inputs().len() != 1 {
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
        let factors: Vec<f64> = gamma.iter().zip(&variance).map(|(g, v)| g / (v + eps).sqrt()).collect();
        let shift = |((beta, mean), factor): ((&f64, &f64), &f64)| beta - mean * factor;
        let summands = beta.iter().zip(&mean).zip(&factors).map(shift).collect();
        Some(Self { factors, summands })
    }
}

/// The number of axes of an operand: what is known, or what the file says, whose numbers of axes are right.
fn rank(graph: &Graph, facts: &Facts, operand: OperandId) -> Option<usize> {
    let known = meta(graph, facts, operand).map(|meta| meta.rank());
    known.or_else(|| Some(graph.get_operand(operand)?.shape()?.len()))
}

fn behind(graph: &mut Graph, facts: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(affine) = graph.get_operator(id).and_then(Affine::of) else { return Ok(Verdict::Other) };
    match flattened(graph, facts, id, &affine) {
        Some(flattened) => flattened.fold(graph),
        None => directly_behind(graph, facts, id, &affine),
    }
}

fn directly_behind(
    graph: &mut Graph,
    facts: &Facts,
    id: OperatorId,
    affine: &Affine,
) -> Result<Verdict, GraphError> {
    let norm = graph.operator(id);
    let (&[input], &[output]) = (norm.inputs(), norm.outputs()) else { return Ok(Verdict::Other) };
    let Some((source, operator)) = producer(graph, input) else { return Ok(Verdict::Other) };
    let Some(channels) = Channels::of(operator) else { return Ok(Verdict::Other) };
    if own_producer(graph, input, id).is_none() {
        return Ok(Verdict::Refused(format!("`{}` is read by others, too", graph.operand(input).name())));
    }
    if rank(graph, facts, input) != Some(channels.batched_rank()) {
        return Ok(Verdict::Refused(
            "its channels may not be those that the operator ahead makes".to_owned(),
        ));
    }
    let Some(folded) = channels.folded(&affine.factors, Some(&affine.summands)) else {
        return Ok(Verdict::Refused("the weights could not hold the result".to_owned()));
    };
    if let Some(reason) = refuse_bypass(graph, output, input) {
        return Ok(Verdict::Refused(reason));
    }
    folded.store(graph, source)?;
    bypass(graph, output, input)?;
    graph.remove_operator(id)?;
    Ok(Verdict::Fired)
}

/// A linear layer whose rows are laid out for batch norm, which knows one axis before the channels only, and back:
///
/// ```text
/// nn.Linear fc                1 1 x a           #a=(2,196,64)f32
/// torch.flatten flatten       1 1 a b start_dim=0 end_dim=1
/// nn.BatchNorm1d bn           1 1 b c
/// Tensor.reshape_as back      2 1 c a y
/// ```
struct Flattened {
    linear: OperatorId,
    folded: Folded,
    /// From the last to the first.
    others: [OperatorId; 3],
    input: OperandId,
    output: OperandId,
}

fn flattened(graph: &Graph, facts: &Facts, norm: OperatorId, affine: &Affine) -> Option<Flattened> {
    let (flatten, flattening) = own_producer(graph, *graph.operator(norm).inputs().first()?, norm)?;
    let (back, reshape) = only_reader(graph, graph.operator(norm))?;
    let (&[input], &[_, like]) = (flattening.inputs(), reshape.inputs()) else { return None };
    let same_rank = rank(graph, facts, input)? == 3;
    let ends =
        [flattening.get_or::<i64>("start_dim", 0).ok()?, flattening.get_or::<i64>("end_dim", -1).ok()?];
    let is_flattening = flattening.op_type() == "torch.flatten" && matches!(ends, [0, 1 | -2]) && same_rank;
    let is_back = reshape.op_type() == "Tensor.reshape_as" && like == input && reshape.inputs() != [input; 2];
    let mut readers = graph.get_operand(input)?.consumers().to_vec();
    readers.sort_unstable();
    let mut expected = vec![flatten, back];
    expected.sort_unstable();
    let (linear, operator) = producer(graph, input)?;
    let channels = Channels::of(operator).filter(Channels::is_linear)?;
    let &[output] = reshape.outputs() else { return None };
    if !is_flattening || !is_back || readers != expected || refuse_bypass(graph, output, input).is_some() {
        return None;
    }
    let folded = channels.folded(&affine.factors, Some(&affine.summands))?;
    Some(Flattened { linear, folded, others: [back, norm, flatten], input, output })
}

impl Flattened {
    fn fold(self, graph: &mut Graph) -> Result<Verdict, GraphError> {
        self.folded.store(graph, self.linear)?;
        bypass(graph, self.output, self.input)?;
        for operator in self.others {
            graph.remove_operator(operator)?;
        }
        Ok(Verdict::Fired)
    }
}

fn ahead(graph: &mut Graph, facts: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(affine) = graph.get_operator(id).and_then(Affine::of) else { return Ok(Verdict::Other) };
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

/// Whether an operator sees nothing but its input. Padding is not normalised, so it would have to be another number than 0.
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
    fn all_kinds_of_products_take_it_in() {
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
            let left = fires(&FOLD_BATCH_NORM, &behind_of(product, settings, norm, input));
            assert_eq!(left.len(), 1, "{left:?}");
            assert!(left[0].starts_with(&format!("{product}(x)->")), "{left:?}");
        }
    }

    #[test]
    fn norms_without_weights_are_taken_in() {
        let model = "pnnx.Input in 0 1 x #x=(1,2,5,5)f32\n\
            nn.Conv2d p 1 1 x a @weight=(6,2,3,3)f32\n\
            nn.BatchNorm2d bn 1 1 a y affine=False @running_mean=(6)f32 @running_var=(6)f32\n\
            pnnx.Output out 1 0 y";
        assert_eq!(fires(&FOLD_BATCH_NORM, model).len(), 1);
    }

    #[test]
    fn half_weights_are_taken_in_where_they_hold_the_result() {
        let model = |numbers: &str| {
            behind_of("nn.Conv2d", "@weight=(6,4,3,3)f32", "nn.BatchNorm2d", "(2,4,9,8)")
                .replace("f32", numbers)
        };
        let left = super::super::testing::fires_within(&FOLD_BATCH_NORM, &model("f16"), 3e-2);
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn channels_on_another_axis_are_left_alone() {
        // The channels of batch norm are the second axis, those of a linear layer the last.
        refuses(&FOLD_BATCH_NORM, &behind_of("nn.Linear", "@weight=(6,4)f32", "nn.BatchNorm1d", "(2,6,4)"));
        // Without a batch, they are the first axis of a convolution.
        refuses(&FOLD_BATCH_NORM, &behind_of("nn.Conv1d", "@weight=(6,4,4)f32", "nn.BatchNorm1d", "(4,9)"));
    }

    #[test]
    fn a_value_that_others_read_is_left_alone() {
        let model = behind_of("nn.Conv2d", "@weight=(6,4,1,1)f32", "nn.BatchNorm2d", "(1,4,2,2)");
        let outcome = refuses(&FOLD_BATCH_NORM, &model.replace("out 1 0 y", "out 2 0 y a"));
        assert!(outcome.refused[0].reason.contains("read by others"), "{outcome:?}");
    }

    #[test]
    fn weights_that_are_not_there_are_left_alone() {
        refuses_without_weights(
            &FOLD_BATCH_NORM,
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
    fn products_behind_it_take_it_in() {
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
    fn flattening_for_batch_norm_goes_with_it() {
        let model = "pnnx.Input in 0 1 x #x=(2,7,4)f32\n\
            nn.Linear fc 1 1 x a @weight=(6,4)f32\n\
            torch.flatten flat 1 1 a b start_dim=0 end_dim=1\n\
            nn.BatchNorm1d bn 1 1 b c eps=1e-5 @running_mean=(6)f32 @running_var=(6)f32\n\
            Tensor.reshape_as back 2 1 c a y\n\
            pnnx.Output out 1 0 y";
        assert_eq!(fires(&FOLD_BATCH_NORM, model).len(), 1);
        refuses(&FOLD_BATCH_NORM, &model.replace("out 1 0 y", "out 2 0 y a"));
        refuses(&FOLD_BATCH_NORM, &model.replace("(2,7,4)", "(2,2,7,4)").replace("end_dim=1", "end_dim=2"));
    }
}
