//! Image operators: regions, boxes, sampling grids.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{Flag, Optional};
use super::lowering::Source;
use super::regions::LargestSamples;
use super::suppression::Nms;
use crate::layout::concatenation::Cat;
use crate::layout::reshaping::Unsqueeze;
use crate::op::Result;
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::choices::{PerAxis, choices};
use crate::vision::grid::AffineGrid as TorchAffineGrid;
use crate::vision::regions::RoIAlign as TorchRoiAlign;
use ixion_kernels::naive::RegionAlign;

const X: Source = Source::Input(0);

choices! {
    /// The mapping from box coordinates to pixels.
    pub enum Corners {
        /// Pixels are at their centres: box coordinates are shifted by half a pixel.
        HalfPixel = "half_pixel",
        /// Box coordinates are not shifted.
        OutputHalfPixel = "output_half_pixel",
    }
}

choices! {
    /// The reduction of the samples of an output element.
    pub enum Pooled {
        /// The mean.
        Mean = "avg",
        /// The largest.
        Largest = "max",
    }
}

crate::operator! {
    /// `RoiAlign` (since 16): the regions of images N×C×H×W inside boxes K×4, resampled to one size; each element is
    /// the mean of bilinear samples, or the largest.
    pub struct RoiAlign for "RoiAlign" {
        /// The mapping from box coordinates to pixels.
        coordinate_transformation_mode: Corners = Corners::HalfPixel,
        /// The reduction of samples.
        mode: Pooled = Pooled::Mean,
        /// Height of the output.
        output_height: usize = 1,
        /// Width of the output.
        output_width: usize = 1,
        /// Number of samples along each axis; 0 for the number of pixels that an output element covers.
        sampling_ratio: i64 = 0,
        /// Factor from box coordinates to pixels.
        spatial_scale: f64 = 1.0,
        /// The boxes: left, top, right and bottom.
        rois: InputIndex,
        /// The image index of each box.
        batch_indices: InputIndex,
    }
}

crate::operator! {
    /// `AffineGrid` (since 20): sampling grids of affine transforms: N×2×3 for images N×C×H×W, as N×H×W×2; or N×3×4 for
    /// volumes N×C×D×H×W, as N×D×H×W×3.
    pub struct AffineGrid for "AffineGrid" {
        /// Whether −1 and 1 refer to the centres of the outermost pixels, instead of their edges.
        align_corners: Flag = Flag::of(0),
        /// Shape of the images.
        size: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `NonMaxSuppression` (since 10): the boxes that do not overlap a better one too much, as rows of image, class and
    /// box index.
    pub struct NonMaxSuppression for "NonMaxSuppression" {
        /// Whether boxes are centre and size, instead of two corners.
        center_point_box: Flag = Flag::of(0),
        /// Scores of the boxes for each class, N×classes×boxes.
        scores: InputIndex,
        /// Maximum number of boxes per class and image; none is kept if absent.
        max_output_boxes_per_class: Optional = Optional(None),
        /// Largest intersection over union with a better box at which a box is kept; 0 if absent.
        iou_threshold: Optional = Optional(None),
        /// Score that boxes must exceed; all are kept if absent.
        score_threshold: Optional = Optional(None),
    }
}

impl Decompose for RoiAlign {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (boxes, pictures) = (Source::Input(self.rois.0), Source::Input(self.batch_indices.0));
        let dtype = decomposition.dtype(boxes)?;
        let pictures = decomposition.cast(pictures, dtype)?;
        let pictures = decomposition.then(Unsqueeze { dim: vec![1] }, &[pictures])?;
        let boxes = decomposition.then(Cat { dim: 1 }, &[pictures, boxes])?;
        let layer = TorchRoiAlign {
            output_size: PerAxis::of(vec![self.output_height, self.output_width]),
            spatial_scale: self.spatial_scale,
            sampling_ratio: self.sampling_ratio,
            aligned: self.coordinate_transformation_mode == Corners::HalfPixel,
        };
        Ok(vec![match self.mode {
            Pooled::Mean => decomposition.then(layer, &[X, boxes])?,
            Pooled::Largest => {
                let how = RegionAlign {
                    bins: [self.output_height, self.output_width],
                    scale: self.spatial_scale,
                    samples: usize::try_from(self.sampling_ratio).ok().filter(|samples| *samples > 0),
                    aligned: layer.aligned,
                };
                decomposition.step(LargestSamples { means: layer, how }, &[X, boxes])?
            }
        }])
    }
}

impl Decompose for AffineGrid {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let layer = TorchAffineGrid { size: self.size.clone(), align_corners: Some(self.align_corners.0) };
        let inputs: Vec<Source> = (0..decomposition.inputs().len()).map(Source::Input).collect();
        Ok(vec![decomposition.then(layer, &inputs)?])
    }
}

impl Decompose for NonMaxSuppression {
    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let layer = Nms {
            has_centres: self.center_point_box.0,
            max_boxes: self.max_output_boxes_per_class.0,
            overlap: self.iou_threshold.0,
            score: self.score_threshold.0,
        };
        let inputs: Vec<Source> = (0..decomposition.inputs().len()).map(Source::Input).collect();
        Ok(vec![decomposition.step(layer, &inputs)?])
    }
}

operators! { entry => RoiAlign, AffineGrid, NonMaxSuppression }
