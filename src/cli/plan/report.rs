//! The plan for human eyes.

use super::planned::{Planned, SavedPlan};
use crate::cli::numbers::{bytes, percent, plural, time};
use crate::cli::screen::{Screen, Style};
use crate::cli::table::{Align, Table};
use ixion::engine::{Candidate, Settled};
use ixion::graph::OperandIndex;
use ixion::memory::{Place, Root};
use ixion::op::{Device, TensorMeta};
use std::io::{self, Write};
use std::time::Duration;

/// Most refusals that are listed for one pass.
const MOST_REFUSALS: usize = 3;

/// Writes inputs and outputs, what passes did, the operators in order, and the memory.
pub(super) fn write(screen: &mut Screen, title: &str, planned: &Planned) -> io::Result<()> {
    writeln!(screen, "{}", screen.paint(Style::Strong, title))?;
    if let Some(SavedPlan { model, written_by, bytes: size, .. }) = &planned.file {
        let model = model.as_deref().unwrap_or("a graph");
        writeln!(screen, "plan    of {model}, by Ixion {written_by}, {}", bytes(*size))?;
    }
    for port in planned.graph().inputs() {
        tensor(screen, "input ", &port.name, planned.meta(port.operand))?;
    }
    for port in planned.graph().outputs() {
        tensor(screen, "output", &port.name, planned.meta(port.operand))?;
    }
    passes(screen, planned)?;
    writeln!(screen)?;
    operators(screen, planned)?;
    writeln!(screen)?;
    formats(screen, planned)?;
    memory(screen, planned)
}

/// What operators settled on that could have had something else.
fn formats(screen: &mut Screen, planned: &Planned) -> io::Result<()> {
    if planned.choices().next().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("operator", Align::Left),
        ("format", Align::Left),
        ("time", Align::Right),
        ("instead of", Align::Left),
        ("refused", Align::Left),
    ]);
    for (settled, chosen) in planned.choices() {
        table.row([
            settled.operator.clone(),
            chosen.to_string(),
            price(chosen),
            alternatives(settled, chosen),
            refused(settled),
        ]);
    }
    table.write(screen)?;
    writeln!(screen, "~ is an estimate, which --tune replaces by what it measures\n")
}

/// A time, marked where it is an estimate.
fn price(candidate: &Candidate) -> String {
    let mark = if candidate.is_measured { "" } else { "~" };
    format!("{mark}{}", time(Duration::from_secs_f64(candidate.price.max(0.0) / 1e9)))
}

/// The most alternatives of an operator that a table shows; `--json` has all.
const MOST_ALTERNATIVES: usize = 5;

/// All that was not chosen, or the cheapest of it.
fn alternatives(settled: &Settled, chosen: &Candidate) -> String {
    let mut others: Vec<&Candidate> = settled.candidates.iter().filter(|other| *other != chosen).collect();
    let more = others.len().saturating_sub(MOST_ALTERNATIVES);
    if more > 0 {
        others.sort_by(|a, b| a.price.total_cmp(&b.price));
        others.truncate(MOST_ALTERNATIVES);
    }
    let texts = others.into_iter().map(|other| alternative(other, chosen)).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{texts}; {more} more") } else { texts }
}

/// What was not chosen. One that is quicker by itself loses more by what has to be converted before and behind it.
fn alternative(other: &Candidate, chosen: &Candidate) -> String {
    let conversions = if other.price < chosen.price { " + conversions" } else { "" };
    format!("{other} {}{conversions}", price(other))
}

/// What the layer refused: each format with the first input or output for which it did.
fn refused(settled: &Settled) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for (position, answers) in settled.answers.iter().enumerate() {
        for format in answers.refused.iter().map(ToString::to_string) {
            if found.iter().all(|(known, _)| *known != format) {
                found.push((format, position));
            }
        }
    }
    let texts = found.into_iter().map(|(format, position)| format!("{format} at {position}"));
    texts.collect::<Vec<_>>().join(", ")
}

fn tensor(screen: &mut Screen, what: &str, name: &str, meta: Option<&TensorMeta>) -> io::Result<()> {
    let meta = meta.map_or_else(|| "known when it runs".to_owned(), ToString::to_string);
    writeln!(screen, "{what}  {name}  {meta}")
}

