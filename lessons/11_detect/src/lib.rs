//! Lesson 11: objects and masks in pictures.
//!
//! The page of the book: `book/src/lessons/11_detect.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! Sizes and places are rows first, columns second: `[height, width]`, `[row, col]`. Boxes have edges with names.

use ixion_vision::VisionError;
use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, s};

/// What a function returns that may refuse its input.
pub type Result<T> = std::result::Result<T, VisionError>;

// Task 1: the letterbox.

/// Height and width of a picture that is scaled, circles staying circles, until it just fits inside of an input.
pub fn letterboxed(picture: [usize; 2], input: [usize; 2]) -> [usize; 2] {
    todo!(
        "lesson 11, task 1: the largest ratio with which both axes fit (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// Height and width times a ratio, rounded, and at least 1. The axis that decided the ratio comes out exactly, whatever its
/// product rounds to.
fn scaled(from: [usize; 2], to: [usize; 2], ratio: f64) -> [usize; 2] {
    [0, 1].map(|axis| match to[axis] as f64 / from[axis] as f64 == ratio {
        true => to[axis],
        false => ((from[axis] as f64 * ratio).round() as usize).max(1),
    })
}

/// Where a picture lies within the network's input: at `scale · position + offset`. Both are given for rows first and
/// columns second, in pixels; the upper left corner of the picture is 0, 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Pixels of the input for one pixel of the picture.
    pub scale: [f32; 2],
    /// Where the picture's upper left corner lies in the input; negative when it was cut off.
    pub offset: [f32; 2],
}

impl Placement {
    /// Where a picture lies that is resized and put into the middle of the input; of an odd number of places left over, the
    /// larger half comes behind it. What is larger than the input is cut off on both sides, the larger half behind as well.
    pub fn centered(picture: [usize; 2], resized: [usize; 2], input: [usize; 2]) -> Self {
        todo!(
            "lesson 11, task 1: for each axis, the scale, and half of the room that is left (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The place in the picture, row and column, of a place in the network's input.
    pub fn to_picture(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        todo!(
            "lesson 11, task 1: from a place in the input back to the picture (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The place in the network's input, row and column, of a place in the picture.
    pub fn to_input(&self, [row, col]: [f32; 2]) -> [f32; 2] {
        todo!(
            "lesson 11, task 1: from a place in the picture to the input (book chapter 11; stuck? cargo learn hint 11)"
        )
    }
}

/// Puts a plane into the middle of one that is at least as large, as [`Placement::centered`] says, and fills what is around
/// it with one value.
///
/// # Panics
/// When the plane is larger.
pub fn surround(mut target: ArrayViewMut2<'_, f32>, plane: ArrayView2<'_, f32>, border: f32) {
    todo!(
        "lesson 11, task 1: the border everywhere, then the plane in the middle (book chapter 11; stuck? cargo learn hint 11)"
    )
}

// Task 2: rectangles. `f32` has `max`, `min` and `clamp`.

/// An upright rectangle in pixels; the upper left corner of the picture is 0, 0, and its first pixel reaches to 1, 1.
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

    /// The length from left to right.
    pub fn width(&self) -> f32 {
        self.right - self.left
    }

    /// The length from top to bottom.
    pub fn height(&self) -> f32 {
        self.bottom - self.top
    }
}

impl Rect {
    /// The area; 0 for a rectangle without one.
    pub fn area(&self) -> f32 {
        todo!(
            "lesson 11, task 2: width times height, neither of them below 0 (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// What both cover; turned inside out where they are apart.
    #[must_use]
    pub fn intersection(&self, other: &Rect) -> Rect {
        todo!(
            "lesson 11, task 2: the inner one of each pair of edges (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// Intersection over union, from 0 to 1: the area that both cover, by the area that either covers. Rectangles
    /// without an area have none in common with any.
    ///
    /// ```
    /// use ixion_vision::Rect;
    /// let (a, b) = (Rect::new(0.0, 0.0, 2.0, 2.0), Rect::new(1.0, 0.0, 3.0, 2.0));
    /// assert_eq!(a.iou(&b), 2.0 / 6.0);
    /// ```
    pub fn iou(&self, other: &Rect) -> f32 {
        todo!(
            "lesson 11, task 2: the area in common, by the area of both together (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The part inside a picture of this height and width.
    #[must_use]
    pub fn clipped(&self, [height, width]: [usize; 2]) -> Rect {
        todo!(
            "lesson 11, task 2: each edge between 0 and the edge of the picture (book chapter 11; stuck? cargo learn hint 11)"
        )
    }
}

// Given: a rectangle of the input in pixels of the picture.

/// The size of a picture, the size of the model's input, and where the one lies in the other.
///
/// What a model finds is in pixels of its input; a frame takes it back to the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Height and width of the picture.
    pub picture: [usize; 2],
    /// Height and width of the model's input.
    pub input: [usize; 2],
    /// Where the picture lies in the input.
    pub placement: Placement,
}

impl Frame {
    /// A rectangle of the input in pixels of the picture; it may reach beyond the picture.
    pub fn to_picture(&self, rect: &Rect) -> Rect {
        let [top, left] = self.placement.to_picture([rect.top, rect.left]);
        let [bottom, right] = self.placement.to_picture([rect.bottom, rect.right]);
        Rect { left, top, right, bottom }
    }

    /// A rectangle of the picture in pixels of the input.
    pub fn to_input(&self, rect: &Rect) -> Rect {
        let [top, left] = self.placement.to_input([rect.top, rect.left]);
        let [bottom, right] = self.placement.to_input([rect.bottom, rect.right]);
        Rect { left, top, right, bottom }
    }
}

// Task 3: from numbers to boxes.

/// The logistic function, 1 / (1 + e⁻ˣ): from any number to one between 0 and 1.
pub fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// An object that a model found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// The number of its class.
    pub class: usize,
    /// How sure the model is, from 0 to 1.
    pub score: f32,
    /// Where it is.
    pub rect: Rect,
}

/// The box that a cell of a grid and an anchor predict: `values` are the first four numbers of the cell, before the
/// sigmoid σ; the anchor is width and height, and a cell is `stride` pixels of the input wide and high.
///
/// Centre column (2σ(t₀) − 0.5 + column) · stride, centre row likewise with t₁; width (2σ(t₂))² times that of the anchor,
/// height likewise with t₃.
pub fn cell_box(values: [f32; 4], anchor: [f32; 2], [row, col]: [usize; 2], stride: usize) -> Rect {
    todo!(
        "lesson 11, task 3: centre, width and height by YOLOv5's formulas (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// The object in a row of YOLOv5: centre column and row, width and height, how sure that there is anything, then a
/// probability for each class. None where its score is not above the confidence.
///
/// # Panics
/// When the row has fewer than five numbers.
pub fn decode_row(row: ArrayView1<'_, f32>, confidence: f32) -> Option<Detection> {
    todo!(
        "lesson 11, task 3: the box of the first four numbers, and the detection of the rest (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// A box with its most probable class. The score is that probability times how sure it is that there is anything; none
/// where it is not above the confidence, as NaN never is.
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

/// The number of the most probable class, and its probability. Of equal ones it is the first; NaN is above nothing.
pub fn most_probable(classes: impl Iterator<Item = f32>) -> Option<(usize, f32)> {
    todo!("lesson 11, task 3: the first of the largest (book chapter 11; stuck? cargo learn hint 11)")
}

// Task 4: suppression.

/// The most boxes that are looked at, the best ones, as in YOLOv5: more would make a model without a good idea slow.
const MOST_CANDIDATES: usize = 30_000;

/// Non-maximum suppression, class by class: the boxes in the order of their scores, without those that overlap a better
/// one of the same class by more than `iou` (intersection over union), and no more than `most`.
///
/// The same as `batched_nms` of torchvision: equal scores keep their order, and an overlap of exactly `iou` is
/// allowed. Boxes with NaN as their score are dropped. Only the 30,000 best are looked at.
///
/// ```
/// use ixion_vision::{Detection, Rect, suppress};
/// let found = |score, left| Detection { class: 0, score, rect: Rect::new(left, 0.0, left + 10.0, 10.0) };
/// let kept = suppress(vec![found(0.5, 1.0), found(0.9, 0.0), found(0.4, 20.0)], 0.45, 300);
/// assert_eq!(kept, [found(0.9, 0.0), found(0.4, 20.0)]);
/// ```
pub fn suppress(mut candidates: Vec<Detection>, iou: f32, most: usize) -> Vec<Detection> {
    todo!(
        "lesson 11, task 4: best first, and none that overlaps a better one of its class too much (book chapter 11; stuck? cargo learn hint 11)"
    )
}

// Task 5: masks.

/// The number that stands for no class at all, as in the masks of PASCAL VOC.
pub const VOID: u8 = 255;

/// The class of each pixel, given classes × pixels of scores: the highest wins, and of equals the first. NaN is no score;
/// where there is no other, the pixel is [`VOID`].
pub fn highest(scores: ArrayView2<'_, f32>) -> Vec<u8> {
    todo!(
        "lesson 11, task 5: go through the classes, and keep the best so far of each pixel (book chapter 11; stuck? cargo learn hint 11)"
    )
}

/// The mean of what is there.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// How often each class was taken for which, over any number of pictures.
///
/// With nᵢⱼ, the number of pixels of class i that were taken for j, tᵢ = Σⱼ nᵢⱼ and pᵢ = Σⱼ nⱼᵢ:
///
/// * intersection over union of a class: nᵢᵢ / (tᵢ + pᵢ − nᵢᵢ),
/// * mean intersection over union: the mean of these over all classes that were there or found,
/// * pixel accuracy: Σᵢ nᵢᵢ / Σᵢ tᵢ.
///
/// Pixels whose true class is [`VOID`] do not count at all; [`VOID`] where a class should be found is wrong.
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
    /// A row for each true class, a column for each class that was found, and one more for none.
    counts: Vec<u64>,
}

impl Confusion {
    /// No pixels yet of this many classes, at most 255.
    pub fn new(classes: usize) -> Self {
        let classes = classes.min(usize::from(VOID));
        Self { classes, counts: vec![0; classes * (classes + 1)] }
    }

    /// Counts the pixels of a picture, given the true classes and those that were found.
    ///
    /// # Errors
    /// [`VisionError::InvalidArgument`] when there are not as many of both, or for a class that there is not. Nothing was
    /// counted then.
    pub fn add(&mut self, known: &[u8], found: &[u8]) -> Result<()> {
        todo!(
            "lesson 11, task 5: refuse what does not fit; then count each pair of classes (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The number of pixels of class `known` that were taken for class `found`.
    pub fn count(&self, known: usize, found: usize) -> u64 {
        if known >= self.classes || found >= self.classes {
            return 0;
        }
        self.counts.get(known * (self.classes + 1) + found).copied().unwrap_or(0)
    }

    /// The number of pixels of a class, whatever they were taken for.
    fn truths(&self, class: usize) -> u64 {
        let width = self.classes + 1;
        self.counts
            .chunks_exact(width)
            .nth(class)
            .map_or(0, |row| row.iter().fold(0, |sum, &n| sum.saturating_add(n)))
    }

    /// Intersection over union of a class; nothing where it was neither there nor found.
    pub fn iou(&self, class: usize) -> Option<f64> {
        todo!(
            "lesson 11, task 5: the pixels that are right, by those that are of the class or taken for it (book chapter 11; stuck? cargo learn hint 11)"
        )
    }

    /// The mean intersection over union (mIoU) of all classes that were there or found.
    pub fn mean_iou(&self) -> Option<f64> {
        mean((0..self.classes).map(|class| self.iou(class)))
    }
}
