//! The survey as a table.

use super::parameters::{elide, parameters};
use super::survey::{Row, State, Survey};
use super::value::Known;
use crate::cli::{Style, Table, Terminal, list, numbers};
use ixion::onnx::Metadata;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// The maximum number of characters of a name, and of all outputs or parameters, in the table.
const MAX_NAME: usize = 40;
const MAX_PARAMETERS: usize = 60;
/// The maximum number of characters of a property of an ONNX file.
const MAX_TEXT: usize = 100;
/// The maximum number of types, and of missing weights, that are listed one by one.
const MAX_LISTED: usize = 12;

/// Writes inputs and outputs, the table of operators, the totals, and the problems.
pub(super) fn write(
    terminal: &mut Terminal,
    title: &str,
    archive: Option<&Path>,
    metadata: Option<&Metadata>,
    survey: &Survey<'_>,
) -> io::Result<()> {
    writeln!(terminal, "{}", terminal.paint(Style::Strong, title))?;
    if let Some(metadata) = metadata {
        onnx(terminal, metadata)?;
    }
    ports(terminal, "input ", &survey.inputs)?;
    ports(terminal, "output", &survey.outputs)?;
    writeln!(terminal)?;
    if survey.layers().next().is_some() {
        operators(terminal, survey)?;
        writeln!(terminal)?;
    }
    totals(terminal, archive, survey)?;
    problems(terminal, archive, survey)
}

/// What an ONNX file says about itself.
fn onnx(terminal: &mut Terminal, metadata: &Metadata) -> io::Result<()> {
    let opsets = metadata.opsets.iter().map(|(domain, version)| format!("{domain} {version}"));
    let producer = if metadata.producer.is_empty() { "unknown" } else { &metadata.producer };
    writeln!(
        terminal,
        "ONNX    version {} by {producer}; operators of {}",
        metadata.ir_version,
        list(opsets)
    )?;
    if !metadata.description.is_empty() {
        writeln!(
            terminal,
            "        {}",
            elide(&metadata.description.replace(char::is_control, " "), MAX_TEXT)
        )?;
    }
    for (key, value) in &metadata.properties {
        writeln!(terminal, "        {key}: {}", elide(&value.replace(char::is_control, " "), MAX_TEXT))?;
    }
    writeln!(terminal)
}

fn ports(terminal: &mut Terminal, what: &str, ports: &[Known]) -> io::Result<()> {
    for Known { name, meta } in ports {
        let meta = meta.as_ref().map_or_else(|| "unknown shape".to_owned(), ToString::to_string);
        writeln!(terminal, "{what}  {name}  {meta}")?;
    }
    Ok(())
}

fn operators(terminal: &mut Terminal, survey: &Survey<'_>) -> io::Result<()> {
    let mut table = Table::new(&["operator", "type", "output", "parameters", ">weights", ">MACs", ""]);
    for row in survey.layers() {
        let outputs = row.operator.outputs().iter().filter_map(|&id| survey.value(id));
        table.row([
            elide(row.operator.name(), MAX_NAME),
            row.operator.op_type().to_owned(),
            elide(&list(outputs), MAX_PARAMETERS),
            elide(&parameters(row.operator).join(", "), MAX_PARAMETERS),
            if row.weight_bytes() > 0 { numbers::bytes(row.weight_bytes()) } else { String::new() },
            macs(row),
            mark(row).to_owned(),
        ]);
    }
    table.write(terminal)
}

fn macs(row: &Row<'_>) -> String {
    match row.macs {
        Some(0) => String::new(),
        Some(macs) => numbers::count(macs),
        None => "?".to_owned(),
    }
}

