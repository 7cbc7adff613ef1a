//! Segments of a plan that need only the device: recorded in the first run, and launched as a whole from the second run on.

use super::SegmentAction;
use crate::cuda::device::{Graph, Memory, Queue, Recording};
use crate::op::LayerError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shorter segments are launched operator by operator.
pub(super) const MIN_JOBS: usize = 2;

/// The known segments of a plan, by the position of their first job.
#[derive(Debug, Default)]
pub(super) struct Segments {
    known: BTreeMap<usize, Segment>,
}

#[derive(Debug)]
struct Segment {
    jobs: usize,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// The launches of the first run.
    Recorded(Recording),
    Graph(Graph),
    /// The device could not create a graph of the recording.
    OneByOne,
}

impl Segments {
    /// Discards all segments, because shapes or memory changed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// Replays the segment that starts at a job, if it is known.
    pub(super) fn replay(
        &mut self,
        position: usize,
        queue: &mut Queue,
        memory: [&Arc<Memory>; 3],
    ) -> Result<Option<SegmentAction>, LayerError> {
        let Some(segment) = self.known.get_mut(&position) else { return Ok(None) };
        if let Work::Recorded(recording) = &mut segment.work {
            segment.work = match queue.graph(std::mem::take(recording), memory.map(Arc::clone).to_vec()) {
                Ok(graph) => Work::Graph(graph),
                Err(error) => {
                    log::warn!("kernels are launched one by one: {error}");
                    Work::OneByOne
                }
            };
        }
        match &mut segment.work {
            Work::Graph(graph) => {
                queue.replay(graph).map(|()| Some(SegmentAction::Done(segment.jobs))).map_err(Into::into)
            }
            _ => Ok(Some(SegmentAction::One)),
        }
    }

    /// Keeps the recorded launches of a segment.
    pub(super) fn keep(&mut self, position: usize, jobs: usize, recording: Recording) {
        self.known.insert(position, Segment { jobs, work: Work::Recorded(recording) });
    }
}
