//! Segments of a plan that need only the device: recorded in the first run, and launched as a whole from the second run on.

use super::SegmentAction;
use super::cuda::{DeviceState, OnDevice};
use crate::cuda::device::{Graph, Memory, Queue, Recording};
use crate::engine::prepared::Job;
use crate::op::LayerError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shorter segments are launched operator by operator.
const MIN_JOBS: usize = 2;

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
    fn replay(
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
}

impl DeviceState {
    /// Replays the segment that starts at `position`, or else starts to record it and returns its number of jobs.
    pub(in crate::engine) fn segment(
        &mut self,
        plan: &OnDevice,
        jobs: &[Job],
        position: usize,
    ) -> Result<SegmentAction, LayerError> {
        let memory = [&self.arena, &plan.memory, &self.faults];
        if let Some(known) = self.segments.replay(position, &mut self.queue, memory)? {
            return Ok(known);
        }
        let rest = jobs.get(position..).unwrap_or_default();
        let count = rest.iter().take_while(|job| self.computes(job)).count();
        if count < MIN_JOBS {
            return Ok(SegmentAction::One);
        }
        self.queue.record();
        Ok(SegmentAction::Record(count))
    }

    /// Keeps the recorded launches of a segment.
    pub(in crate::engine) fn keep(&mut self, position: usize, jobs: usize) {
        let work = Work::Recorded(self.queue.recorded());
        self.segments.known.insert(position, Segment { jobs, work });
    }

    /// Discards all recordings after a job failed.
    pub(in crate::engine) fn forget(&mut self) {
        self.queue.recorded();
        self.segments.clear();
    }

    /// Returns true if the device computes a job.
    fn computes(&self, job: &Job) -> bool {
        job.is_on_device && self.layers.get(job.operator).is_some_and(Option::is_some)
    }
}
