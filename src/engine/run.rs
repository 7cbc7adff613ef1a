//! Runs the operators of a plan in order.

use super::device::SegmentAction;
use super::dynamic::{Computation, Input, described, views_of};
use super::prepared::{Job, Prepared};
use super::state::State;
use super::{EngineError, Plan, StepTrace, Trace};
use crate::Limits;
use crate::graph::{GraphError, OperandIndex, OperatorIndex, Stage};
use crate::memory::{Action, InputBinding, Memory, Root};
use crate::op::{ForwardContext, Io, LayerError, catch_panic};
use crate::tensor::{Layout, Shape, Tensor, TensorViewMut};
use smallvec::SmallVec;
use std::time::Instant;

/// A run in progress.
pub(super) struct Execution<'a, 'b> {
    pub(super) plan: &'a Plan,
    pub(super) prepared: &'a Prepared,
    pub(super) state: &'a mut State,
    /// Contiguous.
    pub(super) inputs: &'a mut [InputBinding<'b>],
    /// Contiguous, with the outputs' types and shapes; empty if these are unknown before the run.
    pub(super) outputs: &'a mut [TensorViewMut<'b>],
    pub(super) limits: &'a Limits,
}

impl<'b> Execution<'_, 'b> {
    pub(super) fn run(&mut self, mut trace: Option<&mut Trace>) -> Result<(), EngineError> {
        let logs = log::log_enabled!(log::Level::Debug);
        if trace.is_none() && !logs && self.state.device.is_some() {
            self.run_segments()?;
            self.synchronize()?;
            return self.copy_outputs();
        }
        for job in &self.prepared.jobs {
            let start = trace.as_ref().map(|trace| trace.start.elapsed());
            let logged = logs.then(Instant::now);
            self.step(job)?;
            if trace.is_some() || logs {
                self.synchronize()?;
            }
            if let Some(start) = logged {
                let operator = &self.plan.graph.operators()[job.operator];
                log::debug!("{} `{}` took {:?}", operator.op_type(), operator.name(), start.elapsed());
            }
            if let (Some(trace), Some(start)) = (&mut trace, start) {
                let operator = OperatorIndex::new(job.operator);
                let time = trace.start.elapsed().saturating_sub(start);
                trace.steps.push(StepTrace { operator, action: job.action, start, time });
            }
        }
        self.synchronize()?;
        if let Some(trace) = trace {
            trace.total = trace.start.elapsed();
        }
        self.copy_outputs()
    }

    /// Runs segments that need only the device as a whole.
    fn run_segments(&mut self) -> Result<(), EngineError> {
        let jobs = &self.prepared.jobs;
        let mut position = 0;
        while let Some(job) = jobs.get(position) {
            position += match self.segment(position)? {
                SegmentAction::Done(count) => count,
                SegmentAction::Record(count) => {
                    jobs.iter().skip(position).take(count).try_for_each(|job| self.step(job))?;
                    self.state.device.iter_mut().for_each(|device| device.keep(position, count));
                    count
                }
                SegmentAction::One => {
                    self.step(job)?;
                    1
                }
            };
        }
        Ok(())
    }

    fn segment(&mut self, position: usize) -> Result<SegmentAction, EngineError> {
        let jobs = &self.prepared.jobs;
        let (Some(plan), Some(device), Some(job)) =
            (&self.plan.device, &mut self.state.device, jobs.get(position))
        else {
            return Ok(SegmentAction::One);
        };
        let in_time = self.limits.check_deadline().map_err(LayerError::from);
        let action = in_time.and_then(|()| device.segment(plan, jobs, position));
        let graph = &self.plan.graph;
        action.map_err(EngineError::at(graph, &graph.operators()[job.operator], Stage::Forward))
    }

    /// Waits for the device's work, which may fail.
    fn synchronize(&mut self) -> Result<(), EngineError> {
        let Some(device) = &mut self.state.device else { return Ok(()) };
        device.synchronize().map_err(|error| EngineError::on_device(&self.plan.graph, Stage::Forward, error))
    }

    fn step(&mut self, job: &Job) -> Result<(), EngineError> {
        let result = match self.limits.check_deadline() {
            Ok(()) if job.action == Action::Dynamic => self.step_dynamic(job),
            Ok(()) => self.step_planned(job),
            Err(limit) => Err(Fault::Layer(Stage::Forward, limit.into())),
        };
        let graph = &self.plan.graph;
        result.map_err(|fault| match fault {
            Fault::Layer(stage, source) => {
                EngineError::at(graph, &graph.operators()[job.operator], stage)(source)
            }
            Fault::Engine(error) => *error,
        })
    }

    fn step_planned(&mut self, job: &Job) -> Result<(), Fault> {
        let mut memory = Memory {
            arena: &mut self.state.arena,
            inputs: self.inputs,
            outputs: self.outputs,
            constants: &self.plan.constants,
        };
        if let (true, Some(plan), Some(device)) =
            (job.is_on_device, &self.plan.device, &mut self.state.device)
        {
            return caught(|| {
                device.run(plan, job, &mut memory, self.limits).map_err(|error| (Stage::Forward, error))
            });
        }
        let Some(layer) = &mut self.state.layers[job.operator] else { return Ok(()) };
        let mut borrowed = memory.borrow(&job.reads, &job.writes, job.workspace.clone())?;
        let mut context = ForwardContext::new(borrowed.scratch, self.limits);
        let mut compute = || match job.action {
            Action::InPlace { .. } => match borrowed.outputs.first_mut() {
                Some(data) => layer.forward_in_place(data, &borrowed.inputs, &mut context),
                None => Ok(()),
            },
            _ if layer.is_data_dependent() => {
                let tensors = layer.forward_dynamic(&borrowed.inputs, &mut context)?;
                copy_all(&tensors, &mut borrowed.outputs)
            }
            _ => layer.forward(&mut Io::new(&borrowed.inputs, &mut borrowed.outputs, &mut context)),
        };
        caught(|| compute().map_err(|error| (Stage::Forward, error)))
    }

    /// Runs an operator some of whose tensors are allocated now, because their sizes were unknown before the run.
    fn step_dynamic(&mut self, job: &Job) -> Result<(), Fault> {
        let (plan, places, limits) = (self.plan, &self.prepared.memory.places, self.limits);
        let operator = &plan.graph.operators()[job.operator];
        let held = self.state.held_bytes();
        let State { layers, configured, arena, dynamic, workspace, spares, .. } = &mut *self.state;
        let Some(layer) = &mut layers[job.operator] else { return Ok(()) };
        let mut memory =
            Memory { arena, inputs: self.inputs, outputs: self.outputs, constants: &plan.constants };
        let lent = memory.borrow(&job.reads, &job.writes, 0..0)?;
        let (mut readable, mut writable) = (lent.inputs.into_iter(), lent.outputs.into_iter());
        let released = plan.graph.released_after(job.operator);
        let mut inputs: SmallVec<[Input<'_>; 4]> = SmallVec::new();
        for input in operator.inputs() {
            let found = match places[input.position()] {
                Some(_) => readable.next().map(Input::Placed),
                None => dynamic.get(&input.position()).cloned().map(Input::Held),
            };
            let not_run = || GraphError::NotRun(plan.graph.operand(*input).name().to_owned());
            inputs.push(found.ok_or_else(not_run)?);
        }
        for operand in released {
            dynamic.remove(&operand.position());
        }
        let is_shared = |tensor: &Tensor| dynamic.values().any(|other| other.shares_storage(tensor));
        let inputs: SmallVec<[Input<'_>; 4]> =
            inputs.into_iter().map(|input| input.or_last(is_shared)).collect();
        let target = |output: &OperandIndex| places[output.position()].and_then(|_| writable.next());
        let targets = operator.outputs().iter().map(target).collect();
        let configured = &mut configured[job.operator];
        let computed = caught(|| {
            let metas = described(&plan.graph, operator, &views_of(&inputs));
            let metas = metas.map_err(|error| (Stage::Infer, error))?;
            if configured.as_ref() != Some(&metas) {
                *configured = None;
                layer.configure(&metas.inputs, &metas.outputs).map_err(|error| (Stage::Configure, error))?;
                *configured = Some(metas.clone());
            }
            let (layer, metas) = (&mut **layer, &metas);
            let computation = Computation { layer, inputs, targets, metas, workspace, spares, held, limits };
            computation.run().map_err(|error| (Stage::Forward, error))
        })?;
        for (output, tensor) in operator.outputs().iter().zip(computed) {
            // An output that no operator reads is released at once.
            if let Some(tensor) = tensor.filter(|_| !released.contains(output)) {
                dynamic.insert(output.position(), tensor);
            }
        }
        Ok(())
    }

    /// Copies outputs that are stored elsewhere: views, inputs, constants, and operands that are returned twice.
    fn copy_outputs(&mut self) -> Result<(), EngineError> {
        let (plan, prepared) = (self.plan, self.prepared);
        for &(operand, output) in &prepared.memory.copies {
            let Some(from) = prepared.memory.places[operand] else { continue };
            let to = plan.donor(output).map_or(Root::Output(output), Root::Input);
            self.memory().copy(&from, to)?;
        }
        Ok(())
    }

    fn memory(&mut self) -> Memory<'_, 'b> {
        Memory {
            arena: &mut self.state.arena,
            inputs: self.inputs,
            outputs: self.outputs,
            constants: &self.plan.constants,
        }
    }
}

/// Copies the tensors that a data-dependent layer returned to their planned places: their sizes were known after all.
fn copy_all(tensors: &[Tensor], outputs: &mut [TensorViewMut<'_>]) -> Result<(), LayerError> {
    if tensors.len() != outputs.len() {
        let (wanted, found) = (format!("{} outputs", outputs.len()), tensors.len().to_string());
        return Err(LayerError::BrokenPromise { wanted, found });
    }
    tensors.iter().zip(outputs).try_for_each(|(tensor, output)| {
        if tensor.dtype() != output.dtype() || tensor.shape() != output.shape() {
            let wanted = format!("{} {}", output.shape(), output.dtype());
            return Err(LayerError::BrokenPromise {
                wanted,
                found: format!("{} {}", tensor.shape(), tensor.dtype()),
            });
        }
        Ok(output.copy_from(&tensor.view())?)
    })
}

/// The reason that an operator failed.
enum Fault {
    Layer(Stage, LayerError),
    Engine(Box<EngineError>),
}

impl<E: Into<EngineError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Fault::Engine(Box::new(error.into()))
    }
}

