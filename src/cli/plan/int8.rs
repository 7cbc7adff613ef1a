//! The operators that a plan keeps in floats although int8 is allowed, and why.

use super::planned::Planned;
use ixion::engine::{Candidate, Selection, SupportedFormats};
use ixion::op::{Properties, TensorFormat};

/// An operator with weights that computes in floats.
pub(super) struct Kept<'a> {
    pub(super) operator: &'a str,
    pub(super) reason: Reason<'a>,
}

/// The reason why an operator does not compute in int8.
#[derive(Clone, Copy)]
pub(super) enum Reason<'a> {
    /// Its input has no scale.
    NoScale,
    /// Its input has a scale that the model states, but its weights would be rounded.
    RoundsWeights,
    /// The file of scales lists it as one that loses too much.
    Kept,
    /// Its layer does not support int8 with these parameters and weights.
    NotSupported,
    /// The cheapest int8 candidate takes longer than the chosen one.
    Slower { int8: &'a Candidate, chosen: &'a Candidate },
    /// The cheapest int8 candidate takes less time, but saves less than the conversions around it take.
    Conversions { int8: &'a Candidate, chosen: &'a Candidate },
}

impl Reason<'_> {
    /// The name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoScale => "no scale",
            Self::RoundsWeights => "rounds weights",
            Self::Kept => "kept in f32",
            Self::NotSupported => "not supported",
            Self::Slower { .. } => "slower",
            Self::Conversions { .. } => "conversions",
        }
    }
}

/// The operators with weights that compute in floats, in the order of the graph. Empty if the plan may not use int8.
pub(super) fn kept(planned: &Planned) -> Vec<Kept<'_>> {
    let selections = planned.selections();
    if !selections.iter().any(|selection| selection.answers.iter().any(is_asked)) {
        return Vec::new();
    }
    let has_weights = |selection: &&Selection| {
        let operator = planned.graph().operator_named(&selection.operator);
        operator.is_some_and(|operator| Properties::of(operator.op_type()).product.is_some())
    };
    let with_weights = selections.iter().filter(has_weights);
    with_weights
        .filter_map(|selection| Some(Kept { operator: &selection.operator, reason: reason(selection)? }))
        .collect()
}

/// Why an operator computes in floats; `None` if it does not, or if nothing was selected.
fn reason(selection: &Selection) -> Option<Reason<'_>> {
    let chosen = selection.candidates.get(selection.chosen?)?;
    if is_int8(chosen) {
        return None;
    }
    if selection.keeps_f32 {
        return Some(Reason::Kept);
    }
    let candidates = selection.candidates.iter().filter(|candidate| is_int8(candidate));
    let Some(int8) = candidates.min_by(|a, b| a.price.total_cmp(&b.price)) else {
        return Some(match selection.answers.first().is_some_and(is_asked) {
            true => Reason::NotSupported,
            false if selection.rounds_weights => Reason::RoundsWeights,
            false => Reason::NoScale,
        });
    };
    Some(match int8.price < chosen.price {
        true => Reason::Conversions { int8, chosen },
        false => Reason::Slower { int8, chosen },
    })
}

fn is_int8(candidate: &Candidate) -> bool {
    candidate.formats.iter().any(|format| format.is_quantized)
}

/// Returns true if the layer was asked whether it takes int8 at this position.
fn is_asked(answers: &SupportedFormats) -> bool {
    let is_int8 = |format: &TensorFormat| format.is_quantized;
    answers.taken.iter().chain(&answers.refused).any(is_int8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion::op::Tactic;

    /// A convolution with candidates of these formats and prices, the first of which is chosen, that was asked for `asked`.
    fn selection(candidates: &[(TensorFormat, f64)], asked: &[TensorFormat]) -> Selection {
        let candidate = |&(format, price): &(TensorFormat, f64)| Candidate {
            formats: [format, format].into_iter().collect(),
            tactic: Tactic::DEFAULT,
            price,
            is_measured: false,
        };
        Selection {
            operator: "conv".to_owned(),
            candidates: candidates.iter().map(candidate).collect(),
            chosen: Some(0),
            inexact: Vec::new(),
            answers: vec![SupportedFormats { taken: asked.to_vec(), refused: Vec::new() }],
            keeps_f32: false,
            rounds_weights: false,
        }
    }

    #[test]
    fn every_reason_is_found() {
        let (float, int8) = (TensorFormat::plain(ixion::tensor::DType::F32), TensorFormat::quantized());
        let name = |candidates: &[(TensorFormat, f64)], asked: &[TensorFormat]| {
            reason(&selection(candidates, asked)).map(Reason::name)
        };
        assert_eq!(name(&[(float, 5.0), (int8, 7.0)], &[float, int8]), Some("slower"));
        assert_eq!(name(&[(float, 5.0), (int8, 4.0)], &[float, int8]), Some("conversions"));
        assert_eq!(name(&[(float, 5.0)], &[float, int8]), Some("not supported"));
        assert_eq!(name(&[(float, 5.0)], &[float]), Some("no scale"));
        let rounded = Selection { rounds_weights: true, ..selection(&[(float, 5.0)], &[float]) };
        assert_eq!(reason(&rounded).map(Reason::name), Some("rounds weights"));
        let kept = Selection { keeps_f32: true, ..selection(&[(float, 5.0)], &[float]) };
        assert_eq!(reason(&kept).map(Reason::name), Some("kept in f32"));
        assert_eq!(name(&[(int8, 5.0), (float, 4.0)], &[float, int8]), None);
    }
}
