//! The candidates of an operator: the formats in which it can run, by probing its layer position by position.

use super::probe::{Combination, Probe, SupportedFormats, ask};
use super::settings::{SelectionSettings, is_named};
use crate::Limits;
use crate::engine::device::Accelerator;
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, LayerError, Step, Tactic, TensorFormat, TensorMeta, catch_panic};
use crate::tensor::{DType, Format};
use std::fmt;

/// One way of running an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The formats of its inputs, then of its outputs.
    pub formats: Combination,
    /// The algorithm of the layer.
    pub tactic: Tactic,
    /// The price in nanoseconds; 0 if there is nothing to compare it with.
    pub price: f64,
    /// Whether the price was measured; otherwise it is estimated by a processor model.
    pub is_measured: bool,
}

/// A candidate that was left out, because its results are too far from the exact ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Inexact {
    /// The candidate, with its price.
    pub candidate: Candidate,
    /// Its [rounding error](CpuLayer::rounding), in multiples of that of the layer's general tactic.
    pub rounding: f64,
}

/// `f32 16c` if all tensors have one format, else the formats of the inputs and the outputs, in order; and the tactic, if it
/// is not the default one.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = self.formats.iter().map(TensorFormat::to_string).collect();
        texts.dedup();
        if self.tactic.name != Tactic::DEFAULT.name {
            texts.push(format!("({})", self.tactic.name));
        }
        f.pad(&texts.join(" "))
    }
}

/// An operator's tensors as in the model, at the sizes that the plan is built for.
#[derive(Debug, Clone)]
pub(super) struct Tensors {
    pub(super) inputs: Vec<TensorMeta>,
    pub(super) outputs: Vec<TensorMeta>,
    /// The steps of the tensors that may be int8, by position; `None` for others.
    pub(super) steps: Vec<Option<Step>>,
    /// The similarity of the tensors, for all sizes of the model's inputs.
    pub(super) likeness: Likeness,
    /// Whether int8 passes through the operator, see [`passes_int8`](super::moving::passes_int8).
    pub(super) passes_int8: bool,
}

impl Tensors {
    /// All tensors, each with its step.
    fn all(&self) -> impl Iterator<Item = (&TensorMeta, Option<Step>)> {
        self.inputs.iter().chain(&self.outputs).zip(self.steps.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// The same tensors in these formats.
    pub(super) fn in_formats(&self, formats: &[TensorFormat]) -> Self {
        let all = self.inputs.iter().chain(&self.outputs).zip(formats).zip(&self.steps);
        let mut metas = all.map(|((meta, format), step)| {
            let step = step.filter(|_| format.is_quantized);
            meta.with_dtype(format.dtype).with_format(format.format).with_step(step)
        });
        let inputs = metas.by_ref().take(self.inputs.len()).collect();
        Self { inputs, outputs: metas.collect(), steps: self.steps.clone(), ..*self }
    }
}

/// The candidates of an operator, those that were left out, and the formats that it supports at each position.
#[derive(Debug, Clone, Default)]
pub(super) struct CandidateSet {
    pub(super) candidates: Vec<Candidate>,
    pub(super) inexact: Vec<Inexact>,
    pub(super) answers: Vec<SupportedFormats>,
}

/// Probes a layer for the combinations that it supports.
///
/// # Errors
/// Returns an error if the layer panics or did not answer in time.
pub(super) fn combinations(
    layer: &dyn CpuLayer,
    tensors: &Tensors,
    blocks: &[u8],
) -> Result<Probe, LayerError> {
    let options = tensors.all().map(|(meta, step)| options(meta, blocks, step.is_some()));
    let options: Vec<Combination> = options.collect();
    let passes = tensors.passes_int8;
    let takes = |position: usize, formats: &[TensorFormat]| {
        let others = || takes(layer, tensors.likeness, position, formats);
        takes_int8(layer, passes, position, formats).unwrap_or_else(others)
    };
    catch_panic(|| {
        let mut probe = Probe::of(&options);
        ask(&options, &takes, &mut Combination::new(), &mut probe);
        if probe.found.is_empty() {
            check_alive(layer)?;
        }
        Ok(probe)
    })
}

/// Returns the error of a layer that took nothing because it could not answer: all calls that can fail then return it.
fn check_alive(layer: &dyn CpuLayer) -> Result<(), LayerError> {
    match layer.constant(&Limits::default()) {
        Err(error @ (LayerError::Stuck(_) | LayerError::Limit(_) | LayerError::Panic(_))) => Err(error),
        _ => Ok(()),
    }
}

/// The similarity of an operator's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// All have the same type and shape.
    Full,
    /// All have the same rank, and the same length along the blocked axis.
    Channels,
    /// Neither.
    None,
}

impl Likeness {
    pub(super) fn of<'a>(metas: impl Iterator<Item = &'a TensorMeta> + Clone) -> Self {
        let is_same = |of: &dyn Fn(&TensorMeta, &TensorMeta) -> bool| {
            let first = metas.clone().next();
            metas.clone().all(|meta| first.is_some_and(|first| of(first, meta)))
        };
        if is_same(&|a, b| a.dtype() == b.dtype() && a.dims() == b.dims()) {
            return Self::Full;
        }
        match is_same(&|a, b| a.rank() == b.rank() && a.dims().get(1) == b.dims().get(1)) {
            true => Self::Channels,
            false => Self::None,
        }
    }
}

