//! Element types, layouts and tactics: every operator is asked what it takes, and the cheapest agreement is built.
//!
//! A layer answers for one position at a time, given those before it ([`CpuLayer::supports`]); an operator's answers make
//! its [`Candidate`]s ([`survey`]). The [`solver`] picks one of each so that the whole graph costs least, with the
//! [`Reformat`] operators that bring tensors from one format into another ([`conversion`]).

mod accelerated;
mod alternation;
mod candidates;
pub mod conversion;
mod crossing;
pub mod elimination;
mod negotiation;
mod orders;
mod price;
pub mod solver;
pub mod survey;
mod variants;

use super::device::Accelerator;
use super::tuning::Tuner;
use super::{EngineError, Fingerprint, Precision, Scales};
use crate::graph::{
    GraphError, Insertion, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator, Stage,
};
use crate::op::{CpuLayer, Device, LayerError, Tactic, TensorFormat, TensorMeta, catch_panic};
use crate::ops::inserted::reformat::Reformat;
use crate::ops::inserted::transfer::Transfer;
use crate::pnnx;
use crate::shape::Shapes;
use crate::tensor::DType;
pub use candidates::Candidate;
use candidates::{Likeness, Offer, Tensors, takes};
use conversion::Conversion;
use negotiation::{conversions, negotiate};
use price::Prices;
pub use price::reformat_price;
pub use survey::Answers;

/// Which formats an engine may choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formats {
    /// Those that layers want, at the least price.
    Cheapest,
    /// Row-major layouts alone.
    Plain,
    /// Another layout for every tensor and back again, whatever it costs: for tests.
    Alternating,
    /// The fewest bits that layers take, whatever it costs: for those who measure what precisions lose.
    Narrowest,
}

/// What may be chosen from.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) formats: Formats,
    /// f32 is always among them.
    pub(super) precisions: Vec<Precision>,
    pub(super) scales: Scales,
    /// Names of tactics that are not chosen.
    pub(super) left_out: Vec<String>,
    /// Names of those that are chosen wherever they can be.
    pub(super) preferred: Vec<String>,
    /// What runs operators beside the CPU.
    pub(super) accelerator: Option<Accelerator>,
    /// Who measures; without one, prices are those of a model.
    pub(super) tuner: Option<Tuner>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            formats: Formats::Cheapest,
            precisions: Vec::new(),
            scales: Scales::default(),
            left_out: Vec::new(),
            preferred: Vec::new(),
            accelerator: None,
            tuner: None,
        }
    }
}

impl Terms {
    /// The numbers of channels in a block.
    fn blocks(&self) -> &'static [u8] {
        if self.formats == Formats::Plain { &[] } else { &BLOCKS }
    }

    /// Whether tensors on a device may have their channels last.
    fn allow_channels_last(&self) -> bool {
        self.formats != Formats::Plain
    }

    /// The types of real numbers beside f32.
    fn narrow(&self) -> Vec<DType> {
        self.precisions.iter().filter_map(|precision| precision.narrow()).collect()
    }

    /// Whether a tactic may be chosen: not where its name is left out; one that is named after a precision only where that is
    /// allowed, or the tactic itself is preferred.
    fn allows(&self, tactic: &Tactic) -> bool {
        let named = Precision::ALL.into_iter().find(|precision| precision.name() == tactic.name);
        let is_precise = named.is_none_or(|precision| self.precisions.contains(&precision));
        !candidates::is_named(tactic, &self.left_out)
            && (is_precise || candidates::is_named(tactic, &self.preferred))
    }

    fn prices(&self) -> Prices<'_> {
        Prices { tuner: self.tuner.as_ref(), accelerator: self.accelerator.as_ref() }
    }

    /// Checks that scales that are to be used were made for this model.
    ///
    /// # Errors
    /// [`EngineError::OtherModel`]; weights that cannot be read.
    pub(super) fn check_scales(&self, file: &pnnx::Graph) -> Result<(), EngineError> {
        let Some(wanted) = self.scales.model().filter(|_| self.precisions.contains(&Precision::Int8)) else {
            return Ok(());
        };
        let found = Fingerprint::of(file).map_err(|error| GraphError::from(pnnx::PnnxError::from(error)))?;
        match (found.graph == wanted.graph, found.weights == wanted.weights) {
            (true, true) => Ok(()),
            (false, _) => Err(EngineError::OtherModel("graphs")),
            (true, false) => Err(EngineError::OtherModel("weights")),
        }
    }

    /// The scale of an operand of an operator, where it may be whole numbers.
    fn scale(&self, operator: &RuntimeOperator, operand: &str) -> Option<f32> {
        let may_be_whole = self.precisions.contains(&Precision::Int8) && !self.scales.keeps(operator.name());
        self.scales.get(operand).filter(|_| may_be_whole)
    }
}

