//! Pooling over planes: the maximum, mean or norm of sliding windows, or of parts that adapt to the output.
//!
//! The elements that an output position sees are the product of one `Span` per axis. The rows that it covers are
//! therefore folded into one first, contiguously and element by element, and then the elements along that row. Long rows
//! are divided into strips, whose elements stay in the first-level cache.

mod bytes;
mod lanes;
mod largest;
mod shape;
mod span;
mod strip;

use super::Float;
use super::naive::Divisor;
use super::reduce::sum;
use crate::widest;
pub use bytes::{ByteReduction, pool_bytes};
use ixion_tensor::{LimitError, Limits};
pub use shape::{POSITION_BYTES, PoolShape};
use span::Span;

impl PoolShape {
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
            Operation::MaxWithIndices(indices) => {
                widest!(|| largest::find(self, input, (output, indices), limits))
            }
            Operation::Mean(divisor) => {
                if self.is_whole() {
                    for (plane, output) in self.planes(input, output) {
                        limits.check_deadline()?;
                        output.fill(T::of(sum(plane)));
                    }
                } else {
                    self.fold_any(input, output, T::zero(), (scratch, limits), |sum, x| sum + x)?;
                }
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

    /// Returns true if the only output position sees the whole plane.
    fn is_whole(&self) -> bool {
        let is_all = |(spans, &len): (&Vec<Span>, &usize)| match spans[..] {
            [span] => (span.first, span.step, span.count) == (0, 1, len),
            _ => false,
        };
        self.lanes.is_none() && self.spans.iter().zip(&self.lens).all(is_all)
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
            _ => widest!(|| fold_windows(self, input, output, start, (folded, limits), fold)),
        }
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

/// Folds the elements that each output position sees; the deadline is checked for each row of outputs.
#[inline(always)]
fn fold_windows<T: Float>(
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
    start: T,
    (folded, limits): (&mut [T], &Limits),
    fold: impl Fn(T, T) -> T,
) -> Result<(), LimitError> {
    let (width, spans) = (shape.lens[2], &*shape.spans[2]);
    for (plane, output) in shape.planes(input, output) {
        for (rows, output) in shape.rows().zip(output.chunks_exact_mut(spans.len())) {
            limits.check_deadline()?;
            for strip in &shape.strips {
                let part = |row: usize| &plane[row * width..][..width][strip.columns.clone()];
                let folded = &mut folded[..strip.columns.len()];
                let line = fold_rows(rows.clone().map(part), folded, start, &fold);
                strip.fold(spans, line, output, start, &fold);
            }
        }
    }
    Ok(())
}

/// Folds rows into one, which is in `folded` unless it is the only one.
#[inline(always)]
fn fold_rows<'a, T: Float>(
    mut rows: impl Iterator<Item = &'a [T]>,
    folded: &'a mut [T],
    start: T,
    fold: &impl Fn(T, T) -> T,
) -> &'a [T] {
    let Some(first) = rows.next() else {
        folded.fill(start);
        return folded;
    };
    let Some(second) = rows.next() else { return first };
    for ((folded, &first), &second) in folded.iter_mut().zip(first).zip(second) {
        *folded = fold(fold(start, first), second);
    }
    for row in rows {
        folded.iter_mut().zip(row).for_each(|(sum, &x)| *sum = fold(*sum, x));
    }
    folded
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
