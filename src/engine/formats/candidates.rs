//! In which formats an operator can run: what its layer answers when it is asked position by position.

use super::Terms;
use super::survey::{Answers, Combination, Survey, ask};
use crate::Limits;
use crate::engine::device::Accelerator;
use crate::engine::tuning::Key;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, LayerError, Tactic, TensorFormat, TensorMeta, catch_panic};
use crate::tensor::{DType, Format};
use std::fmt;

/// One way of running an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The formats of its inputs, then of its outputs.
    pub formats: Combination,
    /// How the layer computes.
    pub tactic: Tactic,
    /// What it costs, in nanoseconds; 0 where there is nothing to compare it with.
    pub price: f64,
    /// Whether the price was measured. Else it is that of a model of a processor.
    pub is_measured: bool,
}

/// `f32 16c` where all tensors have one format, else those of the inputs and those of the outputs in their order; and the
/// tactic, where it has a name of its own.
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

/// An operator's tensors as the model has them, at the sizes that the plan is made for.
#[derive(Debug, Clone)]
pub(super) struct Tensors {
    pub(super) inputs: Vec<TensorMeta>,
    pub(super) outputs: Vec<TensorMeta>,
    /// What 1 stands for where they become whole numbers, by position; none for those that don't.
    pub(super) scales: Vec<Option<f32>>,
    /// How far they are alike, whatever the sizes of the model's inputs are.
    pub(super) likeness: Likeness,
}

