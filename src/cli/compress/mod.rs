//! `ixion compress`: replacing large linear layers by two thin ones.

mod report;
mod thin;

use super::measure::{Subject, SubjectArgs, percentile};
use super::runner::{Runner, run_failure};
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files};
use clap::Args;
use ixion::graph::{RuntimeGraph, default_bin_path};
use ixion::tensor::Tensor;
use report::{Agreement, Findings};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thin::{Layer, Wanted};

const HELP: &str = "\
The weight of a linear layer (nn.Linear, F.linear with constant weights) is a matrix. Its largest singular values are kept, \
which makes two thin layers in sequence, of the same element type (f32, f64, f16 or bf16). A layer is left as it is if that \
would not make it smaller.

For each layer, the table shows its rank, its number of weights before and after, and the relative error of its weights \
(Frobenius norm). For the model, it shows weights and times of one run before and after, and how much the outputs change on \
the inputs: those of --input, or in_0.npy, … next to the model, else random numbers. Without -o, nothing is written.

Exit codes:
  0  at least one layer became smaller
  1  no layer became smaller, a run failed, or a file could not be written
  2  the model cannot be used, lacks weights or has no linear layers, or a usage error

Examples:
  ixion compress vit.pnnx.param --error 0.1
  ixion compress digits.pnnx.param --rank 6 -o digits6.pnnx.param
  ixion compress bert.pnnx.param --rank 64 --json | jq .outputs.error";

/// Replace large linear layers by two thin ones
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[group(id = "kept", required = true, multiple = false, args = ["rank", "error"])]
pub(crate) struct CompressArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Keep the K largest singular values of each layer
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    rank: Option<u32>,
    /// Keep as few as possible with at most this relative error of the weights, such as 0.1
    #[arg(long, value_name = "E", value_parser = parse_error)]
    error: Option<f64>,
    /// Write the smaller model to OUT.param, and its archive next to it
    #[arg(short, long, value_name = "OUT.param")]
    output: Option<PathBuf>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_error(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "expected a number between 0 and 1, such as 0.1".to_owned())
}

/// The time for which each of the two models is measured.
const TIME: Duration = Duration::from_millis(500);

impl CompressArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if let Some(output) = &self.output {
            let read = self.subject.model.files();
            for file in [output, &default_bin_path(output)] {
                files::check_new_file(file)?;
                files::check_kept(file, &read)?;
            }
        }
        let mut graph = self.subject.model.load(&limits.start())?;
        let absent: Vec<String> = graph.check_weights().iter().map(ToString::to_string).collect();
        if !absent.is_empty() {
            return Err(Failure::unusable(absent.join("\n  ")));
        }
        let spinner = Spinner::start("factorising weights");
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
            graph.save(output, default_bin_path(output)).map_err(Failure::failed)?;
        }
        let written = self.output.as_deref().filter(|_| is_smaller);
        match self.json {
            true => terminal.json(&report::json(&subject, &findings, written))?,
            false => report::show(terminal, &subject, &findings, written)?,
        }
        Ok(if is_smaller { Exit::Fine } else { Exit::Failed })
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

/// The median time of at least 3 runs, measured for at least [`TIME`].
fn median(runner: &mut Runner, inputs: &[Tensor]) -> Result<Duration, Failure> {
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 3 || start.elapsed() < TIME {
        times.push(runner.time(inputs).map_err(run_failure)?);
    }
    times.sort_unstable();
    Ok(percentile(&times, 0.5))
}
