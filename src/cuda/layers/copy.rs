//! Copies of elements of any type, between tensors of one shape with any layouts.
//!
//! If both are contiguous along the same axis, threads copy words. If they are contiguous along different axes, as when
//! changing to channels-last, blocks transpose tiles, so that both reads and writes are contiguous.

use super::axes::{AllStrides, Traversal, collapsed_in_output_order};
use crate::cuda::CudaContext;
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::op::Result;
use crate::tensor::DType;

/// Copies elements of any type to a tensor of the same shape and element size.
pub(crate) fn copy(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let (shape, strides) = collapsed_in_output_order(&[from.layout().expand(to.shape())?, *to.layout()])?;
    if let Some(transpose) = TiledTranspose::of(&shape, &strides) {
        return transpose.run(from, to, context);
    }
    let traversal = Traversal::of(&[from, to], &shape, &strides);
    let count = to.num_elements();
    let [from_strides, to_strides] = both(&strides);
    let arguments = [
        Argument::Read(*from),
        Argument::Strides(from_strides),
        Argument::Write(*to),
        Argument::Strides(to_strides),
        Argument::Shape(shape),
        Argument::Long(count as i64),
    ];
    context.run(&unit(from.dtype(), traversal), "copy_elements", traversal.grid(count), &arguments)
}

/// The source of the kernels that copy elements of a type.
pub(super) fn unit(dtype: DType, traversal: Traversal) -> Unit {
    traversal.define(Unit::new("copy.cu", include_str!("../kernels/copy.cu")).define("T", element(dtype)))
}

/// A C++ type with the size of an element, for kernels that only move elements.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "u8",
        2 => "i16",
        4 => "i32",
        8 => "i64",
        _ => "Bytes16",
    }
}

fn both(strides: &AllStrides) -> [KernelStrides; 2] {
    [0, 1].map(|at| strides.get(at).copied().unwrap_or_default())
}

/// A copy whose source is contiguous along another axis than its target.
#[derive(Debug, Clone, Copy)]
struct TiledTranspose {
    /// All other axes, and the strides of both tensors along them.
    outer: KernelShape,
    outer_strides: [KernelStrides; 2],
    /// The lengths of the source's contiguous axis and of the target's.
    lengths: [i32; 2],
    /// The stride of the source along the target's contiguous axis, and that of the target along the source's.
    cross_strides: [i64; 2],
}

/// The minimum length of both axes: shorter ones fill too little of a tile.
const MIN_LENGTH: i32 = 8;

impl TiledTranspose {
    /// The transposition of tensors with these axes, in the memory order of the target; `None` if both are contiguous along the
    /// same axis, or an axis is too short.
    fn of(shape: &KernelShape, strides: &AllStrides) -> Option<Self> {
        let [from, to] = both(strides);
        let rank = usize::try_from(shape.rank).ok()?;
        let (to_axis, from_axis) = (rank.checked_sub(1)?, from.by.iter().take(rank).position(|by| *by == 1)?);
        let lengths = [shape.dims[from_axis], shape.dims[to_axis]];
        let is_transposed = from_axis != to_axis && from.by[to_axis] > 1 && to.by[to_axis] == 1;
        if !is_transposed || lengths.iter().any(|length| *length < MIN_LENGTH) {
            return None;
        }
        let mut outer = KernelShape { rank: rank as i32 - 2, ..KernelShape::default() };
        let mut outer_strides = [KernelStrides::default(); 2];
        for (at, axis) in (0..rank).filter(|axis| ![from_axis, to_axis].contains(axis)).enumerate() {
            outer.dims[at] = shape.dims[axis];
            outer_strides.iter_mut().zip([&from, &to]).for_each(|(outer, by)| outer.by[at] = by.by[axis]);
        }
        Some(Self { outer, outer_strides, lengths, cross_strides: [from.by[to_axis], to.by[from_axis]] })
    }

    fn run(
        &self,
        from: &DeviceTensor<'_>,
        to: &DeviceTensor<'_>,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        // Each thread copies enough bytes at a time to keep memory busy.
        let tile: usize = if from.dtype().size() <= 2 { 64 } else { 32 };
        let unit = Unit::new("transpose.cu", include_str!("../kernels/transpose.cu"));
        let unit = unit.define("T", element(from.dtype())).define("TILE", tile);
        let [tiles_x, tiles_y] = self.lengths.map(|length| (length as usize).div_ceil(tile));
        let [length_x, length_y] = self.lengths.map(|length| length as usize);
        let outer = to.num_elements() / (length_x * length_y);
        let tiles = outer * tiles_x * tiles_y;
        let arguments = [
            Argument::Read(*from),
            Argument::Strides(self.outer_strides[0]),
            Argument::Long(self.cross_strides[0]),
            Argument::Write(*to),
            Argument::Strides(self.outer_strides[1]),
            Argument::Long(self.cross_strides[1]),
            Argument::Shape(self.outer),
            Argument::Int(self.lengths[0]),
            Argument::Int(self.lengths[1]),
            Argument::Long(tiles as i64),
        ];
        context.run(&unit, "transpose", Grid::of(tiles, Grid::THREADS), &arguments)
    }
}
