//! The plan as tables.

use super::int8::{self, Kept, Reason};
use super::planned::{Planned, SavedPlan};
use crate::cli::numbers::{bytes, percent, plural, time};
use crate::cli::{Style, Table, Terminal, list};
use ixion::engine::{Candidate, Inexact, MAX_ROUNDING, MAX_ROUNDING_OF_LAST_LAYERS, Selection};
use ixion::graph::OperandIndex;
use ixion::memory::{Place, Root};
use ixion::op::{Device, TensorMeta};
use std::io::{self, Write};
use std::time::Duration;

/// The maximum number of refusals to list for one pass, and of operators whose sizes depend on values.
const MAX_REFUSALS: usize = 3;

/// Writes inputs and outputs, the passes, the operators in order, the formats, and the memory.
pub(super) fn write(terminal: &mut Terminal, title: &str, planned: &Planned) -> io::Result<()> {
    writeln!(terminal, "{}", terminal.paint(Style::Strong, title))?;
    if let Some(SavedPlan { model, written_by, bytes: size, .. }) = &planned.file {
        let model = model.as_deref().unwrap_or("a graph");
        writeln!(terminal, "plan    of {model}, by Ixion {written_by}, {}", bytes(*size))?;
    }
    for port in planned.graph().inputs() {
        tensor(terminal, "input ", &port.name, planned.meta(port.operand))?;
    }
    for port in planned.graph().outputs() {
        tensor(terminal, "output", &port.name, planned.meta(port.operand))?;
    }
    passes(terminal, planned)?;
    writeln!(terminal)?;
    operators(terminal, planned)?;
    writeln!(terminal)?;
    formats(terminal, planned)?;
    inexact(terminal, planned)?;
    not_int8(terminal, planned)?;
    unplanned(terminal, planned)?;
    memory(terminal, planned)
}

/// Says which operators run without places for all of their tensors, and why.
fn unplanned(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let (first, count) = planned.unplanned();
    if count == 0 {
        return Ok(());
    }
    let more = if first.len() > MAX_REFUSALS { ", …" } else { "" };
    let names = list(first.iter().take(MAX_REFUSALS).map(|name| format!("`{name}`")));
    let (operators, are) = (plural(count, "operator"), if count == 1 { "is" } else { "are" });
    writeln!(
        terminal,
        "{operators}, beginning at {names}{more}, {are} not planned: sizes that depend on values are known only when the \
         model runs, so formats are those for the sizes of the exported sample, and each such tensor is allocated by itself; \
         operators behind these whose sizes are known are planned again\n"
    )
}

/// Writes the selected format of each operator that had a choice.
fn formats(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    if planned.choices().next().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&["operator", "format", ">time", "instead of", "refused"]);
    for (selection, chosen) in planned.choices() {
        table.row([
            selection.operator.clone(),
            chosen.to_string(),
            price(chosen),
            alternatives(selection, chosen),
            refused(selection),
        ]);
    }
    table.write(terminal)?;
    writeln!(terminal, "~ marks an estimate; use --tune to measure instead\n")
}

/// Writes the tactics that would have been faster than the selected ones, but were left out because they round too much.
fn inexact(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let mut table = Table::new(&["operator", "left out", ">rounding", ">saves"]);
    let mut is_any = false;
    for (selection, chosen) in planned.choices() {
        let faster = selection.inexact.iter().filter(|it| it.candidate.price < chosen.price);
        let fastest = faster.min_by(|a, b| a.candidate.price.total_cmp(&b.candidate.price));
        if let Some(Inexact { candidate, rounding }) = fastest {
            is_any = true;
            let saved = marked(chosen.price - candidate.price, candidate.is_measured && chosen.is_measured);
            table.row([selection.operator.clone(), candidate.to_string(), format!("{rounding}×"), saved]);
        }
    }
    if !is_any {
        return Ok(());
    }
    table.write(terminal)?;
    writeln!(
        terminal,
        "left out because their rounding errors are more than {MAX_ROUNDING} times those of the general tactic, or \
         {MAX_ROUNDING_OF_LAST_LAYERS} times in the last layers; use --fast to allow them\n"
    )
}

