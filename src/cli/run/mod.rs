//! `ixion run`: from files to a result.

mod arguments;
mod classes;
mod drawings;
mod files;
mod findings;
mod inputs;
mod json;
mod output;
mod picture;
mod pictures;
mod report;
mod round;
mod trace;

pub(super) use arguments::RunArgs;

use super::failure::{Exit, Failure};
use super::limits::LimitArgs;
use super::progress::Spinner;
use super::screen::Screen;
use drawings::Drawings;
use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::vision::ModelCard;
use report::Report;

impl RunArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let limits = limits.start();
        let card = self.card()?;
        let sources = files::sources(&self.inputs)?;
        let mut graph = self.built(&limits)?;
        let mut report = Report::new(self, card.as_ref(), &sources);
        match inputs::port_of_pictures(&sources, &graph) {
            Some(port) => pictures::run(&port, &sources, &mut graph, &limits, &mut report, screen)?,
            None => self.run_once(&sources, &mut graph, card.as_ref(), &limits, &mut report, screen)?,
        }
        report.finish(screen)
    }

    fn built(&self, limits: &Limits) -> Result<RuntimeGraph, Failure> {
        let _spinner = Spinner::start(format!("reading {}", self.model.param.display()));
        let mut graph = self.model.runtime(limits.clone());
        if let Some(seed) = self.random_weights {
            graph = graph.with_random_weights(seed);
        }
        graph.build().map_err(|error| self.unbuilt(error))?;
        Ok(graph)
    }

    /// The failure of a model that cannot be built. That of an operator is the model's, not the path's.
    fn unbuilt(&self, error: GraphError) -> Failure {
        match &error {
            GraphError::UnknownOperators { .. } => Failure::unusable(error).advise(
                "`ixion inspect` shows the rest of the model; `ixion operators` lists what is supported",
            ),
            GraphError::NoArchive { .. } => Failure::unusable(error)
                .advise("--bin names the archive; --random-weights 0 tries the model without"),
            _ => self.model.unusable(error),
        }
    }

    /// Runs on one set of inputs.
    fn run_once(
        &self,
        sources: &[files::Source],
        graph: &mut RuntimeGraph,
        card: Option<&ModelCard>,
        limits: &Limits,
        report: &mut Report<'_>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let (inputs, shots) = inputs::gather(sources, graph, card, self.random_weights, limits)?;
        report.check_places(if shots.is_empty() { &[] } else { sources })?;
        let round = {
            let _spinner = Spinner::start("running");
            round::execute(graph, inputs, self.trace)?
        };
        report.add(round, &shots, screen)
    }
}

/// What a run is to write besides its result.
fn places(args: &RunArgs, pictures: &[files::Source]) -> Result<Drawings, Failure> {
    let drawings = Drawings::plan(args, pictures)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    Ok(drawings)
}
