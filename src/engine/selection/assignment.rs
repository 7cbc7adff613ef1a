//! The cheapest formats for a whole graph.
//!
//! Each operator has one of its candidates. Each tensor has a set of formats in which it is available: the one in which it is
//! produced, and others to which it is converted once for all of its readers. The formats that an operator reads must be
//! available. Together, this is one problem for the [solver](super::solver).

use super::candidates::{Candidate, CandidateSet, is_plain};
use super::conversion::{Conversion, price_of_set, sets, want};
use super::price::Prices;
use super::solver::{Choices, solve};
use crate::graph::{OperandIndex, RuntimeGraph};
use crate::op::{TensorFormat, TensorMeta};
use std::collections::BTreeMap;

/// A producer or reader of a tensor: with a fixed format, or that of an operator's candidate.
#[derive(Debug, Clone, Copy)]
enum End {
    /// An input or output of the model, or an operator without candidates.
    Fixed(TensorFormat),
    /// The operator at this position, and the position among its inputs and outputs.
    Operator(usize, usize),
}

/// A tensor that may be available in more than one format.
struct Tensor<'a> {
    meta: &'a TensorMeta,
    producer: Option<End>,
    readers: Vec<End>,
}

/// Selects a candidate for each operator, by its position; `None` for an operator without candidates.
///
/// `candidate_sets` is indexed by operator, `metas` by operand. An operator without candidates uses the formats of the model.
pub(super) fn assign(
    graph: &RuntimeGraph,
    candidate_sets: &[CandidateSet],
    metas: &[Option<TensorMeta>],
    prices: Prices<'_>,
) -> Vec<Option<usize>> {
    let mut choices = Choices::default();
    let mut variables = Vec::with_capacity(candidate_sets.len());
    for candidate_set in candidate_sets {
        let prices: Vec<f64> = candidate_set.candidates.iter().map(|candidate| candidate.price).collect();
        variables.push((prices.len() > 1).then(|| choices.add(prices)));
    }
    for tensor in tensors(graph, candidate_sets, metas) {
        tensor.describe(&mut choices, (candidate_sets, &variables), prices);
    }
    let found = solve(&choices);
    let pick = |(candidate_set, variable): (&CandidateSet, &Option<usize>)| match variable {
        Some(variable) => found.get(*variable).copied(),
        None => (!candidate_set.candidates.is_empty()).then_some(0),
    };
    candidate_sets.iter().zip(&variables).map(pick).collect()
}

/// The tensors of a graph whose types and shapes are known.
fn tensors<'a>(
    graph: &RuntimeGraph,
    candidate_sets: &[CandidateSet],
    metas: &'a [Option<TensorMeta>],
) -> Vec<Tensor<'a>> {
    let mut tensors: BTreeMap<usize, Tensor<'a>> = BTreeMap::new();
    for (position, meta) in metas.iter().enumerate() {
        let Some(meta) = meta else { continue };
        tensors.insert(position, Tensor { meta, producer: None, readers: Vec::new() });
    }
    let own = |tensor: &Tensor<'_>| End::Fixed(TensorFormat::plain(tensor.meta.dtype()));
    for port in graph.inputs() {
        if let Some(tensor) = tensors.get_mut(&port.operand.position()) {
            tensor.producer = Some(own(tensor));
        }
    }
    for (step, (operator, candidate_set)) in graph.operators().iter().zip(candidate_sets).enumerate() {
        let end =
            |position: usize| (!candidate_set.candidates.is_empty()).then_some(End::Operator(step, position));
        for (position, input) in operator.inputs().iter().enumerate() {
            if let Some(tensor) = tensors.get_mut(&input.position()) {
                tensor.readers.push(end(position).unwrap_or_else(|| own(tensor)));
            }
        }
        for (position, output) in operator.outputs().iter().enumerate() {
            if let Some(tensor) = tensors.get_mut(&output.position()) {
                let position = operator.inputs().len() + position;
                tensor.producer = Some(end(position).unwrap_or_else(|| own(tensor)));
            }
        }
    }
    for port in graph.outputs() {
        if let Some(tensor) = tensors.get_mut(&port.operand.position()) {
            tensor.readers.push(own(tensor));
        }
    }
    tensors.into_values().collect()
}

impl End {
    /// The formats that it may produce or need.
    fn formats(self, candidate_sets: &[CandidateSet]) -> Vec<TensorFormat> {
        match self {
            End::Fixed(format) => vec![format],
            End::Operator(step, position) => {
                let candidates =
                    candidate_sets.get(step).map_or(&[][..], |candidate_set| &candidate_set.candidates);
                candidates.iter().filter_map(|candidate| candidate.formats.get(position).copied()).collect()
            }
        }
    }
}

