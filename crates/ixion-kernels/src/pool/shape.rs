//! The sizes of a pooling: what each output position sees.

use super::span::Span;
use super::strip::{Strip, strips};
use crate::naive::adaptive_range;
use crate::window::Window;

/// The memory in bytes for one output position along an axis.
pub const POSITION_BYTES: u64 = size_of::<Span>() as u64;

/// The sizes of a pooling of one plane of up to three axes.
#[derive(Debug, Clone)]
pub struct PoolShape {
    /// Lengths of the plane's axes; missing ones in front are 1.
    pub(super) lens: [usize; 3],
    /// The span of each output position along each axis.
    pub(super) spans: [Vec<Span>; 3],
    /// The output positions along the last axis, in strips.
    pub(super) strips: Vec<Strip>,
    /// The number of channels of each element, which then form the last axis.
    pub(super) lanes: Option<usize>,
}

impl PoolShape {
    /// A window that slides along each axis, to `outputs` positions.
    pub fn sliding(lens: &[usize], windows: &[Window], outputs: &[usize]) -> Self {
        Self::new(lens, outputs, |axis, position, len| {
            let window = windows[axis];
            let taps = window.taps(position, len);
            let start = position * window.stride;
            let end = (start + window.kernel).min(len + window.pad_before + window.pad_after);
            Span {
                first: (start + taps.start * window.dilation).saturating_sub(window.pad_before),
                step: window.dilation,
                count: taps.len(),
                covered: end.saturating_sub(start),
            }
        })
    }

    /// Parts that divide each axis into `outputs` ranges; neighbours may overlap by one element.
    pub fn adaptive(lens: &[usize], outputs: &[usize]) -> Self {
        Self::new(lens, outputs, |axis, position, len| {
            let range = adaptive_range(position, outputs[axis], len);
            Span { first: range.start, step: 1, count: range.len(), covered: range.len() }
        })
    }

    fn new(lens: &[usize], outputs: &[usize], span: impl Fn(usize, usize, usize) -> Span) -> Self {
        let missing = 3 - lens.len();
        let mut shape =
            Self { lens: [1; 3], spans: [const { Vec::new() }; 3], strips: Vec::new(), lanes: None };
        shape.lens[missing..].copy_from_slice(lens);
        for spans in &mut shape.spans[..missing] {
            spans.push(Span { first: 0, step: 1, count: 1, covered: 1 });
        }
        for (axis, (&len, &outputs)) in lens.iter().zip(outputs).enumerate() {
            shape.spans[missing + axis] = (0..outputs).map(|position| span(axis, position, len)).collect();
        }
        shape.strips = strips(&shape.spans[2]);
        shape
    }

    /// The same pooling for planes whose elements hold `lanes` channels, which are pooled separately. Returns `None` if
    /// all three axes are in use.
    #[must_use]
    pub fn with_lanes(self, lanes: usize) -> Option<Self> {
        let [unused, high, wide] = self.spans;
        if self.lens[0] != 1 || unused.len() != 1 || self.lanes.is_some() {
            return None;
        }
        let lane = |first| Span { first, step: 1, count: 1, covered: 1 };
        let channels: Vec<Span> = (0..lanes).map(lane).collect();
        Some(Self {
            lens: [self.lens[1], self.lens[2], lanes],
            strips: strips(&channels),
            spans: [high, wide, channels],
            lanes: Some(lanes),
        })
    }

    /// Elements of one input plane.
    pub fn inputs(&self) -> usize {
        self.lens.iter().product()
    }

    /// Elements of one output plane.
    pub fn outputs(&self) -> usize {
        self.spans.iter().map(Vec::len).product()
    }

    /// The rows of a plane that an output row covers, for each output row.
    pub(super) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = usize> + Clone> {
        let [deep, high, _] = &self.spans;
        deep.iter().flat_map(move |deep| {
            high.iter().map(move |high| {
                deep.places().flat_map(move |z| high.places().map(move |y| z * self.lens[1] + y))
            })
        })
    }

    /// The number of elements of scratch memory that pooling needs.
    pub fn scratch_len(&self) -> usize {
        self.lens[2]
    }

    /// Input and output planes in pairs; empty if either of them has no elements.
    pub(super) fn planes<'a, T, U>(
        &self,
        input: &'a [T],
        output: &'a mut [U],
    ) -> impl Iterator<Item = (&'a [T], &'a mut [U])> + use<'a, T, U> {
        input.chunks_exact(self.inputs().max(1)).zip(output.chunks_exact_mut(self.outputs().max(1)))
    }
}