/// The numbers of channels in a block that layers are asked about.
const BLOCKS: [u8; 2] = [16, 8];

/// What an operator settled on, and what it had to choose from.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The operator's name.
    pub operator: String,
    /// What it could have had. Empty where shapes are not known before the run: it works on the formats of the model.
    pub candidates: Vec<Candidate>,
    /// What was chosen.
    pub chosen: Option<usize>,
    /// What its layer answered, for each of its inputs and then each of its outputs.
    pub answers: Vec<Answers>,
}

/// Settles formats and tactics of a graph whose layers are not initialised yet, for inputs of these sizes; `symbols` stand for
/// all that there may be.
///
/// # Errors
/// A layer that takes no combination at all, with what it was asked; one that panics or fails to configure itself.
pub(super) fn settle(
    graph: &mut RuntimeGraph,
    (inputs, symbols): (&[Option<TensorMeta>], &[Option<TensorMeta>]),
    terms: &Terms,
) -> Result<Vec<Settled>, EngineError> {
    let shapes =
        Sizes { optimum: Shapes::infer_known(graph, inputs)?, any: Shapes::infer_known(graph, symbols)? };
    let mut offers = Vec::with_capacity(graph.operators().len());
    for operator in graph.operators() {
        offers.push(asked(graph, operator, &shapes, terms)?);
    }
    for names in [&terms.left_out, &terms.preferred] {
        for name in candidates::unknown(graph, terms.accelerator.as_ref(), names) {
            log::warn!("no operator has a tactic `{name}`");
        }
    }
    let mut agreement = negotiate(graph, &offers, shapes.optimum.metas(), terms.prices());
    match terms.formats {
        Formats::Alternating => alternation::prefer_blocks(&offers, &mut agreement),
        Formats::Narrowest => prefer_narrow(&offers, &mut agreement),
        Formats::Cheapest | Formats::Plain => {}
    }
    let (made, found) = conversions(graph, &offers, &agreement, shapes.optimum.metas());
    for (position, format) in made.iter().enumerate() {
        if let Some(format) = *format {
            let operand = OperandIndex::new(position);
            let scale = scale_of(terms, graph.operand(operand).name(), format);
            graph.set_format(operand, format, scale);
        }
    }
    let names: Vec<String> = graph.operators().iter().map(|operator| operator.name().to_owned()).collect();
    let settled = names.into_iter().zip(offers).zip(&agreement.chosen).map(|((operator, offer), &chosen)| {
        Settled { operator, candidates: offer.candidates, chosen, answers: offer.answers }
    });
    let settled: Vec<Settled> = settled.collect();
    settle_layers(graph, &settled, &shapes, terms)?;
    insert(graph, terms, found);
    if terms.formats == Formats::Alternating {
        alternation::insert_everywhere(graph, shapes.optimum.metas(), &made);
    }
    Ok(settled)
}

/// What is known of tensors: at the sizes that formats are chosen for, and at all sizes that there may be.
struct Sizes {
    optimum: Shapes,
    any: Shapes,
}

/// The answers of an operator; none where its tensors are not described.
fn asked(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    shapes: &Sizes,
    terms: &Terms,
) -> Result<Offer, EngineError> {
    let Some(tensors) = tensors(graph, operator, shapes, terms) else { return Ok(Offer::default()) };
    if tensors.inputs.iter().chain(&tensors.outputs).any(|meta| meta.shape().is_err()) {
        return Ok(Offer::default());
    }
    let fault = |source| EngineError::of_operator(operator, graph.path(), Stage::Configure, source);
    // Letting its clones go is a call as well.
    let on_device = catch_panic(|| accelerated::offer(graph, operator, &tensors, terms)).map_err(fault)?;
    if let Some((mut offer, true)) = on_device {
        keep_preferred(&mut offer, terms);
        return Ok(offer);
    }
    let mut offer = catch_panic(|| variants::offer(graph, operator, &tensors, terms)).map_err(fault)?;
    if let Some((view, _)) = on_device {
        offer.candidates.extend(view.candidates);
    }
    keep_preferred(&mut offer, terms);
    if offer.candidates.is_empty() && operator.layer().is_some() {
        return Err(fault(LayerError::NoFormat(report(graph, operator, &offer.answers))));
    }
    Ok(offer)
}

