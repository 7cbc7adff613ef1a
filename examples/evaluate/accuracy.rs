//! Classification: the share of pictures whose label has the highest score.

use super::Measured;
use ixion::Limits;
use ixion::engine::Model;
use ixion::tensor::{DType, Tensor};
use std::path::Path;

const BATCH: usize = 64;
/// The value of a white pixel.
const WHITE: f32 = 16.0;

/// Reads `images`, u8 N×H×W holding 0..16, and `labels`, u8 N, and runs the model on batches of them.
pub(super) fn measure(model: &mut Model, test: &Path) -> Measured {
    let images = Tensor::load_npz_entry(test, "images", &Limits::default())?;
    let labels = Tensor::load_npz_entry(test, "labels", &Limits::default())?.to_vec::<u8>()?;
    let &[count, height, width] = images.shape().dims() else {
        return Err(format!("{}: images are {}, not N×H×W", test.display(), images.shape()).into());
    };
    let pixels = images.cast(DType::F32)?.map(|value: f32| value / WHITE)?;
    let pixels = pixels.reshape(&[count, 1, height, width])?;

    let mut guesses = Vec::new();
    for batch in pixels.split(BATCH, 0)? {
        let outputs = model.run(&[batch])?;
        for scores in outputs.first().ok_or("the model has no output")?.array::<f32>()?.outer_iter() {
            let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            guesses.push(best.map_or(0, |(class, _)| class));
        }
    }
    let mistakes = labels.iter().zip(&guesses).filter(|&(&label, &guess)| usize::from(label) != guess);
    let mistakes: Vec<String> = mistakes.map(|(label, guess)| format!("{label} for {guess}")).collect();
    let (right, count) = (count - mistakes.len(), count.max(1));
    let percent = 100.0 * right as f64 / count as f64;
    Ok(format!(
        "{percent:.2} % of the test pictures are right ({right} of {count})\n  wrong: {}",
        mistakes.join(", ")
    ))
}
