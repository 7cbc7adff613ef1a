//! Pooling over planes: the maximum, mean or norm of sliding windows, or of parts that adapt to the output.
//!
//! The elements that an output position sees are the product of one `Span` per axis. The rows that it covers are
//! therefore folded into one first, contiguously and element by element, and then the elements along that row.

mod lanes;

use super::Float;
use super::naive::{Divisor, adaptive_range};
use super::wide::widest;
use super::window::Window;
use ixion_tensor::{LimitError, Limits};
use std::ops::Range;

/// The elements of one axis that one output position sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: usize,
    step: usize,
    count: usize,
    /// The number of positions in the input or its padding.
    covered: usize,
}

impl Span {
    fn places(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |i| self.first + i * self.step)
    }
}

/// The memory in bytes for one output position along an axis.
pub const POSITION_BYTES: u64 = size_of::<Span>() as u64;

/// The sizes of a pooling of one plane of up to three axes.
#[derive(Debug, Clone)]
pub struct PoolShape {
    /// Lengths of the plane's axes; missing ones in front are 1.
    lens: [usize; 3],
    /// The span of each output position along each axis.
    spans: [Vec<Span>; 3],
    /// The number of channels of each element, which then form the last axis.
    lanes: Option<usize>,
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
        let mut shape = Self { lens: [1; 3], spans: [const { Vec::new() }; 3], lanes: None };
        shape.lens[missing..].copy_from_slice(lens);
        for spans in &mut shape.spans[..missing] {
            spans.push(Span { first: 0, step: 1, count: 1, covered: 1 });
        }
        for (axis, (&len, &outputs)) in lens.iter().zip(outputs).enumerate() {
            shape.spans[missing + axis] = (0..outputs).map(|position| span(axis, position, len)).collect();
        }
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
        Some(Self {
            lens: [self.lens[1], self.lens[2], lanes],
            spans: [high, wide, (0..lanes).map(lane).collect()],
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
    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = usize>> {
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

    /// Pools all planes of the input.
    fn pool<T: Float>(
        &self,
        operation: Operation<'_>,
        input: &[T],
        output: &mut [T],
        (scratch, limits): (&mut [T], &Limits),
    ) -> Result<(), LimitError> {
        match operation {
            Operation::Max => {
                let larger = |best: T, x: T| if x > best || x.is_nan() { x } else { best };
                self.fold_any(input, output, T::neg_infinity(), (scratch, limits), larger)
            }
            Operation::MaxWithIndices(indices) => find_largest(self, input, output, indices, limits),
            Operation::Mean(divisor) => {
                self.fold_any(input, output, T::zero(), (scratch, limits), |sum, x| sum + x)?;
                match divisor {
                    Divisor::Elements => self.divide(output, |span| span.count),
                    Divisor::ElementsAndPadding => self.divide(output, |span| span.covered),
                    Divisor::Fixed(number) => output.iter_mut().for_each(|sum| *sum /= T::of(number as f64)),
                }
                Ok(())
            }
            Operation::Norm { p: f64::INFINITY, .. } => {
                let sizes: Vec<T> = input.iter().map(|x| x.abs()).collect();
                self.pool(Operation::Max, &sizes, output, (scratch, limits))
            }
            Operation::Norm { p, places } => {
                let powers: Vec<T> = input.iter().map(|&x| power(x, p)).collect();
                let mean = Operation::Mean(Divisor::ElementsAndPadding);
                self.pool(mean, &powers, output, (scratch, limits))?;
                output.iter_mut().for_each(|mean| *mean = power(*mean * T::of(places as f64), 1.0 / p));
                Ok(())
            }
        }
    }

    /// Folds the elements that each output position sees. Blocks of 8 and 16 channels have their own kernel.
    #[inline(always)]
    fn fold_any<T: Float>(
        &self,
        input: &[T],
        output: &mut [T],
        start: T,
        (folded, limits): (&mut [T], &Limits),
        fold: impl Fn(T, T) -> T + Copy + Sync,
    ) -> Result<(), LimitError> {
        match self.lanes {
            Some(8) => lanes::fold::<T, 8>(self, input, output, start, limits, fold),
            Some(16) => lanes::fold::<T, 16>(self, input, output, start, limits, fold),
            _ => widest(|| self.fold(input, output, start, (folded, limits), fold)),
        }
    }

    /// Folds the elements that each output position sees; the deadline is checked for each row of outputs.
    #[inline(always)]
    fn fold<T: Float>(
        &self,
        input: &[T],
        output: &mut [T],
        start: T,
        (folded, limits): (&mut [T], &Limits),
        fold: impl Fn(T, T) -> T,
    ) -> Result<(), LimitError> {
        let width = self.lens[2];
        let regular = regular(&self.spans[2]);
        let folded = &mut folded[..width];
        for (plane, output) in self.planes(input, output) {
            for (rows, output) in self.rows().zip(output.chunks_exact_mut(self.spans[2].len())) {
                limits.check_deadline()?;
                folded.fill(start);
                for row in rows {
                    let row = &plane[row * width..][..width];
                    folded.iter_mut().zip(row).for_each(|(sum, &x)| *sum = fold(*sum, x));
                }
                fold_row(&self.spans[2], &regular, folded, output, start, &fold);
            }
        }
        Ok(())
    }

    /// Input and output planes in pairs; empty if either of them has no elements.
    fn planes<'a, T, U>(
        &self,
        input: &'a [T],
        output: &'a mut [U],
    ) -> impl Iterator<Item = (&'a [T], &'a mut [U])> + use<'a, T, U> {
        input.chunks_exact(self.inputs().max(1)).zip(output.chunks_exact_mut(self.outputs().max(1)))
    }

    /// Divides every output element by the product of `count` of its spans.
    fn divide<T: Float>(&self, output: &mut [T], count: impl Fn(&Span) -> usize) {
        let [deep, high, wide] = &self.spans;
        for plane in output.chunks_exact_mut(self.outputs().max(1)) {
            let outer =
                deep.iter().flat_map(|deep| high.iter().map(|high| count(deep) as f64 * count(high) as f64));
            for (outer, row) in outer.zip(plane.chunks_exact_mut(wide.len())) {
                row.iter_mut().zip(wide).for_each(|(sum, wide)| *sum /= T::of(outer * count(wide) as f64));
            }
        }
    }
}

/// The longest run of equal windows with equal distances that starts at the first window of the maximum size. Empty if it
/// is short.
fn regular(spans: &[Span]) -> Range<usize> {
    let most = spans.iter().map(|span| span.count).max().unwrap_or(0);
    let Some(first) = spans.iter().position(|span| span.count == most) else { return 0..0 };
    let alike = |pair: &[Span]| (pair[1].first.wrapping_sub(pair[0].first), pair[1].count, pair[1].step);
    let rest = spans.get(first..).unwrap_or_default();
    let same = rest.windows(2).take_while(|pair| alike(pair) == alike(&rest[..2])).count();
    let is_worth_it = same >= 8 && rest[1].count == most && rest[1].first > rest[0].first;
    if is_worth_it { first..first + same + 1 } else { 0..0 }
}

/// Folds the elements of a row that each output position sees.
#[inline(always)]
fn fold_row<T: Float>(
    spans: &[Span],
    regular: &Range<usize>,
    row: &[T],
    output: &mut [T],
    start: T,
    fold: &impl Fn(T, T) -> T,
) {
    let each = |output: &mut [T], spans: &[Span]| {
        for (output, span) in output.iter_mut().zip(spans) {
            *output = fold_span(*span, row, start, fold);
        }
    };
    let (before, rest) = output.split_at_mut(regular.start);
    let (middle, after) = rest.split_at_mut(regular.len());
    each(before, &spans[..regular.start]);
    each(after, &spans[regular.end..]);
    let [first, second, ..] = spans[regular.clone()] else { return };
    // The first element of all windows, then the second of all, and so on: neighbouring outputs are computed together.
    middle.fill(start);
    let stride = second.first - first.first;
    for place in first.places() {
        let places = &row[place..];
        match stride {
            1 => middle.iter_mut().zip(places).for_each(|(sum, &x)| *sum = fold(*sum, x)),
            2 => middle.iter_mut().zip(places.chunks(2)).for_each(|(sum, pair)| *sum = fold(*sum, pair[0])),
            _ => middle
                .iter_mut()
                .zip(places.iter().step_by(stride.max(1)))
                .for_each(|(sum, &x)| *sum = fold(*sum, x)),
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

/// The largest element of each window. NaN is larger than any number; the padding is never chosen.
///
/// `input` holds any number of planes, and `output` the same number.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if scratch is shorter than [`PoolShape::scratch_len`].
pub fn max_pool<T: Pool>(
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
    scratch: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    T::pool(shape, Operation::Max, input, output, (scratch, limits))
}

/// As [`max_pool`], with the position of each largest element in its flattened plane: of equal elements the first, of
/// several NaN the last.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn max_pool_with_indices<T: Pool>(
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
    indices: &mut [i64],
    limits: &Limits,
) -> Result<(), LimitError> {
    T::pool(shape, Operation::MaxWithIndices(indices), input, output, (&mut [], limits))
}

/// As [`max_pool_with_indices`].
fn find_largest<T: Float>(
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
    indices: &mut [i64],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (width, outputs) = (shape.lens[2], shape.spans[2].len());
    let (mut largest, mut places) = (vec![T::neg_infinity(); width], vec![0; width]);
    let planes = shape.planes(input, output).zip(indices.chunks_exact_mut(shape.outputs().max(1)));
    for ((plane, output), indices) in planes {
        let targets = output.chunks_exact_mut(outputs).zip(indices.chunks_exact_mut(outputs));
        for (mut rows, (output, indices)) in shape.rows().zip(targets) {
            limits.check_deadline()?;
            match rows.next() {
                Some(row) => {
                    largest.copy_from_slice(&plane[row * width..][..width]);
                    places.iter_mut().zip(row * width..).for_each(|(place, at)| *place = at);
                }
                None => {
                    largest.fill(T::neg_infinity());
                    places.fill(0);
                }
            }
            for row in rows {
                let elements = plane[row * width..][..width].iter().zip(row * width..);
                for ((largest, place), (&x, at)) in largest.iter_mut().zip(&mut places).zip(elements) {
                    let wins = x > *largest || x.is_nan();
                    (*largest, *place) = if wins { (x, at) } else { (*largest, *place) };
                }
            }
            for ((output, index), span) in output.iter_mut().zip(indices).zip(&shape.spans[2]) {
                let found = span.places().map(|x| (largest[x], places[x])).reduce(larger);
                let (value, place) = found.unwrap_or((T::neg_infinity(), 0));
                (*output, *index) = (value, place as i64);
            }
        }
    }
    Ok(())
}

/// The larger of two elements with their positions: of equal elements the first, of several NaN the last.
fn larger<T: Float>(a: (T, usize), b: (T, usize)) -> (T, usize) {
    let b_wins = match (a.0.is_nan(), b.0.is_nan()) {
        (false, false) => b.0 > a.0 || (b.0 == a.0 && b.1 < a.1),
        (true, true) => b.1 > a.1,
        (_, b_is_nan) => b_is_nan,
    };
    if b_wins { b } else { a }
}

/// The mean of each window. `input` holds any number of planes, and `output` the same number.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// As [`max_pool`].
pub fn avg_pool<T: Pool>(
    shape: &PoolShape,
    divisor: Divisor,
    input: &[T],
    output: &mut [T],
    scratch: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    T::pool(shape, Operation::Mean(divisor), input, output, (scratch, limits))
}

/// The p-norm of each window of `places` elements; for p = ∞, the largest magnitude. A window that extends past the end
/// counts its missing elements as if they were the mean.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// As [`max_pool`].
pub fn lp_pool<T: Pool>(
    shape: &PoolShape,
    (p, places): (f64, usize),
    input: &[T],
    output: &mut [T],
    scratch: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    T::pool(shape, Operation::Norm { p, places }, input, output, (scratch, limits))
}

/// `x.powf(exponent)`, with cheaper forms for common exponents.
fn power<T: Float>(x: T, exponent: f64) -> T {
    match exponent {
        1.0 => x,
        2.0 => x * x,
        0.5 => x.sqrt(),
        _ => x.powf(T::of(exponent)),
    }
}

/// The operation on each window.
#[doc(hidden)]
pub enum Operation<'a> {
    /// The largest element.
    Max,
    /// The largest element and its position, one per output.
    MaxWithIndices(&'a mut [i64]),
    /// The mean.
    Mean(Divisor),
    /// The norm.
    Norm {
        /// Its order.
        p: f64,
        /// The number of elements of a whole window.
        places: usize,
    },
}

/// Element types whose pooling is compiled and optimised once, in this crate, instead of in each caller: `f32` and `f64`.
pub trait Pool: Float {
    /// The implementation of the functions of this module.
    #[doc(hidden)]
    fn pool(
        shape: &PoolShape,
        operation: Operation<'_>,
        input: &[Self],
        output: &mut [Self],
        scratch_and_limits: (&mut [Self], &Limits),
    ) -> Result<(), LimitError>;
}

impl Pool for f32 {
    fn pool(
        shape: &PoolShape,
        operation: Operation<'_>,
        input: &[Self],
        output: &mut [Self],
        scratch_and_limits: (&mut [Self], &Limits),
    ) -> Result<(), LimitError> {
        shape.pool(operation, input, output, scratch_and_limits)
    }
}

impl Pool for f64 {
    fn pool(
        shape: &PoolShape,
        operation: Operation<'_>,
        input: &[Self],
        output: &mut [Self],
        scratch_and_limits: (&mut [Self], &Limits),
    ) -> Result<(), LimitError> {
        shape.pool(operation, input, output, scratch_and_limits)
    }
}

#[cfg(test)]
mod tests;
