//! `ixion calibrate`: finding the scales of int8 tensors.

use super::model::{ModelArgs, OnnxArgs};
use super::plugins::PluginArgs;
use super::run::files::Source;
use super::run::inputs;
use super::runner::run_failure;
use super::{Bar, Exit, Failure, LimitArgs, Refusal, Spinner, Table, Terminal, files, numbers};
use clap::{Args, ValueEnum};
use ixion::Limits;
use ixion::engine::calibration::{Loss, Operand};
use ixion::engine::{Calibration, EngineError, Method, Scales};
use ixion::graph::RuntimeGraph;
use ixion::tensor::Tensor;
use ixion::vision::ModelCard;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const HELP: &str = "\
The model runs in f32 on every file in DIR: images are prepared as described by model.toml, an .npy or .csv file goes to the \
model's only input, an .npz file has an array for each input. Use about a hundred representative inputs, and none from the test \
set.

minmax takes the largest magnitude of each tensor as its threshold. entropy clips rare large values if that represents the \
remaining values better. Each convolution and linear layer then runs on its own in int8 on its f32 inputs. A layer whose \
output has a signal-to-noise ratio below --least decibels stays in f32.

Exit codes:
  0  the scales were written
  1  a run failed, or the scales could not be written
  2  the model, model.toml or inputs cannot be used, or a usage error

Examples:
  ixion calibrate digits.pnnx.param --inputs pictures/ -o digits.scales.json
  ixion run digits.pnnx.param --precision int8 --scales digits.scales.json --input 7.png
  ixion build digits.pnnx.param --precision int8 --scales digits.scales.json -o digits.plan";

/// Find the scales of int8 tensors by running a model on sample inputs
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CalibrateArgs {
    /// The model: a text such as model.pnnx.param, or an ONNX file
    #[arg(value_name = "PARAM")]
    param: PathBuf,
    /// The archive of weights [default: the .bin file next to PARAM]
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    #[command(flatten)]
    onnx: OnnxArgs,
    /// A folder with images, .npy, .npz or .csv files, one for each run
    #[arg(short, long, value_name = "DIR")]
    inputs: PathBuf,
    /// Write the scales to FILE
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The method to choose the clipping threshold of a tensor
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = How::Entropy)]
    method: How,
    /// Use only N of the files, evenly spaced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Keep layers with a lower signal-to-noise ratio in f32
    #[arg(long, value_name = "DB", default_value_t = 20.0, value_parser = decibels)]
    least: f64,
    /// Disable passes by name, the same as for the build; `all` disables all of them
    #[arg(long, alias = "no-pass", value_name = "PASS", num_args = 1..)]
    without: Vec<String>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// Parses a number of decibels, which may be infinite but not NaN.
fn decibels(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| !number.is_nan());
    number.ok_or_else(|| "expected a number of decibels, such as 20".to_owned())
}

/// The method to choose clipping thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// The largest magnitude seen
    Minmax,
    /// The threshold that preserves the distribution of values best
    Entropy,
}

impl How {
    fn method(self) -> Method {
        match self {
            Self::Minmax => Method::MinMax,
            Self::Entropy => Method::Entropy,
        }
    }
}

/// The result of a calibration.
struct Found<'a> {
    operands: Vec<Operand>,
    losses: Vec<&'a Loss>,
    scales: &'a Scales,
    runs: usize,
}

impl CalibrateArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let limits = limits.start();
        let model = ModelArgs::new(&self.param, self.bin.as_deref(), &self.onnx, &self.plugins);
        if model.is_plan() {
            let message = format!("{} is a plan, whose formats are fixed", self.param.display());
            return Err(Failure::unusable(message).advise("calibrate the model that it was built from"));
        }
        files::check_new_file(&self.output)?;
        let (card, files) = (model.card(&limits)?, self.files()?);
        let given = files.iter().map(|file| file.path.clone());
        files::check_kept(&self.output, model.files().into_iter().chain(given))?;
        let mut calibration = self.start(&model, &limits)?;
        let (runs, method) = (files.len(), self.method.method());
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
            true => terminal.json(&found.json())?,
            false => found.print(&self.output, terminal)?,
        }
        Ok(Exit::Fine)
    }

    fn rounds(&self) -> usize {
        if self.method == How::Entropy { 3 } else { 2 }
    }

    fn start(&self, model: &ModelArgs, limits: &Limits) -> Result<Calibration, Failure> {
        let _spinner = Spinner::start(format!("reading {}", self.param.display()));
        let builder = model.builder(&self.without, limits.clone())?;
        Calibration::new(builder).map_err(|error| model.unbuilt(error))
    }

    /// The input files in the folder, sorted by name, or `--max` of them.
    fn files(&self) -> Result<Vec<Source>, Failure> {
        let paths = samples(&self.inputs, self.max.map(|max| max as usize))?;
        paths.iter().map(|path| Source::file(path)).collect()
    }
}