fn passes(screen: &mut Screen, planned: &Planned) -> io::Result<()> {
    let statistics = planned.statistics();
    let told = || statistics.passes.iter().filter(|pass| pass.fired > 0 || !pass.refused.is_empty());
    if told().next().is_none() {
        return Ok(());
    }
    writeln!(screen)?;
    let mut table = Table::new(&[
        ("pass", Align::Left),
        ("fired", Align::Right),
        ("operators", Align::Right),
        ("left alone", Align::Left),
    ]);
    for pass in told() {
        let refused: Vec<String> = pass.refused.iter().take(MOST_REFUSALS).map(ToString::to_string).collect();
        let more = pass.refused.len().saturating_sub(MOST_REFUSALS);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let change = if pass.nodes_saved == 0 { String::new() } else { format!("{:+}", -pass.nodes_saved) };
        table.row([pass.name.clone(), pass.fired.to_string(), change, refused.join("; ") + &more]);
    }
    table.write(screen)?;
    let (before, after) = (statistics.nodes_before, statistics.nodes_after);
    writeln!(screen, "{} → {after}, {}", plural(before, "operator"), plural(statistics.rounds, "round"))
}

fn operators(screen: &mut Screen, planned: &Planned) -> io::Result<()> {
    let mut table = Table::new(&[
        ("#", Align::Right),
        ("operator", Align::Left),
        ("type", Align::Left),
        ("output", Align::Left),
        ("on", Align::Left),
        ("done", Align::Left),
        ("where", Align::Left),
        ("scratch", Align::Right),
    ]);
    for (step, operator) in planned.graph().operators().iter().enumerate() {
        let metas = planned.outputs(operator).into_iter();
        let metas: Vec<String> =
            metas.map(|meta| meta.map_or_else(|| "?".to_owned(), ToString::to_string)).collect();
        let scratch = planned.memory.steps.get(step).map_or(0, |step| step.workspace.len());
        table.row([
            step.to_string(),
            operator.name().to_owned(),
            operator.op_type().to_owned(),
            metas.join(", "),
            planned.device(operator).to_owned(),
            planned.action(step).to_owned(),
            places(planned, operator.outputs()),
            if scratch > 0 { bytes(scratch as u64) } else { String::new() },
        ]);
    }
    table.write(screen)
}

/// Where operands lie; neighbours in one root are told by their root once.
fn places(planned: &Planned, operands: &[OperandIndex]) -> String {
    let places =
        operands.iter().map(|&operand| planned.place(operand).map_or_else(|| "system".to_owned(), place));
    places.collect::<Vec<_>>().join(", ")
}

/// The memory of a place, and which bytes of it.
fn place(place: &Place) -> String {
    let within = |offset: usize| {
        let size = place.dtype.size();
        let (first, end) = (place.layout.offset() * size, place.layout.span() * size);
        format!("{}..{}", offset + first, offset + end)
    };
    match place.root {
        Root::Arena { offset, .. } => within(offset),
        Root::Device { offset, .. } => format!("device {}", within(offset)),
        Root::Input(input) => format!("input {input}"),
        Root::Output(output) => format!("output {output}"),
        Root::Constant(_) => "constant".to_owned(),
    }
}

fn memory(screen: &mut Screen, planned: &Planned) -> io::Result<()> {
    let report = &planned.report;
    writeln!(screen, "weights      {}", bytes(report.weights))?;
    if report.persistent > 0 {
        writeln!(screen, "constants    {}, which stay from run to run", bytes(report.persistent))?;
    }
    writeln!(screen, "caller       {} of inputs and outputs", bytes(report.caller))?;
    let arena = screen.paint(Style::Strong, bytes(report.peak));
    writeln!(screen, "arena        {arena}, {} without sharing", bytes(report.naive))?;
    if planned.memory.device_bytes > 0 {
        let (device, least) = (planned.memory.device_bytes, planned.memory.lower_bound_on(Device::Cuda));
        let device = screen.paint(Style::Strong, bytes(device as u64));
        writeln!(screen, "device       {device} of its memory, the lower bound is {}", bytes(least as u64))?;
    }
    if report.lower_bound > 0 {
        let above = percent(report.overhead());
        writeln!(screen, "lower bound  {}, the arena is {above} larger", bytes(report.lower_bound))?;
        let (activations, scratch) = (bytes(report.activations), bytes(report.workspace));
        let step = planned.name_of(report.fullest);
        writeln!(
            screen,
            "fullest      {activations} of activations and {scratch} of scratch memory in `{step}`"
        )?;
    }
    match planned.memory.copies.len() {
        0 => Ok(()),
        copies => writeln!(screen, "copied       {} at the end", plural(copies, "output")),
    }
}
