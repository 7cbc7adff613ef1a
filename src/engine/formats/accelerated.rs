//! What a device offers for an operator: a kernel for each element type and each order of axes that may be chosen.

use super::Terms;
use super::candidates::{Candidate, Offer, Tensors};
use super::orders::{are_plain, others};
use super::price::{is_view, is_view_in_order, of_device};
use super::survey::{Answers, Combination};
use super::variants::keeps_type;
use crate::engine::device::Accelerator;
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, Device, LayerError, Tactic, TensorFormat};
use crate::tensor::DType;

/// How a device runs an operator, if it does, and whether it is to do so wherever it can: views are free on either side.
///
/// # Errors
/// A layer that fails to configure itself.
pub(super) fn offer(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    tensors: &Tensors,
    terms: &Terms,
) -> Result<Option<(Offer, bool)>, LayerError> {
    let (Some(accelerator), Some(layer)) = (&terms.accelerator, operator.layer()) else { return Ok(None) };
    let is_view = is_view(layer, &tensors.inputs, &tensors.outputs);
    let inquiry = Inquiry { accelerator, terms, is_view };
    let mut candidates = inquiry.in_any_order(layer, tensors, &own(tensors))?;
    for dtype in terms.narrow() {
        let Some(cast) = tensors.cast(dtype) else { continue };
        if let Some(layer) = cast_layer(graph, operator, &cast, dtype) {
            candidates.extend(inquiry.in_any_order(&*layer, &cast, &own(&cast))?);
        }
    }
    for formats in whole(tensors) {
        candidates.extend(inquiry.in_any_order(layer, tensors, &formats)?);
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    if !is_view {
        candidates = inquiry.measured(graph, operator, tensors, candidates)?;
    }
    let answers = (0..tensors.len()).map(|position| answers(&candidates, position)).collect();
    Ok(Some((Offer { candidates, answers }, !is_view)))
}

/// What was taken at a position.
fn answers(candidates: &[Candidate], position: usize) -> Answers {
    let mut answers = Answers::default();
    let taken = candidates.iter().filter_map(|candidate| candidate.formats.get(position));
    taken.for_each(|format| answers.note(*format, true));
    answers
}

/// The formats of the model, in the device's memory.
fn own(tensors: &Tensors) -> Combination {
    let metas = tensors.inputs.iter().chain(&tensors.outputs);
    metas.map(|meta| TensorFormat::plain(meta.dtype()).on(Device::Cuda)).collect()
}

/// With a first input of whole numbers, and an output of them or of real ones.
fn whole(tensors: &Tensors) -> Vec<Combination> {
    let has_scale = |position: usize| {
        let meta = tensors.inputs.get(position).or_else(|| tensors.outputs.first());
        let is_real = meta.is_some_and(|meta| meta.dtype() == DType::F32);
        is_real && tensors.scales.get(position).is_some_and(Option::is_some)
    };
    let output = tensors.inputs.len();
    if tensors.inputs.is_empty() || tensors.outputs.len() != 1 || !has_scale(0) {
        return Vec::new();
    }
    let with = |positions: &[usize]| {
        let mut formats = own(tensors);
        let whole = TensorFormat::quantized().on(Device::Cuda);
        formats
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| positions.contains(at))
            .for_each(|(_, it)| *it = whole);
        formats
    };
    let mut all = vec![with(&[0])];
    all.extend(has_scale(output).then(|| with(&[0, output])));
    all
}

/// The operator's layer in another type; none where it does not keep to it.
fn cast_layer(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    tensors: &Tensors,
    dtype: DType,
) -> Option<Box<dyn CpuLayer>> {
    let made = graph.cast_layer(operator, dtype);
    let kept = made.map(|layer| layer.map(|layer| (keeps_type(&*layer, tensors), layer)));
    match kept {
        Ok(Some((Ok(true), layer))) => Some(layer),
        Ok(_) => None,
        Err(error) => {
            log::debug!("{} `{}` does not exist in {dtype}: {error}", operator.op_type(), operator.name());
            None
        }
    }
}

