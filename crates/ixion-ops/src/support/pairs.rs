//! Binary functions of the elements of two inputs that are broadcast. Elements are gathered in contiguous blocks, so that only
//! a loop over a block is compiled for each function.

use super::broadcast::Converted;
use crate::op::Result;
use ixion_kernels::widest;
use ixion_tensor::{Element, Layout, MAX_RANK, Shape, Tensor, TensorView, TensorViewMut};
use smallvec::SmallVec;

/// The number of elements in a block.
const BLOCK: usize = 1024;

/// An axis, or several merged axes: the length, and the stride in each input.
type Axis = (usize, [usize; 2]);

/// Writes the function's value for each pair of elements of type `T`.
pub(crate) fn pairs<T: Element, O: Element>(
    left: &Converted<'_>,
    right: &Converted<'_>,
    output: &mut TensorViewMut<'_>,
    function: impl Fn(T, T) -> O,
) -> Result<()> {
    by_blocks::<T, O>(left, right, output, &|left, right, output| {
        widest!(|| {
            let all = output.iter_mut().zip(left).zip(right);
            all.for_each(|((to, &a), &b)| *to = function(a, b));
        });
    })
}

/// Computes a block of outputs from a block of each input.
type OfBlocks<'f, T, O> = dyn Fn(&[T], &[T], &mut [O]) + 'f;

fn by_blocks<T: Element, O: Element>(
    left: &Converted<'_>,
    right: &Converted<'_>,
    output: &mut TensorViewMut<'_>,
    function: &OfBlocks<'_, T, O>,
) -> Result<()> {
    let shape = *output.shape();
    if !output.layout().is_contiguous() {
        let mut whole = Tensor::empty(O::DTYPE, &shape)?;
        by_blocks(left, right, &mut whole.view_mut()?, function)?;
        return Ok(output.copy_from(&whole.view())?);
    }
    let (left, right) = (left.expanded(&shape)?, right.expanded(&shape)?);
    let layouts = [left.layout(), right.layout()];
    let axes = merged(&shape, layouts.map(Layout::strides));
    let (&(len, strides), outer) = axes.split_last().unwrap_or((&(1, [0, 0]), &[]));
    let elements = [elements::<T>(&left)?, elements::<T>(&right)?];
    let mut buffers = [[T::default(); BLOCK]; 2];
    for (row, output) in output.slice::<O>()?.chunks_mut(len.max(1)).enumerate() {
        let starts = [0, 1].map(|side| layouts[side].offset() + offset_of(row, outer, side));
        for (block, output) in output.chunks_mut(BLOCK).enumerate() {
            let [first, second] = &mut buffers;
            let first = run(
                elements[0],
                starts[0] + block * BLOCK * strides[0],
                strides[0],
                &mut first[..output.len()],
            );
            let second = run(
                elements[1],
                starts[1] + block * BLOCK * strides[1],
                strides[1],
                &mut second[..output.len()],
            );
            function(first, second, output);
        }
    }
    Ok(())
}

/// The view's storage, from its first element.
fn elements<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T]> {
    let span = if view.num_elements() == 0 { 0 } else { view.layout().span() };
    Ok(view.with_layout(Layout::contiguous(Shape::new(&[span])?))?.slice::<T>()?)
}

/// Drops axes of length 1 and merges axes that are contiguous in both inputs.
fn merged(shape: &[usize], strides: [&[usize]; 2]) -> SmallVec<[Axis; MAX_RANK]> {
    let mut axes = SmallVec::<[Axis; MAX_RANK]>::new();
    for ((&len, &first), &second) in
        shape.iter().zip(strides[0]).zip(strides[1]).filter(|axis| *axis.0.0 != 1)
    {
        match axes.last_mut() {
            Some((outer, steps)) if *steps == [first, second].map(|stride| stride * len) => {
                (*outer, *steps) = (*outer * len, [first, second]);
            }
            _ => axes.push((len, [first, second])),
        }
    }
    axes
}

/// The offset of a row of the innermost axis in one of the inputs.
fn offset_of(mut row: usize, outer: &[Axis], side: usize) -> usize {
    let mut offset = 0;
    for (len, strides) in outer.iter().rev() {
        offset += row % len * strides[side];
        row /= len;
    }
    offset
}

/// A run of elements: borrowed if it is contiguous, else gathered in the buffer.
fn run<'a, T: Element>(elements: &'a [T], start: usize, stride: usize, buffer: &'a mut [T]) -> &'a [T] {
    let from = elements.get(start..).unwrap_or_default();
    match (stride, from.get(..buffer.len()), from.first()) {
        (1, Some(run), _) => return run,
        (0, _, Some(&same)) => buffer.fill(same),
        _ => buffer.iter_mut().zip(from.iter().step_by(stride.max(1))).for_each(|(to, &x)| *to = x),
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::DType;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_are_those_of_the_broadcast_tensors(
            lens in proptest::collection::vec(prop_oneof![4 => 1usize..5, 1 => Just(0usize), 1 => Just(1100usize)], 0..3),
            single: [[bool; 3]; 2], turned: [bool; 3],
        ) {
            let input = |side: usize| {
                let dims: Vec<usize> = lens.iter().zip(single[side]).map(|(&len, single)| if single { 1 } else { len }).collect();
                let count = dims.iter().product::<usize>() as i64;
                let turn = |dims: &[usize]| dims.iter().rev().copied().collect::<Vec<_>>();
                let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
                let numbers: Vec<i64> = (0..count).map(|i| i * 7 + side as i64).collect();
                match turned[side] {
                    true => Tensor::from_vec(numbers, &turn(&dims)).unwrap().permute(&order).unwrap(),
                    false => Tensor::from_vec(numbers, &dims).unwrap(),
                }
            };
            let (left, right) = (input(0), input(1));
            let shape = Shape::new(&lens).unwrap();
            let mut output = Tensor::zeros(DType::I64, &shape).unwrap();
            let sides = [Converted::View(left.view()), Converted::View(right.view())];
            pairs::<i64, i64>(&sides[0], &sides[1], &mut output.view_mut().unwrap(), |a, b| a * 100 - b).unwrap();
            let [left, right] = [left, right].map(|side| side.expand(&shape).unwrap().to_vec::<i64>().unwrap());
            let wanted: Vec<i64> = left.iter().zip(&right).map(|(a, b)| a * 100 - b).collect();
            prop_assert_eq!(output.to_vec::<i64>().unwrap(), wanted);
        }
    }
}
