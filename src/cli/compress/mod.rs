//! `ixion compress`: large linear layers become two thin ones.

mod report;
mod thin;

use super::failure::{Exit, Failure};
use super::files;
use super::limits::LimitArgs;
use super::measure::{Subject, SubjectArgs, percentile};
use super::progress::Spinner;
use super::runner::{Runner, run_failure};
use super::screen::Screen;
use clap::Args;
use ixion::graph::{RuntimeGraph, archive_beside};
use ixion::tensor::{DType, Tensor};
use report::{Agreement, Findings};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thin::{Layer, Wanted};

const HELP: &str = "\
The weights of a linear layer (nn.Linear, F.linear with constant weights) are a matrix. Its singular values, falling, say how \
much each direction counts; what is kept of them makes two thin layers in a row, of the same element type (f32, f64, f16 or bf16). \
A layer is left as it is where that would not make it smaller.

Shown are, for each layer, its rank, its weights before and after, and the share of its weights that is lost (Frobenius norm); \
for the model, weights and times of one run before and after, and how far the outputs move on the inputs: those of --input, or \
in_0.npy, … beside the model, else random numbers. Without -o nothing is written.

Exit codes:
  0  at least one layer became smaller
  1  none did; or a file could not be written, or the model failed on the way
  2  the model cannot be used, lacks weights or has no linear layers; or a usage error

Examples:
  ixion compress vit.pnnx.param --error 0.1
  ixion compress digits.pnnx.param --rank 6 -o digits6.pnnx.param
  ixion compress bert.pnnx.param --rank 64 --json | jq .outputs.error";

/// Replaces large linear layers by two thin ones
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[group(id = "kept", required = true, multiple = false, args = ["rank", "error"])]
pub(crate) struct CompressArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Keeps so many singular values of each layer
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    rank: Option<u32>,
    /// Keeps as many as leave this relative error of the weights, such as 0.1
    #[arg(long, value_name = "E", value_parser = parse_error)]
    error: Option<f64>,
    /// Writes the smaller model here, and its archive beside it
    #[arg(short, long, value_name = "OUT.param")]
    output: Option<PathBuf>,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
}

fn parse_error(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "give a number between 0 and 1, such as 0.1".to_owned())
}

/// How long each of the two models is timed.
const TIME: Duration = Duration::from_millis(500);

impl CompressArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        if let Some(output) = &self.output {
            let read = self.subject.model.files();
            for file in [output, &archive_beside(output)] {
                files::check_new_file(file)?;
                files::check_kept(file, read.iter().map(PathBuf::as_path))?;
            }
        }
        let mut graph = self.subject.model.load(&limits.start())?;
        let absent: Vec<String> = graph.check_weights().iter().map(ToString::to_string).collect();
        if !absent.is_empty() {
            return Err(Failure::unusable(absent.join("\n  ")));
        }
        let spinner = Spinner::start("taking weights apart");
        let layers = thin::thin(&mut graph, self.wanted(), &limits.start()).map_err(Failure::unusable)?;
        drop(spinner);
        if layers.is_empty() {
            let file = self.subject.model.param.display();
            let what =
                format!("{file}: the model has no linear layers (nn.Linear, F.linear) with constant weights");
            return Err(Failure::unusable(what));
        }
        let mut subject = self.subject.prepare(limits)?;
        let smaller = RuntimeGraph::from_pnnx(graph.clone()).with_limits(limits.start());
        let mut smaller = self.subject.engine.build(smaller, &limits.start()).map_err(Failure::failed)?;
        let findings = self.measure(&mut subject, &mut smaller, &layers)?;
        let is_smaller = layers.iter().any(Layer::is_replaced);
        if let Some(output) = self.output.as_ref().filter(|_| is_smaller) {
            graph.save(output, archive_beside(output)).map_err(Failure::failed)?;
        }
        let written = self.output.as_deref().filter(|_| is_smaller);
        match self.json {
            true => screen.json(&report::json(&subject, &findings, written))?,
            false => report::show(screen, &subject, &findings, written)?,
        }
        Ok(if is_smaller { Exit::Fine } else { Exit::FellShort })
    }

    fn wanted(&self) -> Wanted {
        match (self.rank, self.error) {
            (Some(rank), _) => Wanted::Rank(rank as usize),
            (None, error) => Wanted::Error(error.unwrap_or(0.0)),
        }
    }

    fn measure<'a>(
        &self,
        subject: &mut Subject<'_>,
        smaller: &mut Runner,
        layers: &'a [Layer],
    ) -> Result<Findings<'a>, Failure> {
        let inputs = subject.inputs.clone();
        let before = subject.runner.run(&inputs, false).map_err(run_failure)?.outputs;
        let after = smaller.run(&inputs, false).map_err(run_failure)?.outputs;
        let pairs = before.iter().zip(&after).map(|((_, before), (_, after))| (before, after));
        Ok(Findings {
            layers,
            bytes: [subject.runner.weight_bytes(), smaller.weight_bytes()],
            times: [median(&mut subject.runner, &inputs)?, median(smaller, &inputs)?],
            agreement: Agreement::of(pairs).map_err(Failure::failed)?,
        })
    }
}

/// The time that half of some runs take.
fn median(runner: &mut Runner, inputs: &[Tensor]) -> Result<Duration, Failure> {
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 3 || start.elapsed() < TIME {
        times.push(runner.time(inputs).map_err(run_failure)?);
    }
    times.sort_unstable();
    Ok(percentile(&times, 0.5))
}
