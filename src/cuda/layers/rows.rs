//! Rows: the elements of some axes that belong together, for each place along the others.

use super::elementwise::collapsed;
use super::epilogue::Arguments;
use super::support::shape;
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides};
use crate::graph::LayerError;
use crate::tensor::Layout;
use smallvec::SmallVec;

/// How rows of several tensors of one shape lie.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// The axes that are not of the row, and those that are.
    pub(super) outer: KernelShape,
    pub(super) row: KernelShape,
    outer_strides: SmallVec<[KernelStrides; 8]>,
    row_strides: SmallVec<[KernelStrides; 8]>,
    /// How many rows there are.
    pub(super) count: usize,
    /// How many elements a row has.
    pub(super) length: usize,
}

/// The most threads of a block, and the threads of a warp.
const MOST: usize = 256;
const WARP: usize = 32;

impl Rows {
    /// The rows along these axes.
    ///
    /// # Errors
    /// Layouts of different shapes.
    pub(super) fn along(axes: &[usize], layouts: &[Layout]) -> Result<Self, LayerError> {
        let rank = layouts.first().map_or(0, |layout| layout.shape().len());
        let (of_row, others): (Vec<usize>, Vec<usize>) = (0..rank).partition(|axis| axes.contains(axis));
        let part = |axes: &[usize], layout: &Layout| -> Result<Layout, LayerError> {
            let dims: Vec<usize> = axes.iter().map(|&axis| layout.shape()[axis]).collect();
            let strides: Vec<usize> = axes.iter().map(|&axis| layout.strides()[axis]).collect();
            Ok(Layout::strided(shape(&dims)?, &strides, 0)?)
        };
        let parts = |axes: &[usize]| -> Result<Vec<Layout>, LayerError> {
            layouts.iter().map(|layout| part(axes, layout)).collect()
        };
        let (outer_parts, row_parts) = (parts(&others)?, parts(&of_row)?);
        let elements = |parts: &[Layout]| parts.first().map_or(1, |layout| layout.shape().num_elements());
        let (count, length) = (elements(&outer_parts), elements(&row_parts));
        let (outer, outer_strides) = collapsed(&outer_parts);
        let (row, row_strides) = collapsed(&row_parts);
        Ok(Self { outer, row, outer_strides, row_strides, count, length })
    }

    /// The strides of a tensor along the axes that are not of the row.
    pub(super) fn outer_strides(&self, tensor: usize) -> Argument<'static> {
        Argument::Strides(self.outer_strides.get(tensor).copied().unwrap_or_default())
    }

    /// The strides of a tensor within a row.
    pub(super) fn row_strides(&self, tensor: usize) -> Argument<'static> {
        Argument::Strides(self.row_strides.get(tensor).copied().unwrap_or_default())
    }

    /// The arguments of a kernel that makes rows of `y` of those of `x`: each with its strides, the shapes, how many rows there are,
    /// and of how many elements.
    pub(super) fn arguments<'a>(&self, x: &DeviceTensor<'a>, y: &DeviceTensor<'a>) -> Arguments<'a> {
        let mut arguments = Arguments::new();
        for (position, tensor) in [Argument::Read(*x), Argument::Write(*y)].into_iter().enumerate() {
            arguments.extend([tensor, self.outer_strides(position), self.row_strides(position)]);
        }
        arguments.extend([
            Argument::Shape(self.outer),
            Argument::Shape(self.row),
            Argument::Long(self.count as i64),
            Argument::Long(self.length as i64),
        ]);
        arguments
    }

    /// Whether there are many rows whose elements lie side by side, so that threads that read a row each read neighbours.
    pub(super) fn are_side_by_side(&self) -> bool {
        let last = usize::try_from(self.outer.rank - 1).ok();
        let by = last.and_then(|axis| self.outer_strides.first()?.by.get(axis).copied());
        by == Some(1) && self.count >= MOST
    }

    /// A block for each row, of as many warps as it needs.
    pub(super) fn grid(&self) -> Grid {
        let threads = self.length.clamp(1, MOST).next_multiple_of(WARP);
        Grid::of(self.count, u32::try_from(threads).unwrap_or(WARP as u32))
    }
}

/// The layout of a tensor without an axis, and the stride along it.
///
/// # Errors
/// None, for fewer axes are always a layout.
pub(super) fn without_axis(layout: &Layout, axis: usize) -> Result<(Layout, i64), LayerError> {
    let (mut dims, mut by) = (layout.shape().dims().to_vec(), layout.strides().to_vec());
    let stride = if axis < by.len() { by.remove(axis) } else { 0 };
    if axis < dims.len() {
        dims.remove(axis);
    }
    Ok((Layout::strided(shape(&dims)?, &by, 0)?, stride as i64))
}
