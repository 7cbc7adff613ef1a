//! Rows: the elements along some axes, for each position along the others.

use super::axes::{chunk, collapsed, is_chunked};
use super::epilogue::Arguments;
use super::prelude::*;
use super::support::shape;
use smallvec::SmallVec;

/// The layout of rows of several tensors of one shape.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// The axes outside the rows, and those of the rows.
    pub(super) outer: KernelShape,
    pub(super) row: KernelShape,
    outer_strides: SmallVec<[KernelStrides; 8]>,
    row_strides: SmallVec<[KernelStrides; 8]>,
    /// The number of rows.
    pub(super) count: usize,
    /// The number of elements of a row.
    pub(super) length: usize,
}

/// The maximum number of threads of a block, and the threads of a warp.
const MAX_THREADS: usize = 256;
const WARP: usize = 32;

/// How threads share rows: the definitions for `rows.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowSchedule {
    /// The number of threads that share a row.
    threads_per_row: usize,
    /// The number of elements that a thread reads at a time.
    chunk: usize,
    /// The number of chunks of a row that each thread keeps in registers; 0 if rows are too long, or have several axes.
    cached_chunks: usize,
    /// The grid for all rows.
    pub(super) grid: Grid,
}

/// The maximum length of rows that a warp shares, the number of warps of a block with a row each, and the maximum number of
/// elements that a thread keeps in registers.
const MAX_WARP_LENGTH: usize = 1024;
const WARPS_PER_BLOCK: usize = 4;
const MAX_CACHED: usize = 32;

impl RowSchedule {
    /// Defines the schedule for a source that includes `rows.cuh`.
    pub(super) fn define(&self, unit: Unit) -> Unit {
        unit.define("THREADS_PER_ROW", self.threads_per_row)
            .define("CHUNK", self.chunk)
            .define("CACHED_CHUNKS", self.cached_chunks)
    }
}

impl Rows {
    /// The rows along these axes.
    ///
    /// # Errors
    /// Returns an error if the layouts have different shapes.
    pub(super) fn along(axes: &[usize], layouts: &[Layout]) -> Result<Self> {
        let rank = layouts.first().map_or(0, |layout| layout.shape().len());
        let (of_row, others): (Vec<usize>, Vec<usize>) = (0..rank).partition(|axis| axes.contains(axis));
        let part = |axes: &[usize], layout: &Layout| -> Result<Layout> {
            let dims: Vec<usize> = axes.iter().map(|&axis| layout.shape()[axis]).collect();
            let strides: Vec<usize> = axes.iter().map(|&axis| layout.strides()[axis]).collect();
            Ok(Layout::strided(shape(&dims)?, &strides, 0)?)
        };
        let parts = |axes: &[usize]| -> Result<Vec<Layout>> {
            layouts.iter().map(|layout| part(axes, layout)).collect()
        };
        let (outer_parts, row_parts) = (parts(&others)?, parts(&of_row)?);
        let elements = |parts: &[Layout]| parts.first().map_or(1, |layout| layout.shape().num_elements());
        let (count, length) = (elements(&outer_parts), elements(&row_parts));
        let (outer, outer_strides) = collapsed(&outer_parts);
        let (row, row_strides) = collapsed(&row_parts);
        Ok(Self { outer, row, outer_strides, row_strides, count, length })
    }

