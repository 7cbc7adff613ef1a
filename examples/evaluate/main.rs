//! Evaluates the models of this repository on test images, or on scenes that are rendered on the fly.
//!
//! ```sh
//! cargo run --release --example evaluate -- digits                    # accuracy
//! cargo run --release --example evaluate -- shapes_detector           # mAP@0.5
//! cargo run --release --example evaluate -- shapes_unet --seed 77777  # mean intersection over union; scenes of another seed
//! cargo run --release --example evaluate -- digits --precision int8   # and what int8 changes
//! cargo run --release --example evaluate -- digits --precision int8 --scales digits.scales.json
//! ```
//!
//! int8 is used wherever possible, with the scales of a file by `ixion calibrate`, or with those of samples that the model is not
//! evaluated on. No model was trained on seeds of 1000 or more. `model_file/evaluate.py` measures the same with PyTorch.

mod accuracy;
mod boxes;
mod masks;
#[path = "../../model_file/scenes.rs"]
mod scenes;
mod subject;

use ixion::engine::Scales;
use ixion::tensor::{Color, Picture, TensorError};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use subject::Subject;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The number of scenes that detectors and segmentation models are evaluated on.
const SCENES: u64 = 500;
/// The height and width of a scene, in pixels.
const SIZE: usize = 128;
const USAGE: &str =
    "usage: evaluate digits|shapes_detector|shapes_unet [--seed N] [--precision f32|int8] [--scales FILE]";

/// What a model reaches.
struct Measured {
    /// The metric, from 0 to 1.
    value: f64,
    /// A human-readable report.
    text: String,
}

/// What to measure.
struct Settings {
    name: String,
    seed: u64,
    is_int8: bool,
    scales: Option<PathBuf>,
}

impl Settings {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let name = args.next().ok_or(USAGE)?;
        let mut settings = Self { name, seed: 2026, is_int8: false, scales: None };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} needs a value; {USAGE}"))?;
            match (flag.as_str(), value.as_str()) {
                ("--seed", seed) => settings.seed = seed.parse()?,
                ("--precision", "f32") => settings.is_int8 = false,
                ("--precision", "int8") => settings.is_int8 = true,
                ("--scales", path) => settings.scales = Some(path.into()),
                _ => return Err(format!("{flag} {value} is unknown; {USAGE}").into()),
            }
        }
        if settings.scales.is_some() && !settings.is_int8 {
            return Err("scales are for int8: add --precision int8".into());
        }
        Ok(settings)
    }
}

fn main() -> Result<()> {
    let settings = Settings::parse(std::env::args().skip(1))?;
    let subject = Subject::load(&settings.name)?;
    let start = Instant::now();
    let float = subject.in_f32(settings.seed)?;
    println!("{}", float.text);
    if settings.is_int8 {
        let scales = match settings.scales {
            Some(path) => Scales::load(path)?,
            None => subject.scales()?,
        };
        let kept = scales.kept().count();
        let int8 = subject.in_int8(scales, settings.seed)?;
        println!("int8: {}\n  layers kept in f32: {kept}", int8.text);
        println!("change {:+.4}", int8.value - float.value);
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Renders the first scenes of a seed, each with its picture.
fn scenes_of(
    seed: u64,
    count: u64,
) -> impl Iterator<Item = std::result::Result<(Picture, scenes::Scene), TensorError>> {
    let scenes = (0..count).map(move |index| scenes::render(seed, index, SIZE, SIZE));
    scenes.map(|scene| Ok((Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels.clone())?, scene)))
}
