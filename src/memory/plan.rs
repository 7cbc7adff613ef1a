//! The plan: a place for every operand, and the action left to do for every operator.

use super::groups::{Buffers, Pin};
use super::packing::{self, Request};
use super::values::{Action, Value, Values};
use super::{MemoryError, Problem, offsets, sharing};
use crate::graph::OperatorIndex;
use crate::op::Device;
use crate::tensor::{DType, Layout, Shape};
use std::ops::{Range, RangeInclusive};

/// The memory that holds an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The arena in CPU memory.
    Arena {
        /// The first byte.
        offset: usize,
        /// The number of bytes.
        bytes: usize,
    },
    /// The arena in device memory.
    Device {
        /// The first byte.
        offset: usize,
        /// The number of bytes.
        bytes: usize,
    },
    /// The caller's tensor for the input at this position; contiguous.
    Input(usize),
    /// The caller's buffer for the output at this position; contiguous.
    Output(usize),
    /// A constant: the only output of the operator at this position; contiguous.
    Constant(usize),
}

/// The location of an operand's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The memory.
    pub root: Root,
    /// The element type.
    pub dtype: DType,
    /// The layout of the elements relative to the root's first byte, in units of `dtype`.
    pub layout: Layout,
}

impl Place {
    /// A contiguous tensor that starts at the root's first byte.
    pub fn contiguous(root: Root, dtype: DType, shape: Shape) -> Self {
        Self { root, dtype, layout: Layout::contiguous(shape) }
    }
}

/// The part of a plan that belongs to one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The action.
    pub action: Action,
    /// The bytes that it may use as scratch memory, in the arena of the device on which it runs.
    pub workspace: Range<usize>,
}

/// A part of the arena, and the steps in which it is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The first byte.
    pub offset: usize,
    /// The number of bytes.
    pub bytes: usize,
    /// The steps in which it is in use. The step after the last operator is the time after the run.
    pub steps: RangeInclusive<usize>,
    /// The contents.
    pub holds: Holds,
    /// The device whose arena it is in.
    pub device: Device,
}

impl Slot {
    /// The root of an operand that starts with this slot.
    pub(super) fn root(&self) -> Root {
        let (offset, bytes) = (self.offset, self.bytes);
        match self.device {
            Device::Cpu => Root::Arena { offset, bytes },
            _ => Root::Device { offset, bytes },
        }
    }
}

/// The contents of a part of the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holds {
    /// The operands at these positions: several if one overwrites another, or is a part or view of it.
    Operands(Vec<usize>),
    /// The scratch memory of the operator at this position.
    Workspace(usize),
}

/// The memory plan for one set of input shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// One step for each operator of the graph, in order.
    pub steps: Vec<Step>,
    /// The place of each operand, by position; `None` for dynamic operands.
    pub places: Vec<Option<Place>>,
    /// Outputs to copy into their buffers after the run, in this order, as (position of the operand, position of the output):
    /// returned views, inputs and constants, and operands that are returned twice. The buffer of an output with a donated
    /// input is that input's tensor.
    pub copies: Vec<(usize, usize)>,
    /// The size of the arena in CPU memory.
    pub arena_bytes: usize,
    /// The size of the arena in device memory.
    pub device_bytes: usize,
    /// The memory that would be needed if everything that operators write had its own place.
    pub naive_bytes: usize,
    /// All parts of the arenas, sorted by first step and offset.
    pub slots: Vec<Slot>,
}

impl MemoryPlan {
    /// Plans the memory for the tensors of a problem. The same problem gives the same plan.
    ///
    /// # Errors
    /// [`MemoryError::Problem`] if a list has the wrong length, a donation is invalid, or a size exceeds the address space;
    /// [`MemoryError::Layer`] if a layer fails or breaks its contract.
    #[doc(hidden)]
    pub fn new(problem: &Problem<'_>) -> Result<Self, MemoryError> {
        problem.check()?;
        let mut values = Values::new(problem)?;
        let naive = values.buffers.in_arena().map(|(_, buffer)| buffer.request.bytes);
        let naive_bytes = naive
            .chain(problem.workspaces.iter().copied())
            .map(packing::aligned)
            .fold(0, usize::saturating_add);
        let copies = sharing::share(problem, &mut values)?;
        let mut slots = Vec::new();
        let [arena_bytes, device_bytes] = [Device::Cpu, Device::Cuda].map(|device| {
            let requests = requests(problem, &values, device);
            let wanted: Vec<Request> = requests.iter().map(|request| request.0).collect();
            let packing = offsets::pack(&wanted);
            debug_assert!(is_valid(&wanted, &packing));
            for ((request, holds), &offset) in requests.into_iter().zip(&packing.offsets) {
                let steps = request.first..=request.last;
                slots.push(Slot { offset, bytes: request.bytes, steps, holds, device });
            }
            packing.bytes
        });
        slots.sort_by_key(|slot| (*slot.steps.start(), slot.offset));
        let roots = roots(&slots, &values);
        let place =
            |value: &Option<Value>| value.as_ref().and_then(|value| placed(value, &values.buffers, &roots));
        Ok(Self {
            steps: steps(&slots, &values.actions),
            places: values.operands.iter().map(place).collect(),
            copies,
            arena_bytes,
            device_bytes,
            naive_bytes,
            slots,
        })
    }

