//! Shape inference and memory planning.

use super::Context;
use crate::LimitError;
use crate::engine::device::{Scratch, is_out_of_memory};
use crate::engine::prepared::{Key, Prepared};
use crate::engine::state::{Configured, configure};
use crate::engine::threads::within;
use crate::engine::{EngineError, Port};
use crate::graph::{GraphError, OperatorIndex, RuntimeOperator, Stage};
use crate::memory::{MemoryPlan, MemoryReport, Problem};
use crate::op::{TensorMeta, catch_panic};
use crate::shape::{Binding, Profile, Shapes};
use crate::tensor::TensorView;

/// The number of input shapes whose memory plans a context keeps.
const KEPT_SHAPES: usize = 16;

impl Context<'_> {
    /// Prepares the context for inputs of these types and shapes; free if they are those of the last run.
    pub(super) fn prepare(&mut self, inputs: &[TensorView<'_>]) -> Result<usize, EngineError> {
        match self.current {
            Some(current) if self.prepared[current].is_for(inputs) => Ok(current),
            _ => {
                let metas = inputs.iter().map(|x| TensorMeta::new(x.dtype(), x.shape().iter().copied()));
                self.prepare_metas(&metas.collect::<Vec<_>>())
            }
        }
    }

    pub(super) fn prepare_metas(&mut self, inputs: &[TensorMeta]) -> Result<usize, EngineError> {
        self.check_inputs(inputs)?;
        let key = inputs.iter().map(|input| Ok((input.dtype(), input.shape()?)));
        let key: Key = key.collect::<Result<_, EngineError>>()?;
        self.prepare_shapes(key, inputs).map_err(|error| {
            let shapes = inputs.iter().map(|input| input.shape().ok());
            error.with_notes(&self.plan.graph.notes_on(shapes))
        })
    }

    fn prepare_shapes(&mut self, key: Key, inputs: &[TensorMeta]) -> Result<usize, EngineError> {
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
        within(&self.plan.pool, || self.plan_memory(metas, scratch))
    }

    fn plan_memory(&self, metas: &[Option<TensorMeta>], scratch: Scratch) -> Result<MemoryPlan, EngineError> {
        let limits = &self.plan.limits;
        for (operand, meta) in self.plan.graph.operands().iter().zip(metas) {
            let Some((Ok(shape), dtype)) = meta.as_ref().map(|meta| (meta.shape(), meta.dtype())) else {
                continue;
            };
            let bytes = (shape.num_elements() as u64).saturating_mul(dtype.size() as u64);
            let what = if operand.producer().is_some() { "its output" } else { "input" };
            let named = |_| limits.check_tensor(&format!("{what} `{}`", operand.name()), bytes);
            let checked = limits.check_tensor(what, bytes).or_else(named);
            checked.map_err(|limit| self.limit_at(operand.producer(), limit))?;
        }
        let workspaces = self.workspaces(scratch)?;
        for (position, &bytes) in workspaces.iter().enumerate() {
            let checked = limits.check_tensor("its workspace", bytes as u64);
            checked.map_err(|limit| self.limit_at(Some(OperatorIndex::new(position)), limit))?;
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
        let bytes = |(position, operator): (usize, &RuntimeOperator)| {
            let Some(Configured { inputs, outputs }) = &state.configured[position] else { return Ok(0) };
            let asked = catch_panic(|| {
                Ok(match (&state.layers[position], &state.device) {
                    (Some(layer), _) => layer.workspace(inputs, outputs),
                    (None, Some(device)) => device.workspace(position, (inputs, outputs), scratch),
                    (None, None) => 0,
                })
            });
            asked.map_err(EngineError::at(graph, operator, Stage::Configure))
        };
        graph.operators().iter().enumerate().map(bytes).collect()
    }

    /// Moves a plan to the slots of the largest shapes if it needs more memory than they do, since packing is not optimal.
    fn fit_to_largest(&self, plan: MemoryPlan) -> MemoryPlan {
        let largest = self.largest.as_ref().filter(|largest| plan.arena_bytes > largest.arena_bytes);
        largest.and_then(|largest| plan.in_slots_of(largest)).unwrap_or(plan)
    }

    /// Reserves the memory for the largest shapes of the profile, if there is one.
    pub(super) fn prepare_largest(&mut self) -> Result<(), EngineError> {
        let Some(inputs) = self.plan.profile.as_ref().map(Profile::max) else { return Ok(()) };
        let position = self.prepare_metas(&inputs)?;
        self.largest = Some(self.prepared[position].memory.clone());
        Ok(())
    }

    fn check_inputs(&self, inputs: &[TensorMeta]) -> Result<(), EngineError> {
        let ports = &self.plan.inputs;
        let names = |range: &[Port]| range.iter().map(|port| port.name.clone()).collect();
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
