//! Draws what the functions of lesson 11 find in pictures.
//!
//! ```sh
//! cargo run -p lesson11 --example look              # pictures that come with the repository
//! cargo run -p lesson11 --example look PICTURE      # one of your own
//! ```

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::{Color, Fit, Picture, Preprocess, Tensor};
use ixion::vision::{self, ClassMap, PALETTE};
use lesson11::{Frame, Placement, decode_row, highest, letterboxed, suppress, surround};
use ndarray::{Ix2, Ix4, s};
use std::error::Error;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Height and width of the networks' input.
const SIZE: [usize; 2] = [128, 128];
const LABELS: [&str; 5] = ["background", "circle", "square", "triangle", "star"];

fn main() -> Result<()> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../model_file");
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let load = |model: &str| {
        let path = given.clone().unwrap_or_else(|| models.join(model).join("samples/1.png"));
        Picture::load(path, &Limits::default())
    };
    let (folder, labels) = (std::env::temp_dir(), LABELS.map(String::from));

    let picture = load("shapes_detector")?;
    let found = detected(&models, &picture)?;
    for found in &found {
        println!("{:8} {:.2}  {:?}", LABELS[found.class + 1], found.score, found.rect);
    }
    vision::draw_detections(&picture, &found, &labels[1..], &PALETTE)?.save_png(folder.join("found.png"))?;

    let picture = load("shapes_unet")?;
    let mask = segmented(&models, &picture)?;
    vision::draw_mask(&picture, &mask, &labels, &PALETTE, Some(0))?.save_png(folder.join("painted.png"))?;
    println!("see found.png and painted.png in {}", folder.display());
    Ok(())
}

fn detected(models: &Path, picture: &Picture) -> Result<Vec<vision::Detection>> {
    let (input, frame) = prepared(picture)?;
    let output = run(models, "shapes_detector", input)?.reshape(&[1008, 9])?;
    let rows = output.array::<f32>()?.into_dimensionality::<Ix2>()?;
    let candidates = rows.outer_iter().filter_map(|row| decode_row(row, 0.4)).collect();
    let kept = suppress(candidates, 0.45, 300).into_iter();
    let drawn = kept.map(|found| {
        let rect = frame.to_picture(&found.rect).clipped(frame.picture);
        let rect = vision::Rect::new(rect.left, rect.top, rect.right, rect.bottom);
        vision::Detection { class: found.class, score: found.score, rect }
    });
    Ok(drawn.collect())
}

fn segmented(models: &Path, picture: &Picture) -> Result<ClassMap> {
    let (input, frame) = prepared(picture)?;
    let scores = run(models, "shapes_unet", input)?.reshape(&[5, SIZE[0] * SIZE[1]])?;
    let mask = highest(scores.array::<f32>()?.into_dimensionality::<Ix2>()?);
    let [height, width] = frame.picture;
    let class = |index: usize| {
        let centre = [index / width, index % width].map(|position| position as f32 + 0.5);
        let [row, col] = frame.placement.to_input(centre).map(|position| position as usize);
        mask[row.min(SIZE[0] - 1) * SIZE[1] + col.min(SIZE[1] - 1)]
    };
    Ok(ClassMap::new(height, width, (0..height * width).map(class).collect())?)
}

fn run(models: &Path, name: &str, input: Tensor) -> Result<Tensor> {
    let mut graph = RuntimeGraph::new(models.join(name).join(format!("{name}.pnnx.param")));
    graph.build()?;
    Ok(graph.run_with(vec![input])?.remove(0))
}

/// Prepares a picture for the networks: letterboxed to their size, in 0..1.
fn prepared(picture: &Picture) -> Result<(Tensor, Frame)> {
    let of = [picture.height(), picture.width()];
    let resized = letterboxed(of, SIZE);
    let mut rule = Preprocess::default();
    (rule.color, rule.fit, rule.size) = (Color::Rgb, Fit::Stretch, Some(resized));
    let (small, _) = rule.prepare(picture, &Limits::default())?;
    let small = small.array::<f32>()?.into_dimensionality::<Ix4>()?;
    let mut input = Tensor::full(&[1, 3, SIZE[0], SIZE[1]], 0f32)?;
    let mut view = input.view_mut()?;
    let mut array = view.array::<f32>()?.into_dimensionality::<Ix4>()?;
    for channel in 0..3 {
        let plane = small.slice(s![0, channel, .., ..]);
        surround(array.slice_mut(s![0, channel, .., ..]), plane, 114.0 / 255.0);
    }
    Ok((input, Frame { picture: of, input: SIZE, placement: Placement::centered(of, resized, SIZE) }))
}
