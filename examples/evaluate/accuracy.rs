//! Classification: top-1 accuracy.

use super::{Measured, Result};
use ixion::Limits;
use ixion::engine::Model;
use ixion::tensor::{DType, Tensor};
use ixion::vision::{accuracy, ranked};
use std::path::Path;

const BATCH: usize = 64;
/// The value of a white pixel.
const WHITE: f32 = 16.0;

/// Reads `images` (u8, N×H×W, values from 0 to 16) and `labels` (u8, N) and runs the model on them in batches.
pub(super) fn measure(model: &mut Model, test: &Path) -> Result<Measured> {
    let images = Tensor::load_npz_entry(test, "images", &Limits::default())?;
    let labels = Tensor::load_npz_entry(test, "labels", &Limits::default())?.to_vec::<u8>()?;
    let &[count, height, width] = images.shape().dims() else {
        return Err(format!("{}: images are {}, not N×H×W", test.display(), images.shape()).into());
    };
    let pixels = images.cast(DType::F32)?.map(|value: f32| value / WHITE)?;
    let pixels = pixels.reshape(&[count, 1, height, width])?;

    let mut scores: Vec<Vec<f64>> = Vec::new();
    for batch in pixels.split(BATCH, 0)? {
        let outputs = model.run(&[batch])?;
        let output = outputs.first().ok_or("the model has no output")?;
        scores.extend(
            output.array::<f32>()?.outer_iter().map(|row| row.iter().copied().map(f64::from).collect()),
        );
    }
    let labels: Vec<usize> = labels.into_iter().map(usize::from).collect();
    let share = accuracy(&scores, &labels, 1).ok_or("there are no test images")?;
    let guesses = scores.iter().map(|scores| ranked(scores).first().copied().unwrap_or(0));
    let pairs: Vec<(usize, usize)> = labels.into_iter().zip(guesses).collect();
    let mistakes = pairs.iter().filter(|(label, guess)| label != guess);
    let mistakes: Vec<String> = mistakes.map(|(label, guess)| format!("{label} for {guess}")).collect();
    let right = count - mistakes.len();
    let text = format!(
        "accuracy {share:.4}: {right} of {count} test images are right\n  wrong: {}",
        mistakes.join(", ")
    );
    Ok(Measured { value: share, text })
}
