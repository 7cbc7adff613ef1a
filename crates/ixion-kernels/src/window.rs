//! Sliding windows: what convolution and pooling share.

// ANCHOR: window
/// One axis of a sliding window over a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of taps, that is, of elements that the window looks at.
    pub kernel: usize,
    /// The distance between adjacent positions of the window.
    pub stride: usize,
    /// The distance between adjacent taps.
    pub dilation: usize,
    /// The number of padding positions before the first element.
    pub pad_before: usize,
    /// The number of padding positions after the last element.
    pub pad_after: usize,
}

impl Window {
    /// The number of positions over an axis of `len` elements, rounded down; 0 if the window does not fit.
    pub fn positions(&self, len: usize) -> usize {
        // ANCHOR: positions_todo -- task 1: the number of positions at which the window fits on the axis
        let reach = self.dilation * self.kernel.saturating_sub(1) + 1;
        match (len + self.pad_before + self.pad_after).checked_sub(reach) {
            Some(room) => room / self.stride.max(1) + 1,
            None => 0,
        }
        // ANCHOR_END: positions_todo
    }

    /// The index of the element of an axis of `len` elements that `tap` looks at when the window is at output `position`;
    /// `None` in the padding.
    pub fn source(&self, position: usize, tap: usize, len: usize) -> Option<usize> {
        // ANCHOR: source_todo -- task 1: the index of the element that a tap looks at
        let at = (position * self.stride + tap * self.dilation).checked_sub(self.pad_before)?;
        (at < len).then_some(at)
        // ANCHOR_END: source_todo
    }
}
// ANCHOR_END: window

impl Window {
    /// Returns true if the window looks at something, and no arithmetic on axes of a tensor can overflow.
    pub fn is_sane(&self) -> bool {
        const MAX: usize = 1 << 30;
        let reach = self.kernel.saturating_sub(1).checked_mul(self.dilation);
        let small = [self.kernel, self.stride, self.dilation, self.pad_before, self.pad_after];
        self.kernel > 0
            && self.stride > 0
            && small.iter().all(|&n| n < MAX)
            && reach.is_some_and(|reach| reach < MAX)
    }

    /// The shortest axis that gives this number of positions.
    pub fn len_of(&self, positions: usize) -> usize {
        let reach = self.dilation * self.kernel.saturating_sub(1) + 1;
        (positions.saturating_sub(1) * self.stride + reach).saturating_sub(self.pad_before + self.pad_after)
    }

    /// The positions at which `tap` looks at the input and not at the padding.
    pub fn inside(&self, tap: usize, len: usize) -> std::ops::Range<usize> {
        let (reach, stride) = (tap * self.dilation, self.stride.max(1));
        let first = self.pad_before.saturating_sub(reach).div_ceil(stride);
        let end = (len + self.pad_before).saturating_sub(reach).div_ceil(stride);
        first..end.max(first)
    }

    /// The taps that look at the input and not at the padding, at output `position`.
    pub fn taps(&self, position: usize, len: usize) -> std::ops::Range<usize> {
        let (start, step) = (position * self.stride, self.dilation.max(1));
        let first = self.pad_before.saturating_sub(start).div_ceil(step).min(self.kernel);
        let end = (len + self.pad_before).saturating_sub(start).div_ceil(step).min(self.kernel);
        first..end.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_and_sources_by_hand() {
        let window = Window { kernel: 3, stride: 2, dilation: 2, pad_before: 1, pad_after: 1 };
        assert_eq!(window.positions(7), 3);
        assert_eq!(window.positions(2), 0);
        assert_eq!(window.source(0, 0, 7), None);
        assert_eq!(window.source(0, 1, 7), Some(1));
        assert_eq!(window.source(2, 2, 7), None);
    }

    proptest! {
        #[test]
        fn taps_are_those_that_have_a_source(
            (kernel, stride, dilation) in (1usize..5, 1usize..4, 1usize..4),
            (pad_before, len, position) in (0usize..6, 0usize..8, 0usize..8),
        ) {
            let window = Window { kernel, stride, dilation, pad_before, pad_after: 0 };
            let inside = (0..kernel).filter(|&tap| window.source(position, tap, len).is_some());
            prop_assert_eq!(window.taps(position, len).collect::<Vec<_>>(), inside.collect::<Vec<_>>());
        }

        #[test]
        fn positions_inside_are_those_that_have_a_source(
            (stride, dilation, tap) in (1usize..4, 1usize..4, 0usize..5),
            (pad_before, len) in (0usize..6, 0usize..8),
        ) {
            let window = Window { kernel: 5, stride, dilation, pad_before, pad_after: 0 };
            let inside = (0..20).filter(|&position| window.source(position, tap, len).is_some());
            prop_assert_eq!(window.inside(tap, len).collect::<Vec<_>>(), inside.collect::<Vec<_>>());
        }
    }
}
