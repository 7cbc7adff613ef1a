//! `ixion run`: running a model on files.

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
mod port;
mod report;
mod round;
mod trace;

pub(super) use arguments::RunArgs;

use super::failure::{Exit, Failure};
use super::limits::LimitArgs;
use super::progress::Spinner;
use super::runner::Runner;
use super::terminal::Terminal;
use ixion::Limits;
use ixion::vision::ModelCard;
use report::Report;

impl RunArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let limits = limits.start();
        let card = self.card(&limits)?;
        let sources = files::sources(&self.inputs)?;
        let mut runner = self.built(&limits)?;
        let mut report = Report::new(self, card.as_ref(), &sources);
        match inputs::port_of_pictures(&sources, runner.graph()) {
            Some(port) => pictures::run(&port, &sources, &mut runner, &limits, &mut report, terminal)?,
            None => self.run_once(&sources, &mut runner, card.as_ref(), &limits, &mut report, terminal)?,
        }
        report.finish(terminal)
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
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let (inputs, shots) = inputs::gather(sources, runner.graph(), card, self.random_weights, limits)?;
        report.check_places(if shots.is_empty() { &[] } else { sources })?;
        let round = {
            let _spinner = Spinner::start("running");
            round::execute(runner, inputs, self.trace)?
        };
        report.add(round, &shots, terminal)
    }
}