impl Tensor<'_> {
    /// Adds a variable for the available formats, and the terms that depend on it.
    fn describe(
        &self,
        choices: &mut Choices,
        (candidate_sets, variables): (&[CandidateSet], &[Option<usize>]),
        prices: Prices<'_>,
    ) {
        let Some(producer) = self.producer else { return };
        let mut formats: Vec<TensorFormat> = Vec::new();
        let ends = self.readers.iter().chain([&producer]);
        for format in ends.flat_map(|end| end.formats(candidate_sets)) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        if formats.len() == 1 {
            return;
        }
        let sets = sets(&formats);
        let variable = choices.add(vec![0.0; sets.len()]);
        let convert = |from: &TensorFormat, to: &TensorFormat| prices.of_conversion(self.meta, from, to);
        let produce = |set: usize, from: &TensorFormat| price_of_set(&sets[set], from, &convert);
        let read =
            |set: usize, wanted: &TensorFormat| if sets[set].contains(wanted) { 0.0 } else { f64::INFINITY };
        relate(choices, variable, sets.len(), (producer, candidate_sets, variables), produce);
        for &reader in &self.readers {
            relate(choices, variable, sets.len(), (reader, candidate_sets, variables), read);
        }
    }
}

/// Adds a term for the sets of a tensor together with the format at one of its ends.
fn relate(
    choices: &mut Choices,
    sets: usize,
    count: usize,
    (end, candidate_sets, variables): (End, &[CandidateSet], &[Option<usize>]),
    price: impl Fn(usize, &TensorFormat) -> f64,
) {
    let format = |step: usize, position: usize, candidate: usize| {
        let candidate: Option<&Candidate> =
            candidate_sets.get(step).and_then(|candidate_set| candidate_set.candidates.get(candidate));
        candidate.and_then(|candidate| candidate.formats.get(position))
    };
    let of =
        |set: usize, found: Option<&TensorFormat>| found.map_or(f64::INFINITY, |found| price(set, found));
    match end {
        End::Fixed(found) => choices.alone(sets, (0..count).map(|set| price(set, &found)).collect()),
        End::Operator(step, position) => match variables.get(step).copied().flatten() {
            Some(variable) => {
                choices.pair(sets, variable, |set, candidate| of(set, format(step, position, candidate)))
            }
            None => choices.alone(sets, (0..count).map(|set| of(set, format(step, position, 0))).collect()),
        },
    }
}

/// The formats in which operands are produced, by operand, and the conversions that an assignment needs.
pub(super) fn conversions(
    graph: &RuntimeGraph,
    candidate_sets: &[CandidateSet],
    assignment: &[Option<usize>],
    metas: &[Option<TensorMeta>],
) -> (Vec<Option<TensorFormat>>, Vec<Conversion>) {
    let chosen = |step: usize| -> Option<&Candidate> {
        candidate_sets.get(step)?.candidates.get((*assignment.get(step)?)?)
    };
    let mut produced: Vec<Option<TensorFormat>> =
        metas.iter().map(|meta| meta.as_ref().map(|meta| TensorFormat::plain(meta.dtype()))).collect();
    for (step, operator) in graph.operators().iter().enumerate() {
        let Some(candidate) = chosen(step) else { continue };
        let formats = candidate.formats.iter().skip(operator.inputs().len());
        for (output, format) in operator.outputs().iter().zip(formats) {
            if let Some(produced) = produced.get_mut(output.position()) {
                *produced = Some(*format);
            }
        }
    }
    let mut found: Vec<Conversion> = Vec::new();
    let mut want = |operand: OperandIndex, to: TensorFormat, reader: Option<(usize, usize)>| {
        if let Some(from) = produced.get(operand.position()).copied().flatten() {
            want(&mut found, operand, (from, to), reader);
        }
    };
    for (step, operator) in graph.operators().iter().enumerate() {
        for (position, &input) in operator.inputs().iter().enumerate() {
            let own = || metas.get(input.position())?.as_ref().map(|meta| TensorFormat::plain(meta.dtype()));
            let wanted = chosen(step).and_then(|candidate| candidate.formats.get(position).copied());
            if let Some(wanted) = wanted.or_else(own) {
                want(input, wanted, Some((step, position)));
            }
        }
    }
    for port in graph.outputs() {
        if let Some(meta) = metas.get(port.operand.position()).and_then(Option::as_ref) {
            want(port.operand, TensorFormat::plain(meta.dtype()), None);
        }
    }
    debug_assert!(found.iter().all(|conversion| !conversion.is_output || is_plain(&conversion.to)));
    (produced, found)
}
