//! Executes a plan.

mod planning;

use super::device::DeviceState;
use super::prepared::Prepared;
use super::run::Execution;
use super::spares::Spares;
use super::state::{State, cloned};
use super::threads::within;
use super::{EngineError, Plan, Trace};
use crate::graph::{OperatorPlace, RuntimeOperator};
use crate::memory::{Arena, InputBinding, MemoryPlan};
use crate::op::{TensorMeta, with_deadline};
use crate::shape::{Changes, Shapes};
use crate::tensor::{Tensor, TensorView, TensorViewMut, Workspace};
use crate::{CancelToken, Limits};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a [`Plan`]. Holds the state of its layers, an arena and output buffers.
///
/// Shapes are inferred and memory is planned when inputs have new shapes; the memory plans of the last 16 distinct shapes
/// are kept. A context can run again after a run fails or is cancelled, unless a plugin [never
/// returned](Context::set_timeout).
#[derive(Debug)]
pub struct Context<'p> {
    plan: Shared<'p>,
    state: State,
    prepared: Vec<Prepared>,
    current: Option<usize>,
    /// The shapes for the last inputs; `None` before the first run and after a failure.
    shapes: Option<Shapes>,
    changes: Changes,
    /// The memory plan for the largest shapes of the profile.
    largest: Option<MemoryPlan>,
    pub(super) buffers: Vec<Option<Tensor>>,
    timeout: Option<Duration>,
    cancel: CancelToken,
    /// Whether the token is also that of other work, which is not to go on after a run has ended.
    is_shared: bool,
    /// The operator whose plugin never returned.
    stuck: Option<Box<OperatorPlace>>,
}

/// A plan, borrowed or shared.
#[derive(Debug)]
enum Shared<'p> {
    Borrowed(&'p Plan),
    Owned(Arc<Plan>),
}

impl Deref for Shared<'_> {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        match self {
            Shared::Borrowed(plan) => plan,
            Shared::Owned(plan) => plan,
        }
    }
}

