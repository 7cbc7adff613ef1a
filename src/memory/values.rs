//! The operands before any memory is shared, each with its own buffer or as a view of another operand's, and the action of each
//! operator, which follows from that.

use super::groups::{Buffer, Buffers, Pin};
use super::{MemoryError, Problem};
use crate::graph::{OperandIndex, RuntimeOperator};
use crate::op::{Layer, LayerError, View, catch_panic};
use crate::tensor::{DType, Layout, Shape};

/// An operand of known size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) buffer: usize,
    pub(super) dtype: DType,
    /// Its layout in the buffer, in elements.
    pub(super) layout: Layout,
}

/// The action left to do for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the outputs are views or constants, or preceding operators wrote directly into them.
    Nothing,
    /// [`CpuLayer::forward`](crate::op::CpuLayer::forward).
    Forward,
    /// [`CpuLayer::forward_in_place`](crate::op::CpuLayer::forward_in_place) on the input at this position.
    InPlace {
        /// The position of the input.
        input: usize,
    },
    /// The shape of an input or output is unknown until preceding operators have run: tensors without a place are allocated
    /// one by one.
    Dynamic,
}

/// All operands, their buffers, and the actions of the operators.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The operands by position; `None` if the size is unknown.
    pub(super) operands: Vec<Option<Value>>,
    pub(super) buffers: Buffers,
    /// The actions by position of the operator.
    pub(super) actions: Vec<Action>,
}

impl Values {
    pub(super) fn new(problem: &Problem<'_>) -> Result<Self, MemoryError> {
        let graph = problem.graph;
        let operands = vec![None; graph.operands().len()];
        let mut values = Self { operands, buffers: Buffers::default(), actions: Vec::new() };
        for (position, port) in graph.inputs().iter().enumerate() {
            values.define(problem, port.operand.position(), 0, Some(Pin::Input(position)))?;
        }
        for (step, operator) in graph.operators().iter().enumerate() {
            let action = values.take(problem, step, operator)?;
            values.actions.push(action);
        }
        for port in graph.outputs() {
            values.read(port.operand.position(), graph.operators().len())?;
        }
        Ok(values)
    }

    /// Adds an operator: records what it reads, and defines its outputs.
    fn take(
        &mut self,
        problem: &Problem<'_>,
        step: usize,
        operator: &RuntimeOperator,
    ) -> Result<Action, MemoryError> {
        if problem.constants.get(step).is_some_and(|&constant| constant) {
            return self.constant(problem, step, operator);
        }
        let inputs: Option<Vec<Value>> = operator.inputs().iter().map(|i| self.value(i.position())).collect();
        for input in operator.inputs() {
            self.read(input.position(), step)?;
        }
        let shapes = operator.outputs().iter().map(|i| shape_of(problem.metas.get(i.position())?));
        let shapes: Option<Vec<(DType, Shape)>> = shapes.collect();
        let (Some(layer), Some(inputs), Some(shapes)) = (operator.layer(), inputs, shapes) else {
            // Outputs of known size have places nevertheless, so that operators that read only these are planned again.
            for output in operator.outputs() {
                self.define(problem, output.position(), step, None)?;
            }
            return Ok(Action::Dynamic);
        };
        // A data-dependent layer allocates its outputs itself; they are copied to their places.
        let views = catch_panic(|| match layer.is_data_dependent() {
            true => Ok(None),
            false => self.views(layer, &inputs, &shapes),
        });
        match views.map_err(|source| fault(operator, source))? {
            Some(views) => {
                for (output, view) in operator.outputs().iter().zip(views) {
                    self.set(output.position(), view);
                    self.read(output.position(), step)?;
                }
                Ok(Action::Nothing)
            }
            None => {
                for output in operator.outputs() {
                    self.define(problem, output.position(), step, None)?;
                }
                Ok(Action::Forward)
            }
        }
    }

    fn constant(
        &mut self,
        problem: &Problem<'_>,
        step: usize,
        operator: &RuntimeOperator,
    ) -> Result<Action, MemoryError> {
        let known =
            |position: usize| problem.metas.get(position).is_some_and(|meta| shape_of(meta).is_some());
        match operator.outputs() {
            [output] if known(output.position()) => {
                self.define(problem, output.position(), step, Some(Pin::Constant(step)))?;
                Ok(Action::Nothing)
            }
            _ => Err(MemoryError::Problem(format!(
                "{} `{}` is marked as a constant, but does not have exactly one output of known size",
                operator.op_type(),
                operator.name()
            ))),
        }
    }

