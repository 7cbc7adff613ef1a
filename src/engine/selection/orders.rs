//! Axis orders that an operator's tensors may have on a device: row-major or channels-last.

use super::candidates::Tensors;
use super::probe::Combination;
use crate::op::{TensorFormat, TensorMeta};
use crate::tensor::Format;
use std::ops::RangeInclusive;

/// The ranks of tensors that may be channels-last: a batch, channels, and one to three more axes.
const RANKS: RangeInclusive<usize> = 3..=5;

/// Returns true if all tensors are row-major.
pub(super) fn are_plain(formats: &Combination) -> bool {
    formats.iter().all(|format| format.format == Format::Plain)
}

/// The same formats in other orders: all tensors of the highest rank are channels-last. An operator that changes the order may
/// also have its first input in one order and all other tensors in the other; a view, tensors of any rank.
pub(super) fn other_orders(
    tensors: &Tensors,
    formats: &Combination,
    changes: bool,
    is_view: bool,
) -> Vec<Combination> {
    let ranks = |metas: &[TensorMeta]| metas.iter().map(TensorMeta::rank).max().unwrap_or(0);
    let max_rank = ranks(&tensors.inputs).max(ranks(&tensors.outputs));
    // An operator that adds axes does not know which one the channels are.
    let is_known = changes || ranks(&tensors.inputs) == max_rank;
    let mut found = Vec::new();
    if is_known && RANKS.contains(&max_rank) {
        found.push(with_channels_last(tensors, formats, |_, rank| rank == max_rank));
    }
    if changes || is_view {
        let may_be = |rank: usize| RANKS.contains(&rank) && (is_view || rank == max_rank);
        found.push(with_channels_last(tensors, formats, |position, _| position == 0));
        found.push(with_channels_last(tensors, formats, |position, rank| position > 0 && may_be(rank)));
        found.push(with_channels_last(tensors, formats, |_, rank| may_be(rank)));
    }
    let mut unique: Vec<Combination> = Vec::new();
    for other in found {
        if other != *formats && !unique.contains(&other) {
            unique.push(other);
        }
    }
    unique
}

/// The formats, channels-last where `is_last` is true of position and rank.
fn with_channels_last(
    tensors: &Tensors,
    formats: &Combination,
    is_last: impl Fn(usize, usize) -> bool,
) -> Combination {
    let metas = tensors.inputs.iter().chain(&tensors.outputs).zip(formats).enumerate();
    let formats = metas.map(|(position, (meta, format))| {
        let is_last = RANKS.contains(&meta.rank()) && is_last(position, meta.rank());
        if is_last { TensorFormat::channels_last(*format) } else { *format }
    });
    formats.collect()
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Likeness;
    use super::*;
    use crate::tensor::DType;

    fn tensors(inputs: &[&[i64]], output: &[i64]) -> (Tensors, Combination) {
        let meta = |dims: &[i64]| TensorMeta::new(DType::F32, dims.to_vec());
        let inputs: Vec<TensorMeta> = inputs.iter().map(|dims| meta(dims)).collect();
        let steps = vec![None; inputs.len() + 1];
        let formats = inputs.iter().map(|_| TensorFormat::plain(DType::F32));
        let formats = formats.chain([TensorFormat::plain(DType::F32)]).collect();
        let (outputs, likeness) = (vec![meta(output)], Likeness::None);
        (Tensors { inputs, outputs, steps, likeness, passes_int8: false }, formats)
    }

    /// Each combination as a text: `l` where channels are last, `p` elsewhere.
    fn texts(inputs: &[&[i64]], output: &[i64], changes: bool, is_view: bool) -> Vec<String> {
        let (tensors, formats) = tensors(inputs, output);
        let letter = |format: &TensorFormat| if format.format == Format::Plain { 'p' } else { 'l' };
        let text = |formats: Combination| formats.iter().map(letter).collect::<String>();
        other_orders(&tensors, &formats, changes, is_view).into_iter().map(text).collect()
    }

    #[test]
    fn tensors_of_the_highest_rank_have_the_same_order() {
        let image: &[i64] = &[1, 4, 5, 5];
        assert_eq!(texts(&[image, &[5]], image, false, false), ["lpl"]);
        assert_eq!(texts(&[image], &[1, 4], false, false), ["lp"]);
        assert!(texts(&[&[1, 20]], image, false, false).is_empty());
        assert!(texts(&[&[2, 3]], &[2, 3], true, true).is_empty());
    }

    #[test]
    fn some_operators_change_the_order() {
        let image: &[i64] = &[1, 4, 5, 5];
        assert_eq!(texts(&[image, image], image, true, false), ["lll", "lpp", "pll"]);
        assert_eq!(texts(&[image], &[1, 4, 25], true, false), ["lp"]);
        assert_eq!(texts(&[image], &[1, 4, 25], false, true), ["lp", "pl", "ll"]);
    }
}
