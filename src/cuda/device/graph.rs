//! Work that is the same in every run, submitted as a whole.
//!
//! Launching a kernel costs the CPU microseconds; a graph of all kernels costs little more than one launch. Dependencies follow
//! from what each kernel reads and writes: independent branches run concurrently.

use super::queue::{Slot, pointers};
use super::{
    Call, CudaError, DriverGraph, DriverQueue, Extent, Grid, Kernel, Launch, LibraryWork, Memory, Node,
    Result, Work,
};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;

/// A recorded launch, or a recorded library call.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) work: RecordedWork,
    pub(super) extents: SmallVec<[Extent; 16]>,
}

#[derive(Debug, Clone)]
pub(super) enum RecordedWork {
    Launch { kernel: Kernel, grid: Grid, slots: Vec<Slot> },
    Call { work: Box<LibraryWork>, addresses: SmallVec<[u64; 6]>, scratch: usize },
}

/// Recorded launches; see [`Queue::record`](super::Queue::record).
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub(super) launches: Vec<Recorded>,
}

impl Recording {
    /// The number of launches.
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// Returns true if there are no launches.
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// The launches that each launch must wait for, without those that are implied by others.
    pub fn dependencies(&self) -> Vec<Vec<usize>> {
        let mut ancestors: Vec<Ancestors> = Vec::with_capacity(self.len());
        let mut dependencies = Vec::with_capacity(self.len());
        for (position, launch) in self.launches.iter().enumerate() {
            let (mut after, mut own) = (Vec::new(), Ancestors::default());
            for (before, earlier) in self.launches.iter().enumerate().take(position).rev() {
                if !own.has(before) && conflict(&earlier.extents, &launch.extents) {
                    own.add(before, ancestors.get(before));
                    after.push(before);
                }
            }
            ancestors.push(own);
            dependencies.push(after);
        }
        dependencies
    }

    /// Checks that launches touch only this memory.
    fn check_within(&self, memory: &[Arc<Memory>]) -> Result<()> {
        let is_within = |extent: &Extent| {
            extent.start == extent.end
                || memory.iter().any(|memory| memory.contains(extent.start, extent.end))
        };
        let outside =
            self.launches.iter().flat_map(|launch| &launch.extents).find(|extent| !is_within(extent));
        outside.map_or(Ok(()), |extent| {
            Err(CudaError::OutOfBounds { first: extent.start as usize, end: extent.end as usize, room: 0 })
        })
    }
}

/// Returns true if the second must wait for the first.
fn conflict(first: &[Extent], second: &[Extent]) -> bool {
    let overlap =
        |a: &Extent, b: &Extent| (a.is_written | b.is_written) != 0 && a.start < b.end && b.start < a.end;
    first.iter().any(|a| second.iter().any(|b| overlap(a, b)))
}

/// A set of launches, with a bit for each.
#[derive(Debug, Clone, Default)]
struct Ancestors {
    words: Vec<u64>,
}

impl Ancestors {
    fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a launch and all that it waits for.
    fn add(&mut self, at: usize, other: Option<&Ancestors>) {
        let other = other.map_or(&[][..], |other| &other.words);
        self.words.resize(self.words.len().max(at / 64 + 1).max(other.len()), 0);
        self.words.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
        if let Some(word) = self.words.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }
}

/// Launches that a device runs as a whole.
#[derive(Debug)]
pub struct Graph {
    graph: Box<dyn DriverGraph>,
    launches: u64,
    /// The memory that the launches access, and the kernels: both live as long as the graph.
    _memory: Vec<Arc<Memory>>,
    _recording: Recording,
}

impl Graph {
    pub(super) fn new(
        queue: &mut dyn DriverQueue,
        recording: Recording,
        memory: Vec<Arc<Memory>>,
    ) -> Result<Self> {
        recording.check_within(&memory)?;
        let after = recording.dependencies();
        let mut launches = recording.launches.clone();
        let mut arguments: Vec<_> = launches.iter_mut().map(|launch| launch.work.pointers()).collect();
        let nodes = recording.launches.iter().zip(&mut arguments).zip(&after);
        let mut nodes: Vec<Node<'_>> = nodes
            .map(|((recorded, arguments), after)| Node { work: recorded.work(arguments), after })
            .collect();
        // SAFETY: the launches were checked when they were recorded; kernels and memory live as long as the graph.
        let graph = unsafe { queue.graph(&mut nodes) }?;
        Ok(Self { graph, launches: recording.len() as u64, _memory: memory, _recording: recording })
    }

    pub(super) fn launches(&self) -> u64 {
        self.launches
    }

    pub(super) fn launch(&mut self) -> Result<()> {
        // SAFETY: the graph keeps the memory that its launches access.
        unsafe { self.graph.launch() }
    }
}

impl RecordedWork {
    /// Pointers to the arguments of a kernel.
    fn pointers(&mut self) -> SmallVec<[*mut c_void; 16]> {
        match self {
            Self::Launch { slots, .. } => pointers(slots),
            Self::Call { .. } => SmallVec::new(),
        }
    }
}

impl Recorded {
    fn work<'a>(&'a self, arguments: &'a mut [*mut c_void]) -> Work<'a> {
        match &self.work {
            RecordedWork::Launch { kernel, grid, .. } => Work::Launch(Launch {
                kernel: &kernel.signature().name,
                function: kernel.function,
                grid: *grid,
                arguments,
                extents: &self.extents,
            }),
            RecordedWork::Call { work, addresses, scratch } => {
                Work::Call(Call { work, addresses, scratch: *scratch })
            }
        }
    }
}
