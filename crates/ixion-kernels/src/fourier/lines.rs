//! Transforms of all lines along an axis of an array.
//!
//! Lines of adjacent elements are transformed where they are. Others are gathered as rows first, some tiles of a few
//! elements of each at a time, so that every cache line that is read or written is used as a whole.

use super::{Direction, Plan, Real, RealPlan};
use crate::parallel::for_each_chunk;
use ixion_tensor::Complex;
use ixion_tensor::{LimitError, Limits};
use smallvec::SmallVec;

type Done = Result<(), LimitError>;

/// The minimum number of elements per task.
const SHARE: usize = 1 << 14;

/// Lines that are gathered and transformed together.
const LANES: usize = 16;

/// Elements of a line that are moved before those of the next line.
const TILE: usize = 8;

/// The lines along an axis of arrays in row-major order: columns of blocks of `len` rows of `inner` elements.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    pub(super) len: usize,
    pub(super) inner: usize,
    /// Only the first `used` of every `pitch` columns count.
    pitch: usize,
    used: usize,
}

impl Lines {
    /// The lines along an axis of length `len`, where `inner` is the product of the lengths of all axes after it.
    pub fn new(len: usize, inner: usize) -> Self {
        Self { len, inner, pitch: inner, used: inner }
    }

    /// The lines with an index below `used` along the last axis, whose length is `pitch`.
    pub fn within(self, pitch: usize, used: usize) -> Self {
        Self { pitch, used, ..self }
    }

    /// The number of elements of a block.
    fn block(&self) -> usize {
        self.len * self.inner
    }

    /// The number of lines of a block.
    fn count(&self) -> usize {
        self.inner / self.pitch.max(1) * self.used
    }

    /// The column of a line.
    fn column(&self, line: usize) -> usize {
        if self.used == self.pitch { line } else { line / self.used * self.pitch + line % self.used }
    }
}

/// Copies the lines of a block from line `first` on to rows.
fn gather<E: Copy>(block: &[E], lines: Lines, first: usize, rows: &mut [E]) {
    let count = rows.len() / lines.len;
    let columns: SmallVec<[usize; LANES]> = (first..first + count).map(|line| lines.column(line)).collect();
    for start in (0..lines.len).step_by(TILE) {
        let tile = &block[start * lines.inner..];
        for (row, &column) in rows.chunks_exact_mut(lines.len).zip(&columns) {
            let row = row[start..].iter_mut().take(TILE);
            row.zip(tile[column..].iter().step_by(lines.inner)).for_each(|(to, &from)| *to = from);
        }
    }
}

/// Copies rows to the lines of a block.
fn scatter<E: Copy + Send + Sync>(rows: &[E], lines: Lines, block: &mut [E], limits: &Limits) -> Done {
    for_each_chunk(block, TILE * lines.inner, &|start, tile| {
        limits.check_deadline()?;
        let first = start / lines.inner;
        for (line, row) in rows.chunks_exact(lines.len).enumerate() {
            let column = tile[lines.column(line)..].iter_mut().step_by(lines.inner);
            column.zip(&row[first..]).for_each(|(to, &from)| *to = from);
        }
        Ok(())
    })
}

/// Writes rows of `len` elements as columns: the first elements of all rows, then the second, and so on.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if there are not as many elements in the columns as in the rows.
pub fn transpose<E: Copy + Send + Sync>(rows: &[E], len: usize, columns: &mut [E], limits: &Limits) -> Done {
    assert_eq!(rows.len(), columns.len(), "as many elements as before");
    if rows.is_empty() {
        return Ok(());
    }
    scatter(rows, Lines::new(len, rows.len() / len), columns, limits)
}

fn zeros<T: Real>(count: usize) -> Vec<Complex<T>> {
    vec![Complex::new(T::zero(), T::zero()); count]
}

/// Transforms complex lines in place, without any scaling.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn transform<T: Real>(
    values: &mut [Complex<T>],
    lines: Lines,
    direction: Direction,
    limits: &Limits,
) -> Done {
    if values.is_empty() || lines.len == 1 {
        return Ok(());
    }
    let plan = Plan::<T>::new(lines.len, direction);
    if lines.inner == 1 {
        return for_each_chunk(values, SHARE.div_ceil(lines.len) * lines.len, &|_, rows| {
            limits.check_deadline()?;
            plan.run(rows, &mut zeros::<T>(plan.scratch()));
            Ok(())
        });
    }
    let mut rows = zeros::<T>(lines.count() * lines.len);
    for block in values.chunks_exact_mut(lines.block()) {
        let from = &*block;
        for_each_chunk(&mut rows, LANES * lines.len, &|start, rows: &mut [Complex<T>]| -> Done {
            limits.check_deadline()?;
            gather(from, lines, start / lines.len, rows);
            plan.run(rows, &mut zeros::<T>(plan.scratch()));
            Ok(())
        })?;
        scatter(&rows, lines, block, limits)?;
    }
    Ok(())
}

