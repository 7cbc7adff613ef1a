//! Selection of element types, layouts and tactics: every operator is probed for what it supports, and the cheapest
//! assignment is built.
//!
//! A layer is probed one position at a time, given the formats of the positions before it ([`CpuLayer::supports`]); the
//! combinations that it takes become the operator's [`Candidate`]s ([`probe`]). The [`solver`] picks one candidate of each
//! operator so that the total price of the graph is minimal, including the [`Reformat`] operators that convert tensors from
//! one format to another ([`conversion`]).

mod alternation;
mod assignment;
mod assumed;
mod candidates;
mod choices;
pub mod conversion;
mod cross_device;
mod device_candidates;
pub mod elimination;
mod exactness;
mod flow;
mod moving;
mod orders;
mod price;
pub mod probe;
mod settings;
pub mod solver;
mod variants;

use super::EngineError;
use crate::graph::{
    GraphError, Insertion, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator, Stage,
};
use crate::op::{CpuLayer, Device, LayerError, Step, TensorFormat, TensorMeta, catch_panic};
use crate::ops::inserted::reformat::Reformat;
use crate::ops::inserted::transfer::Transfer;
use crate::shape::Shapes;
use assignment::{assign, conversions};
use assumed::assumed;
pub use candidates::{Candidate, Inexact};
use candidates::{CandidateSet, Likeness, Tensors, takes, takes_int8};
use conversion::Conversion;
use exactness::AveragingAfter;
use flow::Flow;
pub(super) use moving::takes_steps;
use moving::{passes_int8, takes_zero_points};
pub use price::reformat_price;
pub use probe::SupportedFormats;
pub(super) use settings::SelectionSettings;
use settings::is_named;
pub use settings::{Formats, MAX_ROUNDING, MAX_ROUNDING_OF_LAST_LAYERS};

/// The candidates of an operator, and the one that was selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The operator's name.
    pub operator: String,
    /// Its candidates. Empty if nothing is known about its shapes before the run: it then uses the formats of the model.
    pub candidates: Vec<Candidate>,
    /// The position of the selected candidate.
    pub chosen: Option<usize>,
    /// The candidates that were left out because they round more than [`MAX_ROUNDING`] or [`MAX_ROUNDING_OF_LAST_LAYERS`] allows;
    /// empty for a plan that may be [fast](crate::engine::Builder::with_fast_tactics).
    pub inexact: Vec<Inexact>,
    /// The formats that its layer supports, for each input and then each output.
    pub answers: Vec<SupportedFormats>,
    /// Whether int8 is allowed, but the scales [keep](crate::engine::Scales::keeps) it in `f32`.
    pub keeps_f32: bool,
    /// Whether the model itself states a scale for its input, but int8 would have to round its weights, because they are not
    /// whole multiples of a scale. This is done only if the precision int8 is allowed.
    pub rounds_weights: bool,
}

/// Selects the formats and tactics of a graph whose layers are not initialised yet, for inputs of these sizes; `symbols`
/// represents all sizes that may occur.
///
/// # Errors
/// Returns an error if a layer supports no combination, with the formats that it was probed for, or if a layer panics or fails
/// to configure itself.
pub(super) fn select_formats(
    graph: &mut RuntimeGraph,
    (inputs, symbols): (&[Option<TensorMeta>], &[Option<TensorMeta>]),
    settings: &SelectionSettings,
) -> Result<Vec<Selection>, EngineError> {
    settings.find_own(graph);
    let optimum = Shapes::infer_known(graph, inputs)?;
    let shapes = Sizes {
        is_planned: planned(graph, &optimum),
        optimum: assumed(graph, &optimum),
        any: Shapes::infer_known(graph, symbols)?,
        flow: Flow::of(graph, settings),
        averaging_after: AveragingAfter::of(graph),
    };
    let mut candidate_sets = Vec::with_capacity(graph.operators().len());
    for (operator, &is_planned) in graph.operators().iter().zip(&shapes.is_planned) {
        candidate_sets.push(candidate_set(graph, operator, (&shapes, is_planned), settings)?);
    }
    for names in [&settings.left_out, &settings.preferred] {
        for name in candidates::unknown_tactics(graph, settings.accelerator.as_ref(), names) {
            log::warn!("no operator has a tactic `{name}`");
        }
    }
    let mut assignment = assign(graph, &candidate_sets, &shapes.optimum, settings.prices());
    match settings.formats {
        Formats::Alternating => alternation::prefer_blocks(&candidate_sets, &mut assignment),
        Formats::Narrowest => prefer_narrow(&candidate_sets, &mut assignment),
        Formats::Cheapest | Formats::Plain => {}
    }
    let (produced, needed) = conversions(graph, &candidate_sets, &assignment, &shapes.optimum);
    for (position, format) in produced.iter().enumerate() {
        if let Some(format) = *format {
            let operand = OperandIndex::new(position);
            let step = step_of(settings, graph.operand(operand).name(), format);
            graph.set_format(operand, format, step);
        }
    }
    let all = graph.operators().iter().zip(candidate_sets).zip(assignment);
    let selections = all.map(|((operator, candidate_set), chosen)| Selection {
        operator: operator.name().to_owned(),
        candidates: candidate_set.candidates,
        chosen,
        inexact: candidate_set.inexact,
        answers: candidate_set.answers,
        keeps_f32: settings.keeps_f32(operator.name()),
        rounds_weights: settings.rounds_weights(graph, operator),
    });
    let selections: Vec<Selection> = selections.collect();
    configure_layers(graph, &selections, &shapes, settings)?;
    insert(graph, settings, needed);
    if settings.formats == Formats::Alternating {
        alternation::insert_everywhere(graph, &shapes.optimum, &produced);
    }
    Ok(selections)
}

