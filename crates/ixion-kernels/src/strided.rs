//! Arrays of any strides, read together in the row-major order of a shape that they are broadcast to.

use ixion_tensor::{Bits, Format, Layout, MAX_RANK, Result, Shape, TensorError, TensorView};
use smallvec::SmallVec;

/// The number of elements that are read at a time.
pub(super) const BLOCK: usize = 512;

/// An array with a stride for each axis of a shape. The stride of an axis that is broadcast is 0.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, B> {
    /// The elements from the first one to the last.
    elements: &'a [B],
    pub(super) strides: &'a [usize],
}

impl<'a, B: Bits> Strided<'a, B> {
    /// The elements of a view.
    ///
    /// # Errors
    /// [`TensorError::Blocked`] if the view is blocked; [`TensorError::InvalidArgument`] if `B` cannot hold its elements.
    pub fn of(view: &'a TensorView<'_>) -> Result<Self> {
        let layout = view.layout();
        if let Format::Blocked { axis, block } = layout.format() {
            return Err(TensorError::Blocked { axis: axis.into(), block: block.into() });
        }
        // The offset of an empty view may exceed its storage.
        let is_empty = view.num_elements() == 0;
        let (start, end) = if is_empty { (0, 0) } else { (layout.offset(), layout.span()) };
        let row = view.with_layout(Layout::strided(Shape::new(&[end - start])?, &[1], start)?)?;
        Ok(Self { elements: row.bits_slice()?, strides: layout.strides() })
    }

    /// The elements of a block: a part of the array if they are contiguous, otherwise a copy, as long as `buffer`.
    #[inline]
    pub(super) fn read<'b>(&self, start: usize, step: usize, buffer: &'b mut [B]) -> &'b [B]
    where
        'a: 'b,
    {
        let elements = &self.elements[start..];
        match step {
            1 => return &elements[..buffer.len()],
            0 => buffer.fill(elements[0]),
            _ => buffer.iter_mut().zip(elements.iter().step_by(step)).for_each(|(to, from)| *to = *from),
        }
        buffer
    }
}

/// Consecutive elements of the last axis, at most [`BLOCK`], in each of `N` arrays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<const N: usize> {
    /// The position of the first element in each array.
    pub(super) starts: [usize; N],
    /// The distance between elements in each array.
    pub(super) steps: [usize; N],
    /// The position of the first element in row-major order.
    pub(super) at: usize,
    /// The number of elements.
    pub(super) len: usize,
}

/// The length of an axis, and the stride of each array.
type Axis<const N: usize> = (usize, [usize; N]);

/// Visits all elements of a shape in row-major order, block by block.
pub(super) fn each_block<const N: usize>(
    shape: &[usize],
    strides: [&[usize]; N],
    visit: &mut dyn FnMut(Block<N>),
) {
    if shape.contains(&0) {
        return;
    }
    let axes = merged(shape, strides);
    let ((row_len, steps), outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => ((1, [0; N]), &[][..]),
    };
    let mut end = 0;
    each_row(outer, [0; N], &mut |row| {
        for column in (0..row_len).step_by(BLOCK) {
            let starts = std::array::from_fn(|array| row[array] + column * steps[array]);
            visit(Block { starts, steps, at: end + column, len: BLOCK.min(row_len - column) });
        }
        end += row_len;
    });
}

/// Visits the start of each row in all arrays.
fn each_row<const N: usize>(axes: &[Axis<N>], start: [usize; N], visit: &mut dyn FnMut([usize; N])) {
    let Some((&(len, steps), inner)) = axes.split_first() else { return visit(start) };
    for index in 0..len {
        each_row(inner, std::array::from_fn(|array| start[array] + index * steps[array]), visit);
    }
}

/// The axes of a shape without those of length 1. Axes that are contiguous with each other in all arrays are merged.
fn merged<const N: usize>(shape: &[usize], strides: [&[usize]; N]) -> SmallVec<[Axis<N>; MAX_RANK]> {
    let mut axes: SmallVec<[Axis<N>; MAX_RANK]> = SmallVec::new();
    for (axis, &len) in shape.iter().enumerate().filter(|(_, len)| **len != 1) {
        let steps = strides.map(|strides| strides.get(axis).copied().unwrap_or(0));
        match axes.last_mut() {
            Some((outer, above)) if *above == steps.map(|step| step.wrapping_mul(len)) => {
                (*outer, *above) = (*outer * len, steps);
            }
            _ => axes.push((len, steps)),
        }
    }
    axes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ixion_tensor::{Element, Tensor};
    use proptest::prelude::*;

    /// A tensor of this shape, whose elements are a function of their number. The bits of `which` select axes that are
    /// broadcast; if the highest is set, the axes are stored in reverse.
    pub(crate) fn spread<T: Element>(dims: &[usize], which: u8, of: impl Fn(usize) -> T) -> Tensor {
        let is_broadcast = |axis: usize| which >> axis & 1 == 1;
        let mut lens: Vec<usize> =
            dims.iter().enumerate().map(|(axis, &len)| if is_broadcast(axis) { 1 } else { len }).collect();
        let count: usize = lens.iter().product();
        let numbers: Vec<T> = (0..count).map(of).collect();
        let tensor = if which >> 7 == 1 {
            lens.reverse();
            let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
            Tensor::from_vec(numbers, &lens).unwrap().permute(&order).unwrap()
        } else {
            Tensor::from_vec(numbers, &lens).unwrap()
        };
        tensor.expand(dims).unwrap()
    }

    /// Up to four axes, of which some are longer than a block.
    pub(crate) fn shapes() -> impl Strategy<Value = Vec<usize>> {
        let len = prop_oneof![6 => 1usize..5, 1 => Just(BLOCK + 3)];
        let is_small = |dims: &Vec<usize>| dims.iter().product::<usize>() < 20_000;
        proptest::collection::vec(len, 0..5).prop_filter("too many elements", is_small)
    }

    proptest! {
        #[test]
        fn blocks_of_any_strides(dims in shapes(), which: [u8; 2]) {
            let tensors = [spread(&dims, which[0], |i| i as i32), spread(&dims, which[1], |i| -(i as i32))];
            let views = [tensors[0].view(), tensors[1].view()];
            let arrays = [Strided::<u32>::of(&views[0]).unwrap(), Strided::of(&views[1]).unwrap()];
            let mut found = [Vec::new(), Vec::new()];
            each_block(&dims, [arrays[0].strides, arrays[1].strides], &mut |Block { starts, steps, at, len }| {
                for (which, found) in found.iter_mut().enumerate() {
                    assert_eq!(found.len(), at);
                    let mut buffer = vec![0; len];
                    found.extend_from_slice(arrays[which].read(starts[which], steps[which], &mut buffer));
                }
            });
            for (tensor, found) in tensors.iter().zip(found) {
                let want: Vec<u32> = tensor.to_vec::<i32>().unwrap().into_iter().map(|x| x as u32).collect();
                prop_assert_eq!(found, want);
            }
        }
    }
}
