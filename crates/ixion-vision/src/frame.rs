//! The mapping between a picture and a model's input.

use super::Rect;
use crate::{Picture, Placement, Preprocess};
use ixion_tensor::{Limits, Result, Tensor, TensorError};

// ANCHOR: frame
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
// ANCHOR_END: frame

impl Frame {
    /// Prepares a picture. Returns the frame for mapping results back to it as well.
    ///
    /// # Errors
    /// As [`Preprocess::prepare`].
    pub fn prepare(rule: &Preprocess, picture: &Picture, limits: &Limits) -> Result<(Tensor, Self)> {
        let (tensor, placement) = rule.prepare(picture, limits)?;
        let size = [picture.height(), picture.width()];
        let &[_, _, height, width] = tensor.shape().dims() else {
            let shape = tensor.shape();
            return Err(TensorError::InvalidArgument(format!(
                "expected four axes for a prepared picture, got {shape}"
            )));
        };
        Ok((tensor, Self { picture: size, input: [height, width], placement }))
    }

    /// The frame of a picture stretched to an input; both sizes are height and width.
    pub fn stretched(picture: [usize; 2], input: [usize; 2]) -> Self {
        let scale = [0, 1].map(|axis| input[axis] as f32 / picture[axis].max(1) as f32);
        Self { picture, input, placement: Placement { scale, offset: [0.0; 2] } }
    }
}

// ANCHOR: frame_rects
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
// ANCHOR_END: frame_rects

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Color, Fit};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rectangles_round_trip(
            picture in [1usize..300, 1usize..300], input in [1usize..300, 1usize..300], fit in 0usize..3,
            edges in [0f32..1.0, 0f32..1.0, 0f32..1.0, 0f32..1.0],
        ) {
            let fit = [Fit::Stretch, Fit::Letterbox, Fit::Crop][fit];
            let rule = Preprocess { fit, size: Some(input), color: Color::Gray, ..Preprocess::default() };
            let pixels = vec![0; picture[0] * picture[1]];
            let given = Picture::new(picture[0], picture[1], Color::Gray, pixels).unwrap();
            let (_, frame) = Frame::prepare(&rule, &given, &Limits::default()).unwrap();
            prop_assert_eq!((frame.picture, frame.input), (picture, input));
            let [height, width] = picture.map(|len| len as f32);
            let rect = Rect::new(edges[0] * width, edges[1] * height, edges[2] * width, edges[3] * height);
            let back = frame.to_picture(&frame.to_input(&rect));
            let pairs = [(back.left, rect.left), (back.top, rect.top), (back.right, rect.right), (back.bottom, rect.bottom)];
            prop_assert!(pairs.iter().all(|(got, want)| (got - want).abs() < 0.01 + want.abs() * 1e-4), "{:?} {:?}", back, rect);
            if fit == Fit::Stretch {
                prop_assert_eq!(Frame::stretched(picture, input), frame);
            }
        }
    }
}
