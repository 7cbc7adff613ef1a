//! `ixion operators`: listing the supported operators.

use super::plugins::PluginArgs;
use super::{Exit, Failure, Style, Terminal, list};
use clap::Args;
use ixion::op::{CpuLayer, Creator, Field, Registry};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

const HELP: &str = "\
Exit codes:
  0  the list was printed
  1  it could not be written
  2  a usage error

Examples:
  ixion operators
  ixion operators conv
  ixion operators --json | jq -r '.operators[].type'
  ixion operators --markdown > operators.md";

/// List the supported operators, with their parameters and weights
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct OperatorsArgs {
    /// List only types that contain TEXT, ignoring case
    #[arg(value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    /// Print a Markdown table with one line for each layer
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// A layer and all operator types that it runs.
struct Entry<'a> {
    types: Vec<&'a str>,
    creator: &'a Creator<dyn CpuLayer>,
}

impl OperatorsArgs {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let registry = self.plugins.registry()?;
        let entries = entries(&registry, &self.filter);
        match () {
            () if self.json => terminal.json(&as_json(&registry, &self.filter))?,
            () if self.markdown => write_markdown(terminal, &entries)?,
            () => write_list(terminal, &entries)?,
        }
        Ok(Exit::Fine)
    }
}

/// The layers with types that contain `filter`, sorted by their first type. Types with the same documentation and fields are
/// taken for one layer.
fn entries<'a>(registry: &'a Registry, filter: &str) -> Vec<Entry<'a>> {
    let mut grouped: BTreeMap<(&str, String), Entry<'a>> = BTreeMap::new();
    for (op_type, creator) in matching(registry, filter) {
        let key = (creator.doc.as_str(), format!("{:?}", creator.fields));
        let entry = grouped.entry(key).or_insert_with(|| Entry { types: Vec::new(), creator });
        entry.types.push(op_type);
    }
    let mut entries: Vec<Entry<'a>> = grouped.into_values().collect();
    entries.sort_by(|a, b| a.types.cmp(&b.types));
    entries
}

fn matching<'a>(
    registry: &'a Registry,
    filter: &str,
) -> impl Iterator<Item = (&'a str, &'a Creator<dyn CpuLayer>)> {
    let filter = filter.to_lowercase();
    registry.iter().filter(move |(op_type, _)| op_type.to_lowercase().contains(&filter))
}

fn write_list(terminal: &mut Terminal, entries: &[Entry<'_>]) -> io::Result<()> {
    for entry in entries {
        let types = terminal.paint(Style::Strong, entry.types.join(", "));
        writeln!(terminal, "{types}")?;
        writeln!(terminal, "  {}", first_sentence(&entry.creator.doc))?;
        let widest = entry.creator.fields.iter().map(|field| field.key.len()).max().unwrap_or(0);
        for field in &entry.creator.fields {
            let facts = terminal.paint(Style::Faint, facts(field));
            writeln!(terminal, "    {:widest$}  {} ({facts})", field.key, one_line(field.doc))?;
        }
    }
    let types: usize = entries.iter().map(|entry| entry.types.len()).sum();
    writeln!(terminal, "{types} types of operators, {} layers", entries.len())
}

fn write_markdown(terminal: &mut Terminal, entries: &[Entry<'_>]) -> io::Result<()> {
    writeln!(terminal, "| Operator | What it does | Parameters and weights |\n|---|---|---|")?;
    for entry in entries {
        let types = entry.types.iter().map(|op_type| format!("`{op_type}`"));
        let fields = entry.creator.fields.iter().map(|field| match field.default_in_file() {
            Some(default) => format!("`{}={default}`", field.key),
            None => format!("`{}`", field.key),
        });
        let doc = first_sentence(&entry.creator.doc).replace('|', "\\|");
        writeln!(terminal, "| {} | {doc} | {} |", list(types), list(fields))?;
    }
    Ok(())
}

fn as_json(registry: &Registry, filter: &str) -> Value {
    let operators = matching(registry, filter).map(|(op_type, creator)| {
        let fields = creator.fields.iter().map(|field| {
            json!({
                "key": field.key,
                "kind": field.kind,
                "default": field.default_in_file(),
                "doc": one_line(field.doc),
            })
        });
        json!({
            "type": op_type,
            "doc": first_sentence(&creator.doc),
            "namespace": creator.namespace,
            "version": creator.version,
            "fields": fields.collect::<Vec<_>>(),
        })
    });
    json!({ "version": 1, "operators": operators.collect::<Vec<_>>() })
}

/// The kind of a field, and its default.
fn facts(field: &Field) -> String {
    match field.default_in_file() {
        Some(default) => format!("{}; default {default}", field.kind),
        None => format!("{}; required", field.kind),
    }
}

/// The first sentence of a text, in one line.
fn first_sentence(doc: &str) -> String {
    let text = one_line(doc);
    let is_end = |&(end, _): &(usize, &str)| !text.get(..end).unwrap_or_default().ends_with("et al");
    match text.match_indices(". ").find(is_end) {
        Some((end, _)) => text.get(..=end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_one_layer_are_listed_together() {
        let registry = Registry::default();
        let relu = entries(&registry, "F.RELU");
        assert!(relu.iter().any(|entry| entry.types.contains(&"F.relu")), "the case does not matter");
        let all = entries(&registry, "");
        let types: usize = all.iter().map(|entry| entry.types.len()).sum();
        assert_eq!(types, registry.iter().count());
        assert!(all.len() < types);
    }

    #[test]
    fn a_sentence_ends_with_a_full_stop_and_a_space() {
        assert_eq!(first_sentence(" `torch.nn.ReLU`: max(x, 0).\n More.\n"), "`torch.nn.ReLU`: max(x, 0).");
        assert_eq!(first_sentence("x where x > 0.5"), "x where x > 0.5");
        assert_eq!(first_sentence("SELU (Klambauer et al. 2017). More."), "SELU (Klambauer et al. 2017).");
    }
}