/// Leaves what has a preferred tactic, if anything has.
fn keep_preferred(offer: &mut Offer, terms: &Terms) {
    let is_preferred = |candidate: &Candidate| candidates::is_named(&candidate.tactic, &terms.preferred);
    if offer.candidates.iter().any(is_preferred) {
        offer.candidates.retain(is_preferred);
    }
}

/// What each side offered, position by position.
fn report(graph: &RuntimeGraph, operator: &RuntimeOperator, answers: &[Answers]) -> String {
    let list = |formats: &[TensorFormat]| match formats {
        [] => "nothing".to_owned(),
        formats => formats.iter().map(TensorFormat::to_string).collect::<Vec<_>>().join(", "),
    };
    let count = operator.inputs().len();
    let operands = operator.inputs().iter().chain(operator.outputs());
    let lines = operands.zip(answers).enumerate().map(|(position, (&operand, answers))| {
        let name = graph.operand(operand).name();
        let what = if position < count { "input" } else { "output" };
        let at = if position < count { position } else { position - count };
        let (taken, refused) = (list(&answers.taken), list(&answers.refused));
        format!("{what} {at} (`{name}`): takes {taken}, refuses {refused}")
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// An operator's tensors, where they are described.
fn tensors(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    Sizes { optimum, any }: &Sizes,
    terms: &Terms,
) -> Option<Tensors> {
    let (inputs, outputs) = optimum.get_all(operator.inputs()).zip(optimum.get_all(operator.outputs()))?;
    let operands: Vec<OperandIndex> = operator.inputs().iter().chain(operator.outputs()).copied().collect();
    let likeness = any.get_all(&operands).map_or(Likeness::None, |metas| Likeness::of(metas.iter()));
    let scales = operands.iter().map(|&operand| terms.scale(operator, graph.operand(operand).name()));
    Some(Tensors { inputs, outputs, scales: scales.collect(), likeness })
}

/// The scale of the operand of this name, where its numbers are whole.
fn scale_of(terms: &Terms, name: &str, format: TensorFormat) -> Option<f32> {
    terms.scales.get(name).filter(|_| format.is_quantized)
}

/// Chooses the candidates of the fewest bits.
fn prefer_narrow(offers: &[Offer], agreement: &mut negotiation::Agreement) {
    let bits =
        |candidate: &Candidate| -> usize { candidate.formats.iter().map(|format| format.dtype.size()).sum() };
    for (offer, chosen) in offers.iter().zip(&mut agreement.chosen) {
        let is_there =
            |candidate: &Candidate| candidate.formats.iter().any(|format| format.device == Device::Cuda);
        let all = offer.candidates.iter().map(|it| (bits(it), !is_there(it))).enumerate();
        // What a view reads is most likely on a device, if there is one; and the first of equals: the plainest.
        *chosen = all.min_by_key(|(at, price)| (*price, *at)).map(|(at, _)| at);
    }
}

/// Gives all layers the type that they settled on, and tells them formats and tactics.
fn settle_layers(
    graph: &mut RuntimeGraph,
    settled: &[Settled],
    shapes: &Sizes,
    terms: &Terms,
) -> Result<(), EngineError> {
    for (position, settled) in settled.iter().enumerate() {
        let Some(chosen) = settled.chosen.and_then(|chosen| settled.candidates.get(chosen)) else { continue };
        let index = OperatorIndex::new(position);
        let Some(tensors) = tensors(graph, graph.operator(index), shapes, terms) else { continue };
        settle_layer(graph, index, chosen, &tensors).map_err(|source| {
            EngineError::of_operator(graph.operator(index), graph.path(), Stage::Configure, source)
        })?;
    }
    Ok(())
}

fn settle_layer(
    graph: &mut RuntimeGraph,
    index: OperatorIndex,
    chosen: &Candidate,
    tensors: &Tensors,
) -> Result<(), LayerError> {
    tensors.cast_of(chosen).map_or(Ok(()), |dtype| graph.cast_operator(index, dtype))?;
    let is_on_device = chosen.formats.iter().any(|format| format.device == Device::Cuda);
    if is_on_device {
        graph.place_on(index, Device::Cuda, chosen.tactic.id);
    }
    // The CPU's layer knows nothing of the order that its clone works in.
    let of_layer = |format: &TensorFormat| if is_on_device { format.row_major() } else { *format };
    let formats: Vec<TensorFormat> = chosen.formats.iter().map(of_layer).collect();
    let Tensors { inputs, outputs, .. } = tensors.in_formats(&formats);
    // A device's layer is a clone, which is told the rest; scales are what its weights depend on.
    match (is_on_device, chosen.formats.iter().any(|format| format.is_quantized)) {
        (true, true) => graph.configure_operator(index, &inputs, &outputs),
        (true, false) => Ok(()),
        (false, _) => graph.settle(index, chosen.tactic.id, &inputs, &outputs),
    }
}

/// The operator that brings a tensor of some device and scale into a format, and its type.
pub(super) fn between(
    (device, from_scale): (Device, Option<f32>),
    (to, to_scale): (TensorFormat, Option<f32>),
) -> (&'static str, Box<dyn CpuLayer>) {
    match device == to.device {
        true => (Reformat::TYPE, Box::new(Reformat::new(to, from_scale, to_scale))),
        false => (Transfer::TYPE, Box::new(Transfer)),
    }
}

/// Inserts what brings tensors into other formats.
fn insert(graph: &mut RuntimeGraph, terms: &Terms, found: Vec<Conversion>) {
    let (first, second) = crossing::split(graph, found);
    let made: Vec<_> = first.iter().map(|conversion| (conversion.operand, conversion.to)).collect();
    let own: Vec<String> = first.iter().map(|it| graph.operand(it.operand).name().to_owned()).collect();
    let operands = graph.operands().len();
    let insertions = first.into_iter().zip(&own);
    let insertions =
        insertions.map(|(it, name)| insertion(it, |format| scale_of(terms, name, format))).collect();
    graph.insert(insertions);
    let second = second.behind(graph, &made, operands);
    let name = |conversion: &Conversion| own.get(conversion.operand.position() - operands).cloned();
    let insertions = second.into_iter().map(|it| {
        let name = name(&it).unwrap_or_default();
        insertion(it, |format| scale_of(terms, &name, format))
    });
    let insertions = insertions.collect();
    graph.insert(insertions);
}

fn insertion(conversion: Conversion, scale: impl Fn(TensorFormat) -> Option<f32>) -> Insertion {
    let Conversion { operand, from, to, readers, is_output } = conversion;
    let (op_type, layer) = between((from.device, scale(from)), (to, scale(to)));
    Insertion {
        operand,
        op_type,
        layer,
        format: to,
        scale: scale(to),
        readers: readers.into_iter().map(|(step, at)| (OperatorIndex::new(step), at)).collect(),
        is_output,
    }
}

/// The sizes that formats are chosen for: the optimum of a profile, or what the file recorded; a length that is not known
/// counts as 1.
pub(super) fn optimum(graph: &RuntimeGraph, symbols: &[Option<TensorMeta>]) -> Vec<Option<TensorMeta>> {
    let fixed = |(port, meta): (&crate::graph::InputPort, &Option<TensorMeta>)| {
        let (meta, recorded) = (meta.as_ref()?, graph.operand(port.operand).shape());
        let lens = meta.dims().iter().enumerate().map(|(axis, dim)| {
            let recorded = recorded.and_then(|shape| match shape.get(axis)? {
                crate::pnnx::Dim::Fixed(len) => i64::try_from(*len).ok(),
                _ => None,
            });
            dim.fixed().or(recorded).unwrap_or(1)
        });
        Some(meta.with_dims(lens.collect::<Vec<i64>>()))
    };
    graph.inputs().iter().zip(symbols).map(fixed).collect()
}

/// Whether a layer takes its tensors in these formats.
pub(super) fn takes_all(layer: &dyn CpuLayer, metas: &[TensorMeta], formats: &[TensorFormat]) -> bool {
    let likeness = Likeness::of(metas.iter());
    let mut asked = (0..formats.len()).map(|at| (at, formats.get(..=at).unwrap_or_default()));
    asked.all(|(at, formats)| takes(layer, likeness, at, formats))
}

/// The error of a graph that cannot be negotiated with these sizes, which need not be possible ones, is no error.
pub(super) fn is_about_sizes(error: &EngineError) -> bool {
    matches!(error, EngineError::Shape(_))
        || matches!(error, EngineError::Graph(GraphError::Operator { stage: Stage::Infer, .. }))
}
