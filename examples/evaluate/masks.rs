//! Segmentation: mean intersection over union.

use super::{Measured, Result, SCENES, scenes_of};
use ixion::Limits;
use ixion::engine::Model;
use ixion::vision::{Confusion, ModelCard};

/// Computes the mean intersection over union of the background and the classes.
pub(super) fn measure(model: &mut Model, card: &ModelCard, seed: u64) -> Result<Measured> {
    let labels = &card.output.labels;
    let mut confusion = Confusion::new(labels.len());
    for scene in scenes_of(seed, SCENES) {
        let (picture, scene) = scene?;
        let (input, frame) = card.prepare(&picture, &Limits::default())?;
        for map in card.segment(&model.run(&[input])?, &[frame])? {
            confusion.add(&scene.mask, map.classes())?;
        }
    }
    let value = confusion.mean_iou().unwrap_or(f64::NAN);
    let mut text = format!("mean IoU {value:.4} on {SCENES} scenes of seed {seed}");
    for (class, label) in labels.iter().enumerate() {
        text += &format!("\n  {label} {:.4}", confusion.iou(class).unwrap_or(f64::NAN));
    }
    Ok(Measured { value, text })
}
