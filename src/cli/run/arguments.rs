//! The arguments of `ixion run`, and whether they go together.

use crate::cli::failure::Failure;
use crate::cli::model::ModelArgs;
use crate::cli::runner::EngineArgs;
use clap::Args;
use ixion::Limits;
use ixion::vision::{ModelCard, Task};
use std::path::PathBuf;

const HELP: &str = "\
Exit codes:
  0  the model ran and the result was written
  1  the model failed on the way, ran into a limit, the result could not be written, or some pictures could not be read
  2  model, model.toml or inputs cannot be used: unreadable, invalid, not supported, or they do not fit; or a usage error

Examples:
  ixion run digits.pnnx.param --input 7.png
  ixion run detector.pnnx.param --input street.jpg --picture found.png
  ixion run unet.pnnx.param --input photos/ --mask masks/ --json
  ixion run two.pnnx.param --input left=a.npy --input right=b.npy --output result/
  ixion run resnet18.pnnx.param --random-weights 1 --trace";

/// Runs a model on arrays and pictures, and shows or saves what comes out
///
/// Inputs are .npy files, .npz files (every array goes to the input of its name; x.npz:NAME takes one), tables of numbers
/// as .csv, and .png or .jpg pictures. Those without NAME= go to the inputs that are not named, in the order of the file.
/// Any number of pictures, or a folder of them, may go to a model's only input: they run in batches. One that cannot be
/// read is reported, and the others are done.
///
/// A model.toml beside the model says how a picture becomes its input, and what the model is for (task = "classify",
/// "detect" or "segment"). Without it a picture is stretched to the size that the file names and scaled to 0..1.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Arrays, tables, pictures, or a folder of pictures; may be repeated
    #[arg(short, long = "input", value_name = "[NAME=]FILE", num_args = 1..)]
    pub(super) inputs: Vec<String>,
    /// Saves the outputs: x.npy takes one, or x_0.npy, x_1.npy, … several; any other PATH is a folder for out_0.npy, …
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Saves each picture with what was found in it: x.png takes one; any other PATH is a folder [detect, segment]
    #[arg(long, value_name = "PATH")]
    pub(super) picture: Option<PathBuf>,
    /// Saves each mask, a PNG whose pixels are classes: x.png takes one; any other PATH is a folder [segment]
    #[arg(long, value_name = "PATH")]
    pub(super) mask: Option<PathBuf>,
    /// How many classes are shown [classify]
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = at_least_one)]
    pub(super) top: usize,
    /// Shows only objects of a score above this, instead of what model.toml says [detect]
    #[arg(long, value_name = "0..1", value_parser = fraction)]
    pub(super) confidence: Option<f32>,
    /// Of two boxes of a class that overlap more than this, shows the better one [detect]
    #[arg(long, value_name = "0..1", value_parser = fraction)]
    pub(super) iou: Option<f32>,
    /// How many pictures run at a time [default: as many as the file says, or 8]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) batch: Option<usize>,
    /// Shows time, cost and shapes of every operator, in the last batch
    #[arg(long)]
    pub(super) trace: bool,
    /// One JSON object, for programs
    #[arg(long)]
    pub(super) json: bool,
    /// Makes up weights from a seed, so that no archive is needed; inputs that are not given are made up too
    #[arg(long, value_name = "SEED", conflicts_with = "bin")]
    pub(super) random_weights: Option<u64>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "give a number of at least 1".to_owned())
}

fn fraction(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 1, such as 0.25".to_owned())
}

impl RunArgs {
    /// The model's card, with what the command line overrides.
    pub(super) fn card(&self, limits: &Limits) -> Result<Option<ModelCard>, Failure> {
        let mut card = self.model.card(limits)?;
        self.check_task(card.as_ref())?;
        if let Some(card) = &mut card {
            log::info!("{} says how to use `{}`", card.path.display(), card.name);
            let output = &mut card.output;
            output.confidence = self.confidence.unwrap_or(output.confidence);
            output.iou = self.iou.unwrap_or(output.iou);
        }
        Ok(card)
    }

    /// Refuses options that the model's task has no use for.
    fn check_task(&self, card: Option<&ModelCard>) -> Result<(), Failure> {
        let (detect, draws) = (&[Task::Detect][..], &[Task::Detect, Task::Segment][..]);
        let options = [
            ("--picture", self.picture.is_some(), draws),
            ("--mask", self.mask.is_some(), &[Task::Segment]),
            ("--confidence", self.confidence.is_some(), detect),
            ("--iou", self.iou.is_some(), detect),
        ];
        let task = card.map(|card| card.task);
        for (option, is_given, tasks) in options {
            if !is_given || task.is_some_and(|task| tasks.contains(&task)) {
                continue;
            }
            let wanted: Vec<String> = tasks.iter().map(|task| format!("\"{}\"", task.name())).collect();
            let found = match (card, task) {
                (Some(card), Some(task)) => format!("{} says \"{}\"", card.path.display(), task.name()),
                _ => "there is no model.toml beside the model".to_owned(),
            };
            let message =
                format!("{option} is for models with the task {}, but {found}", wanted.join(" or "));
            return Err(Failure::unusable(message));
        }
        Ok(())
    }
}