/// Writes the operators with weights that compute in floats although int8 is allowed, and why.
fn not_int8(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let kept = int8::kept(planned);
    if kept.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["operator", "why it is not int8"]);
    for Kept { operator, reason } in kept {
        let reason = match reason {
            Reason::NoScale => "its input has no scale".to_owned(),
            Reason::RoundsWeights => {
                "its weights are not whole multiples of a scale; rounding them requires --precision int8"
                    .to_owned()
            }
            Reason::Kept => "it loses too much: the file of scales keeps it in f32".to_owned(),
            Reason::NotSupported => {
                "its layer does not support int8 with these parameters and weights".to_owned()
            }
            Reason::Slower { int8, chosen } => {
                format!("int8 takes {}, {chosen} {}", price(int8), price(chosen))
            }
            Reason::Conversions { int8, chosen } => {
                let saved = marked(chosen.price - int8.price, chosen.is_measured && int8.is_measured);
                format!("int8 saves {saved}, less than the conversions around it take")
            }
        };
        table.row([operator.to_owned(), reason]);
    }
    table.write(terminal)?;
    writeln!(terminal)
}

/// A candidate's time, marked by `~` if it is an estimate.
fn price(candidate: &Candidate) -> String {
    marked(candidate.price, candidate.is_measured)
}

/// A time in nanoseconds, marked by `~` unless it was measured. A plan may state any number.
fn marked(nanoseconds: f64, is_measured: bool) -> String {
    let mark = if is_measured { "" } else { "~" };
    let duration = Duration::try_from_secs_f64(nanoseconds.max(0.0) / 1e9).unwrap_or(Duration::MAX);
    format!("{mark}{}", time(duration))
}

/// The maximum number of alternatives to show for an operator; `--json` has all.
const MAX_ALTERNATIVES: usize = 5;

/// The candidates that were not chosen, or the cheapest of them if there are too many.
fn alternatives(selection: &Selection, chosen: &Candidate) -> String {
    let mut others: Vec<&Candidate> = selection.candidates.iter().filter(|other| *other != chosen).collect();
    let more = others.len().saturating_sub(MAX_ALTERNATIVES);
    if more > 0 {
        others.sort_by(|a, b| a.price.total_cmp(&b.price));
        others.truncate(MAX_ALTERNATIVES);
    }
    let texts = list(others.into_iter().map(|other| alternative(other, chosen)));
    if more > 0 { format!("{texts}; {more} more") } else { texts }
}

/// A candidate that was not chosen. If it is faster by itself, conversions before and after it cost more than it saves.
fn alternative(other: &Candidate, chosen: &Candidate) -> String {
    let conversions = if other.price < chosen.price { " + conversions" } else { "" };
    format!("{other} {}{conversions}", price(other))
}

/// The formats that the layer refused, each with the first input or output for which it did.
fn refused(selection: &Selection) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for (position, answers) in selection.answers.iter().enumerate() {
        for format in answers.refused.iter().map(ToString::to_string) {
            if found.iter().all(|(known, _)| *known != format) {
                found.push((format, position));
            }
        }
    }
    list(found.into_iter().map(|(format, position)| format!("{format} at {position}")))
}

fn tensor(terminal: &mut Terminal, what: &str, name: &str, meta: Option<&TensorMeta>) -> io::Result<()> {
    let meta = meta.map_or_else(|| "known only at run time".to_owned(), ToString::to_string);
    writeln!(terminal, "{what}  {name}  {meta}")
}