/// Calls a layer, and turns a panic into an error.
fn caught<T>(call: impl FnOnce() -> Result<T, (Stage, LayerError)>) -> Result<T, Fault> {
    // A layer that panicked is never used again: the context clones it again.
    let result = catch_panic(|| Ok(call())).map_err(|panic| Fault::Layer(Stage::Forward, panic))?;
    result.map_err(|(stage, error)| Fault::Layer(stage, error))
}

/// Allocates the context's buffers for outputs for which the caller gives none, or one that is not contiguous.
pub(super) fn make_buffers(
    plan: &Plan,
    prepared: &Prepared,
    state: &mut State,
    outputs: &[Option<TensorViewMut<'_>>],
    buffers: &mut [Option<Tensor>],
) -> Result<(), EngineError> {
    for (position, (known, buffer)) in prepared.outputs.iter().zip(buffers).enumerate() {
        let given = outputs.get(position).and_then(Option::as_ref);
        let Some((dtype, shape)) = known else {
            // The run allocates it, so that of the last run is no longer needed.
            *buffer = None;
            continue;
        };
        let is_in_input = plan.donor(position).is_some();
        if let Some(given) = given {
            if given.dtype() != *dtype || given.shape() != shape {
                let found = format!("{} {}", given.shape(), given.dtype());
                return Err(wrong_buffer(plan, position, format!("{shape} {dtype}"), found));
            }
            if given.layout().is_contiguous() {
                continue;
            }
        }
        if is_in_input {
            continue;
        }
        let fits = |tensor: &Tensor| {
            tensor.dtype() == *dtype && tensor.shape() == shape && tensor.layout().is_contiguous()
        };
        if !buffer.as_ref().is_some_and(fits) {
            *buffer = Some(Tensor::empty(*dtype, shape)?);
        } else if let (Some(device), Some(buffer)) = (&mut state.device, buffer) {
            device.pin_output(position, &prepared.jobs, buffer);
        }
    }
    Ok(())
}

fn wrong_buffer(plan: &Plan, position: usize, wanted: String, found: String) -> EngineError {
    let name = plan.outputs.get(position).map_or_else(String::new, |port| port.name.clone());
    EngineError::OutputBuffer { name, wanted, found }
}

/// The buffers that outputs are written to: the caller's, or else the context's.
pub(super) fn targets<'a>(
    outputs: &'a mut [Option<TensorViewMut<'_>>],
    buffers: &'a mut [Option<Tensor>],
) -> Result<SmallVec<[TensorViewMut<'a>; 4]>, EngineError> {
    let mut targets = SmallVec::new();
    for (output, buffer) in outputs.iter_mut().zip(buffers) {
        targets.push(match (output, buffer) {
            (Some(given), _) if given.layout().is_contiguous() => given.reborrow(),
            (_, Some(buffer)) => buffer.view_mut()?,
            // Unknown before the run, or in the memory of an input: nothing is written here.
            (_, None) => TensorViewMut::from_slice::<u8>(&mut [], Layout::contiguous(Shape::new(&[0])?))?,
        });
    }
    Ok(targets)
}

