//! Detection: mean average precision.

use super::{Measured, Result, SCENES, scenes_of};
use ixion::Limits;
use ixion::engine::Model;
use ixion::vision::{AveragePrecision, ModelCard, Rect, Truth};

/// Computes mAP@0.5: the average precision at an IoU of at least 0.5, averaged over the classes.
pub(super) fn measure(model: &mut Model, card: &ModelCard, seed: u64) -> Result<Measured> {
    let mut detector = card.detector()?;
    // Keep nearly all boxes: average precision ranks them by score.
    detector.confidence = 0.001;
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for scene in scenes_of(seed, SCENES) {
        let (picture, scene) = scene?;
        let (input, frame) = card.prepare(&picture, &Limits::default())?;
        found.extend(detector.detect(&model.run(&[input])?, &[frame])?);
        known.push(scene.boxes.iter().map(truth).collect());
    }
    let precision = AveragePrecision::at(0.5, &found, &known)?;
    let value = precision.mean().unwrap_or(f64::NAN);
    let mut text = format!("mAP@0.5 {value:.4} on {SCENES} scenes of seed {seed}");
    for (class, label) in card.output.labels.iter().enumerate() {
        text += &format!("\n  {label} {:.4}", precision.of(class).unwrap_or(f64::NAN));
    }
    Ok(Measured { value, text })
}

fn truth(&[class, left, top, right, bottom]: &[i64; 5]) -> Truth {
    let rect = Rect::new(left as f32, top as f32, right as f32, bottom as f32);
    Truth { class: class as usize, rect }
}
