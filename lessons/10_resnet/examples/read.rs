//! Runs networks on the layers of lesson 10 alone.
//!
//! ```sh
//! cargo run --release -p lesson10 --example read                   # all test images of digits
//! cargo run --release -p lesson10 --example read FOLDER PICTURE    # the top classes of a classification network
//! ```

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::{DType, Picture, Tensor};
use ixion::vision::ModelCard;
use lesson10::{accuracy, residual_network};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let start = Instant::now();
    match args.as_slice() {
        [] => digits(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../model_file/digits"))?,
        [folder, picture] => classify(folder, picture)?,
        _ => return Err("expected no arguments, or the folder of a model and a picture".into()),
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Loads the model in a folder, which is named after the folder.
fn model(folder: &Path) -> Result<RuntimeGraph, Box<dyn Error>> {
    let folder = folder.canonicalize()?;
    let name = folder.file_name().ok_or("the folder has no name")?.to_string_lossy().into_owned();
    let param = folder.join(format!("{name}.pnnx.param"));
    let mut graph = RuntimeGraph::new(param).with_registry(residual_network()?);
    graph.build()?;
    Ok(graph)
}

fn digits(folder: &Path) -> Result<(), Box<dyn Error>> {
    let load = |name: &str| Tensor::load_npz_entry(folder.join("test.npz"), name, &Limits::default());
    let images = load("images")?.cast(DType::F32)?.map(|value: f32| value / 16.0)?;
    let labels: Vec<usize> = load("labels")?.to_vec::<u8>()?.into_iter().map(usize::from).collect();
    let output = model(folder)?.run_with(vec![images.reshape(&[labels.len(), 1, 8, 8])?])?.remove(0);
    let rows = output.array::<f32>()?;
    let scores: Vec<Vec<f64>> =
        rows.outer_iter().map(|row| row.iter().copied().map(f64::from).collect()).collect();
    for top in [1, 2] {
        let share = accuracy(&scores, &labels, top).ok_or("there are no pictures")?;
        println!("top-{top} accuracy over {} pictures: {:.2} %", labels.len(), 100.0 * share);
    }
    Ok(())
}

fn classify(folder: &Path, picture: &Path) -> Result<(), Box<dyn Error>> {
    let card = ModelCard::load(folder.join("model.toml"))?;
    let picture = Picture::load(picture, &Limits::default())?;
    let (input, _) = card.prepare(&picture, &Limits::default())?;
    let outputs = model(folder)?.run_with(vec![input])?;
    for class in card.classify(&outputs, 5)?.iter().flatten() {
        println!("{:6.2} %  {}", 100.0 * class.score, class.label);
    }
    Ok(())
}