    /// The largest number of bytes of the arena in use at the same time: no placement of these slots needs less.
    pub fn lower_bound(&self) -> usize {
        self.lower_bound_on(Device::Cpu)
    }

    /// The same for the arena of a device.
    pub fn lower_bound_on(&self, device: Device) -> usize {
        self.loads_on(device)
            .iter()
            .map(|load| load.activations.saturating_add(load.workspace))
            .max()
            .unwrap_or_default()
    }

    /// The memory of the arena in use in each step, and after the last one.
    pub fn loads(&self) -> Vec<Load> {
        self.loads_on(Device::Cpu)
    }

    fn loads_on(&self, device: Device) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.steps.len() + 1];
        for slot in self.slots.iter().filter(|slot| slot.device == device) {
            let bytes = packing::aligned(slot.bytes);
            for load in loads.get_mut(slot.steps.clone()).unwrap_or_default() {
                let sum = match slot.holds {
                    Holds::Operands(_) => &mut load.activations,
                    Holds::Workspace(_) => &mut load.workspace,
                };
                *sum = sum.saturating_add(bytes);
            }
        }
        loads
    }
}

/// The memory of the arena in use in one step. Sizes are rounded up to the arena's alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// The bytes of live activations.
    pub activations: usize,
    /// The bytes of scratch memory.
    pub workspace: usize,
}

/// Returns true if a packing is valid. Packings that are too large to allocate are exempt, as allocating them fails, and so
/// are packings of very many requests, as checking all pairs would take too long.
fn is_valid(wanted: &[Request], packing: &packing::Packing) -> bool {
    let is_exempt = packing.bytes == usize::MAX || wanted.len() > offsets::MAX_REQUESTS;
    is_exempt || packing::clash(wanted, packing).is_none()
}

/// The requests for the arena of a device, with the contents of each.
fn requests(problem: &Problem<'_>, values: &Values, device: Device) -> Vec<(Request, Holds)> {
    let mut members = vec![Vec::new(); values.buffers.len()];
    for (operand, value) in values.operands.iter().enumerate() {
        let Some(value) = value else { continue };
        if let Some(members) = members.get_mut(values.buffers.root(value.buffer).0) {
            members.push(operand);
        }
    }
    let wanted =
        values.buffers.in_arena().filter(|(_, buffer)| buffer.request.bytes > 0 && buffer.device == device);
    let activations = wanted.map(|(index, buffer)| {
        let holds = Holds::Operands(members.get_mut(index).map(std::mem::take).unwrap_or_default());
        (Request { bytes: on(device, buffer.request.bytes), ..buffer.request }, holds)
    });
    let mut requests: Vec<_> = activations.collect();
    for (step, (&bytes, action)) in problem.workspaces.iter().zip(&values.actions).enumerate() {
        let is_here = problem.graph.operator(OperatorIndex::new(step)).device() == device;
        let is_in_arena = !matches!(action, Action::Nothing | Action::Dynamic);
        if bytes > 0 && is_in_arena && is_here {
            let bytes = on(device, bytes);
            requests.push((Request { bytes, first: step, last: step }, Holds::Workspace(step)));
        }
    }
    requests
}

/// The size of a request on a device: GPUs read memory in lines, so that tensors should start at the beginning of one.
fn on(device: Device, bytes: usize) -> usize {
    const LINE: usize = 256;
    match device {
        Device::Cpu => bytes,
        _ => bytes.checked_next_multiple_of(LINE).unwrap_or(usize::MAX),
    }
}

/// The root of each buffer, by position; meaningful only for buffers that are not part of another.
fn roots(slots: &[Slot], values: &Values) -> Vec<Root> {
    let mut roots: Vec<Root> = values
        .buffers
        .iter()
        .map(|buffer| match buffer.pin {
            Some(Pin::Input(input)) => Root::Input(input),
            Some(Pin::Output(output)) => Root::Output(output),
            Some(Pin::Constant(operator)) => Root::Constant(operator),
            None => Root::Arena { offset: 0, bytes: 0 },
        })
        .collect();
    for slot in slots {
        let Holds::Operands(operands) = &slot.holds else { continue };
        let value = operands.first().and_then(|&operand| values.operands.get(operand)?.as_ref());
        if let Some(root) = value.and_then(|value| roots.get_mut(values.buffers.root(value.buffer).0)) {
            *root = slot.root();
        }
    }
    roots
}

fn placed(value: &Value, buffers: &Buffers, roots: &[Root]) -> Option<Place> {
    let (root, offset) = buffers.root(value.buffer);
    let layout = value.layout.with_offset(value.layout.offset() + offset / value.dtype.size());
    Some(Place { root: *roots.get(root)?, dtype: value.dtype, layout })
}

fn steps(slots: &[Slot], actions: &[Action]) -> Vec<Step> {
    let mut steps: Vec<Step> = actions.iter().map(|&action| Step { action, workspace: 0..0 }).collect();
    for slot in slots {
        let Holds::Workspace(step) = slot.holds else { continue };
        if let Some(step) = steps.get_mut(step) {
            step.workspace = slot.offset..slot.offset + slot.bytes;
        }
    }
    steps
}