impl<'p> Context<'p> {
    /// Creates a context that shares ownership of a plan, for threads that outlive their parent.
    ///
    /// # Errors
    /// As [`Plan::context`].
    pub fn shared(plan: Arc<Plan>) -> Result<Context<'static>, EngineError> {
        Context::new(Shared::Owned(plan))
    }

    fn new(plan: Shared<'p>) -> Result<Self, EngineError> {
        let operators = plan.graph.operators();
        let layers: Vec<_> = operators.iter().map(|it| cloned(&plan, it)).collect::<Result<_, _>>()?;
        let device =
            plan.device.as_ref().map(DeviceState::new).transpose().map_err(EngineError::of_device)?;
        let state = State {
            configured: vec![None; layers.len()],
            layers,
            arena: Arena::new(0)?,
            device,
            dynamic: BTreeMap::new(),
            workspace: Workspace::new()?,
            spares: Spares::default(),
        };
        let buffers = vec![None; plan.outputs.len()];
        let (prepared, cancel) = (Vec::new(), CancelToken::default());
        let mut context = Self {
            plan,
            state,
            prepared,
            current: None,
            shapes: None,
            changes: Changes::default(),
            largest: None,
            buffers,
            timeout: None,
            cancel,
            is_shared: false,
            stuck: None,
        };
        context.prepare_largest()?;
        Ok(context)
    }

    /// The plan that the context runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Ends runs that take longer than this. Default: no timeout.
    ///
    /// With a timeout, plugin layers run on separate threads, on copies of their tensors. One that does not return in time is
    /// abandoned: the run fails with [`EngineError::Stuck`], and so does every later run of this context.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// A token that cancels runs of this context from another thread. One call ends the current run, or the next one.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Cancels runs by this token, which stays cancelled.
    #[doc(hidden)]
    pub fn share_cancel_token(&mut self, cancel: CancelToken) {
        (self.cancel, self.is_shared) = (cancel, true);
    }

    /// The size of the arena in bytes: all activations that are neither inputs nor outputs, and scratch memory.
    pub fn arena_bytes(&self) -> usize {
        self.state.arena.len()
    }

    /// Discards the memory plans of all shapes.
    pub fn clear(&mut self) {
        self.prepared.clear();
        self.current = None;
        self.shapes = None;
    }

    /// The outputs of the last [`Context::run_reusing`] or [`Context::run_traced`], in the order of [`Plan::outputs`].
    pub fn outputs(&self) -> &[Option<Tensor>] {
        &self.buffers
    }

    /// The memory plan for inputs of these types and shapes, which is kept for their runs.
    ///
    /// # Errors
    /// The errors of [`Context::run`] that concern shapes.
    pub fn memory_plan(&mut self, inputs: &[TensorMeta]) -> Result<&MemoryPlan, EngineError> {
        let position = self.prepare_metas(inputs)?;
        Ok(&self.prepared[position].memory)
    }

    /// The inferred types and shapes of all operands for the inputs of the last run or
    /// [`Context::memory_plan`], by the operand's position; `None` where they depend on values.
    pub fn metas(&self) -> &[Option<TensorMeta>] {
        let current = self.current.and_then(|current| self.prepared.get(current));
        current.map_or(&[], |prepared| &prepared.metas)
    }

    /// The operators that involve work on the CPU, for the inputs of the last run or [`Context::memory_plan`].
    pub fn on_cpu(&self) -> Vec<&RuntimeOperator> {
        let current = self.current.and_then(|current| self.prepared.get(current));
        let jobs = current.into_iter().flat_map(|prepared| &prepared.jobs);
        jobs.filter(|job| !job.is_on_device).map(|job| &self.plan.graph.operators()[job.operator]).collect()
    }

    /// The effects of the last change of shapes: the operands that changed, and those of them that need a larger buffer.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Runs the model on its inputs, in the order of [`Plan::inputs`], and returns all outputs in the order of
    /// [`Plan::outputs`].
    ///
    /// # Errors
    /// [`EngineError::Graph`] if inputs are missing or do not fit, or if an operator fails; [`EngineError::Shape`] if shapes
    /// are outside of a profile; [`EngineError::Panic`], [`EngineError::Cancelled`], [`EngineError::TimedOut`].
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, EngineError> {
        let views: SmallVec<[TensorView<'_>; 4]> = inputs.iter().map(Tensor::view).collect();
        self.run_reusing(&views)?;
        Ok(self.buffers.iter_mut().filter_map(Option::take).collect())
    }

    /// As [`Context::run`], but writes to buffers that the context keeps; the next run overwrites them. On one thread, a
    /// run with shapes that were seen before does not allocate, unless sizes in the model depend on values.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn run_reusing(&mut self, inputs: &[TensorView<'_>]) -> Result<&[Option<Tensor>], EngineError> {
        self.run_in_buffers(inputs, None)?;
        Ok(self.outputs())
    }

    /// As [`Context::run_reusing`], but also reports when each operator ran and how long it took.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn run_traced(&mut self, inputs: &[TensorView<'_>]) -> Result<Trace, EngineError> {
        let mut trace = Trace { start: Instant::now(), total: Duration::ZERO, steps: Vec::new() };
        self.run_in_buffers(inputs, Some(&mut trace))?;
        Ok(trace)
    }

    fn run_in_buffers(
        &mut self,
        inputs: &[TensorView<'_>],
        trace: Option<&mut Trace>,
    ) -> Result<(), EngineError> {
        let mut bound: Bound<'_> = inputs.iter().copied().map(InputBinding::Shared).collect();
        let mut none: Targets<'_> = self.plan.outputs.iter().map(|_| None).collect();
        self.run_bound(&mut bound, &mut none, trace)
    }

    /// As [`Context::run`], but writes to buffers of the caller, which have the outputs' types and shapes, in the order of
    /// [`Plan::outputs`].
    ///
    /// # Errors
    /// As [`Context::run`]; [`EngineError::OutputBuffer`] and [`EngineError::OutputCount`].
    pub fn run_into(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), EngineError> {
        if outputs.len() != self.plan.outputs.len() {
            return Err(EngineError::OutputCount { wanted: self.plan.outputs.len(), found: outputs.len() });
        }
        let mut bound: Bound<'_> = inputs.iter().copied().map(InputBinding::Shared).collect();
        let mut targets: Targets<'_> = outputs.iter_mut().map(|output| Some(output.reborrow())).collect();
        self.run_bound(&mut bound, &mut targets, None)
    }

    /// Runs on bound inputs and buffers; outputs without a buffer are written to the context's own.
    pub(super) fn run_bound(
        &mut self,
        inputs: &mut [InputBinding<'_>],
        outputs: &mut [Option<TensorViewMut<'_>>],
        trace: Option<&mut Trace>,
    ) -> Result<(), EngineError> {
        if let Some(place) = &self.stuck {
            return Err(EngineError::Stuck { place: place.clone() });
        }
        let limits = self.run_limits();
        let result = with_deadline(&limits, || self.run_within(&limits, inputs, outputs, trace));
        match &result {
            Err(EngineError::Stuck { place }) => self.stuck = Some(place.clone()),
            Err(EngineError::Cancelled { .. }) if !self.is_shared => self.cancel.reset(),
            _ => {}
        }
        result
    }

    fn run_within(
        &mut self,
        limits: &Limits,
        inputs: &mut [InputBinding<'_>],
        outputs: &mut [Option<TensorViewMut<'_>>],
        trace: Option<&mut Trace>,
    ) -> Result<(), EngineError> {
        let mut copies: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
        for (position, input) in inputs.iter().enumerate() {
            let may_be_overwritten = self.plan.donations.iter().any(|pair| pair.0 == position);
            let is_kept = may_be_overwritten && matches!(input, InputBinding::Shared(_));
            let view = input.view();
            copies.push(if view.layout().is_contiguous() && !is_kept {
                None
            } else {
                Some(view.to_tensor()?)
            });
        }
        let views: SmallVec<[TensorView<'_>; 4]> = inputs.iter().map(InputBinding::view).collect();
        let position = self.prepare(&views)?;
        drop(views);
        let result = self.execute(position, inputs, &mut copies, outputs, limits, trace);
        result.map_err(|error| {
            self.repair(position);
            let shapes = self.prepared[position].key.iter().map(|(_, shape)| Some(*shape));
            error.with_notes(&self.plan.graph.notes_on(shapes))
        })
    }

    fn execute(
        &mut self,
        position: usize,
        inputs: &mut [InputBinding<'_>],
        copies: &mut [Option<Tensor>],
        outputs: &mut [Option<TensorViewMut<'_>>],
        limits: &Limits,
        trace: Option<&mut Trace>,
    ) -> Result<(), EngineError> {
        let (plan, prepared) = (&*self.plan, &self.prepared[position]);
        let mut contiguous: Bound<'_> = SmallVec::new();
        for (input, copy) in inputs.iter_mut().zip(copies.iter_mut()) {
            contiguous.push(match copy {
                Some(copy) => InputBinding::Donated(copy.view_mut()?),
                None => input.reborrow(),
            });
        }
        super::run::make_buffers(plan, prepared, &mut self.state, outputs, &mut self.buffers)?;
        let mut targets = super::run::targets(outputs, &mut self.buffers)?;
        let mut execution = Execution {
            plan,
            prepared,
            state: &mut self.state,
            inputs: &mut contiguous,
            outputs: &mut targets,
            limits,
        };
        within(&plan.pool, || execution.run(trace))?;
        drop(targets);
        drop(contiguous);
        super::run::deliver(plan, prepared, &mut self.state, outputs, &mut self.buffers)?;
        super::run::copy_donated_outputs(plan, prepared, inputs, copies, outputs, &mut self.buffers)
    }

    fn run_limits(&self) -> Limits {
        let limits = Limits { cancel: Some(self.cancel.clone()), ..self.plan.limits.clone() };
        match self.timeout {
            Some(timeout) => limits.with_timeout(timeout),
            None => limits,
        }
    }

    /// Drops layers that may be in an inconsistent state. The next run, which has a time limit of its own, clones them
    /// again.
    fn repair(&mut self, position: usize) {
        let Some(prepared) = self.prepared.get(position) else { return };
        for job in &prepared.jobs {
            self.state.drop_layer(job.operator);
        }
        self.state.dynamic.clear();
        self.current = None;
    }
}

impl Plan {
    /// Creates a context, which can run the plan.
    ///
    /// # Errors
    /// Returns an error if the largest shapes of a profile do not fit the model or the memory.
    pub fn context(&self) -> Result<Context<'_>, EngineError> {
        Context::new(Shared::Borrowed(self))
    }
}

/// Inputs of one run.
pub(super) type Bound<'a> = SmallVec<[InputBinding<'a>; 4]>;

/// The caller's buffers for the outputs of one run.
pub(super) type Targets<'a> = SmallVec<[Option<TensorViewMut<'a>>; 4]>;
