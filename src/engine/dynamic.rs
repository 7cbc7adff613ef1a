//! One run of an operator some of whose tensors have sizes that were unknown before: these are allocated one by one, the others
//! have places in the plan.

use super::spares::Spares;
use super::state::Configured;
use crate::Limits;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator, check_returned};
use crate::op::{CpuLayer, ForwardContext, Io, LayerError, TensorMeta, View};
use crate::shape::apply_rule;
use crate::tensor::{DType, Format, Layout, Shape, Tensor, TensorView, TensorViewMut, Workspace};
use smallvec::SmallVec;

/// The element types, shapes and formats of an operator's inputs, and those of its outputs, which follow from them; lengths
/// that the layer finds only by computing are symbols.
///
/// # Errors
/// The error of a layer that rejects its inputs.
pub(super) fn described(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    inputs: &[TensorView<'_>],
) -> Result<Configured, LayerError> {
    // A layout does not say whether a format has its channels last: as a layout, that is plain.
    let meta = |(input, operand): (&TensorView<'_>, &OperandIndex)| {
        let operand = graph.operand(*operand);
        TensorMeta::of(input).with_format(operand.format()).with_step(operand.step())
    };
    let inputs: Vec<TensorMeta> = inputs.iter().zip(operator.inputs()).map(meta).collect();
    let outputs = apply_rule(graph, operator, &inputs)?;
    Ok(Configured { inputs, outputs })
}

/// An input of an operator.
pub(super) enum Input<'v> {
    /// It has a place, which is used again by later operators.
    Placed(TensorView<'v>),
    /// It was allocated.
    Held(Tensor),
    /// It was allocated, and nothing else refers to its memory after this run of the operator.
    Last(Tensor),
}

impl Input<'_> {
    pub(super) fn view(&self) -> TensorView<'_> {
        match self {
            Self::Placed(view) => *view,
            Self::Held(tensor) | Self::Last(tensor) => tensor.view(),
        }
    }

    /// The tensor, unless it has a place.
    fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Placed(_) => None,
            Self::Held(tensor) | Self::Last(tensor) => Some(tensor),
        }
    }

    /// The same input, which is the last use of its memory unless that is shared with a tensor that is needed later.
    pub(super) fn or_last(self, is_shared: impl Fn(&Tensor) -> bool) -> Self {
        match self {
            Self::Held(tensor) if !is_shared(&tensor) => Self::Last(tensor),
            input => input,
        }
    }

    /// The tensor, copied if it has a place.
    fn to_tensor(&self) -> Result<Tensor, LayerError> {
        match self {
            Self::Placed(view) => copied(view),
            Self::Held(tensor) | Self::Last(tensor) => Ok(tensor.clone()),
        }
    }
}

type Views<'v> = SmallVec<[TensorView<'v>; 4]>;

