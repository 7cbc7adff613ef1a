//! The candidates of an operator on a device: kernels for each element type and axis order that may be selected.

use super::candidates::{Candidate, CandidateSet, Tensors};
use super::orders::{are_plain, other_orders};
use super::price::{is_view, is_view_in_order, of_device};
use super::probe::{Combination, SupportedFormats};
use super::settings::SelectionSettings;
use super::variants::cast_layer;
use crate::engine::device::Accelerator;
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, Device, LayerError, Tactic, TensorFormat};
use crate::tensor::DType;

/// The candidates of an operator on a device, if there are any, and whether it must run there: views, which are free on either
/// side, need not.
///
/// # Errors
/// Returns an error if a layer fails to configure itself.
pub(super) fn candidate_set(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    tensors: &Tensors,
    settings: &SelectionSettings,
) -> Result<Option<(CandidateSet, bool)>, LayerError> {
    let (Some(accelerator), Some(layer)) = (&settings.accelerator, operator.layer()) else { return Ok(None) };
    let is_view = is_view(layer, &tensors.inputs, &tensors.outputs);
    let enumerator = Enumerator { accelerator, settings, is_view };
    let mut candidates = enumerator.in_all_orders(layer, tensors, &model_formats(tensors))?;
    for dtype in settings.narrow() {
        let Some(cast) = tensors.cast(dtype) else { continue };
        if let Some(layer) = cast_layer(graph, operator, &cast, dtype) {
            candidates.extend(enumerator.in_all_orders(&*layer, &cast, &model_formats(&cast))?);
        }
    }
    for formats in int8_combinations(tensors) {
        candidates.extend(enumerator.in_all_orders(layer, tensors, &formats)?);
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    if !is_view {
        candidates = enumerator.measured(graph, operator, tensors, candidates)?;
    }
    let answers = (0..tensors.len()).map(|position| supported_formats(&candidates, position)).collect();
    Ok(Some((CandidateSet { candidates, answers, ..CandidateSet::default() }, !is_view)))
}

/// The formats of the candidates at a position.
fn supported_formats(candidates: &[Candidate], position: usize) -> SupportedFormats {
    let mut answers = SupportedFormats::default();
    let taken = candidates.iter().filter_map(|candidate| candidate.formats.get(position));
    taken.for_each(|format| answers.note(*format, true));
    answers
}

/// The formats of the model, in the device's memory.
fn model_formats(tensors: &Tensors) -> Combination {
    let metas = tensors.inputs.iter().chain(&tensors.outputs);
    metas.map(|meta| TensorFormat::plain(meta.dtype()).on(Device::Cuda)).collect()
}

/// The combinations with an int8 first input, and an int8 or float output.
fn int8_combinations(tensors: &Tensors) -> Vec<Combination> {
    let has_scale = |position: usize| {
        let meta = tensors.inputs.get(position).or_else(|| tensors.outputs.first());
        let is_f32 = meta.is_some_and(|meta| meta.dtype() == DType::F32);
        is_f32 && tensors.steps.get(position).is_some_and(Option::is_some)
    };
    let output = tensors.inputs.len();
    if tensors.inputs.is_empty() || tensors.outputs.len() != 1 || !has_scale(0) {
        return Vec::new();
    }
    let with = |positions: &[usize]| {
        let mut formats = model_formats(tensors);
        let int8 = TensorFormat::quantized().on(Device::Cuda);
        positions.iter().for_each(|&position| formats[position] = int8);
        formats
    };
    let mut all = vec![with(&[0])];
    all.extend(has_scale(output).then(|| with(&[0, output])));
    all
}

/// Enumerates the candidates of one operator.
struct Enumerator<'a> {
    accelerator: &'a Accelerator,
    settings: &'a SelectionSettings,
    /// Whether the operator is a view in row-major order.
    is_view: bool,
}

/// The price of tactics other than the layer's first one, relative to it: the model has no parameters to tell them apart.
const OTHER_TACTIC: f64 = 1.05;

impl Enumerator<'_> {
    /// The candidates with these element types, in row-major and in other orders.
    fn in_all_orders(
        &self,
        layer: &dyn CpuLayer,
        tensors: &Tensors,
        formats: &Combination,
    ) -> Result<Vec<Candidate>, LayerError> {
        let mut candidates = self.candidates(layer, tensors, formats)?;
        // The output of an operator without inputs is a constant, which is transferred to the device as it is.
        if !self.settings.allow_channels_last() || tensors.inputs.is_empty() {
            return Ok(candidates);
        }
        let changes = self.accelerator.changes_order(layer);
        for formats in other_orders(tensors, formats, changes, self.is_view) {
            candidates.extend(self.candidates(layer, tensors, &formats)?);
        }
        Ok(candidates)
    }

    /// One candidate for each tactic; empty if there is no kernel.
    fn candidates(
        &self,
        layer: &dyn CpuLayer,
        tensors: &Tensors,
        formats: &Combination,
    ) -> Result<Vec<Candidate>, LayerError> {
        let Tensors { inputs, outputs, .. } = tensors.in_formats(formats);
        let is_quantized = formats.iter().any(|format| format.is_quantized);
        if self.is_view && is_quantized {
            return Ok(Vec::new());
        }
        let is_free = self.is_view && (are_plain(formats) || is_view_in_order(layer, &inputs, &outputs));
        let tactics = match is_free {
            true => self.accelerator.tactics(layer).unwrap_or_else(|| vec![Tactic::DEFAULT]),
            false => self.accelerator.suited(layer, formats, (&inputs, &outputs))?,
        };
        let efficiency = || self.accelerator.efficiency(layer, (&inputs, &outputs));
        let of_kernel = || of_device(layer.cost(&inputs, &outputs), efficiency(), formats);
        let price = if is_free { 0.0 } else { of_kernel() };
        let tactics = tactics.into_iter().enumerate();
        let allowed = tactics.filter(|(at, tactic)| *at == 0 || !is_free && self.settings.allows(tactic));
        let candidate = |(at, tactic)| {
            let price = if at == 0 { price } else { price * OTHER_TACTIC };
            Candidate { formats: formats.clone(), tactic, price, is_measured: false }
        };
        Ok(allowed.map(candidate).collect())
    }

    /// The same candidates with measured prices, if there is a tuner and more than one candidate to compare. Those that fail on
    /// the device are dropped, unless all of them do.
    fn measured(
        &self,
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        tensors: &Tensors,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, LayerError> {
        let Some(tuner) = self.settings.tuner.as_ref().filter(|_| candidates.len() > 1) else {
            return Ok(candidates);
        };
        let key = Key::new(graph, operator);
        let mut measured = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            let cast = tensors.cast_of(candidate).and_then(|dtype| Some((dtype, tensors.cast(dtype)?)));
            let cast_layer =
                cast.as_ref().and_then(|(dtype, cast)| cast_layer(graph, operator, cast, *dtype));
            let Some(layer) = cast_layer.as_deref().or(operator.layer()) else { continue };
            let Tensors { inputs, outputs, .. } = tensors.in_formats(&candidate.formats);
            let shapes = (inputs.as_slice(), outputs.as_slice());
            if let Some(price) = tuner.on_device(&key, self.accelerator, (layer, candidate.tactic), shapes)? {
                measured.push(Candidate { price, is_measured: true, ..candidate.clone() });
            }
        }
        Ok(if measured.is_empty() { candidates } else { measured })
    }
}
