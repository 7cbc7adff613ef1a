//! Other formats wherever they are possible, so that tests meet them all.

use super::candidates::Offer;
use super::negotiation::Agreement;
use crate::graph::{Insertion, OperandIndex, OperatorIndex, RuntimeGraph};
use crate::op::{TensorFormat, TensorMeta};
use crate::ops::inserted::reformat::Reformat;
use crate::tensor::Format;

/// Lets every second operator that can take blocked tensors have them, and the others none.
pub(super) fn prefer_blocks(offers: &[Offer], agreement: &mut Agreement) {
    let mut turn = false;
    for (offer, chosen) in offers.iter().zip(&mut agreement.chosen) {
        let is_blocked = |at: &usize| {
            let formats = offer.candidates.get(*at).map(|candidate| &candidate.formats[..]);
            formats.unwrap_or_default().iter().any(|format| format.format != Format::Plain)
        };
        let all = 0..offer.candidates.len();
        if !all.clone().any(|at| is_blocked(&at)) {
            continue;
        }
        turn = !turn;
        *chosen = all.clone().find(|at| is_blocked(at) == turn).or(*chosen);
    }
}

/// Brings every plain tensor that an operator makes into blocks and back before anybody reads it.
/// Those that are of another type than in the model, as `made` tells, stay as they are.
pub(super) fn insert_everywhere(
    graph: &mut RuntimeGraph,
    metas: &[Option<TensorMeta>],
    made: &[Option<TensorFormat>],
) {
    let mut blocks = Vec::new();
    let mut back = Vec::new();
    for (position, operand) in graph.operands().iter().enumerate() {
        let Some(meta) = metas.get(position).and_then(Option::as_ref) else { continue };
        let own = Some(TensorFormat::plain(meta.dtype()));
        let is_computed = operand.producer().is_some() && made.get(position).copied().flatten() == own;
        if operand.format() != Format::Plain || !(2..=7).contains(&meta.rank()) || !is_computed {
            continue;
        }
        let (index, plain) = (OperandIndex::new(position), TensorFormat::plain(meta.dtype()));
        blocks.push((index, plain.blocked(1, if position % 2 == 0 { 16 } else { 8 })));
        back.push(insertion(index, plain, readers(graph, index), operand.is_output()));
    }
    let first = graph.operands().len();
    graph.insert(back);
    let there = blocks.into_iter().enumerate().filter_map(|(at, (operand, blocked))| {
        let reader = graph.operand(OperandIndex::new(first + at)).producer()?;
        Some(insertion(operand, blocked, vec![(reader, 0)], false))
    });
    let there = there.collect();
    graph.insert(there);
}

/// The operators that read an operand, each with the position among its inputs.
fn readers(graph: &RuntimeGraph, operand: OperandIndex) -> Vec<(OperatorIndex, usize)> {
    let operators = graph.operators().iter().enumerate();
    let uses = operators.flat_map(|(step, operator)| {
        let inputs = operator.inputs().iter().enumerate();
        inputs.filter(|(_, input)| **input == operand).map(move |(at, _)| (OperatorIndex::new(step), at))
    });
    uses.collect()
}

fn insertion(
    operand: OperandIndex,
    to: TensorFormat,
    readers: Vec<(OperatorIndex, usize)>,
    is_output: bool,
) -> Insertion {
    let layer = Box::new(Reformat::new(to, None, None));
    Insertion { operand, op_type: Reformat::TYPE, layer, format: to, scale: None, readers, is_output }
}
