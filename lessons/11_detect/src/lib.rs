//! Lesson 11: objects and masks in pictures.
//!
//! The page of the book: `book/src/lessons/11_detect.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! Sizes and positions are rows first, columns second: `[height, width]`, `[row, col]`. The edges of a box are named fields.

use ixion_vision::VisionError;
use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, s};

/// The result of a function that may reject its input.
pub type Result<T> = std::result::Result<T, VisionError>;

// Task 1: the letterbox.

/// Height and width of a picture scaled to fit inside an input, with its aspect ratio kept.
pub fn letterboxed(picture: [usize; 2], input: [usize; 2]) -> [usize; 2] {
    todo!(
        "lesson 11, task 1: the largest ratio at which both axes fit (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// Height and width times a ratio, rounded, and at least 1. The axis that determined the ratio gets exactly its target length,
/// whatever its product rounds to.
fn scaled(from: [usize; 2], to: [usize; 2], ratio: f64) -> [usize; 2] {
    [0, 1].map(|axis| match to[axis] as f64 / from[axis] as f64 == ratio {
        true => to[axis],
        false => ((from[axis] as f64 * ratio).round() as usize).max(1),
    })
}

/// The placement of a picture in the network's input: a position of the picture is at `scale · position + offset`. Both are
/// for rows first and columns second, in pixels; the upper left corner of the picture is (0, 0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Pixels of the input per pixel of the picture.
    pub scale: [f32; 2],
    /// The position of the picture's upper left corner in the input; negative if the picture is cropped.
    pub offset: [f32; 2],
}

impl Placement {
    /// The placement of a picture that is resized and centred in the input. If the padding is odd, the larger half is at the
    /// bottom or right. A picture larger than the input is cropped on both sides, with the larger half at the bottom or right
    /// as well.
    pub fn centered(picture: [usize; 2], resized: [usize; 2], input: [usize; 2]) -> Self {
        todo!(
            "lesson 11, task 1: for each axis, the scale, and half of the remaining space (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// Converts a position (row, column) in the network's input to a position in the picture.
    pub fn to_picture(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        todo!(
            "lesson 11, task 1: from a position in the input back to the picture (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// Converts a position (row, column) in the picture to a position in the network's input.
    pub fn to_input(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        todo!(
            "lesson 11, task 1: from a position in the picture to the input (book chapter 11; stuck? cargo learn hint 11)"
        )
    }
}

/// Copies a plane into the centre of a target that is at least as large, as in [`Placement::centered`], and fills the border
/// with one value.
///
/// # Panics
/// Panics if the plane is larger than the target.
pub fn surround(mut target: ArrayViewMut2<'_, f32>, plane: ArrayView2<'_, f32>, border: f32) {
    todo!(
        "lesson 11, task 1: the border everywhere, then the plane in the centre (book chapter 11; stuck? cargo learn hint 11)"
    )
}

// Task 2: rectangles. `f32` has `max`, `min` and `clamp`.

/// An axis-aligned rectangle in pixels; the picture's upper left corner is (0, 0), and its first pixel extends to (1, 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// The left edge, a column.
    pub left: f32,
    /// The upper edge, a row.
    pub top: f32,
    /// The right edge.
    pub right: f32,
    /// The lower edge.
    pub bottom: f32,
}

impl Rect {
    /// A rectangle from its edges.
    pub const fn new(left: f32, top: f32, right: f32, bottom: f32) -> Self {
        Self { left, top, right, bottom }
    }

    /// A rectangle from its centre (column, row), width and height.
    pub fn centered([x, y]: [f32; 2], [width, height]: [f32; 2]) -> Self {
        Self::new(x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0)
    }

    /// The width; negative if the edges are swapped.
    pub fn width(&self) -> f32 {
        self.right - self.left
    }

    /// The height; negative if the edges are swapped.
    pub fn height(&self) -> f32 {
        self.bottom - self.top
    }
}

impl Rect {
    /// The area; 0 if edges are swapped.
    pub fn area(&self) -> f32 {
        todo!(
            "lesson 11, task 2: width times height, neither of them below 0 (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The intersection; its edges are swapped if the rectangles do not overlap.
    #[must_use]
    pub fn intersection(&self, other: &Rect) -> Rect {
        todo!(
            "lesson 11, task 2: the inner one of each pair of edges (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// Intersection over union, from 0 to 1: the area of the intersection divided by the area of the union. 0 if a rectangle
    /// has no area.
    ///
    /// ```
    /// use ixion_vision::Rect;
    /// let (a, b) = (Rect::new(0.0, 0.0, 2.0, 2.0), Rect::new(1.0, 0.0, 3.0, 2.0));
    /// assert_eq!(a.iou(&b), 2.0 / 6.0);
    /// ```
    pub fn iou(&self, other: &Rect) -> f32 {
        todo!(
            "lesson 11, task 2: the area in common, divided by the area of both together (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// Clips the rectangle to a picture of the given height and width.
    #[must_use]
    pub fn clipped(&self, [height, width]: [usize; 2]) -> Rect {
        todo!(
            "lesson 11, task 2: each edge between 0 and the edge of the picture (book chapter 11; stuck? cargo learn hint 11)"
        )
    }
}

// Given: converts a rectangle of the input to pixels of the picture.

/// The size of a picture, the size of the model's input, and the placement of the picture in the input.
///
/// Results of a model are in pixels of its input; a frame maps them back to the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Height and width of the picture.
    pub picture: [usize; 2],
    /// Height and width of the model's input.
    pub input: [usize; 2],
    /// The placement of the picture in the input.
    pub placement: Placement,
}

impl Frame {
    /// Converts a rectangle from pixels of the input to pixels of the picture; it may extend beyond the picture.
    pub fn to_picture(&self, rect: &Rect) -> Rect {
        let [top, left] = self.placement.to_picture([rect.top, rect.left]);
        let [bottom, right] = self.placement.to_picture([rect.bottom, rect.right]);
        Rect { left, top, right, bottom }
    }

    /// Converts a rectangle from pixels of the picture to pixels of the input.
    pub fn to_input(&self, rect: &Rect) -> Rect {
        let [top, left] = self.placement.to_input([rect.top, rect.left]);
        let [bottom, right] = self.placement.to_input([rect.bottom, rect.right]);
        Rect { left, top, right, bottom }
    }
}

// Task 3: from numbers to boxes.

/// The logistic function, 1 / (1 + e⁻ˣ): maps any number to between 0 and 1.
pub fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// A detected object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// The class index.
    pub class: usize,
    /// The confidence, from 0 to 1.
    pub score: f32,
    /// The bounding box.
    pub rect: Rect,
}

/// The box that a grid cell predicts for an anchor. `values` are the cell's first four values t₀ to t₃, before the sigmoid
/// σ; `anchor` is width and height; a cell is `stride` × `stride` pixels of the input.
///
/// Centre column: (2σ(t₀) − 0.5 + column) · stride; centre row: likewise with t₁. Width: (2σ(t₂))² · anchor width; height:
/// likewise with t₃.
pub fn cell_box(values: [f32; 4], anchor: [f32; 2], [row, col]: [usize; 2], stride: usize) -> Rect {
    todo!(
        "lesson 11, task 3: centre, width and height by YOLOv5's formulas (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// The object in a YOLOv5 row: centre column and row, width and height, objectness, then a probability for each class.
/// `None` unless its score is above `confidence`.
///
/// # Panics
/// Panics if the row has fewer than five values.
pub fn decode_row(row: ArrayView1<'_, f32>, confidence: f32) -> Option<Detection> {
    todo!(
        "lesson 11, task 3: the box from the first four values, and the detection from the rest (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// A box with its most probable class. The score is that probability times the objectness `presence`; `None` unless it is
/// above `confidence`, so also for NaN.
pub fn detection(
    rect: Rect,
    presence: f32,
    classes: impl Iterator<Item = f32>,
    confidence: f32,
) -> Option<Detection> {
    todo!(
        "lesson 11, task 3: class and score, if the score is above the confidence (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// The index and probability of the most probable class, the first among equals; NaN never wins.
pub fn most_probable(classes: impl Iterator<Item = f32>) -> Option<(usize, f32)> {
    todo!("lesson 11, task 3: the first of the largest (book chapter 11; stuck? cargo learn hint 11)")
}

// Task 4: suppression.

/// The maximum number of boxes considered, best first, as in YOLOv5; it bounds the time for a model with many poor boxes.
const MAX_CANDIDATES: usize = 30_000;

/// Non-maximum suppression per class: the boxes by descending score, without those that overlap a better one of the same
/// class by more than `iou` (intersection over union), and at most `most` of them.
///
/// Equivalent to torchvision's `batched_nms`: equal scores keep their order, and an overlap of exactly `iou` is allowed.
/// Boxes with a NaN score are dropped. Only the 30,000 best are considered.
///
/// ```
/// use ixion_vision::{Detection, Rect, suppress};
/// let found = |score, left| Detection { class: 0, score, rect: Rect::new(left, 0.0, left + 10.0, 10.0) };
/// let kept = suppress(vec![found(0.5, 1.0), found(0.9, 0.0), found(0.4, 20.0)], 0.45, 300);
/// assert_eq!(kept, [found(0.9, 0.0), found(0.4, 20.0)]);
/// ```
pub fn suppress(mut candidates: Vec<Detection>, iou: f32, most: usize) -> Vec<Detection> {
    todo!(
        "lesson 11, task 4: best first, without those that overlap a better one of their class too much (book chapter 11; stuck? cargo learn hint 11)"
    )
}

// Task 5: masks.

/// The value for "no class", as in the masks of PASCAL VOC.
pub const VOID: u8 = 255;

/// The class of each pixel, given scores of shape classes × pixels: the highest score wins, or the first among equals. NaN
/// is ignored; a pixel with only NaN scores is [`VOID`].
pub fn highest(scores: ArrayView2<'_, f32>) -> Vec<u8> {
    todo!(
        "lesson 11, task 5: go through the classes, and keep the best so far of each pixel (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// The mean of the values that are `Some`; `None` without any.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// A confusion matrix of classes over any number of pictures.
///
/// With nᵢⱼ, the number of pixels of class i predicted as class j, tᵢ = Σⱼ nᵢⱼ and pᵢ = Σⱼ nⱼᵢ:
///
/// * intersection over union of a class: nᵢᵢ / (tᵢ + pᵢ − nᵢᵢ),
/// * mean intersection over union: the mean of these over all classes present in the ground truth or the predictions,
/// * pixel accuracy: Σᵢ nᵢᵢ / Σᵢ tᵢ.
///
/// Pixels whose true class is [`VOID`] are ignored; a prediction of [`VOID`] for any other pixel is wrong.
///
/// ```
/// use ixion_vision::Confusion;
/// let mut confusion = Confusion::new(2);
/// confusion.add(&[0, 0, 1, 1], &[0, 1, 1, 1])?;
/// assert_eq!((confusion.iou(0), confusion.iou(1)), (Some(1.0 / 2.0), Some(2.0 / 3.0)));
/// assert_eq!(confusion.pixel_accuracy(), Some(0.75));
/// # Ok::<(), ixion_vision::VisionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// A row for each true class, a column for each predicted class, and a last column for [`VOID`].
    counts: Vec<u64>,
}

impl Confusion {
    /// An empty matrix for the given number of classes, at most 255.
    pub fn new(classes: usize) -> Self {
        let classes = classes.min(usize::from(VOID));
        Self { classes, counts: vec![0; classes * (classes + 1)] }
    }

    /// Counts the pixels of a picture, given the true (`known`) and the predicted (`found`) classes.
    ///
    /// # Errors
    /// [`VisionError::InvalidArgument`] if the lengths differ or a class is out of range. Nothing is counted then.
    pub fn add(&mut self, known: &[u8], found: &[u8]) -> Result<()> {
        todo!(
            "lesson 11, task 5: reject invalid input; then count each pair of classes (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The number of pixels of class `known` predicted as class `found`.
    pub fn count(&self, known: usize, found: usize) -> u64 {
        if known >= self.classes || found >= self.classes {
            return 0;
        }
        self.counts.get(known * (self.classes + 1) + found).copied().unwrap_or(0)
    }

    /// The number of pixels of a class, whatever their prediction.
    fn truths(&self, class: usize) -> u64 {
        let width = self.classes + 1;
        self.counts
            .chunks_exact(width)
            .nth(class)
            .map_or(0, |row| row.iter().fold(0, |sum, &n| sum.saturating_add(n)))
    }

    /// Intersection over union of a class; `None` if it is neither in the ground truth nor predicted.
    pub fn iou(&self, class: usize) -> Option<f64> {
        todo!(
            "lesson 11, task 5: the pixels that are right, divided by those that are of the class or predicted as it (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The mean intersection over union (mIoU) of all classes in the ground truth or the predictions.
    pub fn mean_iou(&self) -> Option<f64> {
        mean((0..self.classes).map(|class| self.iou(class)))
    }
}
