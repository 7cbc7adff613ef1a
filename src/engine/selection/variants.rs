//! The candidates of an operator on the CPU, in the model's element types and in others.
//!
//! f32 may become f16 or bf16: all tensors of an operator together, with its weights. The result is another layer, a variant,
//! which is probed like the original one.

use super::candidates::{Candidate, CandidateSet, Tensors, combinations, priced};
use super::probe::{Combination, Probe, SupportedFormats};
use super::settings::SelectionSettings;
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, LayerError, TensorFormat, TensorMeta, catch_panic};
use crate::tensor::DType;

/// An operator with tensors and weights of certain types, and the combinations of formats that it supports.
struct Variant<'a> {
    layer: VariantLayer<'a>,
    tensors: Tensors,
    /// The size of all weights in bytes.
    weights: u64,
    found: Vec<Combination>,
    answers: Vec<SupportedFormats>,
}

/// The operator's own layer, or one that was created for probing.
enum VariantLayer<'a> {
    Own(&'a dyn CpuLayer),
    Cast(Box<dyn CpuLayer>),
}

impl VariantLayer<'_> {
    fn get(&self) -> &dyn CpuLayer {
        match self {
            Self::Own(layer) => *layer,
            Self::Cast(layer) => &**layer,
        }
    }
}

/// The candidates of an operator in its own types and in narrower ones. A single candidate is not priced: there is nothing to
/// compare.
///
/// # Errors
/// Returns an error if a layer panics or fails to configure itself.
pub(super) fn candidate_set(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    (tensors, max_rounding): (&Tensors, f64),
    settings: &SelectionSettings,
) -> Result<CandidateSet, LayerError> {
    let Some(layer) = operator.layer() else { return Ok(CandidateSet::default()) };
    let blocks = settings.blocks();
    let mut variants =
        vec![Variant::of(VariantLayer::Own(layer), tensors.clone(), operator.weight_bytes(), blocks)?];
    for dtype in settings.narrow() {
        variants.extend(Variant::cast(graph, operator, tensors, (dtype, blocks))?);
    }
    let mut candidate_set =
        CandidateSet { answers: vec![SupportedFormats::default(); tensors.len()], ..CandidateSet::default() };
    if let Some(candidate) = single_candidate(&variants)? {
        candidate_set.candidates.push(candidate);
    } else {
        let key = Key::new(graph, operator);
        for variant in &variants {
            for formats in &variant.found {
                let Variant { layer, tensors, weights, .. } = variant;
                let found =
                    priced((layer.get(), *weights), tensors, formats, (settings, &key, max_rounding))?;
                candidate_set.candidates.extend(found.candidates);
                candidate_set.inexact.extend(found.inexact);
            }
        }
    }
    for variant in variants {
        candidate_set.answers.iter_mut().zip(variant.answers).for_each(|(all, answers)| all.add(answers));
    }
    Ok(candidate_set)
}

/// The candidate, if there is exactly one.
fn single_candidate(variants: &[Variant<'_>]) -> Result<Option<Candidate>, LayerError> {
    let mut all = variants.iter().flat_map(|variant| variant.found.iter().map(move |it| (variant, it)));
    let (Some((variant, formats)), None) = (all.next(), all.next()) else { return Ok(None) };
    let tactics = catch_panic(|| Ok(variant.layer.get().tactics()))?;
    let [tactic] = tactics[..] else { return Ok(None) };
    Ok(Some(Candidate { formats: formats.clone(), tactic, price: 0.0, is_measured: false }))
}

impl<'a> Variant<'a> {
    fn of(
        layer: VariantLayer<'a>,
        tensors: Tensors,
        weights: u64,
        blocks: &[u8],
    ) -> Result<Self, LayerError> {
        let Probe { found, answers, .. } = combinations(layer.get(), &tensors, blocks)?;
        Ok(Self { layer, tensors, weights, found, answers })
    }

    /// The operator in another type; `None` if it has no f32 tensors, or its outputs do not have that type.
    fn cast(
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        tensors: &Tensors,
        (dtype, blocks): (DType, &[u8]),
    ) -> Result<Option<Self>, LayerError> {
        let Some(tensors) = tensors.cast(dtype) else { return Ok(None) };
        let Some(layer) = cast_layer(graph, operator, &tensors, dtype) else { return Ok(None) };
        let weights = weight_bytes(operator, dtype);
        Self::of(VariantLayer::Cast(layer), tensors, weights, blocks).map(Some)
    }
}

/// The operator's layer in another type; `None` if there is none, or if its outputs do not have that type.
pub(super) fn cast_layer(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    tensors: &Tensors,
    dtype: DType,
) -> Option<Box<dyn CpuLayer>> {
    let kept = |layer: Box<dyn CpuLayer>| Ok(keeps_type(&*layer, tensors)?.then_some(layer));
    let cast = catch_panic(|| graph.cast_layer(operator, dtype)?.map_or(Ok(None), kept));
    let (op_type, name) = (operator.op_type(), operator.name());
    let cast = cast.inspect_err(|it| log::debug!("{op_type} `{name}` does not exist in {dtype}: {it}"));
    cast.ok().flatten()
}

fn weight_bytes(operator: &RuntimeOperator, dtype: DType) -> u64 {
    let bytes = operator.attrs().values().map(|weight| match weight.dtype() {
        DType::F32 => weight.cast(dtype).byte_len(),
        _ => weight.byte_len(),
    });
    bytes.fold(0, u64::saturating_add)
}

/// Returns true if the types and shapes that a layer infers are those of the outputs.
fn keeps_type(layer: &dyn CpuLayer, tensors: &Tensors) -> Result<bool, LayerError> {
    let inferred = catch_panic(|| layer.infer(&tensors.inputs))?;
    let type_and_dims = |meta: &TensorMeta| (meta.dtype(), meta.dims().to_vec());
    Ok(inferred.iter().map(type_and_dims).eq(tensors.outputs.iter().map(type_and_dims)))
}

impl Tensors {
    /// The same tensors with another type instead of f32; `None` if there is no f32.
    pub(super) fn cast(&self, dtype: DType) -> Option<Self> {
        let is_f32 = |meta: &TensorMeta| meta.dtype() == DType::F32;
        let cast = |meta: &TensorMeta| if is_f32(meta) { meta.with_dtype(dtype) } else { meta.clone() };
        let all = |metas: &[TensorMeta]| metas.iter().map(cast).collect();
        let Self { inputs, outputs, steps, .. } = self;
        let is_any = inputs.iter().chain(outputs).any(is_f32);
        let steps = vec![None; steps.len()];
        is_any.then(|| Self {
            inputs: all(inputs),
            outputs: all(outputs),
            steps,
            likeness: self.likeness,
            passes_int8: false,
        })
    }

    /// The type to which an operator's f32 tensors are cast for a candidate, if it is another one.
    pub(super) fn cast_of(&self, candidate: &Candidate) -> Option<DType> {
        let pairs = self.inputs.iter().chain(&self.outputs).zip(&candidate.formats);
        let mut others = pairs.filter_map(|(meta, format): (&TensorMeta, &TensorFormat)| {
            let is_cast = !format.is_quantized && format.dtype != meta.dtype();
            is_cast.then_some(format.dtype)
        });
        others.next()
    }
}