    /// The outputs, if all of them are views of inputs.
    fn views(
        &self,
        layer: &dyn Layer,
        inputs: &[Value],
        shapes: &[(DType, Shape)],
    ) -> Result<Option<Vec<Value>>, LayerError> {
        let layouts: Vec<(DType, Layout)> = inputs.iter().map(|input| (input.dtype, input.layout)).collect();
        let mut views = Vec::with_capacity(shapes.len());
        for (position, &(dtype, shape)) in shapes.iter().enumerate() {
            let Some(View { input, layout }) = layer.view_of(position, &layouts, &shape)? else {
                return Ok(None);
            };
            let source = inputs.get(input).ok_or_else(|| LayerError::BrokenPromise {
                wanted: format!("{} inputs", inputs.len()),
                found: format!("a view of input {input}"),
            })?;
            let room =
                self.buffers.get(source.buffer).map_or(0, |buffer| buffer.request.bytes) / dtype.size();
            layout.check_within(room)?;
            let is_related = |complex: DType, real: DType| complex.is_complex() && complex.real() == real;
            let may_be =
                dtype == source.dtype || is_related(dtype, source.dtype) || is_related(source.dtype, dtype);
            if !may_be || *layout.shape() != shape {
                return Err(LayerError::BrokenPromise {
                    wanted: format!("{shape} {}", source.dtype),
                    found: format!("a view {} {dtype}", layout.shape()),
                });
            }
            views.push(Value { buffer: source.buffer, dtype, layout });
        }
        Ok(Some(views))
    }

    /// Gives an operand its own buffer, if its size is known.
    fn define(
        &mut self,
        problem: &Problem<'_>,
        operand: usize,
        step: usize,
        pin: Option<Pin>,
    ) -> Result<(), MemoryError> {
        let Some(meta) = problem.metas.get(operand).and_then(Option::as_ref) else { return Ok(()) };
        let (dtype, Ok(layout)) = (meta.dtype(), meta.layout()) else { return Ok(()) };
        let bytes = byte_len(&layout, dtype);
        let bytes =
            bytes.ok_or_else(|| MemoryError::Problem(format!("{meta} is too large for this machine")))?;
        let device = problem.graph.operand(OperandIndex::new(operand)).device();
        let buffer = self.buffers.push(Buffer::new(bytes, step, pin, device));
        self.set(operand, Value { buffer, dtype, layout });
        Ok(())
    }

    fn set(&mut self, operand: usize, value: Value) {
        if let Some(slot) = self.operands.get_mut(operand) {
            *slot = Some(value);
        }
    }

    /// Records that an operand is read in a step.
    fn read(&mut self, operand: usize, step: usize) -> Result<(), MemoryError> {
        if let Some(value) = self.value(operand) {
            let buffer = self.buffers.get_mut(value.buffer)?;
            buffer.request.last = buffer.request.last.max(step);
        }
        Ok(())
    }

    /// The operand at this position, if its size is known.
    pub(super) fn value(&self, operand: usize) -> Option<Value> {
        self.operands.get(operand).copied().flatten()
    }

    /// The root that an operand fills completely, with its axes in any order or in blocks.
    pub(super) fn filled(&self, operand: usize) -> Option<usize> {
        let value = self.value(operand)?;
        let (root, offset) = self.buffers.root(value.buffer);
        let bytes = byte_len(&value.layout.with_offset(0), value.dtype)?;
        let fills = offset == 0 && self.buffers.get(root).ok()?.request.bytes == bytes;
        (fills && value.layout.is_dense() && (value.layout.offset() == 0 || bytes == 0)).then_some(root)
    }
}

/// The size of a dense layout in bytes; `None` on overflow.
fn byte_len(layout: &Layout, dtype: DType) -> Option<usize> {
    let elements = if layout.shape().num_elements() == 0 { 0 } else { layout.span() };
    elements.checked_mul(dtype.size())
}

fn shape_of(meta: &Option<crate::op::TensorMeta>) -> Option<(DType, Shape)> {
    let meta = meta.as_ref()?;
    Some((meta.dtype(), meta.shape().ok()?))
}

/// The error of a layer, with the name of its operator.
pub(super) fn fault(operator: &RuntimeOperator, source: LayerError) -> MemoryError {
    MemoryError::Layer {
        op_type: operator.op_type().to_owned(),
        operator: operator.name().to_owned(),
        source: Box::new(source),
    }
}
