//! Evaluates the models of this repository on test images, or on scenes that are rendered on the fly.
//!
//! ```sh
//! cargo run --release --example evaluate -- digits              # accuracy
//! cargo run --release --example evaluate -- shapes_detector     # mAP@0.5
//! cargo run --release --example evaluate -- shapes_unet 77777   # mean intersection over union; scenes of another seed
//! cargo run --release --example evaluate -- digits 0 digits.scales.json  # int8, with scales from `ixion calibrate`
//! ```
//!
//! No model was trained on seeds of 1000 or more. `model_file/evaluate.py` measures the same with PyTorch.

mod accuracy;
mod boxes;
mod masks;
#[path = "../../model_file/scenes.rs"]
mod scenes;

use ixion::engine::{Builder, Formats, Model, Precision, Scales};
use ixion::tensor::{Color, Picture, TensorError};
use ixion::vision::{ModelCard, Task};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// A human-readable report of the metrics.
type Measured = Result<String, Box<dyn Error>>;

/// The number of scenes that detectors and segmentation models are evaluated on.
const SCENES: u64 = 500;
/// The height and width of a scene, in pixels.
const SIZE: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("name a model: digits, shapes_detector or shapes_unet")?;
    let seed: u64 = args.next().map_or(Ok(2026), |seed| seed.parse())?;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(&name);
    let card = ModelCard::load(folder.join("model.toml"))?;
    let builder = Builder::new(folder.join(format!("{name}.pnnx.param")));
    let builder = match args.next() {
        // Use int8 wherever possible, to measure the loss in accuracy.
        Some(scales) => builder
            .with_precisions([Precision::Int8])
            .with_scales(Scales::load(scales)?)
            .with_formats(Formats::Narrowest),
        None => builder,
    };
    let mut model = Model::from_plan(builder.build()?)?;

    let start = Instant::now();
    let measured = match card.task {
        Task::Classify => accuracy::measure(&mut model, &folder.join("test.npz"))?,
        Task::Detect => boxes::measure(&mut model, &card, seed)?,
        Task::Segment => masks::measure(&mut model, &card, seed)?,
        _ => return Err(format!("{name} has no task that can be evaluated").into()),
    };
    println!("{measured}");
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Renders the scenes of a seed, each with its picture.
fn scenes_of(seed: u64) -> impl Iterator<Item = Result<(Picture, scenes::Scene), TensorError>> {
    let scenes = (0..SCENES).map(move |index| scenes::render(seed, index, SIZE, SIZE));
    scenes.map(|scene| Ok((Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels.clone())?, scene)))
}
