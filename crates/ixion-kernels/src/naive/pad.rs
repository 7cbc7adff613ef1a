//! Padding: a larger tensor whose border is derived from its interior or filled with a constant.

use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

/// How the padding is derived from the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadMode {
    /// The elements mirrored at the edge, without repeating the edge element.
    Reflect,
    /// The edge element repeated.
    Replicate,
    /// The elements of the other end.
    Circular,
}

impl PadMode {
    /// The source element of each position of an axis of `len` elements that is padded by `before` and `after` positions.
    /// Negative numbers remove elements. `None` if the axis is too short, as in PyTorch.
    pub fn sources(self, len: usize, before: i64, after: i64) -> Option<Vec<usize>> {
        let count = i64::try_from(len).ok()?.checked_add(before)?.checked_add(after)?;
        if count < 0 || before.max(after) > self.limit(len) {
            return None;
        }
        (0..count).map(|place| usize::try_from(pad_source(self, place - before, len as i64)).ok()).collect()
    }

    /// The maximum number of positions by which one side of an axis of `len` elements can be padded.
    fn limit(self, len: usize) -> i64 {
        match self {
            PadMode::Reflect => len.saturating_sub(1) as i64,
            PadMode::Circular => len as i64,
            PadMode::Replicate if len == 0 => 0,
            PadMode::Replicate => i64::MAX,
        }
    }
}

// ANCHOR: pad_source
/// The index of the element of an axis of length `len` that is found at `place` of the padded axis. `place` is counted
/// from the first element: negative before it, and `len` or more after the last. For `Reflect`, it must be less than
/// `len` positions away from the axis.
///
/// # Panics
/// Panics if `len` is 0.
pub fn pad_source(mode: PadMode, place: i64, len: i64) -> i64 {
    // ANCHOR: pad_source_todo -- task 5: the nearest element, the one at the other end, or the mirrored one
    match mode {
        PadMode::Replicate => place.clamp(0, len - 1),
        PadMode::Circular => place.rem_euclid(len),
        PadMode::Reflect if place < 0 => -place,
        PadMode::Reflect if place >= len => 2 * (len - 1) - place,
        PadMode::Reflect => place,
    }
    // ANCHOR_END: pad_source_todo
}
// ANCHOR_END: pad_source

// ANCHOR: pad_constant
/// Pads an array with a constant: each axis gets (before, after) positions, as `numpy.pad`.
///
/// # Panics
/// Panics if the number of pairs is not the number of axes, or the result is too large.
pub fn pad_constant<T: Copy>(input: ArrayViewD<'_, T>, pads: &[(usize, usize)], value: T) -> ArrayD<T> {
    assert_eq!(input.ndim(), pads.len(), "one pair of numbers for each axis");
    let shape: Vec<usize> =
        input.shape().iter().zip(pads).map(|(len, (before, after))| before + len + after).collect();
    ArrayD::from_shape_fn(IxDyn(&shape), |place| inside(&input, place.slice(), pads).unwrap_or(value))
}

/// The element at a position of the padded array, or `None` in the padding.
fn inside<T: Copy>(input: &ArrayViewD<'_, T>, place: &[usize], pads: &[(usize, usize)]) -> Option<T> {
    // ANCHOR: inside_todo -- task 5: subtract the padding before each axis, then get the element if there is one
    let at = place.iter().zip(pads).map(|(place, (before, _))| place.checked_sub(*before));
    let at: Vec<usize> = at.collect::<Option<_>>()?;
    input.get(IxDyn(&at)).copied()
    // ANCHOR_END: inside_todo
}
// ANCHOR_END: pad_constant

/// Pads each axis by (before, after) positions, as `torch.nn.functional.pad` in its modes `reflect`, `replicate` and
/// `circular`.
///
/// # Errors
/// A message if an axis is too short for its padding.
pub fn pad<T: Copy>(
    input: ArrayViewD<'_, T>,
    pads: &[(usize, usize)],
    mode: PadMode,
) -> Result<ArrayD<T>, String> {
    let (mut padded, mut lens) = (input.iter().copied().collect::<Vec<T>>(), input.shape().to_vec());
    for (axis, &(before, after)) in pads.iter().enumerate().filter(|(_, pads)| **pads != (0, 0)) {
        let len = lens[axis];
        let sources = i64::try_from(before).ok().zip(i64::try_from(after).ok());
        let sources = sources.and_then(|(before, after)| mode.sources(len, before, after)).ok_or_else(|| {
            format!("axis {axis} of length {len} is too short to be padded by ({before}, {after}) in this mode")
        })?;
        let inner: usize = lens[axis + 1..].iter().product();
        let blocks = padded.chunks_exact((len * inner).max(1));
        let places =
            blocks.flat_map(|block| sources.iter().map(move |source| &block[source * inner..][..inner]));
        padded = places.flatten().copied().collect();
        lens[axis] = sources.len();
    }
    ArrayD::from_shape_vec(lens, padded).map_err(|error| error.to_string())
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
    fn negative_numbers_cut_off() {
        assert_eq!(PadMode::Reflect.sources(4, -2, 2).unwrap(), [2, 3, 2, 1]);
        assert_eq!(PadMode::Replicate.sources(4, 1, -3).unwrap(), [0, 0]);
        assert_eq!(PadMode::Circular.sources(3, -1, 2).unwrap(), [1, 2, 0, 1]);
        assert_eq!(PadMode::Replicate.sources(2, -1, -2), None);
        assert_eq!(PadMode::Replicate.sources(2, i64::MAX, 1), None);
    }

    #[test]
    fn an_axis_that_is_too_short_is_an_error() {
        assert!(pad(row(&[1, 2]).view(), &[(2, 0)], PadMode::Reflect).is_err());
        assert!(pad(row(&[1, 2]).view(), &[(2, 0)], PadMode::Circular).is_ok());
        assert!(pad(row(&[]).view(), &[(1, 0)], PadMode::Replicate).is_err());
    }
}
