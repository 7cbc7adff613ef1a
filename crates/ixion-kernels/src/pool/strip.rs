//! Outputs next to each other along the last axis, and the elements that they see.

use super::span::Span;
use crate::Float;
use std::ops::Range;

/// Consecutive output positions, few enough that they and the elements that they see stay in the first-level cache.
#[derive(Debug, Clone)]
pub(super) struct Strip {
    /// The output positions.
    pub(super) outputs: Range<usize>,
    /// The columns of the input that they see, and possibly others in between.
    pub(super) columns: Range<usize>,
    /// Those of the output positions whose windows have equal sizes and equal distances. Empty if they are few.
    regular: Range<usize>,
}

/// The maximum number of output positions of a strip; few in tests, so that rows have several.
const OUTPUTS: usize = if cfg!(test) { 16 } else { 1024 };

/// Divides the output positions along an axis into strips.
pub(super) fn strips(spans: &[Span]) -> Vec<Strip> {
    let of = |(index, spans): (usize, &[Span])| {
        let start = index * OUTPUTS;
        let regular = regular(spans);
        Strip {
            outputs: start..start + spans.len(),
            columns: columns(spans),
            regular: start + regular.start..start + regular.end,
        }
    };
    spans.chunks(OUTPUTS).enumerate().map(of).collect()
}

/// The columns from the first that a span covers to the last.
fn columns(spans: &[Span]) -> Range<usize> {
    let covering = || spans.iter().filter(|span| span.count > 0);
    let start = covering().map(|span| span.first).min().unwrap_or(0);
    let end = covering().map(|span| span.first + (span.count - 1) * span.step + 1).max().unwrap_or(0);
    start..end
}

/// The longest run of equal windows with equal distances that starts at the first window of the maximum size. Empty if it
/// is short.
fn regular(spans: &[Span]) -> Range<usize> {
    let most = spans.iter().map(|span| span.count).max().unwrap_or(0);
    let Some(first) = spans.iter().position(|span| span.count == most) else { return 0..0 };
    let alike = |pair: &[Span]| (pair[1].first.wrapping_sub(pair[0].first), pair[1].count, pair[1].step);
    let rest = spans.get(first..).unwrap_or_default();
    let same = rest.windows(2).take_while(|pair| alike(pair) == alike(&rest[..2])).count();
    let is_worth_it = most > 0 && same >= 8 && rest[1].count == most && rest[1].first > rest[0].first;
    if is_worth_it { first..first + same + 1 } else { 0..0 }
}

/// The first window of the regular ones, relative to the columns of its strip, and the distance between neighbours.
pub(super) struct Regular {
    pub(super) first: Span,
    pub(super) stride: usize,
}

impl Strip {
    /// The span of an output position, relative to the columns of the strip.
    #[inline(always)]
    pub(super) fn relative(&self, span: Span) -> Span {
        // A span of no elements may begin anywhere.
        Span { first: span.first.saturating_sub(self.columns.start), ..span }
    }

    /// The regular windows among `spans`, those of the whole axis, and their output positions.
    pub(super) fn regular(&self, spans: &[Span]) -> Option<(Range<usize>, Regular)> {
        let [first, second, ..] = spans[self.regular.clone()] else { return None };
        let regular = Regular { first: self.relative(first), stride: second.first - first.first };
        Some((self.regular.clone(), regular))
    }

    /// The other output positions.
    pub(super) fn irregular(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { outputs, regular, .. } = self.clone();
        let (before, after) = if regular.is_empty() {
            (outputs, 0..0)
        } else {
            (outputs.start..regular.start, regular.end..outputs.end)
        };
        before.chain(after)
    }

    /// Folds the elements that each output position sees; `line` holds those of the strip's columns, and `spans` and
    /// `output` are those of the whole axis.
    #[inline(always)]
    pub(super) fn fold<T: Float>(
        &self,
        spans: &[Span],
        line: &[T],
        output: &mut [T],
        start: T,
        fold: &impl Fn(T, T) -> T,
    ) {
        for position in self.irregular() {
            output[position] = fold_span(self.relative(spans[position]), line, start, fold);
        }
        let Some((positions, Regular { first, stride })) = self.regular(spans) else { return };
        let output = &mut output[positions];
        // The first element of all windows, then the second of all, and so on: neighbouring outputs are computed together.
        for (tap, place) in first.places().enumerate() {
            let elements = &line[place..];
            match tap {
                0 => for_each_apart(output, elements, stride, |sum, x| *sum = fold(start, x)),
                _ => for_each_apart(output, elements, stride, |sum, x| *sum = fold(*sum, x)),
            }
        }
    }
}

/// Calls `each` with every output and an element, `stride` elements after that of the previous output.
#[inline(always)]
fn for_each_apart<T: Copy>(output: &mut [T], elements: &[T], stride: usize, each: impl Fn(&mut T, T)) {
    match stride {
        1 => output.iter_mut().zip(elements).for_each(|(output, &x)| each(output, x)),
        2 => output.iter_mut().zip(elements.chunks(2)).for_each(|(output, pair)| each(output, pair[0])),
        _ => {
            let elements = elements.iter().step_by(stride.max(1));
            output.iter_mut().zip(elements).for_each(|(output, &x)| each(output, x));
        }
    }
}

/// Folds the elements of a row that one output position sees; many of them in independent parts.
#[inline(always)]
fn fold_span<T: Float>(span: Span, row: &[T], start: T, fold: &impl Fn(T, T) -> T) -> T {
    const PARTS: usize = 16;
    if span.step != 1 || span.count < 4 * PARTS {
        return span.places().fold(start, |sum, x| fold(sum, row[x]));
    }
    let chunks = row[span.first..][..span.count].chunks_exact(PARTS);
    let rest = chunks.remainder().iter().fold(start, |sum, &x| fold(sum, x));
    let mut parts = [start; PARTS];
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(sum, &x)| *sum = fold(*sum, x));
    }
    parts.into_iter().fold(rest, fold)
}