/// Copies outputs that share memory with an input to where the caller expects them.
pub(super) fn copy_donated_outputs(
    plan: &Plan,
    prepared: &Prepared,
    inputs: &mut [InputBinding<'_>],
    copies: &mut [Option<Tensor>],
    outputs: &mut [Option<TensorViewMut<'_>>],
    buffers: &mut [Option<Tensor>],
) -> Result<(), EngineError> {
    for &(input, output) in &plan.donations {
        let is_dynamic = prepared.outputs[output].is_none();
        match (&mut inputs[input], &mut outputs[output]) {
            (InputBinding::Donated(memory), _) if is_dynamic => {
                if let Some(buffer) = &buffers[output] {
                    memory.copy_from(&buffer.view())?;
                }
            }
            (InputBinding::Shared(_), _) if is_dynamic => {}
            (InputBinding::Donated(memory), Some(given)) => given.copy_from(&memory.as_view())?,
            (InputBinding::Donated(_), None) => {}
            (InputBinding::Shared(_), given) => match (given, copies[input].take()) {
                (Some(given), Some(copy)) => given.copy_from(&copy.view())?,
                (None, Some(copy)) => buffers[output] = Some(copy),
                (_, None) => {}
            },
        }
    }
    Ok(())
}

/// Copies outputs that could not be written to their destination directly.
pub(super) fn deliver(
    plan: &Plan,
    prepared: &Prepared,
    state: &mut State,
    outputs: &mut [Option<TensorViewMut<'_>>],
    buffers: &mut [Option<Tensor>],
) -> Result<(), EngineError> {
    for (position, port) in plan.outputs.iter().enumerate() {
        let is_dynamic = prepared.outputs.get(position).is_some_and(Option::is_none);
        if is_dynamic {
            buffers[position] = state.dynamic.get(&port.operand).cloned();
        }
        let (Some(given), Some(buffer)) = (&mut outputs[position], &buffers[position]) else { continue };
        if is_dynamic && (given.dtype() != buffer.dtype() || given.shape() != buffer.shape()) {
            let wanted = format!("{} {}", buffer.shape(), buffer.dtype());
            return Err(wrong_buffer(plan, position, wanted, format!("{} {}", given.shape(), given.dtype())));
        }
        let is_elsewhere = !given.layout().is_contiguous() && plan.donor(position).is_none();
        if is_dynamic || is_elsewhere {
            given.copy_from(&buffer.view())?;
        }
    }
    state.dynamic.clear();
    Ok(())
}