fn mark(row: &Row<'_>) -> &'static str {
    match row.state {
        State::Structure | State::Supported => "",
        State::Underived(_) => "shape not derived",
        State::Refused(_) => "cannot run",
        State::Unsupported { .. } => "not supported",
    }
}

fn totals(terminal: &mut Terminal, archive: Option<&Path>, survey: &Survey<'_>) -> io::Result<()> {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    survey.layers().for_each(|row| *types.entry(row.operator.op_type()).or_default() += 1);
    let mut counted: Vec<(&str, usize)> = types.into_iter().collect();
    counted.sort_by_key(|&(op_type, count)| (std::cmp::Reverse(count), op_type));
    let more = counted.len().saturating_sub(MAX_LISTED);
    let mut listed: Vec<String> =
        counted.iter().take(MAX_LISTED).map(|(op_type, count)| format!("{count} {op_type}")).collect();
    if more > 0 {
        listed.push(format!("{more} more types"));
    }
    let colon = if listed.is_empty() { "" } else { ": " };
    writeln!(terminal, "operators  {}{colon}{}", survey.layers().count(), listed.join(", "))?;
    let weights = survey.weight_bytes();
    let by_type = list(weights.iter().map(|(dtype, &bytes)| format!("{} of {dtype}", numbers::bytes(bytes))));
    let place = match archive {
        _ if weights.is_empty() => "none".to_owned(),
        Some(archive) => format!("{by_type} in {}", archive.display()),
        None => format!("{by_type}, but there is no archive"),
    };
    writeln!(terminal, "weights    {place}")?;
    if survey.packed_bytes() > 0 {
        let packed = numbers::bytes(survey.packed_bytes());
        writeln!(terminal, "packed     {packed} of weights in the order in which layers read them")?;
    }
    let (macs, unknown) = survey.macs();
    let ones = if survey.has_unknown_sizes { " with 1 for each unknown size" } else { "" };
    let without = match unknown {
        0 => String::new(),
        count => format!(", without {}", numbers::plural(count, "operator")),
    };
    writeln!(terminal, "MACs       {}{ones}{without}", numbers::count(macs))
}

fn problems(terminal: &mut Terminal, archive: Option<&Path>, survey: &Survey<'_>) -> io::Result<()> {
    let unsupported = survey.unsupported();
    for (op_type, count) in &unsupported {
        let found = survey.rows.iter().find_map(|row| match &row.state {
            State::Unsupported { nearest, advice } if row.operator.op_type() == *op_type => {
                Some((nearest.as_deref(), advice.as_str()))
            }
            _ => None,
        });
        let (nearest, advice) = found.unwrap_or_default();
        let nearest =
            nearest.map(|nearest| format!("; the nearest known type is {nearest}")).unwrap_or_default();
        let what = terminal.paint(Style::Bad, "not supported");
        writeln!(terminal, "{what}: {op_type}, {}{nearest}", numbers::plural(*count, "operator"))?;
        // No plugin can know what is in a branch or a loop.
        if op_type.starts_with("prim::") {
            writeln!(terminal, "  hint: {advice}")?;
        }
    }
    if unsupported.keys().any(|op_type| !op_type.starts_with("prim::")) {
        writeln!(terminal, "  hint: load the library of a plugin with --plugin")?;
    }
    for row in &survey.rows {
        let (State::Underived(why) | State::Refused(why)) = &row.state else {
            continue;
        };
        let (what, operator) = (terminal.paint(Style::Bad, mark(row)), row.operator);
        let line = operator.line().map(|line| format!("line {line}, ")).unwrap_or_default();
        writeln!(terminal, "{what}: {line}{} `{}`: {why}", operator.op_type(), operator.name())?;
    }
    if archive.is_some() {
        absent_weights(terminal, survey)?;
    }
    Ok(())
}

fn absent_weights(terminal: &mut Terminal, survey: &Survey<'_>) -> io::Result<()> {
    let absent = survey.graph.check_weights();
    for problem in absent.iter().take(MAX_LISTED) {
        writeln!(terminal, "{}: {problem}", terminal.paint(Style::Bad, "unusable weight"))?;
    }
    match absent.len().saturating_sub(MAX_LISTED) {
        0 => Ok(()),
        more => writeln!(terminal, "{}: {more} more", terminal.paint(Style::Bad, "unusable weights")),
    }
}
