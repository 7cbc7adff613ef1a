//! The arguments of `ixion run`, and the checks on them.

use crate::cli::Failure;
use crate::cli::model::ModelArgs;
use crate::cli::runner::EngineArgs;
use clap::Args;
use ixion::Limits;
use ixion::vision::{ModelCard, Task};
use std::path::PathBuf;

const HELP: &str = "\
Exit codes:
  0  the model ran and the result was written
  1  the run failed or exceeded a limit, the result could not be written, or some images could not be read
  2  the model, model.toml or inputs cannot be used (unreadable, invalid, unsupported or unsuitable), or a usage error

Examples:
  ixion run digits.pnnx.param --input 7.png
  ixion run detector.pnnx.param --input street.jpg --picture found.png
  ixion run unet.pnnx.param --input photos/ --mask masks/ --json
  ixion run two.pnnx.param --input left=a.npy --input right=b.npy --output result/
  ixion run resnet18.pnnx.param --random-weights 1 --trace";

/// Run a model on arrays and images, and show or save the results
///
/// Inputs are .npy files, .npz files (each array is assigned to the input of its name; x.npz:NAME selects one), .csv tables of
/// numbers, and .png or .jpg images. Files without NAME= are assigned to the remaining inputs, in the order of the model, and so
/// are arrays with the names in_0, in_1, …, unless inputs are called so. Any number of images, or a folder of them, may be given
/// for a model's only input: they run in batches. Images that cannot be read are reported and skipped.
///
/// A model.toml next to the model describes how images are prepared and what the model does (task = "classify", "detect" or
/// "segment"). Without it, images are stretched to the size of the model's input and scaled to 0..1.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Arrays, tables, images, or a folder of images; may be repeated
    #[arg(short, long = "input", value_name = "[NAME=]FILE", num_args = 1..)]
    pub(super) inputs: Vec<String>,
    /// Save the outputs: to x.npy, or x_0.npy, x_1.npy, … if there are several; any other PATH is a folder for out_0.npy, …
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Save each image with the objects or areas found in it: x.png for one; any other PATH is a folder [detect, segment]
    #[arg(long, value_name = "PATH")]
    pub(super) picture: Option<PathBuf>,
    /// Save each mask, a PNG whose pixels are classes: x.png for one; any other PATH is a folder [segment]
    #[arg(long, value_name = "PATH")]
    pub(super) mask: Option<PathBuf>,
    /// The number of classes to show [classify]
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = at_least_one)]
    pub(super) top: usize,
    /// Show only objects with a higher score, overriding model.toml [detect]
    #[arg(long, value_name = "0..1", value_parser = fraction)]
    pub(super) confidence: Option<f32>,
    /// Of two boxes of a class with a higher intersection over union, show only the better one [detect]
    #[arg(long, value_name = "0..1", value_parser = fraction)]
    pub(super) iou: Option<f32>,
    /// The number of images per batch [default: the batch size of the model's file, or 8]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) batch: Option<usize>,
    /// Show the time, cost and shapes of every operator, for the last batch
    #[arg(long)]
    pub(super) trace: bool,
    /// Print the result as a JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Use random weights from this seed instead of an archive; inputs that are not given are random, too
    #[arg(long, value_name = "SEED", conflicts_with = "bin")]
    pub(super) random_weights: Option<u64>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "expected an integer of at least 1".to_owned())
}

fn fraction(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1, such as 0.25".to_owned())
}

impl RunArgs {
    /// The model's card, with the overrides of the command line.
    pub(super) fn card(&self, limits: &Limits) -> Result<Option<ModelCard>, Failure> {
        let mut card = self.model.card(limits)?;
        self.check_task(card.as_ref())?;
        if let Some(card) = &mut card {
            log::info!("using `{}` as described in {}", card.name, card.path.display());
            let output = &mut card.output;
            output.confidence = self.confidence.unwrap_or(output.confidence);
            output.iou = self.iou.unwrap_or(output.iou);
        }
        Ok(card)
    }

    /// Refuses options that do not apply to the model's task.
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
                _ => "there is no model.toml next to the model".to_owned(),
            };
            let message =
                format!("{option} is for models with the task {}, but {found}", wanted.join(" or "));
            return Err(Failure::unusable(message));
        }
        Ok(())
    }
}
