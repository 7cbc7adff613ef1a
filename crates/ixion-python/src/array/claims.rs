//! The memory that runs are using, so that no two of them write to the same array.

use crate::process;
use ixion::tensor::Layout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The use of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The memory of an array: the address of its first element, its layout, and the size of an element in bytes.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) start: usize,
    pub(super) layout: Layout,
    pub(super) size: usize,
}

/// Permission to use memory until it is dropped.
pub(super) struct Claim {
    id: u64,
}

struct Entry {
    id: u64,
    /// The process that runs, counted in forks: a new one has none of the other's runs.
    process: usize,
    extent: Extent,
    access: Access,
}

static IN_USE: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Whoever has the lock has the interpreter as well, and runs no code in Python meanwhile. So a thread that forks the process
/// never leaves it locked.
fn in_use() -> MutexGuard<'static, Vec<Entry>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claim {
    /// Claims memory; `None` if it is in use, and one of both uses is writing.
    pub(super) fn new(extent: Extent, access: Access) -> Option<Self> {
        let (mut in_use, process) = (in_use(), process::forks());
        // The runs of the process that was forked do not end in this one.
        in_use.retain(|entry| entry.process == process);
        let is_writing = |entry: &Entry| access == Access::Write || entry.access == Access::Write;
        let excludes = |entry: &Entry| is_writing(entry) && overlap(&entry.extent, &extent);
        if in_use.iter().any(excludes) {
            return None;
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        in_use.push(Entry { id, process, extent, access });
        Some(Self { id })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut in_use = in_use();
        if let Some(position) = in_use.iter().position(|entry| entry.id == self.id) {
            in_use.swap_remove(position);
        }
    }
}

/// False if two arrays certainly have no byte in common. True for a few that interleave in unusual ways.
fn overlap(first: &Extent, second: &Extent) -> bool {
    let is_empty = |extent: &Extent| extent.layout.shape().num_elements() == 0;
    if is_empty(first) || is_empty(second) {
        return false;
    }
    let end = |extent: &Extent| extent.start.saturating_add(extent.layout.span().saturating_mul(extent.size));
    if first.start >= end(second) || second.start >= end(first) {
        return false;
    }
    let origin = first.start.min(second.start);
    Part::of(first, origin).meets(&Part::of(second, origin))
}

/// An array as bytes: where it starts, and the length and stride of its axes, the largest stride first.
struct Part {
    start: usize,
    axes: Vec<(usize, usize)>,
    size: usize,
}

impl Part {
    fn of(extent: &Extent, origin: usize) -> Self {
        let layout = &extent.layout;
        let axes =
            layout.shape().iter().zip(layout.strides()).map(|(&dim, &stride)| (dim, stride * extent.size));
        let mut axes: Vec<(usize, usize)> = axes.filter(|&(dim, stride)| dim > 1 && stride > 0).collect();
        axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.1));
        Self { start: extent.start - origin, axes, size: extent.size }
    }

    /// One past its last byte.
    fn end(&self) -> usize {
        self.start + self.axes.iter().map(|&(dim, stride)| (dim - 1) * stride).sum::<usize>() + self.size
    }

    /// The part within one row, if rows are `stride` bytes apart and it does not continue in the next one.
    fn within_row(&self, stride: usize) -> Option<Self> {
        let is_outer = self.axes.first().is_some_and(|axis| axis.1 == stride);
        let axes = self.axes.get(usize::from(is_outer)..).unwrap_or_default().to_vec();
        let part = Self { start: self.start % stride, axes, size: self.size };
        (part.end() <= stride).then_some(part)
    }

    /// False if both certainly have no byte in common: their ranges are apart, or they are in different columns of rows.
    fn meets(&self, other: &Self) -> bool {
        if self.start >= other.end() || other.start >= self.end() {
            return false;
        }
        let strides = self.axes.first().into_iter().chain(other.axes.first()).map(|axis| axis.1);
        let Some(stride) = strides.max() else { return true };
        match (self.within_row(stride), other.within_row(stride)) {
            (Some(first), Some(second)) => first.meets(&second),
            _ => true,
        }
    }
}