/// The inputs, in order.
pub(super) fn views_of<'v>(inputs: &'v [Input<'_>]) -> Views<'v> {
    inputs.iter().map(Input::view).collect()
}

/// The inputs as they are passed to a layer.
fn seen_by_layer<'v>(inputs: &'v [Input<'_>], is_pointwise: bool) -> Result<Views<'v>, LayerError> {
    inputs.iter().map(|input| if is_pointwise { unrolled(input.view()) } else { Ok(input.view()) }).collect()
}

/// One run of a configured layer.
pub(super) struct Computation<'a, 'v> {
    pub(super) layer: &'a mut dyn CpuLayer,
    pub(super) inputs: SmallVec<[Input<'v>; 4]>,
    /// The places of the outputs; `None` for those that are to be allocated.
    pub(super) targets: SmallVec<[Option<TensorViewMut<'v>>; 4]>,
    pub(super) metas: &'a Configured,
    pub(super) workspace: &'a mut Workspace,
    pub(super) spares: &'a mut Spares,
    /// The bytes of all activations that are held already.
    pub(super) held: u64,
    pub(super) limits: &'a Limits,
}

impl Computation<'_, '_> {
    /// Computes all outputs, and returns those without a place, by position.
    ///
    /// # Errors
    /// The error of a layer that fails or breaks its contract; an error if a tensor, or all activations together, exceed the
    /// limits.
    pub(super) fn run(self) -> Result<Vec<Option<Tensor>>, LayerError> {
        let bytes = self.layer.workspace(&self.metas.inputs, &self.metas.outputs);
        self.limits.check_tensor("workspace", bytes as u64)?;
        self.workspace.reserve(bytes)?;
        if self.layer.is_data_dependent() {
            return self.forward_dynamic();
        }
        if let Some(views) = self.views()? {
            return self.put(views);
        }
        match self.overwritten()? {
            Some(input) => self.forward_in_place(input),
            None => self.forward(),
        }
    }

    fn forward_dynamic(mut self) -> Result<Vec<Option<Tensor>>, LayerError> {
        let mut context = ForwardContext::new(&mut *self.workspace, self.limits);
        let tensors = self.layer.forward_dynamic(&views_of(&self.inputs), &mut context)?;
        check_returned(&tensors, &self.metas.outputs)?;
        let bytes = tensors.iter().map(|tensor| tensor.storage_bytes() as u64);
        self.limits.check_total("the activations", bytes.fold(self.held, u64::saturating_add))?;
        recycle(std::mem::take(&mut self.inputs), &mut *self.spares);
        self.put(tensors)
    }

    /// The outputs, if the layer declares them as views of its inputs.
    fn views(&self) -> Result<Option<Vec<Tensor>>, LayerError> {
        let Some(first) = self.metas.outputs.first() else { return Ok(None) };
        let seen = layouts(self.inputs.iter().map(Input::view));
        if self.layer.view_of(0, &seen, &first.shape()?)?.is_none() {
            return Ok(None);
        }
        let sources =
            self.inputs.iter().map(Input::to_tensor).collect::<Result<Vec<Tensor>, LayerError>>()?;
        let stored = layouts(sources.iter().map(Tensor::view));
        let mut views = Vec::with_capacity(self.metas.outputs.len());
        for (position, meta) in self.metas.outputs.iter().enumerate() {
            let shape = meta.shape()?;
            let Some(View { input, layout }) = self.layer.view_of(position, &stored, &shape)? else {
                return Ok(None);
            };
            let Some(source) = sources.get(input).filter(|_| *layout.shape() == shape) else {
                return Err(LayerError::BrokenPromise {
                    wanted: format!("a view {shape} of one of {} inputs", sources.len()),
                    found: format!("a view {} of input {input}", layout.shape()),
                });
            };
            self.limits.check_tensor("a view, if it were copied,", bytes_of(meta))?;
            views.push(source.as_parts(meta.dtype(), layout)?);
        }
        Ok(Some(views))
    }

    /// The input that the layer may overwrite: the only output has its element type and layout, and nothing else reads it, now
    /// or later.
    fn overwritten(&self) -> Result<Option<usize>, LayerError> {
        let ([output], [None]) = (&self.metas.outputs[..], &self.targets[..]) else { return Ok(None) };
        let Some(position) = self.layer.in_place(0) else { return Ok(None) };
        let Some(Input::Last(data)) = self.inputs.get(position) else { return Ok(None) };
        let is_alike = data.dtype() == output.dtype() && *data.layout() == output.layout()?;
        Ok((is_alike && !self.is_read_twice(position)).then_some(position))
    }

    /// Returns true if another input shares the memory of the input at this position: writing would copy it.
    fn is_read_twice(&self, position: usize) -> bool {
        let Some(data) = self.inputs.get(position).and_then(Input::tensor) else { return false };
        let others = self.inputs.iter().enumerate().filter(|&(other, _)| other != position);
        others.filter_map(|(_, other)| other.tensor()).any(|other| other.shares_storage(data))
    }

    fn forward_in_place(mut self, position: usize) -> Result<Vec<Option<Tensor>>, LayerError> {
        let is_pointwise = self.layer.is_pointwise();
        let data = self.inputs.remove(position).to_tensor()?;
        let layout = *data.layout();
        let mut result = data.with_layout(if is_pointwise { layout.unrolled()? } else { layout })?;
        // A second owner would make writing copy it.
        drop(data);
        let others = seen_by_layer(&self.inputs, is_pointwise)?;
        let mut context = ForwardContext::new(&mut *self.workspace, self.limits);
        self.layer.forward_in_place(&mut result.view_mut()?, &others, &mut context)?;
        Ok(vec![Some(result.with_layout(layout)?)])
    }

    fn forward(mut self) -> Result<Vec<Option<Tensor>>, LayerError> {
        let mut made = self.allocated()?;
        let is_pointwise = self.layer.is_pointwise();
        let inputs = seen_by_layer(&self.inputs, is_pointwise)?;
        let mut outputs: SmallVec<[TensorViewMut<'_>; 4]> = SmallVec::new();
        for (tensor, target) in made.iter_mut().zip(self.targets) {
            let view = match (tensor, target) {
                (_, Some(place)) => Some(place),
                (tensor, None) => tensor.as_mut().map(Tensor::view_mut).transpose()?,
            };
            let Some(view) = view else { continue };
            outputs.push(if is_pointwise { unrolled_mut(view)? } else { view });
        }
        let mut context = ForwardContext::new(&mut *self.workspace, self.limits);
        self.layer.forward(&mut Io::new(&inputs, &mut outputs, &mut context))?;
        drop((inputs, outputs));
        recycle(self.inputs, self.spares);
        Ok(made)
    }

    /// New tensors for the outputs without a place.
    fn allocated(&mut self) -> Result<Vec<Option<Tensor>>, LayerError> {
        let mut made = Vec::with_capacity(self.targets.len());
        let mut total = self.held;
        for (meta, target) in self.metas.outputs.iter().zip(&self.targets) {
            let (dtype, layout) = (meta.dtype(), meta.layout()?);
            if let Some(place) = target {
                check_place(dtype, layout.shape(), place)?;
                made.push(None);
                continue;
            }
            total = total.saturating_add(bytes_of(meta));
            self.limits.check_tensor("its output", bytes_of(meta))?;
            self.limits.check_total("the activations", total)?;
            made.push(Some(self.spares.take(dtype, layout)?));
        }
        Ok(made)
    }

    /// Copies tensors to the places of the outputs, and returns those without a place.
    fn put(self, tensors: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, LayerError> {
        tensors.into_iter().zip(self.targets).map(|(tensor, target)| put(tensor, target)).collect()
    }
}

/// Keeps the memory of inputs that nothing else needs for later outputs.
fn recycle(inputs: SmallVec<[Input<'_>; 4]>, spares: &mut Spares) {
    for input in inputs {
        if let Input::Last(tensor) = input {
            spares.give(tensor);
        }
    }
}

fn put(tensor: Tensor, target: Option<TensorViewMut<'_>>) -> Result<Option<Tensor>, LayerError> {
    let Some(place) = target else { return Ok(Some(tensor)) };
    check_place(tensor.dtype(), tensor.shape(), &place)?;
    unrolled_mut(place)?.copy_from(&unrolled(tensor.view())?)?;
    Ok(None)
}

/// Checks that an output has the element type and shape that its place was planned for.
fn check_place(dtype: DType, shape: &Shape, place: &TensorViewMut<'_>) -> Result<(), LayerError> {
    if dtype == place.dtype() && shape == place.shape() {
        return Ok(());
    }
    let wanted = format!("{} {}", place.shape(), place.dtype());
    Err(LayerError::BrokenPromise { wanted, found: format!("{shape} {dtype}") })
}

/// The size of a tensor in bytes; the largest number if it is unknown.
fn bytes_of(meta: &TensorMeta) -> u64 {
    meta.byte_len().unwrap_or(u64::MAX)
}

fn layouts<'v>(views: impl Iterator<Item = TensorView<'v>>) -> Vec<(DType, Layout)> {
    views.map(|view| (view.dtype(), *view.layout())).collect()
}

/// A copy in the same format.
fn copied(view: &TensorView<'_>) -> Result<Tensor, LayerError> {
    let copy = unrolled(*view)?.to_tensor()?;
    match view.layout().format() {
        Format::Plain => Ok(copy),
        _ => Ok(copy.with_layout(view.layout().with_offset(0))?),
    }
}

/// The tensor with the layout of its memory, as element-wise layers see it.
fn unrolled(view: TensorView<'_>) -> Result<TensorView<'_>, LayerError> {
    Ok(view.with_layout(view.layout().unrolled()?)?)
}

fn unrolled_mut(view: TensorViewMut<'_>) -> Result<TensorViewMut<'_>, LayerError> {
    let layout = view.layout().unrolled()?;
    Ok(view.with_layout(layout)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::OperatorIndex;
    use crate::op::{Step, TensorFormat};
    use crate::pnnx::Graph;

    const MODEL: &str =
        "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,4,3,3)f32\nnn.ReLU act 1 1 x y\npnnx.Output out 1 0 y\n";

    #[test]
    fn tensors_are_described_in_their_formats() {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(MODEL, &Limits::default()).unwrap());
        graph.build().unwrap();
        let act = OperatorIndex::new(0);
        let shape = Shape::new(&[2, 4, 3, 3]).unwrap();
        let last = TensorFormat::quantized().channels_last();
        let step = Step { scale: 0.5, zero_point: 3 };
        for (format, step, layout) in [
            (last, Some(step), Layout::channels_last(shape)),
            (TensorFormat::quantized(), Some(Step::from(0.5)), Layout::contiguous(shape)),
            (TensorFormat::plain(DType::F32).blocked(1, 8), None, Layout::blocked(shape, 1, 8).unwrap()),
        ] {
            let operands = [graph.operator(act).inputs()[0], graph.operator(act).outputs()[0]];
            operands.iter().for_each(|&operand| graph.set_format(operand, format, step));
            let x = Tensor::zeros_with_layout(format.dtype, layout).unwrap();
            let Configured { inputs, outputs } = described(&graph, graph.operator(act), &[x.view()]).unwrap();
            for meta in [&inputs[0], &outputs[0]] {
                let found = (meta.dtype(), meta.format(), meta.step(), meta.layout().unwrap());
                assert_eq!(found, (format.dtype, format.format, step, layout));
            }
        }
    }
}
