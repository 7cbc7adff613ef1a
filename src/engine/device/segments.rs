//! Stretches of a plan that a device does without the CPU, handed over as a whole from the second run on.

use super::Stretch;
use super::cuda::{DeviceState, OnDevice};
use crate::cuda::device::{Graph, Memory, Queue, Recording};
use crate::engine::prepared::Job;
use crate::op::LayerError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewer operators are launched one by one.
const FEWEST: usize = 2;

/// The stretches of a plan, by the position of their first job.
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
    /// What the first run launched.
    Recorded(Recording),
    Graph(Graph),
    /// The device refused a graph of it.
    OneByOne,
}

impl Segments {
    /// Forgets all of them: shapes or memory are others.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// Does the work from a job on, if it is known.
    fn replay(
        &mut self,
        position: usize,
        queue: &mut Queue,
        memory: [&Arc<Memory>; 3],
    ) -> Result<Option<Stretch>, LayerError> {
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
                queue.replay(graph).map(|()| Some(Stretch::Done(segment.jobs))).map_err(Into::into)
            }
            _ => Ok(Some(Stretch::One)),
        }
    }
}

impl DeviceState {
    /// Does the work of some jobs from `position` on as one, or says how many of them belong together.
    pub(in crate::engine) fn stretch(
        &mut self,
        plan: &OnDevice,
        jobs: &[Job],
        position: usize,
    ) -> Result<Stretch, LayerError> {
        let memory = [&self.arena, &plan.memory, &self.faults];
        if let Some(known) = self.segments.replay(position, &mut self.queue, memory)? {
            return Ok(known);
        }
        let rest = jobs.get(position..).unwrap_or_default();
        let count = rest.iter().take_while(|job| self.computes(job)).count();
        if count < FEWEST {
            return Ok(Stretch::One);
        }
        self.queue.record();
        Ok(Stretch::Record(count))
    }

    /// Keeps what jobs launched since they were found to belong together.
    pub(in crate::engine) fn keep(&mut self, position: usize, jobs: usize) {
        let work = Work::Recorded(self.queue.recorded());
        self.segments.known.insert(position, Segment { jobs, work });
    }

    /// Forgets what was written down by jobs that failed.
    pub(in crate::engine) fn forget(&mut self) {
        self.queue.recorded();
        self.segments.clear();
    }

    /// Whether it is the device that computes a job.
    fn computes(&self, job: &Job) -> bool {
        job.is_on_device && self.layers.get(job.operator).is_some_and(Option::is_some)
    }
}
