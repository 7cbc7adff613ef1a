//! The mutable state of a context.

use super::device::DeviceState;
use super::spares::Spares;
use super::{EngineError, Plan};
use crate::graph::{OperandIndex, RuntimeOperator, Stage};
use crate::memory::Arena;
use crate::op::{CloneCpuLayer, CpuLayer, Device, LayerError, TensorMeta, catch_panic, drop_layer};
use crate::tensor::{Tensor, Workspace};
use std::collections::BTreeMap;

/// The mutable state of a context.
#[derive(Debug)]
pub(super) struct State {
    /// By the operator's position.
    pub(super) layers: Vec<Option<Box<dyn CpuLayer>>>,
    /// The tensors that each layer is configured for.
    pub(super) configured: Vec<Option<Configured>>,
    pub(super) arena: Arena,
    /// The part of the state on a device.
    pub(super) device: Option<DeviceState>,
    /// The tensors without a place that are needed now, since their sizes depend on values; by the operand's position.
    pub(super) dynamic: BTreeMap<usize, Tensor>,
    /// The scratch memory of such operators.
    pub(super) workspace: Workspace,
    /// Memory for such tensors.
    pub(super) spares: Spares,
}

impl State {
    /// The bytes of all activations: those in the arena, and those without a place. Memory that tensors share counts once.
    pub(super) fn held_bytes(&self) -> u64 {
        let mut held: Vec<(usize, usize)> =
            self.dynamic.values().map(|tensor| (tensor.storage_id(), tensor.storage_bytes())).collect();
        held.sort_unstable();
        held.dedup();
        held.iter().map(|&(_, bytes)| bytes as u64).fold(self.arena.len() as u64, u64::saturating_add)
    }

    /// Drops a layer that failed. It is cloned again when layers are configured.
    pub(super) fn drop_layer(&mut self, position: usize) {
        self.layers.get_mut(position).and_then(Option::take).into_iter().for_each(drop_layer);
        self.device.iter_mut().for_each(|device| device.drop_layer(position));
        self.configured.get_mut(position).into_iter().for_each(|known| *known = None);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.layers.drain(..).flatten().for_each(drop_layer);
    }
}

/// The element types and shapes that a layer is configured for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Configured {
    pub(super) inputs: Vec<TensorMeta>,
    pub(super) outputs: Vec<TensorMeta>,
}

/// Clones an operator's layer for the context; `None` if the CPU does not run it.
pub(super) fn cloned(
    plan: &Plan,
    operator: &RuntimeOperator,
) -> Result<Option<Box<dyn CpuLayer>>, EngineError> {
    let layer = operator.layer().filter(|_| operator.device() == Device::Cpu);
    let cloned = catch_panic(|| Ok(layer.map(CloneCpuLayer::clone_layer)));
    cloned.map_err(EngineError::at(&plan.graph, operator, Stage::Initialize))
}

/// Configures the layers whose shapes changed.
pub(super) fn configure(
    plan: &Plan,
    state: &mut State,
    metas: &[Option<TensorMeta>],
) -> Result<(), EngineError> {
    let meta = |operand: &OperandIndex| metas.get(operand.position())?.as_ref();
    for (position, operator) in plan.graph.operators().iter().enumerate() {
        if state.layers[position].is_none() {
            state.layers[position] = cloned(plan, operator)?;
        }
        let is_on_device = operator.device() == Device::Cuda;
        if state.layers[position].is_none() && !is_on_device {
            continue;
        }
        let known = state.configured[position].as_ref();
        let same = |operands: &[OperandIndex], known: &[TensorMeta]| {
            operands.len() == known.len()
                && operands.iter().zip(known).all(|(o, known)| meta(o) == Some(known))
        };
        if known.is_some_and(|k| same(operator.inputs(), &k.inputs) && same(operator.outputs(), &k.outputs)) {
            continue;
        }
        let collect =
            |operands: &[OperandIndex]| operands.iter().map(|o| meta(o).cloned()).collect::<Option<Vec<_>>>();
        let is_fixed = |metas: &[TensorMeta]| metas.iter().all(|meta| meta.shape().is_ok());
        state.configured[position] = None;
        let (Some(inputs), Some(outputs)) = (collect(operator.inputs()), collect(operator.outputs())) else {
            continue;
        };
        if !is_fixed(&inputs) || !is_fixed(&outputs) {
            continue;
        }
        let tensors = (inputs.as_slice(), outputs.as_slice());
        if let Err(source) = catch_panic(|| configure_one(plan, state, position, tensors)) {
            state.drop_layer(position);
            return Err(EngineError::at(&plan.graph, operator, Stage::Configure)(source));
        }
        state.configured[position] = Some(Configured { inputs, outputs });
    }
    Ok(())
}

fn configure_one(
    plan: &Plan,
    state: &mut State,
    position: usize,
    (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
) -> Result<(), LayerError> {
    match (&mut state.layers[position], &plan.device, &mut state.device) {
        (Some(layer), ..) => layer.configure(inputs, outputs),
        (None, Some(plan), Some(device)) => device.configure(plan, position, (inputs, outputs)),
        _ => Ok(()),
    }
}
