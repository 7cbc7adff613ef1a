//! Everything that follows from the shapes of the inputs.

use crate::graph::{OperandIndex, OutputPort, RuntimeGraph};
use crate::memory::{Action, MemoryPlan, Place};
use crate::op::{Device, TensorMeta, catch_panic};
use crate::tensor::{DType, Shape, TensorView};
use smallvec::SmallVec;
use std::ops::Range;

/// The jobs and their memory for one set of input shapes.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The element types and shapes of the inputs.
    pub(super) key: Key,
    /// The inferred shapes, by operand.
    pub(super) metas: Vec<Option<TensorMeta>>,
    pub(super) memory: MemoryPlan,
    /// The operators that do any work.
    pub(super) jobs: Vec<Job>,
    /// Element types and shapes of the outputs; `None` if unknown before the run.
    pub(super) outputs: Vec<Option<(DType, Shape)>>,
}

/// Element types and shapes of all inputs.
pub(super) type Key = Vec<(DType, Shape)>;

/// One operator's work.
#[derive(Debug)]
pub(super) struct Job {
    /// The operator's position.
    pub(super) operator: usize,
    pub(super) action: Action,
    /// The places of the inputs; of a job in place, of all but the one that is overwritten. Tensors of a dynamic job that have
    /// no place are left out, here and in `writes`.
    pub(super) reads: SmallVec<[Place; 3]>,
    pub(super) writes: SmallVec<[Place; 1]>,
    pub(super) workspace: Range<usize>,
    /// Whether it runs on a device, or has tensors there.
    pub(super) is_on_device: bool,
}

impl Prepared {
    pub(super) fn new(
        graph: &RuntimeGraph,
        key: Key,
        metas: Vec<Option<TensorMeta>>,
        memory: MemoryPlan,
    ) -> Self {
        let output = |port: &OutputPort| {
            let position = port.operand.position();
            memory.places.get(position).copied().flatten()?;
            let meta = metas.get(position)?.as_ref()?;
            Some((meta.dtype(), meta.shape().ok()?))
        };
        let outputs = graph.outputs().iter().map(output).collect();
        let jobs =
            (0..graph.operators().len()).filter_map(|position| job(graph, &memory, position)).collect();
        Self { key, metas, memory, jobs, outputs }
    }

    /// Returns true if this is for inputs of these types and shapes. Does not allocate.
    pub(super) fn is_for(&self, inputs: &[TensorView<'_>]) -> bool {
        let is_same = |((dtype, shape), input): (&(DType, Shape), &TensorView<'_>)| {
            *dtype == input.dtype() && shape == input.shape()
        };
        self.key.len() == inputs.len() && self.key.iter().zip(inputs).all(is_same)
    }
}

fn job(graph: &RuntimeGraph, memory: &MemoryPlan, position: usize) -> Option<Job> {
    let (operator, step) = (graph.operators().get(position)?, memory.steps.get(position)?);
    // A layer that panics here panics in the next call as well, whose error names the operator.
    let is_pointwise =
        operator.layer().is_some_and(|layer| catch_panic(|| Ok(layer.is_pointwise())).unwrap_or(false));
    // The shapes of a dynamic job are inferred from its tensors.
    let is_unrolled = is_pointwise && step.action != Action::Dynamic;
    let place = |operand: &OperandIndex| {
        let place = memory.places.get(operand.position()).copied().flatten()?;
        let layout = if is_unrolled { place.layout.unrolled().ok()? } else { place.layout };
        Some(Place { layout, ..place })
    };
    let overwritten = match step.action {
        Action::Nothing => return None,
        Action::InPlace { input } => Some(input),
        Action::Forward | Action::Dynamic => None,
    };
    let inputs = operator.inputs().iter().enumerate().filter(|(input, _)| Some(*input) != overwritten);
    let operands = operator.inputs().iter().chain(operator.outputs());
    let mut devices = operands.map(|&operand| graph.operand(operand).device());
    Some(Job {
        operator: position,
        action: step.action,
        reads: inputs.filter_map(|(_, input)| place(input)).collect(),
        writes: operator.outputs().iter().filter_map(place).collect(),
        workspace: step.workspace.clone(),
        is_on_device: devices.any(|device| device == Device::Cuda),
    })
}
