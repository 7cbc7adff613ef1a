//! `ixion run`: from files to a result.

mod card;
mod classes;
mod files;
mod inputs;
mod json;
mod output;
mod picture;
mod trace;

use super::failure::{Exit, Failure};
use super::limits::LimitArgs;
use super::model::ModelArgs;
use super::progress::Spinner;
use super::screen::{Screen, Style};
use card::{Card, Task};
use clap::Args;
use ixion::graph::{GraphError, RuntimeGraph, Trace};
use ixion::tensor::Tensor;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HELP: &str = "\
Inputs are .npy files, .npz files (every array goes to the input of its name; x.npz:NAME takes one), tables of numbers as .csv, \
and .png or .jpg pictures. Those without NAME= go to the inputs that are not named, in the order of the file.

A model.toml beside the model says how a picture becomes its input and how to read its output. Without it a picture is \
stretched to the size that the file names and scaled to 0..1.

Exit codes:
  0  the model ran and the result was written
  1  the model failed on the way, ran into a limit, or the result could not be written
  2  model, model.toml or inputs cannot be used: unreadable, invalid, not supported, or they do not fit; or a usage error

Examples:
  ixion run digits.pnnx.param --input 7.png
  ixion run two.pnnx.param --input left=a.npy --input right=b.npy --output result/
  ixion run two.pnnx.param --input both.npz --json
  ixion run resnet18.pnnx.param --random-weights 1 --trace";

/// Runs a model on arrays and pictures, and shows or saves its outputs
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// An input: an array, a table or a picture; may be repeated
    #[arg(short, long = "input", value_name = "[NAME=]FILE")]
    inputs: Vec<String>,
    /// Saves the outputs: x.npy takes one, or x_0.npy, x_1.npy, … several; any other PATH is a folder for out_0.npy, …
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// How many classes are shown
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = at_least_one)]
    top: usize,
    /// Shows time, cost and shapes of every operator
    #[arg(long)]
    trace: bool,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
    /// Makes up weights from a seed, so that no archive is needed; inputs that are not given are made up too
    #[arg(long, value_name = "SEED", conflicts_with = "bin")]
    random_weights: Option<u64>,
}

/// All that a run gave.
struct Outcome {
    inputs: Vec<(String, Tensor)>,
    outputs: Vec<(String, Tensor)>,
    time: Duration,
    trace: Option<Trace>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "give a number of at least 1".to_owned())
}

impl RunArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, screen: &mut Screen) -> Result<Exit, Failure> {
        let limits = limits.start();
        let card = Card::beside(&self.model)?;
        let spinner = Spinner::start(format!("reading {}", self.model.param.display()));
        let mut graph = self.model.runtime(limits.clone());
        if let Some(seed) = self.random_weights {
            graph = graph.with_random_weights(seed);
        }
        graph.build().map_err(|error| self.unbuilt(error))?;
        drop(spinner);
        let inputs = inputs::gather(&self.inputs, &graph, card.as_ref(), self.random_weights, &limits)?;
        let outcome = self.execute(&mut graph, inputs)?;
        if let Some(path) = &self.output {
            output::save(path, &outcome.outputs)?;
        }
        match self.json {
            true => screen.json(&json::json(&self.model.param, card.as_ref(), &outcome, self.top)?)?,
            false => self.show(card.as_ref(), &outcome, screen)?,
        }
        Ok(Exit::Fine)
    }

    /// The failure of a model that cannot be built. That of an operator is the model's, not the path's.
    fn unbuilt(&self, error: GraphError) -> Failure {
        match &error {
            GraphError::UnknownOperators { .. } => Failure::unusable(error).advise(
                "`ixion inspect` shows the rest of the model; `ixion operators` lists what is supported",
            ),
            _ => self.model.unusable(error),
        }
    }

    fn execute(&self, graph: &mut RuntimeGraph, inputs: Vec<(String, Tensor)>) -> Result<Outcome, Failure> {
        for (name, tensor) in &inputs {
            graph.set_input(name, tensor.clone()).map_err(misfit)?;
        }
        let spinner = Spinner::start("running");
        let start = Instant::now();
        let trace = match self.trace {
            true => Some(graph.run_traced().map_err(Failure::failed)?),
            false => graph.run().map(|()| None).map_err(Failure::failed)?,
        };
        let time = start.elapsed();
        drop(spinner);
        let values = graph.output_values().map_err(Failure::failed)?;
        let names = graph.outputs().iter().map(|port| port.name.clone());
        Ok(Outcome { inputs, outputs: names.zip(values).collect(), time, trace })
    }

    fn show(&self, card: Option<&Card>, outcome: &Outcome, screen: &mut Screen) -> Result<(), Failure> {
        match card.filter(|card| card.task == Task::Classify) {
            Some(card) => classes::write(screen, &card.classes(&outcome.outputs, self.top)?)?,
            None => write_outputs(screen, &outcome.outputs)?,
        }
        if let Some(trace) = &outcome.trace {
            writeln!(screen)?;
            trace::write(screen, trace)?;
        }
        Ok(())
    }
}

fn write_outputs(screen: &mut Screen, outputs: &[(String, Tensor)]) -> io::Result<()> {
    let widest = outputs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, tensor) in outputs {
        let name = screen.paint(Style::Strong, format!("{name:widest$}"));
        writeln!(screen, "{name}  {}", tensor.summary())?;
    }
    Ok(())
}

/// The failure of an input that the model does not take.
fn misfit(error: GraphError) -> Failure {
    match &error {
        GraphError::InputDType { wanted, .. } => {
            let advice = numpy_name(*wanted)
                .map(|name| format!("in Python: numpy.save(\"x.npy\", x.astype(\"{name}\"))"));
            let failure = Failure::unusable(error);
            match advice {
                Some(advice) => failure.advise(advice),
                None => failure,
            }
        }
        _ => Failure::unusable(error),
    }
}

/// NumPy's name of an element type, where it has it.
fn numpy_name(dtype: ixion::tensor::DType) -> Option<&'static str> {
    use ixion::tensor::DType;
    Some(match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::Bool => "bool",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        _ => return None,
    })
}
