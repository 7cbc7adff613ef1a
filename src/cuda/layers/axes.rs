//! The axes along which kernels traverse several tensors of one shape: as few as describe all layouts, and the number of
//! adjacent elements that a thread may process at a time.

use crate::cuda::device::{DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::op::Result;
use crate::tensor::Layout;
use smallvec::SmallVec;

/// The strides of several tensors, in order.
pub(super) type AllStrides = SmallVec<[KernelStrides; 8]>;

/// The shape and the strides of tensors of one shape, without axes of length 1, and with adjacent axes merged if they are
/// contiguous in all tensors. Elements keep their row-major order.
pub(super) fn collapsed(layouts: &[Layout]) -> (KernelShape, AllStrides) {
    let dims = layouts.first().map(|layout| *layout.shape());
    let mut shape = KernelShape::default();
    let mut strides: AllStrides = layouts.iter().map(|_| KernelStrides::default()).collect();
    let mut rank = 0usize;
    for (axis, &len) in dims.iter().flat_map(|dims| dims.iter()).enumerate() {
        if len == 1 {
            continue;
        }
        let by: SmallVec<[i64; 8]> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        let is_contiguous =
            rank > 0 && strides.iter().zip(&by).all(|(outer, by)| outer.by[rank - 1] == by * i64::from(len));
        // Lengths have 31 bits, which merged axes may exceed.
        let merged = if is_contiguous { shape.dims[rank - 1].checked_mul(len) } else { None };
        let at = if merged.is_some() { rank - 1 } else { rank };
        shape.dims[at] = merged.unwrap_or(len);
        strides.iter_mut().zip(by).for_each(|(strides, by)| strides.by[at] = by);
        rank = at + 1;
    }
    shape.rank = rank as i32;
    (shape, strides)
}

/// As [`collapsed`], for kernels that do not depend on the order of elements: the axes are in the memory order of the last
/// tensor, so that adjacent threads write adjacent elements, and axes that merely are in another order can be merged.
///
/// # Errors
/// None in practice: the axes of a layout can always be permuted.
pub(super) fn collapsed_in_output_order(layouts: &[Layout]) -> Result<(KernelShape, AllStrides)> {
    let by: &[usize] = layouts.last().map_or(&[], |layout| layout.strides());
    let mut order: SmallVec<[usize; 8]> = (0..by.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(by[axis]));
    let permuted = layouts.iter().map(|layout| Ok(layout.permute(&order)?));
    Ok(collapsed(&permuted.collect::<Result<SmallVec<[Layout; 8]>>>()?))
}

/// The maximum bytes that a thread reads or writes at a time.
const WORD: usize = 16;

/// The number of adjacent elements that a thread processes at a time: as many of the widest elements as fit a word, or fewer if
/// these do not satisfy `fits`.
pub(super) fn chunk(tensors: &[&DeviceTensor<'_>], fits: impl Fn(usize) -> bool) -> usize {
    let widest = tensors.iter().map(|tensor| tensor.dtype().size()).max().unwrap_or(WORD);
    let mut chunk = WORD / widest.clamp(1, WORD);
    while chunk > 1 && !fits(chunk) {
        chunk /= 2;
    }
    chunk
}

/// Returns true if a tensor that is contiguous along its innermost axis can be processed in chunks: every chunk that starts at
/// a multiple of its length is aligned to its size, at any position along the outer axes.
pub(super) fn is_chunked(tensor: &DeviceTensor<'_>, outer: &[i64], chunk: usize) -> bool {
    tensor.is_aligned((chunk * tensor.dtype().size()) as u64) && outer.iter().all(|by| by % chunk as i64 == 0)
}

/// How a kernel traverses tensors, the last of which it writes: element by element, or in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traversal {
    /// The number of adjacent elements that a thread processes at a time.
    chunk: usize,
    /// A bit for each tensor, set if it has one element for all of a chunk.
    broadcast: u64,
}

impl Default for Traversal {
    /// Element by element.
    fn default() -> Self {
        Self { chunk: 1, broadcast: 0 }
    }
}

impl Traversal {
    /// In chunks, if each tensor is contiguous along the innermost axis or has one element there.
    pub(super) fn of(tensors: &[&DeviceTensor<'_>], shape: &KernelShape, strides: &[KernelStrides]) -> Self {
        let Some(last) = usize::try_from(shape.rank - 1).ok() else { return Self::default() };
        let is_broadcast = |by: &KernelStrides| by.by[last] == 0;
        let is_traversable = |by: &KernelStrides| by.by[last] == 1 || is_broadcast(by);
        let are_too_many = strides.len() > u64::BITS as usize;
        if are_too_many || !strides.iter().all(is_traversable) || strides.last().is_none_or(is_broadcast) {
            return Self::default();
        }
        let chunk = chunk(tensors, |chunk| {
            // The remainder at the end of a single row is processed one by one.
            let is_divisible = last == 0 || (shape.dims[last] as usize).is_multiple_of(chunk);
            let is_aligned = |(tensor, by): (&&DeviceTensor<'_>, &KernelStrides)| {
                is_broadcast(by) || is_chunked(tensor, &by.by[..last], chunk)
            };
            is_divisible && tensors.iter().zip(strides).all(is_aligned)
        });
        let bits = strides.iter().enumerate().map(|(at, by)| u64::from(is_broadcast(by)) << at);
        Self { chunk, broadcast: if chunk == 1 { 0 } else { bits.sum() } }
    }

    /// Defines the traversal for a source.
    pub(super) fn define(self, unit: Unit) -> Unit {
        unit.define("CHUNK", self.chunk).define("BROADCAST", format!("{}ull", self.broadcast))
    }

    /// A grid with a thread for each chunk of `elements` elements.
    pub(super) fn grid(self, elements: usize) -> Grid {
        Grid::over(elements.div_ceil(self.chunk))
    }
}

#[cfg(test)]
#[cfg(feature = "cuda-emulator")]
mod tests {
    use super::*;
    use crate::cuda::emulator::Emulator;
    use crate::tensor::{DType, Shape};

    fn strided(dims: &[usize], by: &[usize], offset: usize) -> Layout {
        Layout::strided(Shape::new(dims).unwrap(), by, offset).unwrap()
    }

    /// The merged axes, and the traversal of tensors with these layouts.
    fn traversal(dtype: DType, layouts: &[Layout]) -> (Vec<i32>, Traversal) {
        let device = Emulator::new().open().unwrap();
        let memory = device.allocate(4096).unwrap();
        let tensors: Vec<DeviceTensor<'_>> =
            layouts.iter().map(|layout| memory.tensor(dtype, *layout, 0, 4096).unwrap()).collect();
        let tensors: Vec<&DeviceTensor<'_>> = tensors.iter().collect();
        let (shape, strides) = collapsed_in_output_order(layouts).unwrap();
        let rank = shape.rank as usize;
        (shape.dims[..rank].to_vec(), Traversal::of(&tensors, &shape, &strides))
    }

    #[test]
    fn contiguous_axes_are_merged_in_any_order() {
        let last = strided(&[2, 8, 3, 5], &[120, 1, 40, 8], 0);
        assert_eq!(traversal(DType::F16, &[last, last]), (vec![240], Traversal { chunk: 8, broadcast: 0 }));
        assert_eq!(traversal(DType::F64, &[last, last]), (vec![240], Traversal { chunk: 2, broadcast: 0 }));
        // In different orders, axes are not merged, and chunks are not used.
        let first = strided(&[2, 8, 3, 5], &[120, 15, 5, 1], 0);
        assert_eq!(traversal(DType::F16, &[first, last]), (vec![2, 15, 8], Traversal::default()));
        // An odd number of elements has a tail.
        let odd = strided(&[7, 9], &[9, 1], 0);
        assert_eq!(traversal(DType::F32, &[odd]), (vec![63], Traversal { chunk: 4, broadcast: 0 }));
        assert_eq!(traversal(DType::F32, &[strided(&[], &[], 0)]), (vec![], Traversal::default()));
    }

    #[test]
    fn chunks_are_limited_by_rows_and_alignment() {
        let y = |row: usize| strided(&[3, row], &[row, 1], 0);
        let of_rows = |row: usize| strided(&[3, row], &[1, 0], 0);
        for (row, chunk) in [(16, 8), (12, 4), (6, 2), (5, 1)] {
            let broadcast = u64::from(chunk > 1);
            assert_eq!(
                traversal(DType::F16, &[of_rows(row), y(row)]),
                (vec![3, row as i32], Traversal { chunk, broadcast })
            );
        }
        // Rows with gaps, and tensors that do not begin at a word.
        for (row, offset, chunk) in [(20, 0, 4), (24, 0, 8), (24, 4, 4), (24, 1, 1), (19, 0, 1)] {
            let strided_rows = strided(&[3, 16], &[row, 1], offset);
            assert_eq!(traversal(DType::F16, &[strided_rows, y(16)]).1, Traversal { chunk, broadcast: 0 });
        }
    }

    #[test]
    fn lengths_of_axes_have_31_bits() {
        let long = strided(&[4, 1 << 30], &[1 << 30, 1], 0);
        let (shape, _) = collapsed(&[long]);
        assert_eq!((shape.rank, &shape.dims[..2]), (2, &[4, 1 << 30][..]));
    }
}
