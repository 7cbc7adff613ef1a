//! Drawing the arena of a plan as a memory map.

use super::planned::Planned;
use crate::cli::kinds::kind;
use crate::cli::numbers::{bytes, percent, plural};
use ixion::graph::{RuntimeOperand, RuntimeOperator};
use ixion::memory::{Holds, Slot};
use ixion_drawing::{Block, MemoryMap};

/// The maximum number of operands in a tooltip.
const MAX_LISTED: usize = 8;

/// The map of the arena over time: each buffer's bytes and steps.
pub(super) fn map(title: &str, planned: &Planned) -> MemoryMap {
    let report = &planned.report;
    let operators = plural(planned.graph().operators().len(), "operator");
    let buffers = plural(planned.memory.slots.len(), "buffer");
    MemoryMap {
        title: title.to_owned(),
        summary: format!(
            "{operators}, {buffers}; {} of activations and scratch memory in an arena of {}, {} above the lower bound",
            bytes(report.naive),
            bytes(report.peak),
            percent(report.overhead())
        ),
        steps: planned.graph().operators().iter().map(|operator| operator.name().to_owned()).collect(),
        blocks: planned.memory.slots.iter().map(|slot| block(slot, planned)).collect(),
        bytes: report.peak,
        least: report.lower_bound,
        fullest: report.fullest,
    }
}

fn block(slot: &Slot, planned: &Planned) -> Block {
    let (first, last) = (*slot.steps.start(), *slot.steps.end());
    let span = match first == last {
        true => format!("in {}", planned.name_of(first)),
        false => format!("from {} to {}", planned.name_of(first), planned.name_of(last)),
    };
    let (kind, label, mut tooltip) = match &slot.holds {
        Holds::Workspace(_) => (None, "scratch".to_owned(), vec!["scratch memory".to_owned()]),
        Holds::Operands(operands) => {
            let writer = planned.graph().operators().get(first);
            let kind = writer.map(|writer| kind(writer.op_type()));
            let label = writer.map(|writer| writer.name().to_owned()).unwrap_or_default();
            (kind, label, lines(operands, planned))
        }
    };
    tooltip.push(format!("{} at byte {}, {span}", bytes(slot.bytes as u64), slot.offset));
    Block { offset: slot.offset as u64, bytes: slot.bytes as u64, first, last, kind, label, tooltip }
}

/// A line for each operand: its name, its type and shape, and its producer.
fn lines(operands: &[usize], planned: &Planned) -> Vec<String> {
    let operand = |&position: &usize| {
        let operand: &RuntimeOperand = planned.graph().operands().get(position)?;
        let meta = planned.meta_at(position)?;
        let producer: Option<&RuntimeOperator> =
            operand.producer().map(|index| planned.graph().operator(index));
        let origin = producer.map(|it| format!(" by {} {}", it.op_type(), it.name())).unwrap_or_default();
        Some(format!("{}: {meta}{origin}", operand.name()))
    };
    let mut lines: Vec<String> = operands.iter().filter_map(operand).take(MAX_LISTED).collect();
    if operands.len() > MAX_LISTED {
        lines.push(format!("and {} more", operands.len() - MAX_LISTED));
    }
    lines
}
