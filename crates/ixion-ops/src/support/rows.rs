//! Moves an axis to the end, so that functions along the axis become functions of rows, and writes what they select.

use super::views::pick;
use crate::op::Result;
use ixion_tensor::{Tensor, TensorView, TensorViewMut, resolve_axis};

/// An axis whose lines of elements are processed as rows.
pub(crate) struct Rows {
    /// All axes, with this one at the end.
    order: Vec<usize>,
    /// The length of a row.
    pub(crate) len: usize,
}

impl Rows {
    /// The axis `dim`, which may count from the end, of tensors of this shape. A 0-D tensor is one row of one element.
    pub(crate) fn new(dim: i64, shape: &[usize]) -> Result<Self> {
        let axis = resolve_axis(dim, shape.len())?;
        let others = (0..shape.len()).filter(|&other| other != axis);
        let order = others.chain((axis < shape.len()).then_some(axis)).collect();
        Ok(Self { order, len: shape.get(axis).copied().unwrap_or(1) })
    }

    /// A tensor with the axis moved to the end.
    pub(crate) fn of<'a>(&self, tensor: &TensorView<'a>) -> Result<TensorView<'a>> {
        Ok(tensor.with_layout(tensor.layout().permute(&self.order)?)?)
    }

    /// An output with the axis moved to the end.
    pub(crate) fn of_output<'a>(&self, output: &'a mut TensorViewMut<'_>) -> Result<TensorViewMut<'a>> {
        let layout = output.layout().permute(&self.order)?;
        Ok(output.reborrow().with_layout(layout)?)
    }

    /// Writes the elements at some positions of each of `rows` to the first output, and the positions to the second.
    pub(crate) fn write(
        &self,
        rows: &TensorView<'_>,
        positions: Vec<i64>,
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<()> {
        write_values(rows, self.len, &positions, &mut self.of_output(&mut outputs[0])?)?;
        write_places(positions, &mut self.of_output(&mut outputs[1])?)
    }
}

/// Writes positions to an output of i64.
pub(crate) fn write_places(places: Vec<i64>, output: &mut TensorViewMut<'_>) -> Result<()> {
    let shape = *output.shape();
    Ok(output.copy_from(&Tensor::from_vec(places, &shape)?.view())?)
}

/// Writes the elements at some positions of each row.
pub(crate) fn write_values(
    rows: &TensorView<'_>,
    len: usize,
    places: &[i64],
    output: &mut TensorViewMut<'_>,
) -> Result<()> {
    let per_row = places.len() / (rows.num_elements() / len.max(1)).max(1);
    let taken: Vec<usize> = places
        .iter()
        .enumerate()
        .map(|(index, &place)| index / per_row.max(1) * len + usize::try_from(place).unwrap_or(0))
        .collect();
    pick(rows, &taken, output)
}
