//! What a device offers for an operator: a kernel for each element type that may be chosen.

use super::Terms;
use super::candidates::{Answers, Candidate, Formats, Offer, Tensors};
use super::price::{is_view, of_device};
use super::variants::keeps_type;
use crate::engine::device::Accelerator;
use crate::graph::{CpuLayer, Device, LayerError, RuntimeGraph, RuntimeOperator, Tactic, TensorFormat};
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
    let survey = Survey { accelerator, is_view };
    let mut candidates = Vec::new();
    candidates.extend(survey.candidate(layer, tensors, &own(tensors))?);
    for dtype in terms.narrow() {
        let Some(cast) = tensors.cast(dtype) else { continue };
        if let Some(layer) = cast_layer(graph, operator, &cast, dtype) {
            candidates.extend(survey.candidate(&*layer, &cast, &own(&cast))?);
        }
    }
    for formats in whole(tensors) {
        candidates.extend(survey.candidate(layer, tensors, &formats)?);
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    let answers = (0..tensors.len()).map(|position| Answers::of(&candidates, position)).collect();
    Ok(Some((Offer { candidates, answers }, !is_view)))
}

/// The formats of the model, in the device's memory.
fn own(tensors: &Tensors) -> Formats {
    let metas = tensors.inputs.iter().chain(&tensors.outputs);
    metas.map(|meta| TensorFormat::plain(meta.dtype()).on(Device::Cuda)).collect()
}

/// With a first input of whole numbers, and an output of them or of real ones.
fn whole(tensors: &Tensors) -> Vec<Formats> {
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
struct Survey<'a> {
    accelerator: &'a Accelerator,
    is_view: bool,
}

impl Survey<'_> {
    fn candidate(
        &self,
        layer: &dyn CpuLayer,
        tensors: &Tensors,
        formats: &Formats,
    ) -> Result<Option<Candidate>, LayerError> {
        let Tensors { inputs, outputs, .. } = tensors.in_formats(formats);
        let is_whole = formats.iter().any(|format| format.is_quantized);
        if self.is_view && is_whole {
            return Ok(None);
        }
        if !self.is_view && !self.accelerator.takes(layer, formats, (&inputs, &outputs))? {
            return Ok(None);
        }
        let price = if self.is_view { 0.0 } else { of_device(layer.cost(&inputs, &outputs), formats) };
        let formats = formats.clone();
        Ok(Some(Candidate { formats, tactic: Tactic::DEFAULT, price, is_measured: false }))
    }
}