    /// The strides of a tensor along the axes outside the rows.
    pub(super) fn outer_strides(&self, tensor: usize) -> Argument<'static> {
        Argument::Strides(self.outer_strides.get(tensor).copied().unwrap_or_default())
    }

    /// The strides of a tensor within a row.
    pub(super) fn row_strides(&self, tensor: usize) -> Argument<'static> {
        Argument::Strides(self.row_strides.get(tensor).copied().unwrap_or_default())
    }

    /// The arguments of a kernel that computes rows of `y` from those of `x`: each tensor with its strides, the shapes, the
    /// number of rows, and their length.
    pub(super) fn arguments<'a>(&self, x: &DeviceTensor<'a>, y: &DeviceTensor<'a>) -> Arguments<'a> {
        let mut arguments = Arguments::new();
        for (position, tensor) in [Argument::Read(*x), Argument::Write(*y)].into_iter().enumerate() {
            arguments.extend([tensor, self.outer_strides(position), self.row_strides(position)]);
        }
        arguments.extend([
            Argument::Shape(self.outer),
            Argument::Shape(self.row),
            Argument::Long(self.count as i64),
            Argument::Long(self.length as i64),
        ]);
        arguments
    }

    /// Returns true if there are many rows whose elements interleave in memory, so that threads with a row each read adjacent
    /// elements. Long rows must be numerous enough to keep a large GPU busy.
    pub(super) fn are_interleaved(&self) -> bool {
        const LONG: usize = 128;
        const MIN_LONG_ROWS: usize = 1 << 16;
        let are_enough = self.count >= if self.length > LONG { MIN_LONG_ROWS } else { MAX_THREADS };
        let last = usize::try_from(self.outer.rank - 1).ok();
        let by = last.and_then(|axis| self.outer_strides.first()?.by.get(axis).copied());
        by == Some(1) && are_enough
    }

    /// A grid with a block for each row, of as many warps as the row needs.
    pub(super) fn grid(&self) -> Grid {
        let threads = self.length.clamp(1, MAX_THREADS).next_multiple_of(WARP);
        Grid::of(self.count, threads as u32)
    }

    /// The schedule for the rows of these tensors, the first of which is read: in chunks if these suit the kernel, too.
    pub(super) fn schedule(
        &self,
        tensors: &[&DeviceTensor<'_>],
        fits: impl Fn(usize) -> bool,
    ) -> RowSchedule {
        let chunk = chunk(tensors, |chunk| self.are_chunked(tensors, chunk) && fits(chunk));
        let chunks = self.length.div_ceil(chunk);
        let (threads_per_row, grid) = if self.are_interleaved() {
            (1, Grid::over(self.count))
        } else if self.length <= MAX_WARP_LENGTH {
            (WARP, Grid::of(self.count.div_ceil(WARPS_PER_BLOCK), (WARP * WARPS_PER_BLOCK) as u32))
        } else {
            (MAX_THREADS, Grid::of(self.count, MAX_THREADS as u32))
        };
        // A power of two, so that only few variants of a kernel are compiled.
        let cached_chunks = chunks.div_ceil(threads_per_row).next_power_of_two();
        let are_cached = self.row.rank <= 1 && cached_chunks * chunk <= MAX_CACHED;
        RowSchedule {
            threads_per_row,
            chunk,
            cached_chunks: if are_cached { cached_chunks } else { 0 },
            grid,
        }
    }

    /// Returns true if all rows are contiguous, and divide into chunks that are aligned to their size.
    fn are_chunked(&self, tensors: &[&DeviceTensor<'_>], chunk: usize) -> bool {
        let outer = self.outer.rank as usize;
        let is_aligned = |(at, tensor): (usize, &&DeviceTensor<'_>)| {
            let row = self.row_strides.get(at).map(|row| row.by[0]);
            let by = self.outer_strides.get(at);
            row == Some(1) && by.is_some_and(|by| is_chunked(tensor, &by.by[..outer], chunk))
        };
        self.row.rank == 1
            && self.length.is_multiple_of(chunk)
            && !self.are_interleaved()
            && tensors.iter().enumerate().all(is_aligned)
    }
}

/// The layout of a tensor without an axis, and the stride along it.
///
/// # Errors
/// None in practice: a layout with fewer axes is always valid.
pub(super) fn without_axis(layout: &Layout, axis: usize) -> Result<(Layout, i64)> {
    let (mut dims, mut by) = (layout.shape().dims().to_vec(), layout.strides().to_vec());
    let stride = if axis < by.len() { by.remove(axis) } else { 0 };
    if axis < dims.len() {
        dims.remove(axis);
    }
    Ok((Layout::strided(shape(&dims)?, &by, 0)?, stride as i64))
}
