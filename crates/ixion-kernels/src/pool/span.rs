//! What an output position sees along an axis.

/// The elements of one axis that one output position sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) step: usize,
    pub(super) count: usize,
    /// The number of positions in the input or its padding.
    pub(super) covered: usize,
}

impl Span {
    pub(super) fn places(self) -> impl Iterator<Item = usize> + Clone {
        (0..self.count).map(move |i| self.first + i * self.step)
    }
}