/// What is known about the operands: their shapes at the sizes that formats are selected for, those at all sizes that may occur,
/// which of them may be int8, and how far they are from the end.
struct Sizes {
    /// By the operand's position.
    optimum: Vec<Option<TensorMeta>>,
    any: Shapes,
    /// Whether the sizes of all tensors of an operator are known before the run, by the operator's position. Otherwise,
    /// `optimum` is a guess.
    is_planned: Vec<bool>,
    flow: Flow,
    averaging_after: AveragingAfter,
}

impl Sizes {
    /// The metadata of operands at the sizes that formats are selected for; `None` if one of them is unknown.
    fn optimum_of(&self, operands: &[OperandIndex]) -> Option<Vec<TensorMeta>> {
        operands.iter().map(|operand| self.optimum.get(operand.position())?.clone()).collect()
    }
}

/// Whether the sizes of all tensors of an operator are known, by the operator's position.
fn planned(graph: &RuntimeGraph, shapes: &Shapes) -> Vec<bool> {
    let is_known = |operand: &OperandIndex| shapes.get(*operand).is_some_and(|meta| meta.shape().is_ok());
    let operators = graph.operators().iter();
    operators.map(|operator| operator.inputs().iter().chain(operator.outputs()).all(is_known)).collect()
}

/// Returns true if a layer need not work for the sizes at which it failed, as these are a guess.
fn is_excused(error: &LayerError) -> bool {
    !matches!(error, LayerError::Panic(_) | LayerError::Stuck(_) | LayerError::Limit(_))
}

/// The candidates of an operator; empty if nothing is known about its shapes. If its sizes are not known before the run, it
/// runs on the CPU, where its tensors are allocated.
fn candidate_set(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    (shapes, is_planned): (&Sizes, bool),
    settings: &SelectionSettings,
) -> Result<CandidateSet, EngineError> {
    let Some(tensors) = tensors(graph, operator, shapes, settings) else {
        return Ok(CandidateSet::default());
    };
    if tensors.inputs.iter().chain(&tensors.outputs).any(|meta| meta.shape().is_err()) {
        return Ok(CandidateSet::default());
    }
    let fault = EngineError::at(graph, operator, Stage::Configure);
    // Dropping the layer's clones is a call into it as well.
    let on_device = match is_planned {
        true => catch_panic(|| device_candidates::candidate_set(graph, operator, &tensors, settings))
            .map_err(&fault)?,
        false => None,
    };
    if let Some((mut candidate_set, true)) = on_device {
        keep_preferred(&mut candidate_set, settings);
        return Ok(candidate_set);
    }
    let max_rounding = shapes.averaging_after.max_rounding(operator);
    let found = catch_panic(|| variants::candidate_set(graph, operator, (&tensors, max_rounding), settings));
    let mut candidate_set = match found {
        Err(error) if !is_planned && is_excused(&error) => {
            log::debug!("{} `{}` keeps its formats: {error}", operator.op_type(), operator.name());
            return Ok(CandidateSet::default());
        }
        found => found.map_err(&fault)?,
    };
    if let Some((view, _)) = on_device {
        candidate_set.candidates.extend(view.candidates);
    }
    keep_preferred(&mut candidate_set, settings);
    if candidate_set.candidates.is_empty() && is_planned && operator.layer().is_some() {
        return Err(fault(LayerError::NoFormat(report(graph, operator, &candidate_set.answers))));
    }
    Ok(candidate_set)
}