/// As [`samples_in`].
fn samples(folder: &Path, max: Option<usize>) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::unusable(format!("{}: cannot read the folder: {error}", folder.display()))
            .advise("give a folder with images, .npy, .npz or .csv files")
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && KINDS.iter().any(|kind| files::has_extension(&path, kind)) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let (folder, kinds) = (folder.display(), KINDS.join(", ."));
        return Err(Failure::unusable(format!("{folder}: there is no .{kinds} in this folder")));
    }
    paths.sort();
    let count = max.map_or(paths.len(), |max| max.min(paths.len()));
    Ok((0..count).filter_map(|at| paths.get(at * paths.len() / count).cloned()).collect())
}

/// The files in a folder that can be inputs, sorted by name, or at most `max` of them, evenly spaced.
///
/// # Errors
/// Fails if the folder cannot be read or has no such file.
pub fn samples_in(folder: &Path, max: Option<usize>) -> Result<Vec<PathBuf>, Refusal> {
    Ok(samples(folder, max)?)
}

/// The inputs of a model from a file: an image, which is prepared as described by the card, or arrays.
///
/// # Errors
/// Fails if the file cannot be read, or if it does not have what the model needs.
pub fn inputs_of(
    file: &Path,
    graph: &RuntimeGraph,
    card: Option<&ModelCard>,
    limits: &Limits,
) -> Result<Vec<Tensor>, Refusal> {
    Ok(tensors(&Source::file(file)?, graph, card, limits)?)
}

fn tensors(
    file: &Source,
    graph: &RuntimeGraph,
    card: Option<&ModelCard>,
    limits: &Limits,
) -> Result<Vec<Tensor>, Failure> {
    let (inputs, _) = inputs::gather(std::slice::from_ref(file), graph, card, None, limits)?;
    Ok(inputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// The extensions of files that can be inputs.
const KINDS: [&str; 6] = ["png", "jpg", "jpeg", "npy", "npz", "csv"];

/// Runs the model on all files, once for each round.
struct Rounds {
    files: Vec<Source>,
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
            let inputs = tensors(file, calibration.graph(), self.card.as_ref(), &self.limits)?;
            see(calibration, inputs).map_err(run_failure)?;
            self.bar.step();
        }
        Ok(())
    }
}

impl Found<'_> {
    fn print(&self, output: &Path, terminal: &mut Terminal) -> io::Result<()> {
        let mut table = Table::new(&["operand", ">least", ">largest", ">threshold", ">cut off"]);
        for Operand { name, range, threshold, clipped } in &self.operands {
            let number = |x: f32| numbers::small(x.into());
            let threshold = threshold.map_or_else(|| "none".to_owned(), number);
            let clipped = if *clipped > 0.0 { numbers::percent(*clipped) } else { String::new() };
            table.row([name.clone(), number(range.least), number(range.largest), threshold, clipped]);
        }
        table.write(terminal)?;
        writeln!(terminal)?;
        let mut table = Table::new(&["operator", "type", ">signal to noise", ""]);
        for loss in &self.losses {
            let kept = if self.scales.keeps(&loss.operator) { "stays in f32" } else { "" };
            let decibels = format!("{:.1} dB", loss.decibels());
            table.row([loss.operator.clone(), loss.op_type.clone(), decibels, kept.to_owned()]);
        }
        table.write(terminal)?;
        let (scales, kept) = (self.scales.len(), self.scales.kept().count());
        writeln!(
            terminal,
            "\n{}: {} from {}; {} in f32",
            output.display(),
            numbers::plural(scales, "scale"),
            numbers::plural(self.runs, "run"),
            numbers::plural(kept, "layer"),
        )
    }

    /// The result as a JSON object; `version` increases when the meaning of a field changes.
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
