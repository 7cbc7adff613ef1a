//! The plan as JSON.

use super::int8::{self, Kept, Reason};
use super::planned::{Planned, SavedPlan};
use crate::cli::warnings;
use ixion::engine::file::Section;
use ixion::engine::{Candidate, Inexact, PlanFile, SupportedFormats};
use ixion::graph::{OperandIndex, RuntimeOperator};
use ixion::memory::{Holds, Place, Root, Slot};
use ixion::op::TensorFormat;
use ixion::passes::PassStatistics;
use serde_json::{Value, json};
use std::path::Path;

/// The result as a JSON object; `version` increases when the meaning of a field changes.
pub(super) fn json(param: &Path, planned: &Planned) -> Value {
    let (graph, report) = (planned.graph(), &planned.report);
    let operators = graph.operators().iter().enumerate();
    json!({
        "version": 1,
        "file": param.display().to_string(),
        "plan": planned.file.as_ref().map(saved),
        "warnings": warnings::as_json(planned.warnings()),
        "inputs": graph.inputs().iter().map(|port| tensor(&port.name, port.operand, planned)).collect::<Vec<_>>(),
        "outputs": graph.outputs().iter().map(|port| tensor(&port.name, port.operand, planned)).collect::<Vec<_>>(),
        "passes": {
            "rounds": planned.statistics().rounds,
            "operators_before": planned.statistics().nodes_before,
            "operators_after": planned.statistics().nodes_after,
            "passes": planned.statistics().passes.iter().map(pass).collect::<Vec<_>>(),
        },
        "operators": operators.map(|(step, it)| operator(step, it, planned)).collect::<Vec<_>>(),
        "formats": planned.choices().map(|(selection, chosen)| json!({
            "operator": selection.operator,
            "chosen": candidate(chosen),
            "rejected": selection.candidates.iter().filter(|other| *other != chosen).map(candidate).collect::<Vec<_>>(),
            "inexact": selection.inexact.iter().map(|it| inexact(it, chosen)).collect::<Vec<_>>(),
            "answers": selection.answers.iter().map(answers).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "not_int8": int8::kept(planned).iter().map(not_int8).collect::<Vec<_>>(),
        "buffers": planned.memory.slots.iter().map(|slot| buffer(slot, planned)).collect::<Vec<_>>(),
        "copies": planned.memory.copies.iter().map(|&(operand, output)| json!({
            "operand": graph.operands().get(operand).map(|operand| operand.name()),
            "output": output,
        })).collect::<Vec<_>>(),
        "memory": {
            "weight_bytes": report.weights,
            "packed_bytes": report.packed,
            "persistent_bytes": report.persistent,
            "caller_bytes": report.caller,
            "arena_bytes": report.peak,
            "device_bytes": planned.memory.device_bytes,
            "lower_bound_bytes": report.lower_bound,
            "naive_bytes": report.naive,
            "fullest_operator": graph.operators().get(report.fullest).map(RuntimeOperator::name),
            "fullest_activation_bytes": report.activations,
            "fullest_scratch_bytes": report.workspace,
        },
    })
}

fn saved(file: &SavedPlan) -> Value {
    let section = |section: &Section| {
        let Section { kind, offset, length, .. } = section;
        json!({ "name": kind.name(), "offset": offset, "bytes": length })
    };
    json!({
        "format": PlanFile::VERSION,
        "model": file.model,
        "written_by": file.written_by,
        "bytes": file.bytes,
        "sections": file.sections.iter().map(section).collect::<Vec<_>>(),
    })
}

/// The formats that a layer supports and refuses for one input or output.
fn answers(answers: &SupportedFormats) -> Value {
    let texts = |formats: &[TensorFormat]| formats.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({ "takes": texts(&answers.taken), "refuses": texts(&answers.refused) })
}

fn candidate(candidate: &Candidate) -> Value {
    json!({
        "formats": candidate.formats.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "tactic": candidate.tactic.name,
        "nanoseconds": candidate.price,
        "measured": candidate.is_measured,
    })
}

/// A candidate that was left out because it rounds too much, and the time that it would have saved, which may be negative.
fn inexact(inexact: &Inexact, chosen: &Candidate) -> Value {
    json!({
        "candidate": candidate(&inexact.candidate),
        "rounding": inexact.rounding,
        "saves_nanoseconds": chosen.price - inexact.candidate.price,
    })
}

/// An operator that computes in floats although int8 is allowed.
fn not_int8(Kept { operator, reason }: &Kept<'_>) -> Value {
    let int8 = match reason {
        Reason::Slower { int8, .. } | Reason::Conversions { int8, .. } => Some(candidate(int8)),
        Reason::NoScale | Reason::RoundsWeights | Reason::Kept | Reason::NotSupported => None,
    };
    json!({ "operator": operator, "reason": reason.name(), "candidate": int8 })
}

fn pass(pass: &PassStatistics) -> Value {
    json!({
        "name": pass.name,
        "fired": pass.fired,
        "operators_saved": pass.nodes_saved,
        "seconds": pass.time.as_secs_f64(),
        "left_alone": pass.refused.iter().map(|refusal| json!({
            "operator": refusal.operator,
            "reason": refusal.reason,
        })).collect::<Vec<_>>(),
    })
}

fn operator(step: usize, operator: &RuntimeOperator, planned: &Planned) -> Value {
    let name = |&operand: &OperandIndex| planned.graph().operand(operand).name();
    let workspace = planned.memory.steps.get(step).map(|step| step.workspace.clone()).unwrap_or_default();
    json!({
        "name": operator.name(),
        "type": operator.op_type(),
        "line": operator.line(),
        "inputs": operator.inputs().iter().map(name).collect::<Vec<_>>(),
        "outputs": operator.outputs().iter().map(|&output| {
            tensor(planned.graph().operand(output).name(), output, planned)
        }).collect::<Vec<_>>(),
        "action": planned.action(step),
        "device": operator.device().name(),
        "scratch": (!workspace.is_empty()).then(|| json!({ "offset": workspace.start, "bytes": workspace.len() })),
    })
}

fn tensor(name: &str, operand: OperandIndex, planned: &Planned) -> Value {
    let meta = planned.meta(operand);
    let dims = meta.map(|meta| meta.dims().iter().map(|dim| json!(dim.fixed())).collect::<Vec<_>>());
    json!({
        "name": name,
        "dtype": meta.map(|meta| meta.dtype().name()),
        "shape": dims,
        "place": planned.place(operand).map(place),
    })
}

fn place(place: &Place) -> Value {
    let (root, position) = match place.root {
        Root::Arena { offset, .. } => ("arena", offset),
        Root::Device { offset, .. } => ("device", offset),
        Root::Input(position) => ("input", position),
        Root::Output(position) => ("output", position),
        Root::Constant(position) => ("constant", position),
    };
    let at = if matches!(root, "arena" | "device") { "offset" } else { "position" };
    json!({
        "root": root,
        at: position,
        "first_element": place.layout.offset(),
        "strides": place.layout.strides(),
    })
}

fn buffer(slot: &Slot, planned: &Planned) -> Value {
    let operands = match &slot.holds {
        Holds::Workspace(_) => None,
        Holds::Operands(operands) => {
            let name =
                |&operand: &usize| planned.graph().operands().get(operand).map(|operand| operand.name());
            Some(operands.iter().map(name).collect::<Vec<_>>())
        }
    };
    json!({
        "offset": slot.offset,
        "bytes": slot.bytes,
        "first_step": slot.steps.start(),
        "last_step": slot.steps.end(),
        "operands": operands,
    })
}
