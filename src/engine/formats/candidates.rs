//! In which formats an operator can run: what its layer answers when it is asked position by position.

use super::price;
use crate::graph::{CpuLayer, LayerError, RuntimeOperator, Tactic, TensorFormat, TensorMeta, guarded};
use crate::tensor::{DType, Format};
use smallvec::SmallVec;
use std::fmt;

/// The formats of all inputs and then all outputs of an operator.
pub(super) type Formats = SmallVec<[TensorFormat; 4]>;

/// One way of running an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The formats of its inputs, then of its outputs.
    pub formats: SmallVec<[TensorFormat; 4]>,
    /// How the layer computes.
    pub tactic: Tactic,
    /// What it costs, in nanoseconds: by the model of a processor, or as it was measured.
    pub price: f64,
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

/// What a layer answered about one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Formats that it takes, with some choice for the positions before.
    pub taken: Vec<TensorFormat>,
    /// Formats that it was asked about and never takes.
    pub refused: Vec<TensorFormat>,
}

/// The most candidates of one operator; those that follow are not looked at.
const MOST: usize = 64;

/// An operator's tensors as the model has them, at the sizes that the plan is made for.
#[derive(Debug, Clone)]
pub(super) struct Tensors {
    pub(super) inputs: Vec<TensorMeta>,
    pub(super) outputs: Vec<TensorMeta>,
}

impl Tensors {
    fn meta(&self, position: usize) -> Option<&TensorMeta> {
        self.inputs.get(position).or_else(|| self.outputs.get(position.checked_sub(self.inputs.len())?))
    }

    /// Whether all have the same type and shape.
    fn are_alike(&self) -> bool {
        let mut all = self.inputs.iter().chain(&self.outputs).map(|meta| (meta.dtype(), meta.dims()));
        let first = all.next();
        all.all(|other| Some(other) == first)
    }

    fn len(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// The same in these formats.
    pub(super) fn in_formats(&self, formats: &[TensorFormat]) -> Self {
        let formatted = |metas: &[TensorMeta], formats: &[TensorFormat]| {
            let pairs = metas.iter().zip(formats);
            pairs.map(|(meta, format)| meta.with_dtype(format.dtype).with_format(format.format)).collect()
        };
        let (first, rest) = formats.split_at(self.inputs.len().min(formats.len()));
        Self { inputs: formatted(&self.inputs, first), outputs: formatted(&self.outputs, rest) }
    }
}

/// The candidates of an operator, and what was answered about each position.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    pub(super) candidates: Vec<Candidate>,
    pub(super) answers: Vec<Answers>,
}

/// Asks a layer.
///
/// # Errors
/// A layer that panics, or refuses shapes in [`CpuLayer::configure`].
pub(super) fn offer(
    operator: &RuntimeOperator,
    tensors: &Tensors,
    blocks: &[u8],
) -> Result<Offer, LayerError> {
    let Some(layer) = operator.layer() else { return Ok(Offer::default()) };
    let answers = vec![Answers::default(); tensors.len()];
    let mut survey = Survey { layer, tensors, blocks, is_pointwise: false, found: Vec::new(), answers };
    guarded(|| {
        survey.is_pointwise = layer.is_pointwise() && tensors.are_alike();
        survey.ask(&mut Formats::new());
        Ok(())
    })?;
    let Survey { found, answers, .. } = survey;
    let is_only = found.len() == 1 && guarded(|| Ok(layer.tactics().len()))? == 1;
    let mut candidates = Vec::with_capacity(found.len());
    for formats in found {
        candidates.extend(priced(layer, tensors, formats, is_only)?);
    }
    Ok(Offer { candidates, answers })
}

/// One walk through the combinations of an operator.
struct Survey<'a> {
    layer: &'a dyn CpuLayer,
    tensors: &'a Tensors,
    blocks: &'a [u8],
    is_pointwise: bool,
    found: Vec<Formats>,
    answers: Vec<Answers>,
}

impl Survey<'_> {
    /// Asks about the position behind those that are decided.
    fn ask(&mut self, decided: &mut Formats) {
        let position = decided.len();
        let Some(meta) = self.tensors.meta(position) else {
            self.found.push(decided.clone());
            return;
        };
        for format in options(meta, self.blocks) {
            if self.found.len() >= MOST {
                return;
            }
            decided.push(format);
            let is_taken = match self.is_pointwise {
                true => decided.first() == Some(&format),
                false => self.layer.supports(position, decided),
            };
            self.answers[position].note(format, is_taken);
            if is_taken {
                self.ask(decided);
            }
            decided.truncate(position);
        }
    }
}

impl Answers {
    fn note(&mut self, format: TensorFormat, is_taken: bool) {
        if is_taken && !self.taken.contains(&format) {
            self.refused.retain(|refused| *refused != format);
            self.taken.push(format);
        } else if !is_taken && !self.taken.contains(&format) && !self.refused.contains(&format) {
            self.refused.push(format);
        }
    }
}

/// The formats that a tensor may have, its own first.
fn options(meta: &TensorMeta, blocks: &[u8]) -> Formats {
    /// One more axis lies in memory than there is, and there are 8 at most.
    const RANKS: std::ops::RangeInclusive<usize> = 2..=7;
    let plain = TensorFormat::plain(meta.dtype());
    let mut options = Formats::from_slice(&[plain]);
    let may_be_blocked =
        RANKS.contains(&meta.rank()) && matches!(meta.dtype(), DType::F32 | DType::F16 | DType::Bf16);
    if may_be_blocked {
        options.extend(blocks.iter().map(|&block| plain.blocked(1, block)));
    }
    options
}

/// The candidates of one combination: one for each tactic. An only one is not priced.
fn priced(
    layer: &dyn CpuLayer,
    tensors: &Tensors,
    formats: Formats,
    is_only: bool,
) -> Result<Vec<Candidate>, LayerError> {
    if is_only {
        let tactic = guarded(|| Ok(layer.tactics()))?.into_iter().next();
        let tactic = tactic.ok_or_else(|| LayerError::Unsupported("the layer has no tactic".into()))?;
        return Ok(vec![Candidate { formats, tactic, price: 0.0 }]);
    }
    let Tensors { inputs, outputs } = tensors.in_formats(&formats);
    guarded(|| {
        let mut layer = layer.clone_layer();
        let mut candidates = Vec::new();
        match layer.configure(&inputs, &outputs) {
            Err(LayerError::Unsupported(reason)) => {
                log::debug!("{layer:?} does not work in {formats:?}: {reason}");
                return Ok(candidates);
            }
            configured => configured?,
        }
        for tactic in layer.tactics() {
            layer.set_tactic(tactic.id)?;
            let price = price::of_layer(layer.cost(&inputs, &outputs), layer.efficiency(&inputs, &outputs));
            candidates.push(Candidate { formats: formats.clone(), tactic, price });
        }
        Ok(candidates)
    })
}

/// Whether a format is one that a tensor of a model has at its borders: row-major, and nothing but itself.
pub(super) fn is_plain(format: &TensorFormat) -> bool {
    format.format == Format::Plain && !format.is_quantized
}