/// What is asked for one operator.
struct Inquiry<'a> {
    accelerator: &'a Accelerator,
    terms: &'a Terms,
    /// In row-major order.
    is_view: bool,
}

/// A tactic that is not the layer's own choice costs a little more than that: a model of two numbers does not know better.
const OTHER_TACTIC: f64 = 1.05;

impl Inquiry<'_> {
    /// The candidates of these element types: in row-major order, and in others.
    fn in_any_order(
        &self,
        layer: &dyn CpuLayer,
        tensors: &Tensors,
        formats: &Combination,
    ) -> Result<Vec<Candidate>, LayerError> {
        let mut candidates = self.candidates(layer, tensors, formats)?;
        // What is made without an input is a constant, which is brought to the device as it is.
        if !self.terms.allow_channels_last() || tensors.inputs.is_empty() {
            return Ok(candidates);
        }
        let changes = self.accelerator.changes_order(layer);
        for formats in others(tensors, formats, changes, self.is_view) {
            candidates.extend(self.candidates(layer, tensors, &formats)?);
        }
        Ok(candidates)
    }

    /// One for each tactic; none where there is no kernel.
    fn candidates(
        &self,
        layer: &dyn CpuLayer,
        tensors: &Tensors,
        formats: &Combination,
    ) -> Result<Vec<Candidate>, LayerError> {
        let Tensors { inputs, outputs, .. } = tensors.in_formats(formats);
        let is_whole = formats.iter().any(|format| format.is_quantized);
        if self.is_view && is_whole {
            return Ok(Vec::new());
        }
        let is_free = self.is_view && (are_plain(formats) || is_view_in_order(layer, &inputs, &outputs));
        let tactics = match is_free {
            true => self
                .accelerator
                .tactics(layer)
                .unwrap_or_else(|| vec![Tactic::DEFAULT])
                .into_iter()
                .take(1)
                .collect(),
            false => self.accelerator.suited(layer, formats, (&inputs, &outputs))?,
        };
        let efficiency = || self.accelerator.efficiency(layer, (&inputs, &outputs));
        let of_kernel = || of_device(layer.cost(&inputs, &outputs), efficiency(), formats);
        let price = if is_free { 0.0 } else { of_kernel() };
        let tactics = tactics.into_iter().enumerate();
        let allowed = tactics.filter(|(at, tactic)| *at == 0 || self.terms.allows(tactic));
        let candidate = |(at, tactic)| {
            let price = if at == 0 { price } else { price * OTHER_TACTIC };
            Candidate { formats: formats.clone(), tactic, price, is_measured: false }
        };
        Ok(allowed.map(candidate).collect())
    }

    /// The same with times instead of prices, where there is a tuner and more than one to compare. What fails on the device is left
    /// out, unless everything does.
    fn measured(
        &self,
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        tensors: &Tensors,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, LayerError> {
        let Some(tuner) = self.terms.tuner.as_ref().filter(|_| candidates.len() > 1) else {
            return Ok(candidates);
        };
        let key = Key::new(graph, operator);
        let mut measured = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            let cast = tensors.cast_of(candidate).and_then(|dtype| Some((dtype, tensors.cast(dtype)?)));
            let made = cast.as_ref().and_then(|(dtype, cast)| cast_layer(graph, operator, cast, *dtype));
            let Some(layer) = made.as_deref().or(operator.layer()) else { continue };
            let Tensors { inputs, outputs, .. } = tensors.in_formats(&candidate.formats);
            let shapes = (inputs.as_slice(), outputs.as_slice());
            if let Some(price) = tuner.on_device(&key, self.accelerator, (layer, candidate.tactic), shapes)? {
                measured.push(Candidate { price, is_measured: true, ..candidate.clone() });
            }
        }
        Ok(if measured.is_empty() { candidates } else { measured })
    }
}