/// Keeps only the candidates with a preferred tactic, if there are any.
fn keep_preferred(candidate_set: &mut CandidateSet, settings: &SelectionSettings) {
    let is_preferred = |candidate: &Candidate| is_named(&candidate.tactic, &settings.preferred);
    if candidate_set.candidates.iter().any(is_preferred) {
        candidate_set.candidates.retain(is_preferred);
    }
}

/// Lists the formats that the layer takes and refuses, by position.
fn report(graph: &RuntimeGraph, operator: &RuntimeOperator, answers: &[SupportedFormats]) -> String {
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

/// An operator's tensors; `None` if their shapes are unknown.
fn tensors(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    shapes: &Sizes,
    settings: &SelectionSettings,
) -> Option<Tensors> {
    let inputs = shapes.optimum_of(operator.inputs())?;
    let outputs = shapes.optimum_of(operator.outputs())?;
    let operands: Vec<OperandIndex> = operator.inputs().iter().chain(operator.outputs()).copied().collect();
    let likeness = shapes.any.get_all(&operands).map_or(Likeness::None, |metas| Likeness::of(metas.iter()));
    let steps = operands.iter().map(|&operand| settings.step(operator, graph.operand(operand).name()));
    let steps: Vec<Option<Step>> = steps.collect();
    let floats = inputs.iter().chain(&outputs).zip(&steps).filter(|(meta, _)| meta.dtype().is_float());
    let may_pass = passes_int8(operator.op_type(), floats.map(|(_, &step)| step));
    // A device has rules of its own for views.
    let passes_int8 = settings.accelerator.is_none() && may_pass && shapes.flow.passes(operator);
    let has_steps = steps.iter().any(Option::is_some);
    let steps = match has_steps && !may_pass && shapes.flow.ends_at(operator) {
        true => vec![None; steps.len()],
        false => steps,
    };
    // An operator that only moves elements may have a layer that quantises by itself.
    let takes_any = passes_int8 || takes_zero_points(operator);
    let taken = |step: &Step| step.zero_point == 0 || takes_any;
    let steps = steps.into_iter().map(|step| step.filter(taken)).collect();
    Some(Tensors { inputs, outputs, steps, likeness, passes_int8 })
}

/// The step of the operand with this name, if its format is quantised.
fn step_of(settings: &SelectionSettings, name: &str, format: TensorFormat) -> Option<Step> {
    settings.step_of(name).filter(|_| format.is_quantized)
}

/// Selects the candidates with the fewest bits.
fn prefer_narrow(candidate_sets: &[CandidateSet], assignment: &mut [Option<usize>]) {
    let bits =
        |candidate: &Candidate| -> usize { candidate.formats.iter().map(|format| format.dtype.size()).sum() };
    for (candidate_set, chosen) in candidate_sets.iter().zip(assignment) {
        let is_on_device =
            |candidate: &Candidate| candidate.formats.iter().any(|format| format.device == Device::Cuda);
        let all = candidate_set.candidates.iter().map(|it| (bits(it), !is_on_device(it))).enumerate();
        // Among equals, prefer a device, where the input of a view most likely is; then the first, which is the plainest.
        *chosen = all.min_by_key(|(at, price)| (*price, *at)).map(|(at, _)| at);
    }
}

/// Casts all layers to their selected types, and configures them with formats and tactics.
fn configure_layers(
    graph: &mut RuntimeGraph,
    selections: &[Selection],
    shapes: &Sizes,
    settings: &SelectionSettings,
) -> Result<(), EngineError> {
    for (position, selection) in selections.iter().enumerate() {
        let Some(chosen) = selection.chosen.and_then(|chosen| selection.candidates.get(chosen)) else {
            continue;
        };
        let index = OperatorIndex::new(position);
        let Some(tensors) = tensors(graph, graph.operator(index), shapes, settings) else { continue };
        let is_guess = shapes.is_planned.get(position) == Some(&false);
        match configure_layer(graph, index, chosen, &tensors) {
            // It is configured again when its sizes are known.
            Err(error) if is_guess && is_excused(&error) => log::debug!("`{}`: {error}", selection.operator),
            configured => {
                configured.map_err(EngineError::at(graph, graph.operator(index), Stage::Configure))?;
            }
        }
    }
    Ok(())
}

fn configure_layer(
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
    // The CPU's layer is not configured for the order in which its clone on the device works.
    let of_layer = |format: &TensorFormat| if is_on_device { format.row_major() } else { *format };
    let formats: Vec<TensorFormat> = chosen.formats.iter().map(of_layer).collect();
    let Tensors { inputs, outputs, .. } = tensors.in_formats(&formats);
    // A device runs a clone, which is configured later, but its weights depend on the scales.
    match (is_on_device, chosen.formats.iter().any(|format| format.is_quantized)) {
        (true, true) => graph.configure_operator(index, &inputs, &outputs),
        (true, false) => Ok(()),
        (false, _) => graph.select_tactic(index, chosen.tactic.id, &inputs, &outputs),
    }
}

/// The type and layer of the operator that converts a tensor with this device and step to a format.
pub(super) fn between(
    (device, from_step): (Device, Option<Step>),
    (to, to_step): (TensorFormat, Option<Step>),
) -> (&'static str, Box<dyn CpuLayer>) {
    match device == to.device {
        true => (Reformat::TYPE, Box::new(Reformat::between(to, [from_step, to_step]))),
        false => (Transfer::TYPE, Box::new(Transfer)),
    }
}

/// Inserts the operators that convert tensors to other formats.
fn insert(graph: &mut RuntimeGraph, settings: &SelectionSettings, needed: Vec<Conversion>) {
    let (first, second) = cross_device::split(graph, needed);
    let inserted: Vec<_> = first.iter().map(|conversion| (conversion.operand, conversion.to)).collect();
    let names: Vec<String> = first.iter().map(|it| graph.operand(it.operand).name().to_owned()).collect();
    let operands = graph.operands().len();
    let insertions = first.into_iter().zip(&names);
    let insertions =
        insertions.map(|(it, name)| insertion(it, |format| step_of(settings, name, format))).collect();
    graph.insert(insertions);
    let second = second.into_conversions(graph, &inserted, operands);
    let name = |conversion: &Conversion| names.get(conversion.operand.position() - operands).cloned();
    let insertions = second.into_iter().map(|it| {
        let name = name(&it).unwrap_or_default();
        insertion(it, |format| step_of(settings, &name, format))
    });
    let insertions = insertions.collect();
    graph.insert(insertions);
}

fn insertion(conversion: Conversion, step: impl Fn(TensorFormat) -> Option<Step>) -> Insertion {
    let Conversion { operand, from, to, readers, is_output } = conversion;
    let (op_type, layer) = between((from.device, step(from)), (to, step(to)));
    Insertion {
        operand,
        op_type,
        layer,
        format: to,
        step: step(to),
        readers: readers.into_iter().map(|(reader, at)| (OperatorIndex::new(reader), at)).collect(),
        is_output,
    }
}

/// The sizes that formats are selected for if there is no profile: fixed lengths, or those that the file recorded; an unknown
/// length counts as 1.
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

/// Returns true if the layer of an operator of this type takes its tensors in these formats.
pub(super) fn takes_all(
    op_type: &str,
    layer: &dyn CpuLayer,
    metas: &[TensorMeta],
    formats: &[TensorFormat],
) -> bool {
    let likeness = Likeness::of(metas.iter());
    let floats = metas.iter().filter(|meta| meta.step().is_some() || meta.dtype().is_float());
    let passes = passes_int8(op_type, floats.map(TensorMeta::step));
    let mut zero_points = metas.iter().filter_map(TensorMeta::step).map(|step| step.zero_point);
    if !passes && !layer.takes_zero_points() && zero_points.any(|zero_point| zero_point != 0) {
        return false;
    }
    let mut asked = (0..formats.len()).map(|at| (at, formats.get(..=at).unwrap_or_default()));
    asked.all(|(at, formats)| {
        takes_int8(layer, passes, at, formats).unwrap_or_else(|| takes(layer, likeness, at, formats))
    })
}

/// Returns true if an error may be due to the sizes that were assumed, which need not be valid for the model.
pub(super) fn is_about_sizes(error: &EngineError) -> bool {
    matches!(error, EngineError::Shape(_))
        || matches!(error, EngineError::Graph(GraphError::Operator { stage: Stage::Infer, .. }))
}
