//! Element types, layouts and tactics: every operator is asked what it takes, and the cheapest agreement is built.
//!
//! A layer answers for one position at a time, given those before it ([`CpuLayer::supports`]); an operator's answers make
//! its [`Candidate`]s. [`negotiation`] picks one of each so that the whole graph costs least, with the
//! [`Reformat`] operators that bring tensors from one format into another.

mod alternation;
mod candidates;
mod negotiation;
mod price;
mod solver;

use super::EngineError;
use crate::graph::{
    GraphError, Insertion, LayerError, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator, Stage,
    TensorFormat, TensorMeta,
};
use crate::layers::reformat::Reformat;
use crate::shape::Shapes;
pub use candidates::{Answers, Candidate};
use candidates::{Offer, Tensors, offer};
use negotiation::{Conversion, conversions, negotiate};

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

/// Settles formats and tactics of a graph whose layers are not initialised yet, for inputs of these sizes.
///
/// # Errors
/// A layer that takes no combination at all, with what it was asked; one that panics or fails to configure itself.
pub(super) fn settle(
    graph: &mut RuntimeGraph,
    inputs: &[Option<TensorMeta>],
    formats: &Formats,
) -> Result<Vec<Settled>, EngineError> {
    let shapes = Shapes::infer_known(graph, inputs)?;
    let blocks: &[u8] = if *formats == Formats::Plain { &[] } else { &BLOCKS };
    let mut offers = Vec::with_capacity(graph.operators().len());
    for operator in graph.operators() {
        offers.push(asked(graph, operator, &shapes, blocks)?);
    }
    let mut agreement = negotiate(graph, &offers, shapes.metas());
    if *formats == Formats::Alternating {
        alternation::prefer_blocks(&offers, &mut agreement);
    }
    let (made, found) = conversions(graph, &offers, &agreement, shapes.metas());
    for (position, format) in made.into_iter().enumerate() {
        if let Some(format) = format {
            graph.set_format(OperandIndex::new(position), format, None);
        }
    }
    let names: Vec<String> = graph.operators().iter().map(|operator| operator.name().to_owned()).collect();
    let settled = names.into_iter().zip(offers).zip(&agreement.chosen).map(|((operator, offer), &chosen)| {
        Settled { operator, candidates: offer.candidates, chosen, answers: offer.answers }
    });
    let settled: Vec<Settled> = settled.collect();
    settle_tactics(graph, &settled, &shapes)?;
    graph.insert(found.into_iter().map(insertion).collect());
    if *formats == Formats::Alternating {
        alternation::insert_everywhere(graph, shapes.metas());
    }
    Ok(settled)
}

/// The answers of an operator; none where its tensors are not described.
fn asked(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    shapes: &Shapes,
    blocks: &[u8],
) -> Result<Offer, EngineError> {
    let (Some(inputs), Some(outputs)) =
        (shapes.get_all(operator.inputs()), shapes.get_all(operator.outputs()))
    else {
        return Ok(Offer::default());
    };
    if inputs.iter().chain(&outputs).any(|meta| meta.shape().is_err()) {
        return Ok(Offer::default());
    }
    let tensors = Tensors { inputs, outputs };
    let fault = |source| EngineError::of_operator(operator, graph.path(), Stage::Configure, source);
    let offer = offer(operator, &tensors, blocks).map_err(fault)?;
    if offer.candidates.is_empty() && operator.layer().is_some() {
        return Err(fault(LayerError::NoFormat(report(graph, operator, &offer.answers))));
    }
    Ok(offer)
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

/// Tells all layers what they settled on.
fn settle_tactics(graph: &mut RuntimeGraph, settled: &[Settled], shapes: &Shapes) -> Result<(), EngineError> {
    for (position, settled) in settled.iter().enumerate() {
        let Some(chosen) = settled.chosen.and_then(|chosen| settled.candidates.get(chosen)) else { continue };
        let index = OperatorIndex::new(position);
        let operator = graph.operator(index);
        let known = shapes.get_all(operator.inputs()).zip(shapes.get_all(operator.outputs()));
        let Some((inputs, outputs)) = known else { continue };
        let Tensors { inputs, outputs } = Tensors { inputs, outputs }.in_formats(&chosen.formats);
        graph.settle(index, chosen.tactic.id, &inputs, &outputs).map_err(|source| {
            EngineError::of_operator(graph.operator(index), graph.path(), Stage::Configure, source)
        })?;
    }
    Ok(())
}

fn insertion(conversion: Conversion) -> Insertion {
    let Conversion { operand, to, readers, is_output, .. } = conversion;
    Insertion {
        operand,
        op_type: Reformat::TYPE,
        layer: Box::new(Reformat::new(to, None, None)),
        format: to,
        scale: None,
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

/// The error of a graph that cannot be negotiated with these sizes, which need not be possible ones, is no error.
pub(super) fn is_about_sizes(error: &EngineError) -> bool {
    matches!(error, EngineError::Shape(_))
        || matches!(error, EngineError::Graph(GraphError::Operator { stage: Stage::Infer, .. }))
}
