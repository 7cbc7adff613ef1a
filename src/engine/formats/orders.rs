//! Orders of axes that an operator's tensors may have on a device: row-major, or with the channels last.

use super::candidates::Tensors;
use super::survey::Combination;
use crate::op::{TensorFormat, TensorMeta};
use crate::tensor::Format;
use std::ops::RangeInclusive;

/// The axes of tensors that may have their channels last: a batch, channels, and one to three more.
const RANKS: RangeInclusive<usize> = 3..=5;

/// Whether all tensors lie in row-major order.
pub(super) fn are_plain(formats: &Combination) -> bool {
    formats.iter().all(|format| format.format == Format::Plain)
}

/// The same formats in other orders: all of the tensors with the most axes have their channels last. An operator that changes the
/// order may also read its first input in one and have all the others in the other one; a view, tensors of any rank.
pub(super) fn others(
    tensors: &Tensors,
    formats: &Combination,
    changes: bool,
    is_view: bool,
) -> Vec<Combination> {
    let ranks = |metas: &[TensorMeta]| metas.iter().map(TensorMeta::rank).max().unwrap_or(0);
    let most = ranks(&tensors.inputs).max(ranks(&tensors.outputs));
    // What makes axes of its own does not know where channels are.
    let is_known = changes || ranks(&tensors.inputs) == most;
    let mut found = Vec::new();
    if is_known && RANKS.contains(&most) {
        found.push(with(tensors, formats, |_, rank| rank == most));
    }
    if changes || is_view {
        let may_be = |rank: usize| RANKS.contains(&rank) && (is_view || rank == most);
        found.push(with(tensors, formats, |position, _| position == 0));
        found.push(with(tensors, formats, |position, rank| position > 0 && may_be(rank)));
        found.push(with(tensors, formats, |_, rank| may_be(rank)));
    }
    let mut once: Vec<Combination> = Vec::new();
    for other in found {
        if other != *formats && !once.contains(&other) {
            once.push(other);
        }
    }
    once
}

/// Formats of which some have their channels last, by position and number of axes.
fn with(tensors: &Tensors, formats: &Combination, is_last: impl Fn(usize, usize) -> bool) -> Combination {
    let metas = tensors.inputs.iter().chain(&tensors.outputs).zip(formats).enumerate();
    let turned = metas.map(|(position, (meta, format))| {
        let is_last = RANKS.contains(&meta.rank()) && is_last(position, meta.rank());
        if is_last { TensorFormat::channels_last(*format) } else { *format }
    });
    turned.collect()
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Likeness;
    use super::*;
    use crate::tensor::DType;

    fn tensors(inputs: &[&[i64]], output: &[i64]) -> (Tensors, Combination) {
        let meta = |dims: &[i64]| TensorMeta::new(DType::F32, dims.to_vec());
        let inputs: Vec<TensorMeta> = inputs.iter().map(|dims| meta(dims)).collect();
        let scales = vec![None; inputs.len() + 1];
        let formats = inputs.iter().map(|_| TensorFormat::plain(DType::F32));
        let formats = formats.chain([TensorFormat::plain(DType::F32)]).collect();
        (Tensors { inputs, outputs: vec![meta(output)], scales, likeness: Likeness::None }, formats)
    }

    /// Each combination as a text: `l` where channels are last, `p` elsewhere.
    fn texts(inputs: &[&[i64]], output: &[i64], changes: bool, is_view: bool) -> Vec<String> {
        let (tensors, formats) = tensors(inputs, output);
        let letter = |format: &TensorFormat| if format.format == Format::Plain { 'p' } else { 'l' };
        let text = |formats: Combination| formats.iter().map(letter).collect::<String>();
        others(&tensors, &formats, changes, is_view).into_iter().map(text).collect()
    }

    #[test]
    fn tensors_of_most_axes_lie_alike() {
        let image: &[i64] = &[1, 4, 5, 5];
        assert_eq!(texts(&[image, &[5]], image, false, false), ["lpl"]);
        assert_eq!(texts(&[image], &[1, 4], false, false), ["lp"]);
        assert!(texts(&[&[1, 20]], image, false, false).is_empty());
        assert!(texts(&[&[2, 3]], &[2, 3], true, true).is_empty());
    }

    #[test]
    fn some_change_the_order() {
        let image: &[i64] = &[1, 4, 5, 5];
        assert_eq!(texts(&[image, image], image, true, false), ["lll", "lpp", "pll"]);
        assert_eq!(texts(&[image], &[1, 4, 25], true, false), ["lp"]);
        assert_eq!(texts(&[image], &[1, 4, 25], false, true), ["lp", "pl", "ll"]);
    }
}