impl Tensors {
    /// Each with its scale.
    fn all(&self) -> impl Iterator<Item = (&TensorMeta, Option<f32>)> {
        self.inputs.iter().chain(&self.outputs).zip(self.scales.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// The same in these formats.
    pub(super) fn in_formats(&self, formats: &[TensorFormat]) -> Self {
        let all = self.inputs.iter().chain(&self.outputs).zip(formats).zip(&self.scales);
        let mut metas = all.map(|((meta, format), scale)| {
            let scale = scale.filter(|_| format.is_quantized);
            meta.with_dtype(format.dtype).with_format(format.format).with_scale(scale)
        });
        let inputs = metas.by_ref().take(self.inputs.len()).collect();
        Self { inputs, outputs: metas.collect(), scales: self.scales.clone(), likeness: self.likeness }
    }
}

/// The candidates of an operator, and what was answered about each position.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    pub(super) candidates: Vec<Candidate>,
    pub(super) answers: Vec<Answers>,
}

/// Asks a layer for the combinations that it takes.
///
/// # Errors
/// One that panics, or that did not answer in time.
pub(super) fn combinations(
    layer: &dyn CpuLayer,
    tensors: &Tensors,
    blocks: &[u8],
) -> Result<Survey, LayerError> {
    let options: Vec<Combination> = tensors.all().map(|(meta, scale)| options(meta, blocks, scale)).collect();
    let takes = |position: usize, formats: &[TensorFormat]| takes(layer, tensors.likeness, position, formats);
    catch_panic(|| {
        let mut survey = Survey::of(&options);
        ask(&options, &takes, &mut Combination::new(), &mut survey);
        if survey.found.is_empty() {
            check_alive(layer)?;
        }
        Ok(survey)
    })
}

/// Refuses a layer that took nothing because it could not answer: it says so wherever it can.
fn check_alive(layer: &dyn CpuLayer) -> Result<(), LayerError> {
    match layer.constant(&Limits::default()) {
        Err(error @ (LayerError::Stuck(_) | LayerError::Limit(_) | LayerError::Panic(_))) => Err(error),
        _ => Ok(()),
    }
}

/// How far the tensors of an operator are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// All have the same type and shape.
    Full,
    /// All have as many axes, and the same length along the one that blocks cut.
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

/// Whether a layer takes the last of these formats. Tensors of one that works element by element need to lie in the same way,
/// and numbers to stand for themselves; it may broadcast blocks, but not along the axis that is cut.
pub(super) fn takes(
    layer: &dyn CpuLayer,
    likeness: Likeness,
    position: usize,
    formats: &[TensorFormat],
) -> bool {
    // An order of devices.
    if formats.iter().any(|format| format.format == Format::ChannelsLast) {
        return false;
    }
    let is_real = formats.iter().all(|format| !format.is_quantized);
    let is_blocked = formats.iter().any(|format| format.format != Format::Plain);
    match likeness {
        _ if !layer.is_pointwise() => layer.supports(position, formats),
        Likeness::Full if is_real => formats.get(position) == formats.first(),
        Likeness::None if is_blocked => false,
        _ => layer.supports(position, formats),
    }
}

/// The formats that a tensor may have, its own first.
fn options(meta: &TensorMeta, blocks: &[u8], scale: Option<f32>) -> Combination {
    /// One more axis lies in memory than there is, and there are 8 at most.
    const RANKS: std::ops::RangeInclusive<usize> = 2..=7;
    let plain = TensorFormat::plain(meta.dtype());
    let mut options = Combination::from_slice(&[plain]);
    let may_be_blocked =
        RANKS.contains(&meta.rank()) && matches!(meta.dtype(), DType::F32 | DType::F16 | DType::Bf16);
    if may_be_blocked {
        options.extend(blocks.iter().map(|&block| plain.blocked(1, block)));
    }
    if scale.is_some() && meta.dtype() == DType::F32 {
        options.push(TensorFormat::quantized());
    }
    options
}

/// The candidates of one combination: one for each tactic of a layer with so many bytes of weights.
///
/// # Errors
/// A layer that panics, fails to configure itself, or cannot be initialised to be measured.
pub(super) fn priced(
    (layer, weights): (&dyn CpuLayer, u64),
    tensors: &Tensors,
    formats: &Combination,
    (terms, key): (&Terms, &Key),
) -> Result<Vec<Candidate>, LayerError> {
    let Tensors { inputs, outputs, .. } = tensors.in_formats(formats);
    let prices = terms.prices();
    catch_panic(|| {
        let mut candidates = Vec::new();
        let tactics = layer.tactics().into_iter().enumerate();
        for (_, tactic) in tactics.filter(|(at, tactic)| *at == 0 || terms.allows(tactic)) {
            let mut layer = layer.clone_layer();
            layer.set_tactic(tactic.id)?;
            match layer.configure(&inputs, &outputs) {
                Err(LayerError::Unsupported(reason)) => {
                    log::debug!("{layer:?} does not work in {formats:?}, {}: {reason}", tactic.name);
                    continue;
                }
                configured => configured?,
            }
            let priced = prices.of_layer(key, &mut *layer, tactic, (&inputs, &outputs, weights))?;
            let (price, is_measured) = priced;
            candidates.push(Candidate { formats: formats.clone(), tactic, price, is_measured });
        }
        Ok(candidates)
    })
}

/// Whether a tactic has one of these names, or one that goes on with a hyphen.
pub(super) fn is_named(tactic: &Tactic, names: &[String]) -> bool {
    let is_of = |name: &String| {
        let rest = tactic.name.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    names.iter().any(is_of)
}

/// Those of the names that no tactic of any layer has.
pub(super) fn unknown<'a>(
    graph: &RuntimeGraph,
    accelerator: Option<&Accelerator>,
    names: &'a [String],
) -> Vec<&'a str> {
    let layers = graph.operators().iter().filter_map(RuntimeOperator::layer);
    // A layer that panics is named where its candidates are asked for.
    let tactics = |layer: &dyn CpuLayer| {
        let on_device = || accelerator.and_then(|accelerator| accelerator.tactics(layer));
        catch_panic(|| Ok([layer.tactics(), on_device().unwrap_or_default()].concat())).unwrap_or_default()
    };
    let tactics: Vec<Tactic> = layers.filter(|_| !names.is_empty()).flat_map(tactics).collect();
    let is_known =
        |name: &&String| tactics.iter().any(|tactic| is_named(tactic, std::slice::from_ref(*name)));
    names.iter().filter(|name| !is_known(name)).map(String::as_str).collect()
}

/// Whether a format is one that a tensor of a model has at its borders: row-major, and nothing but itself.
pub(super) fn is_plain(format: &TensorFormat) -> bool {
    format.format == Format::Plain && !format.is_quantized
}
