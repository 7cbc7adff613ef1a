//! Axis-aligned rectangles.

// ANCHOR: rect
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
// ANCHOR_END: rect

impl Rect {
    /// Returns true if the rectangle has no positive, finite area, or an edge is not finite.
    pub fn is_degenerate(&self) -> bool {
        let edges = [self.left, self.top, self.right, self.bottom];
        // An area that underflows to 0 or overflows does not count.
        let area = self.area();
        edges.iter().any(|edge| !edge.is_finite()) || area <= 0.0 || !area.is_finite()
    }
}

// ANCHOR: iou
impl Rect {
    /// The area; 0 if edges are swapped.
    pub fn area(&self) -> f32 {
        // ANCHOR: area_todo -- task 2: width times height, neither of them below 0
        self.width().max(0.0) * self.height().max(0.0)
        // ANCHOR_END: area_todo
    }

    /// The intersection; its edges are swapped if the rectangles do not overlap.
    #[must_use]
    pub fn intersection(&self, other: &Rect) -> Rect {
        // ANCHOR: intersection_todo -- task 2: the inner one of each pair of edges
        Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
        // ANCHOR_END: intersection_todo
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
        // ANCHOR: iou_todo -- task 2: the area in common, divided by the area of both together
        let common = self.intersection(other).area();
        let union = self.area() + other.area() - common;
        if union > 0.0 { common / union } else { 0.0 }
        // ANCHOR_END: iou_todo
    }

    /// Clips the rectangle to a picture of the given height and width.
    #[must_use]
    pub fn clipped(&self, [height, width]: [usize; 2]) -> Rect {
        // ANCHOR: clipped_todo -- task 2: each edge between 0 and the edge of the picture
        let (width, height) = (width as f32, height as f32);
        Self {
            left: self.left.clamp(0.0, width),
            top: self.top.clamp(0.0, height),
            right: self.right.clamp(0.0, width),
            bottom: self.bottom.clamp(0.0, height),
        }
        // ANCHOR_END: clipped_todo
    }
}
// ANCHOR_END: iou

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_by_hand() {
        let unit = Rect::new(0.0, 0.0, 1.0, 1.0);
        assert_eq!(unit.iou(&unit), 1.0);
        assert_eq!(unit.iou(&Rect::new(1.0, 0.0, 2.0, 1.0)), 0.0);
        assert_eq!(unit.iou(&Rect::new(5.0, 5.0, 4.0, 4.0)), 0.0);
        assert_eq!(Rect::new(0.0, 0.0, 4.0, 1.0).iou(&Rect::new(2.0, 0.0, 6.0, 1.0)), 2.0 / 6.0);
        assert_eq!(Rect::centered([2.0, 3.0], [2.0, 4.0]), Rect::new(1.0, 1.0, 3.0, 5.0));
    }

    #[test]
    fn rectangles_without_an_area() {
        for rect in [
            Rect::new(0.0, 0.0, 0.0, 1.0),
            Rect::new(2.0, 0.0, 1.0, 1.0),
            Rect::new(f32::NAN, 0.0, 1.0, 1.0),
            Rect::new(0.0, 0.0, f32::INFINITY, 1.0),
            Rect::new(-1e38, -1e38, 1e38, 1e38),
        ] {
            assert!(rect.is_degenerate(), "{rect:?}");
        }
        let outside = Rect::new(-5.0, -5.0, -1.0, 3.0).clipped([10, 10]);
        assert!(outside.is_degenerate());
        assert_eq!(Rect::new(-5.0, 2.0, 30.0, 30.0).clipped([10, 20]), Rect::new(0.0, 2.0, 20.0, 10.0));
    }
}
