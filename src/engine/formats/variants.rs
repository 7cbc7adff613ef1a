//! Operators as the model has them and in other element types, and what they offer.
//!
//! Real numbers of f32 may become f16 or bf16: all tensors of an operator together, with its weights. That is another layer,
//! a variant, which is asked like the first one.

use super::Terms;
use super::candidates::{Candidate, Offer, Tensors, combinations, priced};
use super::survey::{Answers, Combination, Survey};
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, LayerError, TensorFormat, TensorMeta, catch_panic};
use crate::tensor::DType;

/// An operator with tensors and weights of certain types, and the combinations of formats that it takes.
struct Variant<'a> {
    layer: Held<'a>,
    tensors: Tensors,
    /// Bytes of all weights.
    weights: u64,
    found: Vec<Combination>,
    answers: Vec<Answers>,
}

/// The operator's own layer, or one that was created to be asked.
enum Held<'a> {
    Own(&'a dyn CpuLayer),
    Cast(Box<dyn CpuLayer>),
}

impl Held<'_> {
    fn get(&self) -> &dyn CpuLayer {
        match self {
            Self::Own(layer) => *layer,
            Self::Cast(layer) => &**layer,
        }
    }
}

/// Asks an operator in its own types and in `narrow` ones. An only candidate is not priced: there is nothing to compare.
///
/// # Errors
/// A layer that panics, or fails to configure itself.
pub(super) fn offer(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    tensors: &Tensors,
    terms: &Terms,
) -> Result<Offer, LayerError> {
    let Some(layer) = operator.layer() else { return Ok(Offer::default()) };
    let blocks = terms.blocks();
    let mut variants = vec![Variant::of(Held::Own(layer), tensors.clone(), operator.weight_bytes(), blocks)?];
    for dtype in terms.narrow() {
        variants.extend(Variant::cast(graph, operator, tensors, (dtype, blocks))?);
    }
    let mut offer = Offer { answers: vec![Answers::default(); tensors.len()], ..Offer::default() };
    if let Some(only) = only(&variants)? {
        offer.candidates.push(only);
    } else {
        let key = Key::new(graph, operator);
        for variant in &variants {
            for formats in &variant.found {
                let Variant { layer, tensors, weights, .. } = variant;
                offer.candidates.extend(priced((layer.get(), *weights), tensors, formats, (terms, &key))?);
            }
        }
    }
    for variant in variants {
        offer.answers.iter_mut().zip(variant.answers).for_each(|(all, answers)| all.add(answers));
    }
    Ok(offer)
}

/// The candidate, where there is one.
fn only(variants: &[Variant<'_>]) -> Result<Option<Candidate>, LayerError> {
    let mut all = variants.iter().flat_map(|variant| variant.found.iter().map(move |it| (variant, it)));
    let (Some((variant, formats)), None) = (all.next(), all.next()) else { return Ok(None) };
    let tactics = catch_panic(|| Ok(variant.layer.get().tactics()))?;
    let [tactic] = tactics[..] else { return Ok(None) };
    Ok(Some(Candidate { formats: formats.clone(), tactic, price: 0.0, is_measured: false }))
}

impl<'a> Variant<'a> {
    fn of(layer: Held<'a>, tensors: Tensors, weights: u64, blocks: &[u8]) -> Result<Self, LayerError> {
        let Survey { found, answers, .. } = combinations(layer.get(), &tensors, blocks)?;
        Ok(Self { layer, tensors, weights, found, answers })
    }

    /// The operator in another type; none where it has no real numbers, or does not keep to one type.
    fn cast(
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        tensors: &Tensors,
        (dtype, blocks): (DType, &[u8]),
    ) -> Result<Option<Self>, LayerError> {
        let Some(tensors) = tensors.cast(dtype) else { return Ok(None) };
        let made = catch_panic(|| graph.cast_layer(operator, dtype))
            .and_then(|layer| layer.map(|layer| Ok((keeps_type(&*layer, &tensors)?, layer))).transpose());
        match made {
            Ok(Some((true, layer))) => {
                let weights = weight_bytes(operator, dtype);
                Self::of(Held::Cast(layer), tensors, weights, blocks).map(Some)
            }
            Ok(_) => Ok(None),
            Err(error) => {
                log::debug!(
                    "{} `{}` does not exist in {dtype}: {error}",
                    operator.op_type(),
                    operator.name()
                );
                Ok(None)
            }
        }
    }
}

fn weight_bytes(operator: &RuntimeOperator, dtype: DType) -> u64 {
    let bytes = operator.attrs().values().map(|weight| match weight.dtype() {
        DType::F32 => weight.cast(dtype).byte_len(),
        _ => weight.byte_len(),
    });
    bytes.fold(0, u64::saturating_add)
}

/// Whether a layer's own rule says that outputs have the type of the inputs.
pub(super) fn keeps_type(layer: &dyn CpuLayer, tensors: &Tensors) -> Result<bool, LayerError> {
    let inferred = catch_panic(|| layer.infer(&tensors.inputs))?;
    let type_and_dims = |meta: &TensorMeta| (meta.dtype(), meta.dims().to_vec());
    Ok(inferred.iter().map(type_and_dims).eq(tensors.outputs.iter().map(type_and_dims)))
}

impl Tensors {
    /// The same with real numbers of another type; none where there are none.
    pub(super) fn cast(&self, dtype: DType) -> Option<Self> {
        let is_real = |meta: &TensorMeta| meta.dtype() == DType::F32;
        let cast = |meta: &TensorMeta| if is_real(meta) { meta.with_dtype(dtype) } else { meta.clone() };
        let all = |metas: &[TensorMeta]| metas.iter().map(cast).collect();
        let Self { inputs, outputs, scales, likeness } = self;
        let is_any = inputs.iter().chain(outputs).any(is_real);
        let scales = vec![None; scales.len()];
        is_any.then(|| Self { inputs: all(inputs), outputs: all(outputs), scales, likeness: *likeness })
    }

    /// The type that an operator's real numbers are brought into for a candidate, where it is not their own.
    pub(super) fn cast_of(&self, candidate: &Candidate) -> Option<DType> {
        let pairs = self.inputs.iter().chain(&self.outputs).zip(&candidate.formats);
        let mut others = pairs.filter_map(|(meta, format): (&TensorMeta, &TensorFormat)| {
            let is_cast = !format.is_quantized && format.dtype != meta.dtype();
            is_cast.then_some(format.dtype)
        });
        others.next()
    }
}
