//! The survey for human eyes.

use super::parameters::{elide, parameters};
use super::survey::{Row, State, Survey};
use super::value::Known;
use crate::cli::numbers;
use crate::cli::screen::{Screen, Style};
use crate::cli::table::{Align, Table};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Most characters of a name and of all parameters in the table.
const LONGEST_NAME: usize = 40;
const LONGEST_PARAMETERS: usize = 60;
/// Most types and weights that are counted one by one.
const MOST_LISTED: usize = 12;

/// Writes inputs and outputs, the table of operators, the totals, and what is wrong.
pub(super) fn write(
    screen: &mut Screen,
    title: &str,
    archive: Option<&Path>,
    survey: &Survey<'_>,
) -> io::Result<()> {
    writeln!(screen, "{}", screen.paint(Style::Strong, title))?;
    ports(screen, "input ", &survey.inputs)?;
    ports(screen, "output", &survey.outputs)?;
    writeln!(screen)?;
    if survey.layers().next().is_some() {
        operators(screen, survey)?;
        writeln!(screen)?;
    }
    totals(screen, archive, survey)?;
    problems(screen, archive, survey)
}

fn ports(screen: &mut Screen, what: &str, ports: &[Known]) -> io::Result<()> {
    for Known { name, meta } in ports {
        let meta = meta.as_ref().map_or_else(|| "unknown shape".to_owned(), ToString::to_string);
        writeln!(screen, "{what}  {name}  {meta}")?;
    }
    Ok(())
}

fn operators(screen: &mut Screen, survey: &Survey<'_>) -> io::Result<()> {
    let mut table = Table::new(&[
        ("operator", Align::Left),
        ("type", Align::Left),
        ("output", Align::Left),
        ("parameters", Align::Left),
        ("weights", Align::Right),
        ("MACs", Align::Right),
        ("", Align::Left),
    ]);
    for row in survey.layers() {
        let outputs = row.operator.outputs().iter().filter_map(|&id| survey.value(id));
        let outputs: Vec<String> = outputs.map(ToString::to_string).collect();
        table.row([
            elide(row.operator.name(), LONGEST_NAME),
            row.operator.op_type().to_owned(),
            elide(&outputs.join(", "), LONGEST_PARAMETERS),
            elide(&parameters(row.operator).join(", "), LONGEST_PARAMETERS),
            if row.weight_bytes() > 0 { numbers::bytes(row.weight_bytes()) } else { String::new() },
            macs(row),
            mark(row).to_owned(),
        ]);
    }
    table.write(screen)
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
        State::Unsupported(_) => "not supported",
    }
}

fn totals(screen: &mut Screen, archive: Option<&Path>, survey: &Survey<'_>) -> io::Result<()> {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    survey.layers().for_each(|row| *types.entry(row.operator.op_type()).or_default() += 1);
    let mut counted: Vec<(&str, usize)> = types.into_iter().collect();
    counted.sort_by_key(|&(op_type, count)| (std::cmp::Reverse(count), op_type));
    let more = counted.len().saturating_sub(MOST_LISTED);
    let mut listed: Vec<String> =
        counted.iter().take(MOST_LISTED).map(|(op_type, count)| format!("{count} {op_type}")).collect();
    if more > 0 {
        listed.push(format!("{more} more types"));
    }
    let colon = if listed.is_empty() { "" } else { ": " };
    writeln!(screen, "operators  {}{colon}{}", survey.layers().count(), listed.join(", "))?;
    let weights = survey.weight_bytes();
    let by_type: Vec<String> =
        weights.iter().map(|(dtype, &bytes)| format!("{} of {dtype}", numbers::bytes(bytes))).collect();
    let place = match archive {
        _ if weights.is_empty() => "none".to_owned(),
        Some(archive) => format!("{} in {}", by_type.join(", "), archive.display()),
        None => format!("{}, but there is no archive", by_type.join(", ")),
    };
    writeln!(screen, "weights    {place}")?;
    let (macs, unknown) = survey.macs();
    let ones = if survey.has_unknown_sizes { " with 1 for each unknown size" } else { "" };
    let without = match unknown {
        0 => String::new(),
        count => format!(", without {}", numbers::plural(count, "operator")),
    };
    writeln!(screen, "MACs       {}{ones}{without}", numbers::count(macs))
}

fn problems(screen: &mut Screen, archive: Option<&Path>, survey: &Survey<'_>) -> io::Result<()> {
    let unsupported = survey.unsupported();
    for (op_type, count) in &unsupported {
        let nearest = survey.rows.iter().find_map(|row| match &row.state {
            State::Unsupported(nearest) if row.operator.op_type() == *op_type => nearest.clone(),
            _ => None,
        });
        let nearest =
            nearest.map(|nearest| format!("; the nearest known type is {nearest}")).unwrap_or_default();
        let what = screen.paint(Style::Bad, "not supported");
        writeln!(screen, "{what}: {op_type}, {}{nearest}", numbers::plural(*count, "operator"))?;
    }
    if !unsupported.is_empty() {
        writeln!(screen, "  hint: load the library of a plugin with --plugin")?;
    }
    for row in &survey.rows {
        let (State::Underived(why) | State::Refused(why)) = &row.state else {
            continue;
        };
        let (what, operator) = (screen.paint(Style::Bad, mark(row)), row.operator);
        let line = operator.line().map(|line| format!("line {line}, ")).unwrap_or_default();
        writeln!(screen, "{what}: {line}{} `{}`: {why}", operator.op_type(), operator.name())?;
    }
    if archive.is_some() {
        absent_weights(screen, survey)?;
    }
    Ok(())
}

fn absent_weights(screen: &mut Screen, survey: &Survey<'_>) -> io::Result<()> {
    let absent = survey.graph.check_weights();
    for problem in absent.iter().take(MOST_LISTED) {
        writeln!(screen, "{}: {problem}", screen.paint(Style::Bad, "absent weight"))?;
    }
    match absent.len().saturating_sub(MOST_LISTED) {
        0 => Ok(()),
        more => writeln!(screen, "{}: {more} more", screen.paint(Style::Bad, "absent weights")),
    }
}
