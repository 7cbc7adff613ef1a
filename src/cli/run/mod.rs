//! `ixion run`: from files to a result.

mod arguments;
mod classes;
mod drawings;
pub(super) mod files;
mod findings;
pub(super) mod inputs;
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
use super::runner::Runner;
use super::screen::Screen;
use drawings::Drawings;
use ixion::Limits;
use ixion::vision::ModelCard;
use report::Report;

impl RunArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let limits = limits.start();
        let card = self.card(&limits)?;
        let sources = files::sources(&self.inputs)?;
        let mut runner = self.built(&limits)?;
        let mut report = Report::new(self, card.as_ref(), &sources);
        match inputs::port_of_pictures(&sources, runner.graph()) {
            Some(port) => pictures::run(&port, &sources, &mut runner, &limits, &mut report, screen)?,
            None => self.run_once(&sources, &mut runner, card.as_ref(), &limits, &mut report, screen)?,
        }
        report.finish(screen)
    }

    fn built(&self, limits: &Limits) -> Result<Runner, Failure> {
        self.model.built(&self.engine, self.random_weights, limits)
    }

    /// Runs on one set of inputs.
    fn run_once(
        &self,
        sources: &[files::Source],
        runner: &mut Runner,
        card: Option<&ModelCard>,
        limits: &Limits,
        report: &mut Report<'_>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let (inputs, shots) = inputs::gather(sources, runner.graph(), card, self.random_weights, limits)?;
        report.check_places(if shots.is_empty() { &[] } else { sources })?;
        let round = {
            let _spinner = Spinner::start("running");
            round::execute(runner, inputs, self.trace)?
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
