//! Code shared by layers whose outputs are views of their inputs.

use crate::op::{Layer, LayerError, Result, TensorMeta};
use ixion_tensor::{Layout, Shape, Tensor, TensorView, TensorViewMut, resolve_axis, with_bits};
use smallvec::SmallVec;

/// Implements [`CpuLayer`](crate::op::CpuLayer) for layers that return views. If the caller needs a copy, it is copied from
/// the view; if there is no view, elements are copied in row-major order.
macro_rules! view_layers {
    ($($name:ident),+ $(,)?) => {$(
        impl $crate::op::CpuLayer for $name {
            fn forward(&mut self, io: &mut $crate::op::Io<'_, '_>) -> $crate::op::Result<()> {
                $crate::support::views::copy(self, io.inputs, io.outputs)
            }
        }
    )+};
}

pub(crate) use view_layers;

/// Copies the views of a layer into its outputs.
pub(crate) fn copy(
    layer: &dyn Layer,
    inputs: &[TensorView<'_>],
    outputs: &mut [TensorViewMut<'_>],
) -> Result<()> {
    let layouts: SmallVec<[Layout; 2]> = inputs.iter().map(|input| *input.layout()).collect();
    for (position, output) in outputs.iter_mut().enumerate() {
        let shape = *output.shape();
        match layer.view(position, &layouts, &shape)? {
            Some(view) => output.copy_from(&inputs[view.input].with_layout(view.layout)?)?,
            None => copy_in_order(&inputs[0], output)?,
        }
    }
    Ok(())
}

/// Copies all elements in row-major order between tensors of different shapes.
///
/// # Errors
/// [`TensorError::ShapeMismatch`](ixion_tensor::TensorError::ShapeMismatch) if the numbers of elements differ.
pub(crate) fn copy_in_order(input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
    if let Some(layout) = output.layout().reshape(input.shape())? {
        return Ok(output.reborrow().with_layout(layout)?.copy_from(input)?);
    }
    let moved = input.to_tensor()?.reshape(output.shape())?;
    Ok(output.copy_from(&moved.view())?)
}

/// A contiguous tensor in row-major order: a view, or a copy.
#[derive(Debug)]
pub(crate) enum Plain<'a> {
    View(TensorView<'a>),
    Copy(Tensor),
}

impl<'a> Plain<'a> {
    pub(crate) fn of(view: &TensorView<'a>) -> Result<Self> {
        match view.layout().is_contiguous() {
            true => Ok(Self::View(*view)),
            false => Ok(Self::Copy(view.to_tensor()?)),
        }
    }

    /// All elements in row-major order, as a vector.
    pub(crate) fn flattened(view: &TensorView<'a>) -> Result<Self> {
        let shape = Shape::new(&[view.num_elements()])?;
        match view.layout().reshape(&shape)?.filter(Layout::is_contiguous) {
            Some(layout) => Ok(Self::View(view.with_layout(layout)?)),
            None => Ok(Self::Copy(view.to_tensor()?.reshape(&shape)?)),
        }
    }

    pub(crate) fn view(&self) -> TensorView<'_> {
        match self {
            Self::View(view) => *view,
            Self::Copy(tensor) => tensor.view(),
        }
    }
}

/// Lets `fill` write an output that is contiguous and in row-major order.
pub(crate) fn write_plain(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut TensorViewMut<'_>) -> Result<()>,
) -> Result<()> {
    if output.layout().is_contiguous() {
        return fill(output);
    }
    let mut whole = Tensor::empty(output.dtype(), output.shape())?;
    fill(&mut whole.view_mut()?)?;
    Ok(output.copy_from(&whole.view())?)
}

/// Writes the input's elements at the given row-major positions, and 0 for positions outside the input.
pub(crate) fn pick(input: &TensorView<'_>, places: &[usize], output: &mut TensorViewMut<'_>) -> Result<()> {
    let input = Plain::of(input)?;
    write_plain(output, &mut |output| {
        with_bits!(output.dtype(), B => {
            let (from, to) = (input.view().bits_slice::<B>()?, output.bits_slice::<B>()?);
            for (to, &place) in to.iter_mut().zip(places) {
                *to = from.get(place).copied().unwrap_or_default();
            }
        });
        Ok(())
    })
}

/// Sets all elements to one value, a 0-D tensor.
pub(crate) fn fill(output: &mut TensorViewMut<'_>, value: &Tensor) -> Result<()> {
    Ok(output.copy_from(&value.expand(output.shape())?.view())?)
}

/// Sets all elements to zero.
pub(crate) fn fill_with_zeros(output: &mut TensorViewMut<'_>) -> Result<()> {
    fill(output, &Tensor::zeros(output.dtype(), &[])?)
}

/// The inputs of a layer that overwrites its first input, given the others. An empty view takes the position of the first.
pub(crate) fn with_first<'a>(others: &[TensorView<'a>]) -> Result<SmallVec<[TensorView<'a>; 5]>> {
    let first = TensorView::from_slice::<u8>(&[], Layout::contiguous(Shape::new(&[0])?))?;
    Ok([first].into_iter().chain(others.iter().copied()).collect())
}

/// Implements [`CpuLayer`](crate::op::CpuLayer) by the layers' method `run`, which gets the first input (`None` if the output
/// holds it), all inputs, and the output.
macro_rules! run_in_place {
    ($($name:ident),+) => {$(
        impl $crate::op::CpuLayer for $name {
            fn forward(&mut self, io: &mut $crate::op::Io<'_, '_>) -> $crate::op::Result<()> {
                $crate::support::float::with_float!(io.inputs[0].dtype(), T => self.run::<T>(Some(&io.inputs[0]), io.inputs, &mut io.outputs[0], io.context.limits()))
            }

            fn forward_in_place(
                &mut self,
                data: &mut $crate::tensor::TensorViewMut<'_>,
                others: &[$crate::tensor::TensorView<'_>],
                context: &mut $crate::op::ForwardContext<'_>,
            ) -> $crate::op::Result<()> {
                let inputs = $crate::support::views::with_first(others)?;
                $crate::support::float::with_float!(data.dtype(), T => self.run::<T>(None, &inputs, data, context.limits()))
            }
        }
    )+};
}

pub(crate) use run_in_place;

/// Resolves the axis `dim`, which may count from the end.
///
/// # Errors
/// [`LayerError::Shape`] for a 0-D tensor, [`TensorError::OutOfRange`](ixion_tensor::TensorError::OutOfRange) if there is no
/// such axis.
pub(crate) fn axis_of(dim: i64, input: &TensorMeta) -> Result<usize> {
    if input.rank() == 0 {
        return Err(LayerError::shape("the input", "at least one axis", input));
    }
    Ok(resolve_axis(dim, input.rank())?)
}
