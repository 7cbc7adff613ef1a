//! Renders images for int8 calibration and plots a calibration histogram.
//!
//! ```sh
//! cargo run --release --example calibration -- scenes FOLDER 100       # images of shapes, used neither for training nor for evaluation
//! cargo run --release --example calibration -- histogram FOLDER OPERAND x.svg   # of this operand of `shapes_detector`
//! ```

#[allow(dead_code, reason = "only evaluation uses the boxes and masks")]
#[path = "../model_file/scenes.rs"]
mod scenes;

use ixion::Limits;
use ixion::engine::calibration::Histogram;
use ixion::engine::{Builder, Calibration, Method};
use ixion::tensor::{Color, Picture, Tensor};
use ixion::vision::ModelCard;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// Neither the seed of the training scenes (1) nor one of the evaluation scenes (1000 and above).
const SEED: u64 = 77;
/// The height and width of a scene, in pixels.
const SIZE: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["scenes", folder, count] => render(Path::new(folder), count.parse()?),
        ["histogram", folder, operand, svg] => draw(Path::new(folder), operand, Path::new(svg)),
        _ => {
            Err("usage: calibration scenes FOLDER COUNT | calibration histogram FOLDER OPERAND FILE.svg"
                .into())
        }
    }
}

fn render(folder: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for index in 0..count {
        let scene = scenes::render(SEED, index, SIZE, SIZE);
        let picture = Picture::new(SIZE, SIZE, Color::Rgb, scene.pixels)?;
        picture.save_png(folder.join(format!("{index:04}.png")))?;
    }
    Ok(())
}

fn draw(folder: &Path, operand: &str, svg: &Path) -> Result<(), Box<dyn Error>> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file/shapes_detector");
    let card = ModelCard::load(model.join("model.toml"))?;
    let mut inputs: Vec<Tensor> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let picture = Picture::load(entry?.path(), &Limits::default())?;
        inputs.push(card.prepare(&picture, &Limits::default())?.0);
    }
    let mut calibration = Calibration::new(Builder::new(model.join("shapes_detector.pnnx.param")))?;
    inputs.iter().try_for_each(|input| calibration.see_range(vec![input.clone()]))?;
    inputs.iter().try_for_each(|input| calibration.see_magnitudes(vec![input.clone()]))?;
    let histogram = calibration.histogram(operand).ok_or("calibration saw no such operand")?;
    let threshold = |method| {
        let operands = calibration.operands(method).into_iter();
        operands.filter(|it| it.name == operand).find_map(|it| it.threshold).unwrap_or(0.0)
    };
    let text = picture(histogram, threshold(Method::Entropy), threshold(Method::MinMax));
    Ok(std::fs::write(svg, text)?)
}

/// The width and height of the plot, and the margins around it.
const PLOT: [f32; 2] = [640.0, 220.0];
const MARGIN: [f32; 2] = [20.0, 34.0];

/// Draws the histogram, with 16 bins per bar and log-scaled counts, and both thresholds.
fn picture(histogram: &Histogram, entropy: f32, largest: f32) -> String {
    let bars: Vec<u64> = histogram.counts().chunks(16).map(|bins| bins.iter().sum()).collect();
    let height = |count: u64| (count as f32 + 1.0).ln();
    let highest = bars.iter().copied().map(height).fold(1.0, f32::max);
    let ([width, tall], [left, top]) = (PLOT, MARGIN);
    let at = |magnitude: f32| left + width * magnitude / largest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n",
        width + 2.0 * left,
        tall + 2.0 * top
    );
    svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    for (bar, &count) in bars.iter().enumerate() {
        let (step, h) = (width / bars.len() as f32, tall * height(count) / highest);
        let (x, y) = (left + bar as f32 * step, top + tall - h);
        let color = if histogram.edge(bar * 16) < entropy { "#0072b2" } else { "#d55e00" };
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{h:.1}\" fill=\"{color}\"/>",
            step - 0.5
        );
    }
    for (magnitude, name, anchor) in [(entropy, "entropy", "middle"), (largest, "minmax", "end")] {
        let x = at(magnitude);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{}\" stroke=\"#333333\" stroke-dasharray=\"4 3\"/>",
            top + tall
        );
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\" fill=\"#333333\">{name}: {magnitude:.3}</text>",
            top - 8.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" fill=\"#333333\">magnitude, from 0; heights are logarithms of counts</text>\n</svg>",
        top + tall + 20.0
    );
    svg
}
