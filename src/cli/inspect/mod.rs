//! `ixion inspect`: showing the contents of a model.

mod json;
mod parameters;
mod picture;
mod report;
mod survey;
mod value;

use super::model::ModelArgs;
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files, numbers, warnings};
use clap::Args;
use ixion::graph::{Outline, RuntimeGraph, is_onnx, restore_losses};
use ixion::onnx::Metadata;
use ixion::op::Registry;
use ixion::pnnx::Graph;
use ixion::shape::{Contradiction, contradictions_in};
use std::io::Write;
use std::path::PathBuf;
use survey::Survey;

const HELP: &str = "\
MACs are the multiply-accumulate operations of one run; a size that is unknown in the file (?) counts as 1.

Exit codes:
  0  the model was read; unsupported operators and missing weights are reported, but are not failures
  1  the result could not be written
  2  the model cannot be read, or a usage error

Examples:
  ixion inspect model.pnnx.param
  ixion inspect model.pnnx.param --svg model.svg
  ixion inspect model.pnnx.param --dot | dot -Tpdf -o model.pdf
  ixion inspect model.pnnx.param --json | jq .totals";

/// Show the operators, shapes, weights and cost of a model, and which operators cannot run
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    /// Print the graph in Graphviz format
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    /// Write the graph as SVG to FILE; `-` is the standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "dot"])]
    svg: Option<PathBuf>,
}

impl InspectArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (param, archive) = (&self.model.param, self.model.archive());
        let spinner = Spinner::start(format!("reading {}", param.display()));
        let mut graph = self.model.load(&limits.start())?;
        let metadata = match is_onnx(param) {
            true => Some(Metadata::read(param, &limits.start()).map_err(Failure::unusable)?),
            false => None,
        };
        let registry = self.model.plugins.registry()?;
        registry.resolve(&mut graph).map_err(Failure::unusable)?;
        restore_losses(&mut graph).map_err(Failure::unusable)?;
        let outline = self.outline(&graph, &registry, limits)?;
        let survey = Survey::new(&graph, &outline);
        let contradictions = self.contradictions(&graph, &registry, limits);
        drop(spinner);
        warnings::print(&contradictions);
        let spinner = Spinner::start(format!("drawing {}", param.display()));
        let title = param.file_name().unwrap_or(param.as_os_str()).to_string_lossy();
        let drawing = || picture::drawing(&title, &survey);
        match &self.svg {
            Some(path) if path.as_os_str() == "-" => write!(terminal, "{}", drawing().to_svg())?,
            Some(path) => {
                files::check_kept(path, self.model.files())?;
                files::write_text(path, &drawing().to_svg())?;
                drop(spinner);
                let operators = numbers::plural(graph.operator_count(), "operator");
                writeln!(terminal, "{}: {operators}", path.display())?;
            }
            None if self.dot => write!(terminal, "{}", drawing().to_dot())?,
            None if self.json => {
                terminal.json(&json::json(
                    param,
                    archive.as_deref(),
                    metadata.as_ref(),
                    &survey,
                    &contradictions,
                ))?;
            }
            None => {
                drop(spinner);
                report::write(terminal, &title, archive.as_deref(), metadata.as_ref(), &survey)?;
            }
        }
        Ok(Exit::Fine)
    }

    /// The graph that would run, as far as it can be connected.
    fn outline(&self, graph: &Graph, registry: &Registry, limits: &LimitArgs) -> Result<Outline, Failure> {
        let graph = RuntimeGraph::from_pnnx(graph.clone()).with_registry(registry.clone());
        graph.with_limits(limits.start()).outline().map_err(|error| self.model.unusable(error))
    }

    /// The operators of the file that contradict what it records; unknown for a plan, which no longer has these operators.
    fn contradictions(&self, graph: &Graph, registry: &Registry, limits: &LimitArgs) -> Vec<Contradiction> {
        if self.model.is_plan() {
            return Vec::new();
        }
        let is_complete = graph.check_weights().is_empty();
        let graph = RuntimeGraph::from_pnnx(graph.clone()).with_registry(registry.clone());
        let graph = graph.with_limits(limits.start());
        // Without the archive, only sizes that are stored as constants are unknown.
        let graph = if is_complete { graph } else { graph.with_random_weights(0) };
        let mut found = contradictions_in(graph);
        found.iter_mut().for_each(|found| found.place.file = Some(self.model.param.clone()));
        found
    }
}
