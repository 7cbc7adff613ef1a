//! The axes along which kernels walk through several tensors of one shape: as few of them as say where each element lies, and how
//! many neighbours a thread may take at once.

use crate::cuda::device::{DeviceTensor, KernelShape, KernelStrides};
use crate::graph::LayerError;
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

/// The chunk of a kernel that walks through these tensors element by element, writes the last of them, and reads others where they
/// lie in one piece along the innermost axis or have one element there.
pub(super) fn chunk_of_walk(tensors: &[&DeviceTensor<'_>], shape: &KernelShape, strides: &[KernelStrides]) -> usize {
    let Some(last) = usize::try_from(shape.rank - 1).ok() else { return 1 };
    let is_alone = |by: &KernelStrides| by.by[last] == 0;
    let is_walked = |by: &KernelStrides| by.by[last] == 1 || is_alone(by);
    if !strides.iter().all(is_walked) || strides.last().is_none_or(is_alone) {
        return 1;
    }
    chunk(tensors, |chunk| {
        // What is left over at the end of the only row is taken one by one.
        let is_even = last == 0 || shape.dims[last] as usize % chunk == 0;
        let is_whole = |(tensor, by): (&&DeviceTensor<'_>, &KernelStrides)| {
            is_alone(by) || is_chunked(tensor, &by.by[..last], chunk)
        };
        is_even && tensors.iter().zip(strides).all(is_whole)
    })
}
