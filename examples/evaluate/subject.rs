//! A model of this repository, and how it is measured and calibrated.

use super::{Measured, Result, accuracy, boxes, masks, scenes_of};
use ixion::Limits;
use ixion::engine::{Builder, Calibration, EngineError, Formats, Method, Model, Precision, Scales};
use ixion::tensor::Tensor;
use ixion::vision::{ModelCard, Task};
use std::path::{Path, PathBuf};

/// The number of scenes for calibration.
const CALIBRATION_SCENES: u64 = 100;
/// Neither a seed of training scenes (1 and 2) nor one of evaluation scenes (1000 and above).
const CALIBRATION_SEED: u64 = 77;
/// Layers with a lower signal-to-noise ratio stay in f32, in decibels: the default of `ixion calibrate`.
const LEAST: f64 = 20.0;

/// A model with its card.
pub(super) struct Subject {
    folder: PathBuf,
    name: String,
    card: ModelCard,
}

/// A round of calibration on one input.
type Seeing = dyn Fn(&mut Calibration, Vec<Tensor>) -> std::result::Result<(), EngineError>;

impl Subject {
    pub(super) fn load(name: &str) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file").join(name);
        let card = ModelCard::load(folder.join("model.toml"))?;
        Ok(Self { folder, name: name.to_owned(), card })
    }

    fn builder(&self) -> Builder {
        Builder::new(self.folder.join(format!("{}.pnnx.param", self.name)))
    }

    /// Measures it in f32, on scenes of a seed if it is about scenes.
    pub(super) fn in_f32(&self, seed: u64) -> Result<Measured> {
        self.measure(self.builder(), seed)
    }

    /// Measures it in int8 wherever possible, to see what int8 costs at most.
    pub(super) fn in_int8(&self, scales: Scales, seed: u64) -> Result<Measured> {
        let builder = self.builder().with_precisions([Precision::Int8]).with_scales(scales);
        self.measure(builder.with_formats(Formats::Narrowest), seed)
    }

    fn measure(&self, builder: Builder, seed: u64) -> Result<Measured> {
        let mut model = Model::from_plan(builder.build()?)?;
        match self.card.task {
            Task::Classify => accuracy::measure(&mut model, &self.folder.join("test.npz")),
            Task::Detect => boxes::measure(&mut model, &self.card, seed),
            Task::Segment => masks::measure(&mut model, &self.card, seed),
            _ => Err(format!("{} has no task that can be evaluated", self.name).into()),
        }
    }

    /// Determines scales as `ixion calibrate` does.
    pub(super) fn scales(&self) -> Result<Scales> {
        let inputs = self.calibration_inputs()?;
        let mut calibration = Calibration::new(self.builder())?;
        let mut each =
            |see: &Seeing| inputs.iter().try_for_each(|input| see(&mut calibration, vec![input.clone()]));
        each(&|calibration, input| calibration.see_range(input))?;
        each(&|calibration, input| calibration.see_magnitudes(input))?;
        let scales = calibration.scales(Method::Entropy);
        inputs.iter().try_for_each(|input| calibration.see_loss(vec![input.clone()], &scales))?;
        Ok(calibration.keep_below(scales, LEAST))
    }

    /// Inputs that the model is not evaluated on: images of its training split, or scenes of their own seed.
    fn calibration_inputs(&self) -> Result<Vec<Tensor>> {
        if self.card.task == Task::Classify {
            return Ok(vec![Tensor::load_npy(self.folder.join("calibration/0.npy"), &Limits::default())?]);
        }
        let scenes = scenes_of(CALIBRATION_SEED, CALIBRATION_SCENES);
        scenes.map(|scene| Ok(self.card.prepare(&scene?.0, &Limits::default())?.0)).collect()
    }
}