/// Computes lines from others, as many and in the same places: `compute` writes rows of results, which begin a number of elements
/// apart, from rows of values. The results are written into an axis of length `len`.
fn convert<E, F>(
    (values, from): (&[E], Lines),
    (results, to, len): (&mut [F], Lines, usize),
    compute: impl Fn(&[E], &mut [F], usize) + Sync,
    limits: &Limits,
) -> Done
where
    E: Copy + Default + Send + Sync,
    F: Copy + Default + Send + Sync,
{
    if from.inner == 1 {
        return for_each_chunk(results, SHARE.div_ceil(from.len.max(to.len)) * len, &|start, results| {
            limits.check_deadline()?;
            compute(&values[start / len * from.len..], results, len);
            Ok(())
        });
    }
    let mut rows = vec![F::default(); to.count() * to.len];
    let blocks = values.chunks_exact(from.block()).zip(results.chunks_exact_mut(len * to.inner));
    for (values, results) in blocks {
        for_each_chunk(&mut rows, LANES * to.len, &|start, rows: &mut [F]| -> Done {
            limits.check_deadline()?;
            let mut gathered = vec![E::default(); rows.len() / to.len * from.len];
            gather(values, from, start / to.len, &mut gathered);
            compute(&gathered, rows, to.len);
            Ok(())
        })?;
        scatter(&rows, to, &mut results[..to.block()], limits)?;
    }
    Ok(())
}

/// Writes the spectra of real lines, without any scaling: the first half of each, ⌊n/2⌋ + 1 elements for n, into an axis of
/// length `len`. Further elements of the axis are left as they are.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if `len` is shorter than half a spectrum.
pub fn spectra<T: Real>(
    values: &[T],
    lines: Lines,
    (spectra, len): (&mut [Complex<T>], usize),
    direction: Direction,
    limits: &Limits,
) -> Done {
    if values.is_empty() {
        return Ok(());
    }
    let (plan, half) = (RealPlan::<T>::new(lines.len, direction), lines.len / 2 + 1);
    let compute = |rows: &[T], spectra: &mut [Complex<T>], step: usize| {
        let mut scratch = zeros::<T>(plan.scratch());
        for (row, spectrum) in rows.chunks_exact(lines.len).zip(spectra.chunks_exact_mut(step)) {
            plan.spectrum(row, &mut spectrum[..half], &mut scratch);
        }
    };
    convert((values, lines), (spectra, Lines { len: half, ..lines }, len), compute, limits)
}

/// Writes the real lines of which `spectra` has the first halves, without any scaling.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn signals<T: Real>(
    spectra: &[Complex<T>],
    lines: Lines,
    values: &mut [T],
    direction: Direction,
    limits: &Limits,
) -> Done {
    if values.is_empty() {
        return Ok(());
    }
    let (plan, half) = (RealPlan::<T>::new(lines.len, direction), lines.len / 2 + 1);
    let compute = |halves: &[Complex<T>], rows: &mut [T], step: usize| {
        let mut scratch = zeros::<T>(plan.scratch());
        for (spectrum, row) in halves.chunks_exact(half).zip(rows.chunks_exact_mut(step)) {
            plan.signal(spectrum, row, &mut scratch);
        }
    };
    convert((spectra, Lines { len: half, ..lines }), (values, lines, lines.len), compute, limits)
}

/// Extends the spectra of real arrays from the first half of the last axis to all of it. An element is the conjugate of that
/// at the opposite index along all of `axes`, the transformed ones, of which the last axis is one.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn complete<T: Real>(
    values: &mut [Complex<T>],
    shape: &[usize],
    axes: &[usize],
    limits: &Limits,
) -> Done {
    let Some((&len, outer)) = shape.split_last() else { return Ok(()) };
    let half = len / 2 + 1;
    if half >= len || values.is_empty() {
        return Ok(());
    }
    let mut known = zeros::<T>(len - half);
    for row in 0..values.len() / len {
        limits.check_deadline()?;
        let opposite = opposite(row, outer, axes);
        known.copy_from_slice(&values[opposite * len + 1..][..len - half]);
        let missing = &mut values[row * len + half..][..len - half];
        missing.iter_mut().zip(known.iter().rev()).for_each(|(to, from)| *to = from.conj());
    }
    Ok(())
}

/// The row at the opposite index along some axes.
fn opposite(row: usize, shape: &[usize], axes: &[usize]) -> usize {
    let (mut rest, mut step, mut found) = (row, 1, 0);
    for (axis, &len) in shape.iter().enumerate().rev() {
        let index = rest % len;
        found += step * if axes.contains(&axis) { (len - index) % len } else { index };
        (rest, step) = (rest / len, step * len);
    }
    found
}