/// Returns true if a layer takes the last of these formats. An element-wise layer whose tensors are alike takes any float
/// format, the same for all. It may broadcast blocked tensors, but not along the blocked axis. In all other cases, and for all
/// other layers, [`CpuLayer::supports`] decides.
pub(super) fn takes(
    layer: &dyn CpuLayer,
    likeness: Likeness,
    position: usize,
    formats: &[TensorFormat],
) -> bool {
    // On the CPU, only int8 has this order.
    if formats.iter().any(|format| format.format == Format::ChannelsLast && !format.is_quantized) {
        return false;
    }
    let is_float = formats.iter().all(|format| !format.is_quantized);
    let is_blocked = formats.iter().any(|format| format.format != Format::Plain);
    match likeness {
        _ if !layer.is_pointwise() => layer.supports(position, formats),
        Likeness::Full if is_float => formats.get(position) == formats.first(),
        Likeness::None if is_blocked => false,
        _ => layer.supports(position, formats),
    }
}

/// Whether an operator through which int8 passes takes the last of these formats, if one of them is quantised: then all floats
/// are, in the same order, and the layer must take integers; those with the channels last are to it plain ones with other
/// strides. `None` if another rule decides.
pub(super) fn takes_int8(
    layer: &dyn CpuLayer,
    passes: bool,
    position: usize,
    formats: &[TensorFormat],
) -> Option<bool> {
    let first = formats.iter().find(|format| format.is_quantized).filter(|_| passes)?;
    let fits = |format: &TensorFormat| format == first || !(format.is_quantized || format.dtype.is_float());
    let as_integers = |format: &TensorFormat| TensorFormat { is_quantized: false, ..format.row_major() };
    let integers: Combination = formats.iter().map(as_integers).collect();
    Some(formats.get(..=position)?.iter().all(fits) && layer.supports(position, &integers))
}

/// The formats that a tensor may have, its own first.
fn options(meta: &TensorMeta, blocks: &[u8], may_be_int8: bool) -> Combination {
    /// A blocked layout has one more axis in memory, and 8 is the maximum.
    const RANKS: std::ops::RangeInclusive<usize> = 2..=7;
    let plain = TensorFormat::plain(meta.dtype());
    let mut options = Combination::from_slice(&[plain]);
    let may_be_blocked =
        RANKS.contains(&meta.rank()) && matches!(meta.dtype(), DType::F32 | DType::F16 | DType::Bf16);
    if may_be_blocked {
        options.extend(blocks.iter().map(|&block| plain.blocked(1, block)));
    }
    if may_be_int8 && meta.dtype() == DType::F32 {
        // Images, unless all tensors are to be row-major.
        let may_be_last = meta.rank() == 4 && !blocks.is_empty();
        options.extend(may_be_last.then(|| TensorFormat::quantized().channels_last()));
        options.push(TensorFormat::quantized());
    }
    options
}

/// The candidates of one combination: one for each tactic of a layer, whose weights have `weights` bytes. Those that are too
/// inexact for the settings are priced as well, to show what leaving them out costs.
///
/// # Errors
/// Returns an error if the layer panics, fails to configure itself, or cannot be initialised for measuring.
pub(super) fn priced(
    (layer, weights): (&dyn CpuLayer, u64),
    tensors: &Tensors,
    formats: &Combination,
    (settings, key, max_rounding): (&SelectionSettings, &Key, f64),
) -> Result<CandidateSet, LayerError> {
    let Tensors { inputs, outputs, .. } = tensors.in_formats(formats);
    let is_int8 = inputs.first().is_some_and(|input| input.scale().is_some());
    let weights = if is_int8 { weights / size_of::<f32>() as u64 } else { weights };
    let prices = settings.prices();
    catch_panic(|| {
        let mut found = CandidateSet::default();
        let tactics = layer.tactics().into_iter().enumerate();
        for (at, tactic) in tactics.filter(|(at, tactic)| *at == 0 || settings.allows(tactic)) {
            let mut layer = layer.clone_layer();
            layer.set_tactic(tactic.id)?;
            let rounding = layer.rounding();
            match layer.configure(&inputs, &outputs) {
                Err(LayerError::Unsupported(reason)) => {
                    log::debug!("{layer:?} does not work in {formats:?}, {}: {reason}", tactic.name);
                    continue;
                }
                configured => configured?,
            }
            let priced = prices.of_layer(key, &mut *layer, tactic, (&inputs, &outputs, weights))?;
            let (price, is_measured) = priced;
            let candidate = Candidate { formats: formats.clone(), tactic, price, is_measured };
            match at == 0 || settings.allows_rounding(&tactic, rounding, max_rounding) {
                true => found.candidates.push(candidate),
                false => found.inexact.push(Inexact { candidate, rounding }),
            }
        }
        Ok(found)
    })
}

/// The names that match no tactic of any layer.
pub(super) fn unknown_tactics<'a>(
    graph: &RuntimeGraph,
    accelerator: Option<&Accelerator>,
    names: &'a [String],
) -> Vec<&'a str> {
    let layers = graph.operators().iter().filter_map(RuntimeOperator::layer);
    // A layer that panics is reported when its candidates are determined.
    let tactics = |layer: &dyn CpuLayer| {
        let on_device = || accelerator.and_then(|accelerator| accelerator.tactics(layer));
        catch_panic(|| Ok([layer.tactics(), on_device().unwrap_or_default()].concat())).unwrap_or_default()
    };
    let tactics: Vec<Tactic> = layers.filter(|_| !names.is_empty()).flat_map(tactics).collect();
    let is_known =
        |name: &&String| tactics.iter().any(|tactic| is_named(tactic, std::slice::from_ref(*name)));
    names.iter().filter(|name| !is_known(name)).map(String::as_str).collect()
}

/// Returns true if a format is one that a model's inputs and outputs have: row-major and not quantised.
pub(super) fn is_plain(format: &TensorFormat) -> bool {
    format.format == Format::Plain && !format.is_quantized
}
