//! Padding other than zeros, which is added to a sample before it is convolved.

use crate::op::{LayerError, Result};
use ixion_kernels::naive::PadMode;
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::quantized::Int8Conv;
use ixion_kernels::take::take_axes;
use ixion_tensor::{LimitError, Limits};

/// The minimum number of elements per task.
const SHARE: usize = 1 << 14;

/// A multiple of this number of elements is reserved for a padded sample, so that what follows is as aligned as before.
const ALIGNED: usize = 16;

/// The elements that the planes of a sample are padded with.
#[derive(Debug)]
pub(super) struct Border {
    /// For each axis of a plane, its length and the sources of the elements of the padded axis.
    axes: Vec<(usize, Vec<usize>)>,
}

impl Border {
    /// The border of planes of these lengths, with this padding before and after each axis; `None` if there is none.
    ///
    /// # Errors
    /// [`LayerError::Shape`] if an axis is too short for its padding; [`LayerError::Limit`] if the padding exceeds the limits.
    pub(super) fn new(
        mode: PadMode,
        lens: &[usize],
        pads: &[(usize, usize)],
        limits: &Limits,
    ) -> Result<Option<Self>> {
        if pads.iter().all(|&pad| pad == (0, 0)) {
            return Ok(None);
        }
        let sums = lens.iter().zip(pads).map(|(&len, pad)| len.saturating_add(pad.0).saturating_add(pad.1));
        let bytes = sums.fold(0u64, |sum, len| sum.saturating_add(len as u64)).saturating_mul(8);
        limits.check_tensor("the positions of a padded input", bytes)?;
        let axes = lens.iter().zip(pads).map(|(&len, &(before, after))| {
            let pair = i64::try_from(before).ok().zip(i64::try_from(after).ok());
            let sources = pair.and_then(|(before, after)| mode.sources(len, before, after));
            let wanted = || format!("axes that are longer than their padding ({before}, {after})");
            Ok((len, sources.ok_or_else(|| LayerError::shape("the input", wanted(), len))?))
        });
        Ok(Some(Self { axes: axes.collect::<Result<_>>()? }))
    }

    /// The number of elements of a plane, and of a padded one.
    fn planes(&self) -> [usize; 2] {
        let count = |len: fn(&(usize, Vec<usize>)) -> usize| self.axes.iter().map(len).product();
        [count(|axis| axis.0), count(|axis| axis.1.len())]
    }

    /// The number of elements of a sample that has `padded` elements with its padding.
    pub(super) fn bare(&self, padded: usize) -> usize {
        let [bare, whole] = self.planes();
        padded.checked_div(whole).unwrap_or(0) * bare
    }

    /// Pads a sample, whose planes have `inner` adjacent elements at each position. Threads share the planes.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if there is too little room in `padded`.
    pub(super) fn pad<'p, T: Copy + Send + Sync>(
        &self,
        sample: &[T],
        inner: usize,
        padded: &'p mut [T],
        limits: &Limits,
    ) -> Result<&'p [T], LimitError> {
        let [bare, whole] = self.planes().map(|plane| plane * inner);
        let len = sample.len().checked_div(bare).unwrap_or(0) * whole;
        let padded = &mut padded[..len];
        let share = SHARE.div_ceil(whole.max(1)) * whole;
        for_each_chunk(padded, share, &|start, padded: &mut [T]| -> Result<(), LimitError> {
            limits.check_deadline()?;
            let (first, count) = (start / whole, padded.len() / whole);
            take_axes(&sample[first * bare..][..count * bare], &self.axes, inner, padded);
            Ok(())
        })?;
        Ok(padded)
    }
}

/// The number of elements of scratch memory for a padded sample.
pub(super) fn room(padded: usize) -> usize {
    padded.checked_next_multiple_of(ALIGNED).unwrap_or(usize::MAX)
}

/// What an int8 convolution prepares for the shape of its input.
#[derive(Debug)]
pub struct PreparedInt8 {
    /// The convolution of samples that have their border.
    pub(super) conv: Int8Conv,
    /// The border to add to a sample beforehand; `None` if its padding is zeros.
    pub(super) border: Option<Border>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_kernels::naive::pad;
    use ndarray::Array4;

    #[test]
    fn planes_are_padded_like_arrays() {
        let pads = [(1, 2), (2, 0)];
        for mode in [PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
            for inner in [1, 3, 8] {
                let sample =
                    Array4::from_shape_fn((5, 3, 4, inner), |(a, b, c, d)| ((a * 5 + b) * 5 + c) * 9 + d);
                let all = [(0, 0), pads[0], pads[1], (0, 0)];
                let want = pad(sample.view().into_dyn(), &all, mode).unwrap();
                let border = Border::new(mode, &[3, 4], &pads, &Limits::default()).unwrap().unwrap();
                let mut room = vec![7; room(want.len())];
                let got =
                    border.pad(sample.as_slice().unwrap(), inner, &mut room, &Limits::default()).unwrap();
                assert_eq!(want.shape(), [5, 6, 6, inner]);
                assert_eq!((got, border.bare(want.len())), (want.as_slice().unwrap(), sample.len()));
            }
        }
    }

    #[test]
    fn what_has_no_border() {
        let limits = Limits::default();
        assert!(Border::new(PadMode::Reflect, &[3], &[(0, 0)], &limits).unwrap().is_none());
        let error = Border::new(PadMode::Reflect, &[3], &[(3, 0)], &limits).unwrap_err().to_string();
        assert_eq!(error, "the input: expected axes that are longer than their padding (3, 0), got 3");
        let few = Limits { max_tensor_bytes: 100, ..limits };
        assert!(matches!(Border::new(PadMode::Replicate, &[3], &[(10, 0)], &few), Err(LayerError::Limit(_))));
    }
}
