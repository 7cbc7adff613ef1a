//! `ixion calibrate`: what whole numbers of 8 bits are to stand for.

use super::failure::{Exit, Failure};
use super::files;
use super::limits::LimitArgs;
use super::model::ModelArgs;
use super::numbers;
use super::plan::planned::passes;
use super::plan_file::PlanFileArgs;
use super::plugins::PluginArgs;
use super::progress::{Bar, Spinner};
use super::run::files::{Source, sources};
use super::run::inputs;
use super::runner::run_failure;
use super::screen::Screen;
use super::table::{Align, Table};
use clap::{Args, ValueEnum};
use ixion::Limits;
use ixion::engine::calibration::{Loss, Operand};
use ixion::engine::{Builder, Calibration, EngineError, Method, Scales};
use ixion::tensor::Tensor;
use ixion::vision::ModelCard;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const HELP: &str = "\
The model runs in f32 on every file of DIR: pictures become its input as model.toml says, an .npy or .csv goes to its only \
input, an .npz has an array for each. Take inputs like those that the model is for, a hundred or so, and none of those that \
it is measured on.

minmax keeps the largest number of each tensor. entropy cuts off what is rare and large, where the rest is told apart better \
for it. Each convolution and linear layer then runs alone in int8 on what it read in f32: one whose output has less than \
--least decibels of signal to noise stays in f32.

Exit codes:
  0  the scales were written
  1  the model failed on the way, or the scales could not be written
  2  model, model.toml or inputs cannot be used; or a usage error

Examples:
  ixion calibrate digits.pnnx.param --inputs pictures/ -o digits.scales.json
  ixion run digits.pnnx.param --precision int8 --scales digits.scales.json --input 7.png
  ixion build digits.pnnx.param --precision int8 --scales digits.scales.json -o digits.plan";

/// Finds what int8 is to stand for, by running a model on inputs
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CalibrateArgs {
    /// The model's text, such as model.pnnx.param
    #[arg(value_name = "PARAM")]
    param: PathBuf,
    /// The archive of weights [default: the file beside PARAM that ends in .bin]
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    /// A folder with pictures, .npy, .npz or .csv files, each of them one run
    #[arg(short, long, value_name = "DIR")]
    inputs: PathBuf,
    /// Where the scales go
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How the largest number that can be told of a tensor is chosen
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = How::Entropy)]
    method: How,
    /// Takes so many of the files, evenly out of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Layers of fewer decibels of signal to noise stay in f32
    #[arg(long, value_name = "DB", default_value_t = 20.0, value_parser = decibels)]
    least: f64,
    /// Leaves out passes by name, as the build will; `all` leaves the graph as it is
    #[arg(long, alias = "no-pass", value_name = "PASS", num_args = 1..)]
    without: Vec<String>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// A number that others can be less than.
fn decibels(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| !number.is_nan());
    number.ok_or_else(|| format!("`{text}` is no number of decibels, such as 20"))
}

/// How thresholds are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// The largest magnitude that was seen
    Minmax,
    /// What loses the least of the numbers' distribution
    Entropy,
}

impl From<How> for Method {
    fn from(how: How) -> Self {
        match how {
            How::Minmax => Self::MinMax,
            How::Entropy => Self::Entropy,
        }
    }
}

/// All that was found.
struct Found<'a> {
    operands: Vec<Operand>,
    losses: Vec<&'a Loss>,
    scales: &'a Scales,
    runs: usize,
}

impl CalibrateArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let (limits, model) = (limits.start(), self.model());
        if model.is_plan() {
            let message = format!("{} is a plan, whose formats are settled", self.param.display());
            return Err(Failure::unusable(message).advise("calibrate the model that it was built from"));
        }
        files::check_new_file(&self.output)?;
        let (card, files) = (model.card(&limits)?, self.files()?);
        let kept = model.files().into_iter().chain(files.iter().flatten().map(|file| file.path.clone()));
        files::check_kept(&self.output, kept.collect::<Vec<_>>().iter().map(PathBuf::as_path))?;
        let mut calibration = self.start(&model, &limits)?;
        let (runs, method) = (files.len(), Method::from(self.method));
        let mut rounds = Rounds { files, card, limits, bar: Bar::start(runs * self.rounds()) };
        rounds.run(&mut calibration, Calibration::see_range)?;
        if method == Method::Entropy {
            rounds.run(&mut calibration, Calibration::see_magnitudes)?;
        }
        let scales = calibration.scales(method);
        rounds.run(&mut calibration, |calibration, inputs| calibration.see_loss(inputs, &scales))?;
        drop(rounds);
        let scales = calibration.keep_below(scales, self.least);
        scales.save(&self.output).map_err(Failure::failed)?;
        let (operands, losses) = (calibration.operands(method), calibration.losses());
        let found = Found { operands, losses, scales: &scales, runs };
        match self.json {
            true => screen.json(&found.json())?,
            false => found.print(&self.output, screen)?,
        }
        Ok(Exit::Fine)
    }

    fn rounds(&self) -> usize {
        if self.method == How::Entropy { 3 } else { 2 }
    }

    fn model(&self) -> ModelArgs {
        let (param, bin, plugins) = (self.param.clone(), self.bin.clone(), self.plugins.clone());
        ModelArgs { param, bin, plan: PlanFileArgs::default(), plugins }
    }

    fn start(&self, model: &ModelArgs, limits: &Limits) -> Result<Calibration, Failure> {
        let _spinner = Spinner::start(format!("reading {}", self.param.display()));
        let graph = model.runtime(limits.clone())?;
        let registry = graph.registry().clone();
        let builder = Builder::from_graph(graph).with_limits(limits.clone()).with_registry(registry);
        let builder = builder.with_passes(passes(&self.without)?);
        Calibration::new(builder).map_err(|error| model.unbuilt(error))
    }

    /// The files of the folder that can be inputs, in the order of their names, or some of them.
    fn files(&self) -> Result<Vec<Vec<Source>>, Failure> {
        let folder = self.inputs.display();
        let unreadable = |error: io::Error| {
            Failure::unusable(format!("{folder}: cannot read the folder: {error}"))
                .advise("--inputs names a folder with pictures, .npy or .npz files")
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.inputs).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_file() && KINDS.iter().any(|kind| files::has_extension(&path, kind)) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Failure::unusable(format!(
                "{folder}: there is no .{} in this folder",
                KINDS.join(", .")
            )));
        }
        paths.sort();
        let most = self.max.map_or(paths.len(), |max| paths.len().min(max as usize));
        let chosen = (0..most).filter_map(|at| paths.get(at * paths.len() / most));
        chosen.map(|path| sources(&[path.display().to_string()])).collect()
    }
}

