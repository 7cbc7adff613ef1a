//! Executes a plan.

use super::device::{DeviceState, Scratch, is_out_of_memory};
use super::prepared::{Key, Prepared};
use super::run::Execution;
use super::state::{State, cloned, configure};
use super::{EngineError, Plan, Trace};
use crate::graph::{GraphError, OperatorIndex, OperatorPlace, RuntimeOperator, Stage};
use crate::memory::{Arena, InputBinding, MemoryPlan, MemoryReport, Problem};
use crate::op::{TensorMeta, catch_panic, with_deadline};
use crate::shape::{Binding, Changes, Shapes};
use crate::tensor::{Tensor, TensorView, TensorViewMut, Workspace};
use crate::{CancelToken, LimitError, Limits};
use smallvec::SmallVec;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The number of input shapes whose memory plans a context keeps.
const KEPT_SHAPES: usize = 16;

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
    buffers: Vec<Option<Tensor>>,
    timeout: Option<Duration>,
    cancel: CancelToken,
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
            dynamic: vec![None; plan.graph.operands().len()],
            workspace: Workspace::new()?,
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
            Err(EngineError::Cancelled { .. }) => self.cancel.reset(),
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
        if result.is_err() {
            self.repair(position);
        }
        result
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
        super::run::make_buffers(plan, prepared, outputs, &mut self.buffers)?;
        let mut targets = super::run::targets(outputs, &mut self.buffers)?;
        let mut execution = Execution {
            plan,
            prepared,
            state: &mut self.state,
            inputs: &mut contiguous,
            outputs: &mut targets,
            limits,
        };
        match &plan.pool {
            Some(pool) => pool.install(|| execution.run(trace))?,
            None => execution.run(trace)?,
        }
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
        self.state.dynamic.fill(None);
        self.current = None;
    }

    /// Moves an output of the last run out of the context.
    pub(super) fn take_output(&mut self, position: usize) -> Option<Tensor> {
        self.buffers.get_mut(position)?.take()
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

/// Shape inference and memory planning.
impl Context<'_> {
    /// Prepares the context for inputs of these types and shapes; free if they are those of the last run.
    fn prepare(&mut self, inputs: &[TensorView<'_>]) -> Result<usize, EngineError> {
        match self.current {
            Some(current) if self.prepared[current].key.is_of(inputs.iter()) => Ok(current),
            _ => {
                let metas = inputs.iter().map(|x| TensorMeta::new(x.dtype(), x.shape().iter().copied()));
                self.prepare_metas(&metas.collect::<Vec<_>>())
            }
        }
    }

    fn prepare_metas(&mut self, inputs: &[TensorMeta]) -> Result<usize, EngineError> {
        self.check_inputs(inputs)?;
        let mut key = Vec::with_capacity(inputs.len());
        for input in inputs {
            key.push((input.dtype(), input.shape()?));
        }
        let key = Key::new(key.into_iter());
        let known = self.prepared.iter().position(|prepared| prepared.key == key);
        self.current = None;
        let position = match known {
            Some(position) => position,
            None => self.plan_shapes(key, inputs)?,
        };
        let prepared = &self.prepared[position];
        configure(&self.plan, &mut self.state, &prepared.metas)?;
        self.state.arena.reserve(prepared.memory.arena_bytes)?;
        self.reserve_on_device(position)?;
        self.current = Some(position);
        Ok(position)
    }

    /// Reserves memory on a device. If the device does not have enough for the scratch memory that layers prefer, they get the
    /// minimum; if even that does not fit, the shapes are discarded, and others may be tried.
    fn reserve_on_device(&mut self, position: usize) -> Result<(), EngineError> {
        let Some(device) = &mut self.state.device else { return Ok(()) };
        let wanted = self.prepared[position].memory.device_bytes;
        let Err(error) = device.reserve(wanted) else { return Ok(()) };
        if !is_out_of_memory(&error) {
            return Err(EngineError::of_device(error));
        }
        let Prepared { key, metas, .. } = self.prepared.remove(position);
        let memory = self.planned_memory(&metas, Scratch::Minimum)?;
        if let Some(device) = self.state.device.as_mut().filter(|_| memory.device_bytes < wanted) {
            log::warn!("{error}; trying {} bytes, with less scratch memory", memory.device_bytes);
            device.reserve(memory.device_bytes).map_err(EngineError::of_device)?;
            self.prepared.insert(position, Prepared::new(&self.plan.graph, key, metas, memory));
            return Ok(());
        }
        Err(EngineError::of_device(error))
    }

    fn plan_shapes(&mut self, key: Key, inputs: &[TensorMeta]) -> Result<usize, EngineError> {
        let graph = &self.plan.graph;
        if let Some(profile) = &self.plan.profile {
            profile.check(inputs)?;
        }
        Binding::of(graph, &self.plan.symbols, inputs)?;
        let shapes = match self.shapes.take() {
            Some(mut shapes) => {
                self.changes = shapes.update(graph, inputs)?;
                shapes
            }
            None => Shapes::infer(graph, inputs)?,
        };
        let metas = shapes.metas().to_vec();
        self.shapes = Some(shapes);
        configure(&self.plan, &mut self.state, &metas)?;
        let memory = self.fit_to_largest(self.planned_memory(&metas, Scratch::Preferred)?);
        if self.prepared.len() >= KEPT_SHAPES {
            self.prepared.remove(0);
        }
        self.prepared.push(Prepared::new(graph, key, metas, memory));
        Ok(self.prepared.len() - 1)
    }

    fn planned_memory(
        &self,
        metas: &[Option<TensorMeta>],
        scratch: Scratch,
    ) -> Result<MemoryPlan, EngineError> {
        // Layers size their scratch memory for the pool in which they are called.
        match &self.plan.pool {
            Some(pool) => pool.install(|| self.plan_memory(metas, scratch)),
            None => self.plan_memory(metas, scratch),
        }
    }

    fn plan_memory(&self, metas: &[Option<TensorMeta>], scratch: Scratch) -> Result<MemoryPlan, EngineError> {
        let limits = &self.plan.limits;
        for (operand, meta) in self.plan.graph.operands().iter().zip(metas) {
            let Some(shape) = meta.as_ref().and_then(|meta| meta.shape().ok()) else { continue };
            let size = meta.as_ref().map_or(0, |meta| meta.dtype().size());
            let bytes = (shape.num_elements() as u64).saturating_mul(size as u64);
            let what = if operand.producer().is_some() { "its output" } else { "input" };
            let named = |_| limits.check_tensor(&format!("{what} `{}`", operand.name()), bytes);
            let checked = limits.check_tensor(what, bytes).or_else(named);
            checked.map_err(|limit| self.limit_at(operand.producer(), limit))?;
        }
        let workspaces = self.workspaces(scratch)?;
        for (position, &bytes) in workspaces.iter().enumerate() {
            let operator = Some(OperatorIndex::new(position));
            limits
                .check_tensor("its workspace", bytes as u64)
                .map_err(|limit| self.limit_at(operator, limit))?;
        }
        let constants: Vec<bool> = self.plan.constants.iter().map(Option::is_some).collect();
        let plan = MemoryPlan::new(&Problem {
            graph: &self.plan.graph,
            metas,
            workspaces: &workspaces,
            constants: &constants,
            donations: &self.plan.donations,
        })?;
        let checked = limits.check_total("the memory for all activations", plan.arena_bytes as u64);
        checked.map_err(|limit| {
            let fullest = MemoryReport::new(&self.plan.graph, &plan).fullest;
            self.limit_at(Some(OperatorIndex::new(fullest)), limit)
        })?;
        Ok(plan)
    }

    /// The error of an exceeded limit, at an operator or, with `None`, at an input of the model.
    fn limit_at(&self, operator: Option<OperatorIndex>, limit: LimitError) -> EngineError {
        match operator {
            Some(index) => {
                let place = self.plan.graph.operator(index).place(self.plan.graph.path());
                GraphError::Limit { place, source: limit }.into()
            }
            None => limit.into(),
        }
    }

    /// The bytes of scratch memory that each layer requests; on a device, `scratch` selects the amount.
    fn workspaces(&self, scratch: Scratch) -> Result<Vec<usize>, EngineError> {
        let (graph, state) = (&self.plan.graph, &self.state);
        let mut workspaces = vec![0; state.layers.len()];
        let layers = state.layers.iter().zip(&state.configured).zip(graph.operators());
        for (position, (((layer, configured), operator), bytes)) in layers.zip(&mut workspaces).enumerate() {
            if let Some(known) = configured {
                let tensors = (known.inputs.as_slice(), known.outputs.as_slice());
                let asked = catch_panic(|| {
                    Ok(match (layer, &state.device) {
                        (Some(layer), _) => layer.workspace(tensors.0, tensors.1),
                        (None, Some(device)) => device.workspace(position, tensors, scratch),
                        (None, None) => 0,
                    })
                });
                *bytes = asked.map_err(|source| {
                    EngineError::of_operator(operator, graph.path(), Stage::Configure, source)
                })?;
            }
        }
        Ok(workspaces)
    }

    /// Moves a plan to the slots of the largest shapes if it needs more memory than they do, since packing is not optimal.
    fn fit_to_largest(&self, plan: MemoryPlan) -> MemoryPlan {
        let largest = self.largest.as_ref().filter(|largest| plan.arena_bytes > largest.arena_bytes);
        largest.and_then(|largest| plan.in_slots_of(largest)).unwrap_or(plan)
    }

    /// Reserves the memory for the largest shapes of the profile, if there is one.
    fn prepare_largest(&mut self) -> Result<(), EngineError> {
        let Some(inputs) = self.plan.profile.as_ref().map(crate::shape::Profile::max) else { return Ok(()) };
        let position = self.prepare_metas(&inputs)?;
        self.largest = Some(self.prepared[position].memory.clone());
        Ok(())
    }

    fn check_inputs(&self, inputs: &[TensorMeta]) -> Result<(), EngineError> {
        let ports = &self.plan.inputs;
        let names = |range: &[super::Port]| range.iter().map(|port| port.name.clone()).collect();
        if inputs.len() > ports.len() {
            let (wanted, found, names) = (ports.len(), inputs.len(), names(ports));
            return Err(GraphError::TooManyInputs { wanted, found, names }.into());
        }
        if let Some(missing) = ports.get(inputs.len()..).filter(|missing| !missing.is_empty()) {
            return Err(GraphError::MissingInputs { missing: names(missing) }.into());
        }
        for (port, input) in self.plan.graph.inputs().iter().zip(inputs) {
            self.plan.graph.check_input(port, input.dtype(), &input.shape()?)?;
        }
        Ok(())
    }
}
