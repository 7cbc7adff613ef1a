//! Other formats wherever possible, so that tests cover all of them.

use super::candidates::CandidateSet;
use crate::graph::{Insertion, OperandIndex, OperatorIndex, RuntimeGraph};
use crate::op::{TensorFormat, TensorMeta};
use crate::ops::inserted::reformat::Reformat;
use crate::tensor::Format;

/// Gives blocked tensors to every second operator that supports them, and none to the others.
pub(super) fn prefer_blocks(candidate_sets: &[CandidateSet], assignment: &mut [Option<usize>]) {
    let mut turn = false;
    for (candidate_set, chosen) in candidate_sets.iter().zip(assignment) {
        let is_blocked = |at: &usize| {
            let formats = candidate_set.candidates.get(*at).map(|candidate| &candidate.formats[..]);
            formats.unwrap_or_default().iter().any(|format| format.format != Format::Plain)
        };
        let all = 0..candidate_set.candidates.len();
        if !all.clone().any(|at| is_blocked(&at)) {
            continue;
        }
        turn = !turn;
        *chosen = all.clone().find(|at| is_blocked(at) == turn).or(*chosen);
    }
}

/// Converts every plain tensor that an operator produces to blocks and back before it is read. Tensors with another type than
/// in the model, according to `produced`, are left unchanged.
pub(super) fn insert_everywhere(
    graph: &mut RuntimeGraph,
    metas: &[Option<TensorMeta>],
    produced: &[Option<TensorFormat>],
) {
    let mut blocks = Vec::new();
    let mut back = Vec::new();
    for (position, operand) in graph.operands().iter().enumerate() {
        let Some(meta) = metas.get(position).and_then(Option::as_ref) else { continue };
        let own = Some(TensorFormat::plain(meta.dtype()));
        let is_computed = operand.producer().is_some() && produced.get(position).copied().flatten() == own;
        if operand.format() != Format::Plain || !(2..=7).contains(&meta.rank()) || !is_computed {
            continue;
        }
        let (index, plain) = (OperandIndex::new(position), TensorFormat::plain(meta.dtype()));
        blocks.push((index, plain.blocked(1, if position % 2 == 0 { 16 } else { 8 })));
        back.push(insertion(index, plain, readers(graph, index), operand.is_output()));
    }
    let first = graph.operands().len();
    graph.insert(back);
    let to_blocks = blocks.into_iter().enumerate().filter_map(|(at, (operand, blocked))| {
        let reader = graph.operand(OperandIndex::new(first + at)).producer()?;
        Some(insertion(operand, blocked, vec![(reader, 0)], false))
    });
    let to_blocks = to_blocks.collect();
    graph.insert(to_blocks);
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
    Insertion { operand, op_type: Reformat::TYPE, layer, format: to, step: None, readers, is_output }
}