/// The ends of the names of files that can be inputs.
const KINDS: [&str; 6] = ["png", "jpg", "jpeg", "npy", "npz", "csv"];

/// Runs over all files.
struct Rounds {
    files: Vec<Vec<Source>>,
    card: Option<ModelCard>,
    limits: Limits,
    bar: Bar,
}

impl Rounds {
    fn run(
        &mut self,
        calibration: &mut Calibration,
        mut see: impl FnMut(&mut Calibration, Vec<Tensor>) -> Result<(), EngineError>,
    ) -> Result<(), Failure> {
        for file in &self.files {
            let (inputs, _) =
                inputs::gather(file, calibration.graph(), self.card.as_ref(), None, &self.limits)?;
            let inputs = inputs.into_iter().map(|(_, tensor)| tensor).collect();
            see(calibration, inputs).map_err(run_failure)?;
            self.bar.step();
        }
        Ok(())
    }
}

impl Found<'_> {
    fn print(&self, output: &Path, screen: &mut Screen) -> io::Result<()> {
        let right = Align::Right;
        let columns = [
            ("operand", Align::Left),
            ("least", right),
            ("largest", right),
            ("threshold", right),
            ("cut off", right),
        ];
        let mut table = Table::new(&columns);
        for Operand { name, range, threshold, clipped } in &self.operands {
            let number = |x: f32| numbers::small(x.into());
            let threshold = threshold.map_or_else(|| "none".to_owned(), number);
            let clipped = if *clipped > 0.0 { numbers::percent(*clipped) } else { String::new() };
            table.row([name.clone(), number(range.least), number(range.largest), threshold, clipped]);
        }
        table.write(screen)?;
        writeln!(screen)?;
        let columns =
            [("operator", Align::Left), ("type", Align::Left), ("signal to noise", right), ("", Align::Left)];
        let mut table = Table::new(&columns);
        for loss in &self.losses {
            let kept = if self.scales.keeps(&loss.operator) { "stays in f32" } else { "" };
            let decibels = format!("{:.1} dB", loss.decibels());
            table.row([loss.operator.clone(), loss.op_type.clone(), decibels, kept.to_owned()]);
        }
        table.write(screen)?;
        let (scales, kept) = (self.scales.len(), self.scales.kept().count());
        writeln!(
            screen,
            "\n{}: {} from {}; {} in f32",
            output.display(),
            numbers::plural(scales, "scale"),
            numbers::plural(self.runs, "run"),
            numbers::plural(kept, "layer"),
        )
    }

    /// Everything in one object; `version` is counted up when the meaning of a field changes.
    fn json(&self) -> Value {
        let operand = |it: &Operand| {
            json!({
                "name": it.name,
                "least": it.range.least,
                "largest": it.range.largest,
                "threshold": it.threshold,
                "scale": self.scales.get(&it.name),
                "clipped": it.clipped,
            })
        };
        let layer = |it: &&Loss| {
            let decibels = Some(it.decibels()).filter(|decibels| decibels.is_finite());
            let kept = self.scales.keeps(&it.operator);
            json!({ "name": it.operator, "type": it.op_type, "decibels": decibels, "stays_f32": kept })
        };
        json!({
            "version": 1,
            "method": self.scales.method(),
            "runs": self.runs,
            "operands": self.operands.iter().map(operand).collect::<Vec<_>>(),
            "layers": self.losses.iter().map(layer).collect::<Vec<_>>(),
        })
    }
}
