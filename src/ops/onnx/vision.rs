//! Pictures: regions, boxes, maps of places.

use super::fields::{Flag, Optional};
use super::recipe::{Recipe, Source};
use super::suppression::Suppressed;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::layout::concatenation::Cat;
use crate::ops::layout::reshaping::Unsqueeze;
use crate::ops::support::arguments::{Argument, Operand};
use crate::ops::support::choices::{PerAxis, choices};
use crate::ops::vision::grid::AffineGrid as TorchAffineGrid;
use crate::ops::vision::regions::RoIAlign as TorchRoiAlign;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

choices! {
    /// Where the elements of a picture lie.
    pub enum Corners {
        /// At their middles: coordinates of boxes are moved by half an element.
        HalfPixel = "half_pixel",
        /// At their edges.
        OutputHalfPixel = "output_half_pixel",
    }
}

choices! {
    /// What the samples of an element become.
    pub enum Pooled {
        /// Their mean.
        Mean = "avg",
        /// Their largest, which cannot be run.
        Largest = "max",
    }
}

crate::operator! {
    /// `RoiAlign` (since 16): the parts of pictures N×C×H×W that boxes K×4 enclose, brought to one size, each element the
    /// mean of samples between those of the picture.
    pub struct RoiAlign for "RoiAlign" {
        /// Where elements lie.
        coordinate_transformation_mode: Corners = Corners::HalfPixel,
        /// What samples become; only `avg` can be run.
        mode: Pooled = Pooled::Mean,
        /// Rows of the output.
        output_height: usize = 1,
        /// Columns of the output.
        output_width: usize = 1,
        /// Samples along each axis; 0 for as many as an element covers elements of the picture.
        sampling_ratio: i64 = 0,
        /// What coordinates of boxes are multiplied by to be those of the pictures.
        spatial_scale: f64 = 1.0,
        /// The boxes: left, top, right and bottom.
        rois: Operand,
        /// For each box the number of its picture.
        batch_indices: Operand,
    }
    validate |layer| {
        match layer.mode {
            Pooled::Mean => Ok(()),
            Pooled::Largest => Err(LayerError::invalid("mode", "max", "only `avg` can be run")),
        }
    }
}

crate::operator! {
    /// `AffineGrid` (since 20): where affine maps N×2×3 send the elements of pictures N×C×H×W, as N×H×W×2; or maps N×3×4
    /// those of N×C×D×H×W, as N×D×H×W×3.
    pub struct AffineGrid for "AffineGrid" {
        /// Whether −1 and 1 are the middles of the outermost elements, instead of their edges.
        align_corners: Flag = Flag::of(0),
        /// The shape of the pictures.
        size: Argument<Vec<i64>>,
    }
}

crate::operator! {
    /// `NonMaxSuppression` (since 10): boxes that are no near copies of better ones, as rows of picture, class and box.
    pub struct NonMaxSuppression for "NonMaxSuppression" {
        /// Whether boxes are middle and size, instead of two corners.
        center_point_box: Flag = Flag::of(0),
        /// How good each box is for each class, N×classes×boxes.
        scores: Operand,
        /// How many boxes of a class and picture are kept at most; none where absent.
        max_output_boxes_per_class: Optional = Optional(None),
        /// Boxes that overlap a better one by more are left out; 0 where absent.
        iou_threshold: Optional = Optional(None),
        /// Boxes that are not better are left out.
        score_threshold: Optional = Optional(None),
    }
}

impl Translate for RoiAlign {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (boxes, pictures) = (Source::Input(self.rois.0), Source::Input(self.batch_indices.0));
        let dtype = recipe.dtype(boxes)?;
        let pictures = recipe.cast(pictures, dtype)?;
        let pictures = recipe.then(Unsqueeze { dim: vec![1] }, &[pictures])?;
        let boxes = recipe.then(Cat { dim: 1 }, &[pictures, boxes])?;
        let layer = TorchRoiAlign {
            output_size: PerAxis::of(vec![self.output_height, self.output_width]),
            spatial_scale: self.spatial_scale,
            sampling_ratio: self.sampling_ratio,
            aligned: self.coordinate_transformation_mode == Corners::HalfPixel,
        };
        Ok(vec![recipe.then(layer, &[X, boxes])?])
    }
}

impl Translate for AffineGrid {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.size.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let layer = TorchAffineGrid { size: self.size.clone(), align_corners: Some(self.align_corners.0) };
        let inputs: Vec<Source> = (0..recipe.inputs().len()).map(Source::Input).collect();
        Ok(vec![recipe.then(layer, &inputs)?])
    }
}

impl Translate for NonMaxSuppression {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let given = [self.max_output_boxes_per_class, self.iou_threshold, self.score_threshold];
        let count = 2 + given.into_iter().map(Optional::count).sum::<usize>();
        count..=count
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let layer = Suppressed {
            has_centres: self.center_point_box.0,
            most: self.max_output_boxes_per_class.0,
            overlap: self.iou_threshold.0,
            score: self.score_threshold.0,
        };
        let inputs: Vec<Source> = (0..recipe.inputs().len()).map(Source::Input).collect();
        Ok(vec![recipe.step(layer, &inputs)?])
    }
}

operators! { entry => RoiAlign, AffineGrid, NonMaxSuppression }