fn passes(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let statistics = planned.statistics();
    let shown = || statistics.passes.iter().filter(|pass| pass.fired > 0 || !pass.refused.is_empty());
    if shown().next().is_none() {
        return Ok(());
    }
    writeln!(terminal)?;
    let mut table = Table::new(&["pass", ">fired", ">operators", "left alone"]);
    for pass in shown() {
        let refused: Vec<String> = pass.refused.iter().take(MAX_REFUSALS).map(ToString::to_string).collect();
        let more = pass.refused.len().saturating_sub(MAX_REFUSALS);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let change = if pass.nodes_saved == 0 { String::new() } else { format!("{:+}", -pass.nodes_saved) };
        table.row([pass.name.clone(), pass.fired.to_string(), change, refused.join("; ") + &more]);
    }
    table.write(terminal)?;
    let (before, after) = (statistics.nodes_before, statistics.nodes_after);
    writeln!(terminal, "{} → {after}, {}", plural(before, "operator"), plural(statistics.rounds, "round"))
}

fn operators(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let mut table = Table::new(&[">#", "operator", "type", "output", "on", "done", "where", ">scratch"]);
    for (step, operator) in planned.graph().operators().iter().enumerate() {
        let metas = operator.outputs().iter().map(|&output| planned.meta(output));
        let metas = metas.map(|meta| meta.map_or_else(|| "?".to_owned(), ToString::to_string));
        let scratch = planned.memory.steps.get(step).map_or(0, |step| step.workspace.len());
        table.row([
            step.to_string(),
            operator.name().to_owned(),
            operator.op_type().to_owned(),
            list(metas),
            planned.device(operator).to_owned(),
            planned.action(step).to_owned(),
            places(planned, operator.outputs()),
            if scratch > 0 { bytes(scratch as u64) } else { String::new() },
        ]);
    }
    table.write(terminal)
}

/// The memory locations of operands, separated by commas.
fn places(planned: &Planned, operands: &[OperandIndex]) -> String {
    list(operands.iter().map(|&operand| planned.place(operand).map_or_else(|| "system".to_owned(), place)))
}

/// A memory location: its root and, within an arena, its range of bytes.
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

fn memory(terminal: &mut Terminal, planned: &Planned) -> io::Result<()> {
    let report = &planned.report;
    writeln!(terminal, "weights      {}", bytes(report.weights))?;
    if report.packed > 0 {
        let packed = bytes(report.packed);
        writeln!(terminal, "packed       {packed} of weights in the order in which layers read them")?;
    }
    if report.persistent > 0 {
        writeln!(terminal, "constants    {}, kept between runs", bytes(report.persistent))?;
    }
    writeln!(terminal, "caller       {} of inputs and outputs", bytes(report.caller))?;
    let arena = terminal.paint(Style::Strong, bytes(report.peak));
    writeln!(terminal, "arena        {arena}, {} without sharing", bytes(report.naive))?;
    if planned.memory.device_bytes > 0 {
        let (device, least) = (planned.memory.device_bytes, planned.memory.lower_bound_on(Device::Cuda));
        let device = terminal.paint(Style::Strong, bytes(device as u64));
        writeln!(
            terminal,
            "device       {device} of device memory, the lower bound is {}",
            bytes(least as u64)
        )?;
    }
    if report.lower_bound > 0 {
        let above = percent(report.overhead());
        writeln!(terminal, "lower bound  {}, the arena is {above} larger", bytes(report.lower_bound))?;
        let (activations, scratch) = (bytes(report.activations), bytes(report.workspace));
        let step = planned.name_of(report.fullest);
        writeln!(
            terminal,
            "fullest      {activations} of activations and {scratch} of scratch memory in `{step}`"
        )?;
    }
    match planned.memory.copies.len() {
        0 => Ok(()),
        copies => writeln!(terminal, "copied       {} at the end", plural(copies, "output")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_time() {
        assert_eq!((marked(1500.0, true), marked(-1.0, false)), ("1.50 µs".to_owned(), "~0 ns".to_owned()));
        assert_eq!(marked(f64::NAN, true), "0 ns");
        assert!(marked(f64::INFINITY, true).ends_with(" s") && marked(f64::MAX, true).ends_with(" s"));
    }
}
