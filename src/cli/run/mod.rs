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
pub(super) mod port;
mod report;
mod round;
mod trace;

pub(super) use arguments::RunArgs;

use super::{Exit, Failure, LimitArgs, Spinner, Terminal};
use report::Report;

impl RunArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let limits = limits.start();
        let card = self.card(&limits)?;
        let sources = files::sources(&self.inputs)?;
        let mut runner = self.model.built(&self.engine, self.random_weights, &limits)?;
        let mut report = Report::new(self, card.as_ref(), &sources);
        report.warnings = runner.warnings().to_vec();
        match inputs::port_of_pictures(&sources, runner.graph()) {
            Some(port) => pictures::run(&port, &sources, &mut runner, &limits, &mut report, terminal)?,
            None => {
                let (graph, seed) = (runner.graph(), self.random_weights);
                let (inputs, shots) = inputs::gather(&sources, graph, card.as_ref(), seed, &limits)?;
                report.check_places(if shots.is_empty() { &[] } else { &sources[..] })?;
                let spinner = Spinner::start("running");
                let round = round::execute(&mut runner, inputs, self.trace)?;
                drop(spinner);
                report.add(round, &shots, terminal)?;
            }
        }
        report.finish(terminal)
    }
}
