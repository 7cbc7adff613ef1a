//! What layers share whose outputs are their inputs under another layout.

use crate::op::{Layer, LayerError, TensorMeta};
use crate::tensor::{Layout, Shape, Tensor, TensorView, TensorViewMut, resolve_axis};
use smallvec::SmallVec;

/// Implements [`CpuLayer`](crate::op::CpuLayer) for layers that return views: where a copy is wanted all the same, it
/// is made of the view; where there is none, elements keep their row-major order.
macro_rules! view_layers {
    ($($name:ident),+ $(,)?) => {$(
        impl $crate::op::CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[$crate::tensor::TensorView<'_>],
                outputs: &mut [$crate::tensor::TensorViewMut<'_>],
                _: &mut $crate::op::ForwardContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                $crate::ops::support::views::copy(self, inputs, outputs)
            }
        }
    )+};
}

pub(in crate::ops) use view_layers;

/// Copies the views of a layer into its outputs.
pub(in crate::ops) fn copy(
    layer: &dyn Layer,
    inputs: &[TensorView<'_>],
    outputs: &mut [TensorViewMut<'_>],
) -> Result<(), LayerError> {
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
/// [`TensorError::ShapeMismatch`](crate::tensor::TensorError::ShapeMismatch) when one has more elements.
pub(in crate::ops) fn copy_in_order(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<(), LayerError> {
    if let Some(layout) = output.layout().reshape(input.shape())? {
        return Ok(output.reborrow().with_layout(layout)?.copy_from(input)?);
    }
    let moved = input.to_tensor()?.reshape(output.shape())?;
    Ok(output.copy_from(&moved.view())?)
}

/// A tensor whose elements lie in row-major order without gaps: as it is, or a copy.
#[derive(Debug)]
pub(in crate::ops) enum Plain<'a> {
    View(TensorView<'a>),
    Copy(Tensor),
}

impl<'a> Plain<'a> {
    pub(in crate::ops) fn of(view: &TensorView<'a>) -> Result<Self, LayerError> {
        match view.layout().is_contiguous() {
            true => Ok(Self::View(*view)),
            false => Ok(Self::Copy(view.to_tensor()?)),
        }
    }

    pub(in crate::ops) fn view(&self) -> TensorView<'_> {
        match self {
            Self::View(view) => *view,
            Self::Copy(tensor) => tensor.view(),
        }
    }
}

/// Lets `fill` write all elements of an output in row-major order without gaps.
pub(in crate::ops) fn write_plain(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut TensorViewMut<'_>) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    if output.layout().is_contiguous() {
        return fill(output);
    }
    let mut whole = Tensor::zeros(output.dtype(), output.shape())?;
    fill(&mut whole.view_mut()?)?;
    Ok(output.copy_from(&whole.view())?)
}

/// Writes one value, a tensor without axes, everywhere.
pub(in crate::ops) fn fill(output: &mut TensorViewMut<'_>, value: &Tensor) -> Result<(), LayerError> {
    Ok(output.copy_from(&value.expand(output.shape())?.view())?)
}

/// Writes zeros everywhere.
pub(in crate::ops) fn fill_with_zeros(output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
    fill(output, &Tensor::zeros(output.dtype(), &[])?)
}

/// The inputs of a layer that overwrites the first of them, given the others: each stands at its position.
pub(in crate::ops) fn with_first<'a>(
    others: &[TensorView<'a>],
) -> Result<SmallVec<[TensorView<'a>; 5]>, LayerError> {
    let first = TensorView::from_slice::<u8>(&[], Layout::contiguous(Shape::new(&[0])?))?;
    Ok([first].into_iter().chain(others.iter().copied()).collect())
}

/// Lets layers compute by their method `run`, given the first input (none where the output holds it), all inputs, and the
/// output.
macro_rules! run_in_place {
    ($($name:ident),+) => {$(
        impl $crate::op::CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[$crate::tensor::TensorView<'_>],
                outputs: &mut [$crate::tensor::TensorViewMut<'_>],
                _: &mut $crate::op::ForwardContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                $crate::ops::support::float::with_float!(inputs[0].dtype(), T => self.run::<T>(Some(&inputs[0]), inputs, &mut outputs[0]))
            }

            fn forward_in_place(
                &mut self,
                data: &mut $crate::tensor::TensorViewMut<'_>,
                others: &[$crate::tensor::TensorView<'_>],
                _: &mut $crate::op::ForwardContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                let inputs = $crate::ops::support::views::with_first(others)?;
                $crate::ops::support::float::with_float!(data.dtype(), T => self.run::<T>(None, &inputs, data))
            }
        }
    )+};
}

pub(in crate::ops) use run_in_place;

/// The axis that `dim` means, which may count from the end; a tensor without axes has none.
///
/// # Errors
/// [`LayerError::Shape`] for a scalar, [`TensorError::OutOfRange`](crate::tensor::TensorError::OutOfRange).
pub(in crate::ops) fn axis_of(dim: i64, input: &TensorMeta) -> Result<usize, LayerError> {
    if input.rank() == 0 {
        return Err(LayerError::shape("the input", "at least one axis", input));
    }
    Ok(resolve_axis(dim, input.rank())?)
}
