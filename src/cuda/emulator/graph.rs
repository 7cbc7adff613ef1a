//! Graphs of launches. With the checker, independent launches run in random order.

use super::library;
use crate::cuda::device::{CudaError, DriverGraph, Extent, Grid, Launch, Node, Result, Work};
use std::ffi::c_void;

/// Launches with copies of their arguments.
#[derive(Debug)]
pub(super) struct EmulatedGraph {
    launches: Vec<GraphLaunch>,
    seed: u32,
}

/// A buffer that is larger than any argument.
type Argument = [u64; 9];

#[derive(Debug)]
struct GraphLaunch {
    kernel: String,
    function: u64,
    grid: Grid,
    arguments: Vec<Argument>,
    extents: Vec<Extent>,
    after: Vec<usize>,
}

impl EmulatedGraph {
    /// Copies launches whose arguments are stored in slots of the size of [`Argument`], as those of a queue are.
    pub(super) fn new(nodes: &[Node<'_>], seed: u32) -> Result<Self> {
        let copy = |Node { work, after }: &Node<'_>| match work {
            Work::Launch(launch) => Ok(GraphLaunch {
                kernel: launch.kernel.to_owned(),
                function: launch.function,
                grid: launch.grid,
                // SAFETY: queues store each argument in a slot of this size.
                arguments: launch
                    .arguments
                    .iter()
                    .map(|from| unsafe { from.cast::<Argument>().read() })
                    .collect(),
                extents: launch.extents.to_vec(),
                after: after.to_vec(),
            }),
            Work::Call(call) => Err(CudaError::Driver {
                call: call.work.library().to_owned(),
                reason: "the emulator has no libraries".to_owned(),
            }),
        };
        Ok(Self { launches: nodes.iter().map(copy).collect::<Result<_>>()?, seed })
    }

    /// The next launch: the first whose dependencies are done, or with the checker a random one of these.
    fn next(&mut self, is_done: &[bool]) -> Option<usize> {
        let is_ready = |at: &usize| {
            let waits = |&before: &usize| !is_done.get(before).copied().unwrap_or(true);
            !is_done.get(*at).copied().unwrap_or(true)
                && !self.launches.get(*at).is_some_and(|launch| launch.after.iter().any(waits))
        };
        let ready: Vec<usize> = (0..self.launches.len()).filter(is_ready).collect();
        let chosen = if self.seed == 0 { 0 } else { random(&mut self.seed) as usize % ready.len().max(1) };
        ready.get(chosen).copied()
    }
}

/// The next number of Marsaglia's xorshift.
fn random(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

impl DriverGraph for EmulatedGraph {
    unsafe fn launch(&mut self) -> Result<()> {
        let mut is_done = vec![false; self.launches.len()];
        while let Some(next) = self.next(&is_done) {
            if let Some(done) = is_done.get_mut(next) {
                *done = true;
            }
            let seed = self.seed;
            let Some(launch) = self.launches.get_mut(next) else { continue };
            let mut arguments: Vec<*mut c_void> =
                launch.arguments.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
            let call = Launch {
                kernel: &launch.kernel,
                function: launch.function,
                grid: launch.grid,
                arguments: &mut arguments,
                extents: &launch.extents,
            };
            // SAFETY: by contract all memory is valid, as when the graph was created.
            unsafe { library::launch(call, seed) }?;
        }
        Ok(())
    }
}
