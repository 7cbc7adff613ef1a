//! The accuracy of a model on its test pictures.
//!
//! ```sh
//! cargo run --release --example evaluate -- digits
//! ```
//!
//! Reads `model_file/NAME/test.npz` (`images`, u8 N×H×W holding 0..16, and `labels`, u8 N), runs the model on batches, and
//! counts how often the class of the highest score is the label.

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// How many pictures run at a time.
const BATCH: usize = 64;

/// The value of a white pixel.
const WHITE: f32 = 16.0;

fn main() -> Result<(), Box<dyn Error>> {
    let name =
        std::env::args().nth(1).ok_or("name a model with test pictures, such as: evaluate -- digits")?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(&name);
    let (images, labels) = load(&folder.join("test.npz"))?;
    let mut graph = RuntimeGraph::new(folder.join(format!("{name}.pnnx.param")));
    graph.build()?;

    let start = Instant::now();
    let guesses = classify(&mut graph, &images)?;
    let time = start.elapsed();

    report(&labels, &guesses);
    println!("{:.1} ms for {} pictures in batches of {BATCH}", time.as_secs_f64() * 1e3, labels.len());
    Ok(())
}

/// The pictures as N×1×H×W floats from 0 to 1, and their labels.
fn load(path: &Path) -> Result<(Tensor, Vec<u8>), Box<dyn Error>> {
    let limits = Limits::default();
    let images = Tensor::load_npz_entry(path, "images", &limits)?;
    let labels = Tensor::load_npz_entry(path, "labels", &limits)?.to_vec::<u8>()?;
    let &[count, height, width] = images.shape().dims() else {
        return Err(format!("{}: images are {}, not N×H×W", path.display(), images.shape()).into());
    };
    if labels.len() != count {
        return Err(format!("{}: {count} images, but {} labels", path.display(), labels.len()).into());
    }
    let scaled = images.cast(DType::F32)?.map(|value: f32| value / WHITE)?;
    Ok((scaled.reshape(&[count, 1, height, width])?, labels))
}

/// The class of the highest score for each picture.
fn classify(graph: &mut RuntimeGraph, images: &Tensor) -> Result<Vec<usize>, Box<dyn Error>> {
    let mut guesses = Vec::new();
    for batch in images.split(BATCH, 0)? {
        let outputs = graph.run_with(vec![batch])?;
        let scores = outputs.first().ok_or("the model has no output")?;
        for row in scores.array::<f32>()?.outer_iter() {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            guesses.push(best.map_or(0, |(class, _)| class));
        }
    }
    Ok(guesses)
}

/// Prints the accuracy, and which label was taken for which.
fn report(labels: &[u8], guesses: &[usize]) {
    let mut mistaken: BTreeMap<(u8, usize), usize> = BTreeMap::new();
    for (&label, &guess) in labels.iter().zip(guesses).filter(|&(&label, &guess)| usize::from(label) != guess)
    {
        *mistaken.entry((label, guess)).or_default() += 1;
    }
    let right = labels.len() - mistaken.values().sum::<usize>();
    let percent = 100.0 * right as f64 / labels.len().max(1) as f64;
    println!("{percent:.2} % of the test pictures are right ({right} of {})", labels.len());
    for ((label, guess), count) in mistaken {
        println!("  {label} was taken for {guess}: {count}");
    }
}
