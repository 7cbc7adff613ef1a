//! The axes along which kernels walk through several tensors of one shape: as few of them as say where each element lies, and how
//! many neighbours a thread may take at once.

use crate::cuda::device::{DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::op::LayerError;
use crate::tensor::Layout;
use smallvec::SmallVec;

/// The strides of tensors, in their order.
pub(super) type AllStrides = SmallVec<[KernelStrides; 8]>;

/// The strides of tensors of one shape, and that shape: without axes of length 1, and with one axis in the place of neighbours
/// that lie behind each other in all of them. Elements keep their row-major order.
pub(super) fn collapsed(layouts: &[Layout]) -> (KernelShape, AllStrides) {
    let dims = layouts.first().map(|layout| *layout.shape());
    let mut shape = KernelShape::default();
    let mut strides: AllStrides = layouts.iter().map(|_| KernelStrides::default()).collect();
    let mut rank = 0usize;
    for (axis, &len) in dims.iter().flat_map(|dims| dims.iter()).enumerate() {
        if len == 1 {
            continue;
        }
        let steps: SmallVec<[i64; 8]> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        let goes_on = rank > 0
            && strides.iter().zip(&steps).all(|(known, step)| known.by[rank - 1] == step * i64::from(len));
        // Lengths have 31 bits, which axes that became one may exceed.
        let together = if goes_on { shape.dims[rank - 1].checked_mul(len) } else { None };
        let at = if together.is_some() { rank - 1 } else { rank };
        shape.dims[at] = together.unwrap_or(len);
        strides.iter_mut().zip(steps).for_each(|(known, step)| known.by[at] = step);
        rank = at + 1;
    }
    shape.rank = rank as i32;
    (shape, strides)
}

/// As [`collapsed`], for kernels to which the order of elements is all the same: that in which the last tensor lies in memory, so
/// that neighbouring threads write neighbours, and that axes become one which are in another order only.
///
/// # Errors
/// None, for the axes of a layout can be permuted.
pub(super) fn collapsed_as_written(layouts: &[Layout]) -> Result<(KernelShape, AllStrides), LayerError> {
    let by: &[usize] = layouts.last().map_or(&[], |layout| layout.strides());
    let mut order: SmallVec<[usize; 8]> = (0..by.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(by[axis]));
    let turned = layouts.iter().map(|layout| Ok(layout.permute(&order)?));
    Ok(collapsed(&turned.collect::<Result<SmallVec<[Layout; 8]>, LayerError>>()?))
}

/// The bytes that a thread reads or writes at once, at most.
const WORD: usize = 16;

/// How many neighbours a thread takes at once: as many of the widest elements as a word has room for, or fewer where these do not
/// fit.
pub(super) fn chunk(tensors: &[&DeviceTensor<'_>], fits: impl Fn(usize) -> bool) -> usize {
    let widest = tensors.iter().map(|tensor| tensor.dtype().size()).max().unwrap_or(WORD);
    let mut chunk = WORD / widest.clamp(1, WORD);
    while chunk > 1 && !fits(chunk) {
        chunk /= 2;
    }
    chunk
}

/// Whether a tensor that lies in one piece along its innermost axis can be taken in chunks: whether those that begin at a multiple
/// of their length, in whatever place along the outer axes, lie on boundaries of their size.
pub(super) fn is_chunked(tensor: &DeviceTensor<'_>, outer: &[i64], chunk: usize) -> bool {
    tensor.is_aligned((chunk * tensor.dtype().size()) as u64) && outer.iter().all(|by| by % chunk as i64 == 0)
}

/// How a kernel walks through tensors, the last of which it writes, from element to element or from chunk to chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walk {
    /// How many neighbours a thread takes at once.
    chunk: usize,
    /// A bit for each tensor that has one element for all of a chunk.
    alone: u64,
}

impl Default for Walk {
    /// From element to element.
    fn default() -> Self {
        Self { chunk: 1, alone: 0 }
    }
}

impl Walk {
    /// In chunks, where tensors lie in one piece along the innermost axis or have one element there.
    pub(super) fn of(tensors: &[&DeviceTensor<'_>], shape: &KernelShape, strides: &[KernelStrides]) -> Self {
        let Some(last) = usize::try_from(shape.rank - 1).ok() else { return Self::default() };
        let is_alone = |by: &KernelStrides| by.by[last] == 0;
        let is_walked = |by: &KernelStrides| by.by[last] == 1 || is_alone(by);
        let is_too_much = strides.len() > u64::BITS as usize;
        if is_too_much || !strides.iter().all(is_walked) || strides.last().is_none_or(is_alone) {
            return Self::default();
        }
        let chunk = chunk(tensors, |chunk| {
            // What is left over at the end of the only row is taken one by one.
            let is_even = last == 0 || (shape.dims[last] as usize).is_multiple_of(chunk);
            let is_whole = |(tensor, by): (&&DeviceTensor<'_>, &KernelStrides)| {
                is_alone(by) || is_chunked(tensor, &by.by[..last], chunk)
            };
            is_even && tensors.iter().zip(strides).all(is_whole)
        });
        let bits = strides.iter().enumerate().map(|(at, by)| u64::from(is_alone(by)) << at);
        Self { chunk, alone: if chunk == 1 { 0 } else { bits.sum() } }
    }

    /// A source that is told.
    pub(super) fn define(self, unit: Unit) -> Unit {
        unit.define("CHUNK", self.chunk).define("ALONE", format!("{}ull", self.alone))
    }

    /// A thread for each chunk of so many elements.
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

    /// The axes that are left, and how a kernel walks through tensors that lie so.
    fn walk(dtype: DType, layouts: &[Layout]) -> (Vec<i32>, Walk) {
        let device = Emulator::new().open().unwrap();
        let memory = device.allocate(4096).unwrap();
        let tensors: Vec<DeviceTensor<'_>> =
            layouts.iter().map(|layout| memory.tensor(dtype, *layout, 0, 4096).unwrap()).collect();
        let tensors: Vec<&DeviceTensor<'_>> = tensors.iter().collect();
        let (shape, strides) = collapsed_as_written(layouts).unwrap();
        let rank = shape.rank as usize;
        (shape.dims[..rank].to_vec(), Walk::of(&tensors, &shape, &strides))
    }

    #[test]
    fn axes_that_lie_behind_each_other_are_one_in_whatever_order() {
        let last = strided(&[2, 8, 3, 5], &[120, 1, 40, 8], 0);
        assert_eq!(walk(DType::F16, &[last, last]), (vec![240], Walk { chunk: 8, alone: 0 }));
        assert_eq!(walk(DType::F64, &[last, last]), (vec![240], Walk { chunk: 2, alone: 0 }));
        // One of them in another order: nothing is one, and no words are read.
        let first = strided(&[2, 8, 3, 5], &[120, 15, 5, 1], 0);
        assert_eq!(walk(DType::F16, &[first, last]), (vec![2, 15, 8], Walk::default()));
        // An odd number of elements has a tail.
        let odd = strided(&[7, 9], &[9, 1], 0);
        assert_eq!(walk(DType::F32, &[odd]), (vec![63], Walk { chunk: 4, alone: 0 }));
        assert_eq!(walk(DType::F32, &[strided(&[], &[], 0)]), (vec![], Walk::default()));
    }

    #[test]
    fn words_are_as_long_as_rows_and_boundaries_let_them_be() {
        let y = |row: usize| strided(&[3, row], &[row, 1], 0);
        let of_rows = |row: usize| strided(&[3, row], &[1, 0], 0);
        for (row, chunk) in [(16, 8), (12, 4), (6, 2), (5, 1)] {
            let alone = u64::from(chunk > 1);
            assert_eq!(
                walk(DType::F16, &[of_rows(row), y(row)]),
                (vec![3, row as i32], Walk { chunk, alone })
            );
        }
        // Rows apart, and what begins within a word.
        for (row, offset, chunk) in [(20, 0, 4), (24, 0, 8), (24, 4, 4), (24, 1, 1), (19, 0, 1)] {
            let apart = strided(&[3, 16], &[row, 1], offset);
            assert_eq!(walk(DType::F16, &[apart, y(16)]).1, Walk { chunk, alone: 0 });
        }
    }

    #[test]
    fn lengths_of_axes_have_31_bits() {
        let long = strided(&[4, 1 << 30], &[1 << 30, 1], 0);
        let (shape, _) = collapsed(&[long]);
        assert_eq!((shape.rank, &shape.dims[..2]), (2, &[4, 1 << 30][..]));
    }
}
