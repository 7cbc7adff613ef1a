//! The cheapest formats for a whole graph.
//!
//! Each operator chooses one of its candidates, each tensor the formats in which it is there: the one in which its producer
//! makes it, and others that it is brought into once for all of its readers. What an operator reads must be there. All that
//! is one problem for the [solver](super::solver).

use super::candidates::{Candidate, Offer, is_plain};
use super::conversion::{Conversion, price_of_set, sets, want};
use super::price::Prices;
use super::solver::{Choices, solve};
use crate::graph::{OperandIndex, RuntimeGraph};
use crate::op::{TensorFormat, TensorMeta};
use std::collections::BTreeMap;

/// What a graph settled on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agreement {
    /// For each operator the position of its candidate; none where there was nothing to choose from.
    pub(super) chosen: Vec<Option<usize>>,
}

/// Who makes or reads a tensor: with a format of its own, or by the choice of an operator.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The model's border, or an operator without a choice.
    Fixed(TensorFormat),
    /// The operator of this position, at this position among its inputs and outputs.
    Operator(usize, usize),
}

/// A tensor of which more than one format may be there.
struct Tensor<'a> {
    meta: &'a TensorMeta,
    producer: Option<End>,
    readers: Vec<End>,
}

/// Chooses a candidate for each operator.
///
/// `offers` are by the operator's position, `metas` by the operand's. An operator without candidates works on the formats
/// of the model.
pub(super) fn negotiate(
    graph: &RuntimeGraph,
    offers: &[Offer],
    metas: &[Option<TensorMeta>],
    prices: Prices<'_>,
) -> Agreement {
    let mut choices = Choices::default();
    let mut variables = Vec::with_capacity(offers.len());
    for offer in offers {
        let prices: Vec<f64> = offer.candidates.iter().map(|candidate| candidate.price).collect();
        variables.push((prices.len() > 1).then(|| choices.add(prices)));
    }
    for tensor in tensors(graph, offers, metas) {
        tensor.describe(&mut choices, (offers, &variables), prices);
    }
    let found = solve(&choices);
    let pick = |(offer, variable): (&Offer, &Option<usize>)| match variable {
        Some(variable) => found.get(*variable).copied(),
        None => (!offer.candidates.is_empty()).then_some(0),
    };
    Agreement { chosen: offers.iter().zip(&variables).map(pick).collect() }
}

/// The tensors of a graph that are described.
fn tensors<'a>(graph: &RuntimeGraph, offers: &[Offer], metas: &'a [Option<TensorMeta>]) -> Vec<Tensor<'a>> {
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
    for (step, (operator, offer)) in graph.operators().iter().zip(offers).enumerate() {
        let end = |position: usize| (!offer.candidates.is_empty()).then_some(End::Operator(step, position));
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
    /// The formats that it may make or want.
    fn formats(self, offers: &[Offer]) -> Vec<TensorFormat> {
        match self {
            End::Fixed(format) => vec![format],
            End::Operator(step, position) => {
                let candidates = offers.get(step).map_or(&[][..], |offer| &offer.candidates);
                candidates.iter().filter_map(|candidate| candidate.formats.get(position).copied()).collect()
            }
        }
    }
}

impl Tensor<'_> {
    /// Adds the formats that are there as a variable, and what depends on them.
    fn describe(
        &self,
        choices: &mut Choices,
        (offers, variables): (&[Offer], &[Option<usize>]),
        prices: Prices<'_>,
    ) {
        let Some(producer) = self.producer else { return };
        let mut formats: Vec<TensorFormat> = Vec::new();
        let ends = self.readers.iter().chain([&producer]);
        for format in ends.flat_map(|end| end.formats(offers)) {
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
        let made = |set: usize, from: &TensorFormat| price_of_set(&sets[set], from, &convert);
        let read =
            |set: usize, wanted: &TensorFormat| if sets[set].contains(wanted) { 0.0 } else { f64::INFINITY };
        relate(choices, variable, sets.len(), (producer, offers, variables), made);
        for &reader in &self.readers {
            relate(choices, variable, sets.len(), (reader, offers, variables), read);
        }
    }
}

/// Prices the sets of a tensor together with the format at one of its ends.
fn relate(
    choices: &mut Choices,
    sets: usize,
    count: usize,
    (end, offers, variables): (End, &[Offer], &[Option<usize>]),
    price: impl Fn(usize, &TensorFormat) -> f64,
) {
    let format = |step: usize, position: usize, candidate: usize| {
        let candidate: Option<&Candidate> =
            offers.get(step).and_then(|offer| offer.candidates.get(candidate));
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

/// The formats in which operands are made, and the conversions that an agreement needs, by operand.
pub(super) fn conversions(
    graph: &RuntimeGraph,
    offers: &[Offer],
    agreement: &Agreement,
    metas: &[Option<TensorMeta>],
) -> (Vec<Option<TensorFormat>>, Vec<Conversion>) {
    let chosen = |step: usize| -> Option<&Candidate> {
        offers.get(step)?.candidates.get((*agreement.chosen.get(step)?)?)
    };
    let mut made: Vec<Option<TensorFormat>> =
        metas.iter().map(|meta| meta.as_ref().map(|meta| TensorFormat::plain(meta.dtype()))).collect();
    for (step, operator) in graph.operators().iter().enumerate() {
        let Some(candidate) = chosen(step) else { continue };
        let formats = candidate.formats.iter().skip(operator.inputs().len());
        for (output, format) in operator.outputs().iter().zip(formats) {
            if let Some(made) = made.get_mut(output.position()) {
                *made = Some(*format);
            }
        }
    }
    let mut found: Vec<Conversion> = Vec::new();
    let mut want = |operand: OperandIndex, to: TensorFormat, reader: Option<(usize, usize)>| {
        if let Some(from) = made.get(operand.position()).copied().flatten() {
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
    (made, found)
}
