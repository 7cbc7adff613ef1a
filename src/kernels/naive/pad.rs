//! Padding: a larger tensor whose outside is made from its inside.

use ndarray::{ArrayD, ArrayViewD, Axis, Dimension, IxDyn};

/// What the outside is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadMode {
    /// The inside mirrored at its edge, the edge element once.
    Reflect,
    /// The edge element repeated.
    Replicate,
    /// The other end of the inside.
    Circular,
}

impl PadMode {
    /// The element of an axis of `len` elements that stands `before` places after position `place` − `before`.
    fn source(self, place: usize, before: usize, len: usize) -> usize {
        let (at, len) = (place as i64 - before as i64, len as i64);
        let source = match self {
            PadMode::Replicate => at.clamp(0, len - 1),
            PadMode::Circular => at.rem_euclid(len),
            PadMode::Reflect if at < 0 => -at,
            PadMode::Reflect if at >= len => 2 * (len - 1) - at,
            PadMode::Reflect => at,
        };
        source as usize
    }

    /// The most places that one side of an axis of `len` elements may be padded by, as in PyTorch.
    fn limit(self, len: usize) -> usize {
        match self {
            PadMode::Reflect => len.saturating_sub(1),
            PadMode::Circular => len,
            PadMode::Replicate if len == 0 => 0,
            PadMode::Replicate => usize::MAX,
        }
    }
}

/// Pads each axis by (before, after) places, as `torch.nn.functional.pad` in its modes `reflect`, `replicate` and
/// `circular`.
///
/// # Errors
/// A sentence, when an axis is too short for its padding.
pub fn pad<T: Copy>(input: ArrayViewD<'_, T>, pads: &[(usize, usize)], mode: PadMode) -> Result<ArrayD<T>, String> {
    let mut shape = input.shape().to_vec();
    for (axis, (len, &(before, after))) in shape.iter_mut().zip(pads).enumerate() {
        if before.max(after) > mode.limit(*len) {
            return Err(format!("axis {axis} of length {len} is too short to be padded by ({before}, {after}) in this mode"));
        }
        *len += before + after;
    }
    let mut padded = input.to_owned();
    for (axis, &(before, after)) in pads.iter().enumerate().filter(|(_, pads)| **pads != (0, 0)) {
        let len = input.len_of(Axis(axis));
        let sources: Vec<usize> = (0..len + before + after).map(|place| mode.source(place, before, len)).collect();
        padded = padded.select(Axis(axis), &sources);
    }
    debug_assert_eq!(padded.raw_dim(), IxDyn(&shape));
    debug_assert_eq!(padded.ndim(), padded.raw_dim().ndim());
    Ok(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[i32]) -> ArrayD<i32> {
        ArrayD::from_shape_vec(IxDyn(&[values.len()]), values.to_vec()).unwrap()
    }

    #[test]
    fn all_modes_by_hand() {
        let x = row(&[1, 2, 3]);
        let padded = |mode| pad(x.view(), &[(2, 1)], mode).unwrap().into_raw_vec_and_offset().0;
        assert_eq!(padded(PadMode::Reflect), [3, 2, 1, 2, 3, 2]);
        assert_eq!(padded(PadMode::Replicate), [1, 1, 1, 2, 3, 3]);
        assert_eq!(padded(PadMode::Circular), [2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn an_axis_that_is_too_short_is_an_error() {
        assert!(pad(row(&[1, 2]).view(), &[(2, 0)], PadMode::Reflect).is_err());
        assert!(pad(row(&[1, 2]).view(), &[(2, 0)], PadMode::Circular).is_ok());
        assert!(pad(row(&[]).view(), &[(1, 0)], PadMode::Replicate).is_err());
    }
}
