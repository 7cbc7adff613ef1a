//! Reduction along any axes of an array of any strides, without a copy.
//!
//! Elements are visited in the order of memory. If the innermost axis is reduced, a run of it is reduced to one number,
//! in several independent parts; otherwise a run is joined with a row of results.

use crate::wide::widest;
use ixion_tensor::{Half, Layout, MAX_RANK, bf16, f16};
use smallvec::SmallVec;
use std::ops::Range;

/// The number of elements that are read at a time, and the number of results that are joined with runs before the next
/// ones.
pub const BLOCK: usize = 1024;

/// Independent parts of a run.
const PARTS: usize = 16;

/// An element type, and the type that its elements are read as.
pub trait Readable: Copy {
    /// The type that elements are read as.
    type Number: Copy + Default;

    /// Reads at most `BLOCK` elements: in place, or converted into a buffer.
    fn read<'a>(run: &'a [Self], buffer: &'a mut [Self::Number; BLOCK]) -> &'a [Self::Number];
}

macro_rules! readable {
    ($($native:ty),*; $($half:ty),*) => {
        $(impl Readable for $native {
            type Number = Self;

            #[inline(always)]
            fn read<'a>(run: &'a [Self], _: &'a mut [Self; BLOCK]) -> &'a [Self] {
                run
            }
        })*
        $(impl Readable for $half {
            type Number = f32;

            #[inline(always)]
            fn read<'a>(run: &'a [Self], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
                <$half>::load_all(run, buffer);
                buffer.get(..run.len()).unwrap_or_default()
            }
        })*
    };
}

readable!(f32, f64, i64, i32, i16, i8, u8, bool; f16, bf16);

/// The auxiliary numbers that were passed to [`Walk::fold`], as far as they belong to a range of elements.
#[derive(Debug, Clone, Copy)]
pub enum Auxiliary<'a> {
    /// The number of the single result that all elements contribute to.
    One(f64),
    /// One number for each element.
    Each(&'a [f64]),
}

/// A function that writes the numbers that are computed from a range of elements and their auxiliary numbers.
pub type Compute<'a, N> = dyn Fn(Range<usize>, Auxiliary<'_>, &mut [N]) + 'a;

/// The source of the numbers that are folded. One loop serves all element types that are read as numbers of one type.
#[derive(Clone, Copy)]
pub enum Numbers<'a, N> {
    /// The elements themselves.
    Elements(&'a [N]),
    /// Numbers that are computed from the elements, at most [`BLOCK`] at a time.
    Computed(&'a Compute<'a, N>),
}

impl<N: Copy> Numbers<'_, N> {
    #[inline(always)]
    fn block<'b>(
        &'b self,
        range: Range<usize>,
        auxiliary: Auxiliary<'_>,
        buffer: &'b mut [N; BLOCK],
    ) -> &'b [N] {
        match self {
            Self::Elements(elements) => elements.get(range).unwrap_or_default(),
            Self::Computed(make) => {
                let numbers = buffer.get_mut(..range.len()).unwrap_or_default();
                make(range, auxiliary, numbers);
                numbers
            }
        }
    }
}

/// One axis, or several contiguous axes that were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    len: usize,
    stride: usize,
    /// The distance between results; 0 if the axis is reduced.
    step: usize,
    is_reduced: bool,
}

/// The order in which an array is reduced.
#[derive(Debug, Clone)]
pub struct Walk {
    /// From the largest stride to the smallest.
    axes: SmallVec<[Axis; MAX_RANK]>,
    offset: usize,
    outputs: usize,
}

/// A reduction: elements are lifted to a type in which they can be joined.
pub struct Fold<A, L, J> {
    /// The result of no elements.
    pub start: A,
    /// Lifts an element, given the auxiliary number that was passed to [`Walk::fold`] for its result.
    pub lift: L,
    /// Joins two lifted elements.
    pub join: J,
}

impl Walk {
    /// A walk over an array that reduces the axes for which `reduced` is true. Results are in row-major order.
    pub fn new(layout: &Layout, reduced: &[bool]) -> Self {
        let mut axes: SmallVec<[Axis; MAX_RANK]> = SmallVec::new();
        let mut outputs = 1;
        let all = layout.shape().iter().zip(layout.strides()).zip(reduced);
        for ((&len, &stride), &is_reduced) in all.rev() {
            axes.push(Axis { len, stride, step: if is_reduced { 0 } else { outputs }, is_reduced });
            outputs *= if is_reduced { 1 } else { len };
        }
        axes.retain(|axis| axis.len != 1);
        // From inside to outside: equal strides keep their order.
        for sorted in 1..axes.len() {
            for at in (1..=sorted).rev() {
                if axes[at - 1].stride > axes[at].stride {
                    axes.swap(at - 1, at);
                }
            }
        }
        let mut merged: SmallVec<[Axis; MAX_RANK]> = SmallVec::new();
        for axis in axes {
            match merged.last_mut() {
                Some(inner)
                    if inner.is_reduced == axis.is_reduced
                        && axis.stride == inner.len * inner.stride
                        && axis.step == inner.len * inner.step =>
                {
                    inner.len *= axis.len;
                }
                _ => merged.push(axis),
            }
        }
        merged.reverse();
        Self { axes: merged, offset: layout.offset(), outputs }
    }

    /// The number of results.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Folds the elements of `storage`, whose positions the layout counts from its first element, to one number per
    /// result. `auxiliary` has one auxiliary number per result, which is passed to `lift` with every element of the result;
    /// or it is empty, for zeros.
    pub fn fold<T, A>(
        &self,
        storage: &[T],
        auxiliary: &[f64],
        results: &mut [A],
        fold: &Fold<A, impl Fn(T::Number, f64) -> A, impl Fn(A, A) -> A>,
    ) where
        T: Readable,
        A: Copy,
    {
        let make = |range: Range<usize>, _: Auxiliary<'_>, numbers: &mut [T::Number]| {
            let mut buffer = [T::Number::default(); BLOCK];
            let elements = T::read(storage.get(range).unwrap_or_default(), &mut buffer);
            numbers.iter_mut().zip(elements).for_each(|(to, &from)| *to = from);
        };
        self.fold_numbers(Numbers::Computed(&make), auxiliary, results, fold);
    }

    /// As [`Walk::fold`], for numbers from any source.
    pub fn fold_numbers<N, A>(
        &self,
        numbers: Numbers<'_, N>,
        auxiliary: &[f64],
        results: &mut [A],
        fold: &Fold<A, impl Fn(N, f64) -> A, impl Fn(A, A) -> A>,
    ) where
        N: Copy + Default,
        A: Copy,
    {
        results.fill(fold.start);
        if self.axes.iter().all(|axis| axis.len > 0) {
            widest(|| self.fold_into(numbers, auxiliary, fold, results));
        }
    }

    #[inline(always)]
    fn fold_into<N, A>(
        &self,
        numbers: Numbers<'_, N>,
        auxiliary: &[f64],
        fold: &Fold<A, impl Fn(N, f64) -> A, impl Fn(A, A) -> A>,
        results: &mut [A],
    ) where
        N: Copy + Default,
        A: Copy,
    {
        let one = Axis { len: 1, stride: 1, step: 0, is_reduced: true };
        let (inner, outer) = self.axes.split_last().map_or((one, &[][..]), |(inner, outer)| (*inner, outer));
        // Short parts of a long inner axis that is not reduced, so that their results stay in the cache for all runs.
        let part = if inner.is_reduced { inner.len } else { BLOCK };
        let mut buffer = [N::default(); BLOCK];
        for start in (0..inner.len).step_by(part) {
            let run = Axis { len: part.min(inner.len - start), ..inner };
            let (mut offset, mut place) = (self.offset + start * inner.stride, start * inner.step);
            let mut index = [0; MAX_RANK];
            loop {
                visit(numbers, offset, (run, place), auxiliary, results, fold, &mut buffer);
                // Advance the outer axes, the last one first.
                let mut is_finished = true;
                for (axis, index) in outer.iter().zip(&mut index).rev() {
                    (*index, offset, place) = (*index + 1, offset + axis.stride, place + axis.step);
                    if *index < axis.len {
                        is_finished = false;
                        break;
                    }
                    (offset, place) = (offset - axis.len * axis.stride, place - axis.len * axis.step);
                    *index = 0;
                }
                if is_finished {
                    break;
                }
            }
        }
    }
}

/// Folds one run into its results.
#[inline(always)]
fn visit<N, A>(
    numbers: Numbers<'_, N>,
    offset: usize,
    (run, place): (Axis, usize),
    auxiliary: &[f64],
    results: &mut [A],
    fold: &Fold<A, impl Fn(N, f64) -> A, impl Fn(A, A) -> A>,
    buffer: &mut [N; BLOCK],
) where
    N: Copy,
    A: Copy,
{
    if run.stride != 1 || (!run.is_reduced && run.step != 1) {
        for index in 0..run.len {
            let (place, at) = (place + index * run.step, offset + index * run.stride);
            let auxiliary = auxiliary.get(place).copied().unwrap_or(0.0);
            let number = numbers.block(at..at + 1, Auxiliary::One(auxiliary), buffer).first();
            let (Some(&x), Some(result)) = (number, results.get_mut(place)) else { return };
            *result = (fold.join)(*result, (fold.lift)(x, auxiliary));
        }
        return;
    }
    if run.is_reduced {
        let Some(result) = results.get_mut(place) else { return };
        let auxiliary = auxiliary.get(place).copied().unwrap_or(0.0);
        if run.len < PARTS {
            let short = numbers.block(offset..offset + run.len, Auxiliary::One(auxiliary), buffer);
            *result = short.iter().map(|&x| (fold.lift)(x, auxiliary)).fold(*result, &fold.join);
            return;
        }
        let mut parts = [fold.start; PARTS];
        for start in (0..run.len).step_by(BLOCK) {
            let range = offset + start..offset + run.len.min(start + BLOCK);
            let block = numbers.block(range, Auxiliary::One(auxiliary), buffer);
            let chunks = block.chunks_exact(PARTS);
            let rest = chunks.remainder();
            for chunk in chunks {
                parts
                    .iter_mut()
                    .zip(chunk)
                    .for_each(|(part, &x)| *part = (fold.join)(*part, (fold.lift)(x, auxiliary)));
            }
            parts
                .iter_mut()
                .zip(rest)
                .for_each(|(part, &x)| *part = (fold.join)(*part, (fold.lift)(x, auxiliary)));
        }
        *result = parts.into_iter().fold(*result, &fold.join);
        return;
    }
    // The inner axis was split, so that this is one block.
    let range = offset..offset + run.len;
    match auxiliary.get(place..place + run.len) {
        Some(auxiliary) => {
            let block = numbers.block(range, Auxiliary::Each(auxiliary), buffer);
            let results = results.get_mut(place..place + run.len).unwrap_or_default();
            let lanes = results.iter_mut().zip(block).zip(auxiliary);
            lanes.for_each(|((result, &x), &auxiliary)| {
                *result = (fold.join)(*result, (fold.lift)(x, auxiliary))
            });
        }
        None => {
            let block = numbers.block(range, Auxiliary::One(0.0), buffer);
            let results = results.get_mut(place..place + run.len).unwrap_or_default();
            let lanes = results.iter_mut().zip(block);
            lanes.for_each(|(result, &x)| *result = (fold.join)(*result, (fold.lift)(x, 0.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::{Shape, Tensor};
    use ndarray::{ArrayD, Axis as NdAxis};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_axes_of_any_strides(
            dims in proptest::collection::vec(prop_oneof![4 => 1usize..5, 1 => Just(0usize), 1 => Just(40usize)], 0..4),
            turn in 0usize..24,
            reduced: [bool; 4],
        ) {
            let len: usize = dims.iter().product();
            let values: Vec<i64> = (0..len as i64).map(|i| (i * 37 + 11) % 101 - 50).collect();
            let mut axes: Vec<i64> = (0..dims.len() as i64).collect();
            axes.rotate_left(turn % dims.len().max(1));
            let tensor = Tensor::from_vec(values, &dims).unwrap().permute(&axes).unwrap();
            let reduced = &reduced[..dims.len()];
            let walk = Walk::new(tensor.layout(), reduced);
            let whole = Tensor::from_vec(tensor.with_layout(Layout::contiguous(Shape::new(&[len]).unwrap())).unwrap().to_vec::<i64>().unwrap(), &[len]).unwrap();
            let fold = Fold { start: 0, lift: |x: i64, auxiliary: f64| x * x + auxiliary as i64, join: |a: i64, b: i64| a + b };
            let auxiliary: Vec<f64> = (0..walk.outputs()).map(|i| i as f64).collect();
            let mut got = vec![7; walk.outputs()];
            walk.fold_numbers(Numbers::Elements(whole.slice::<i64>().unwrap()), &auxiliary, &mut got, &fold);
            let mut made = vec![8; walk.outputs()];
            walk.fold(whole.slice::<i64>().unwrap(), &auxiliary, &mut made, &fold);
            prop_assert_eq!(&got, &made);
            let squares = tensor.to_vec::<i64>().unwrap().into_iter().map(|x| x * x).collect();
            let mut want = ArrayD::from_shape_vec(tensor.shape().dims(), squares).unwrap();
            let mut count = 1;
            for (axis, _) in reduced.iter().enumerate().filter(|(_, reduced)| **reduced).rev() {
                count *= want.len_of(NdAxis(axis)) as i64;
                want = want.sum_axis(NdAxis(axis));
            }
            let want: Vec<i64> = want.iter().enumerate().map(|(i, x)| x + count * i as i64).collect();
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn long_axes_are_split() {
        let values: Vec<f32> = (0..3 * 5000).map(|i| (i % 7) as f32).collect();
        let layout = Layout::contiguous(Shape::new(&[3, 5000]).unwrap());
        fn folded<T: Readable<Number = f32>>(layout: &Layout, reduced: &[bool], values: &[T]) -> Vec<f64> {
            let walk = Walk::new(layout, reduced);
            let mut results = vec![7.0; walk.outputs()];
            let fold = Fold { start: 0.0, lift: |x: f32, _: f64| f64::from(x), join: |a: f64, b: f64| a + b };
            walk.fold(values, &[], &mut results, &fold);
            results
        }
        let columns = folded(&layout, &[true, false], &values);
        let want: Vec<f64> =
            (0..5000).map(|i| (0..3).map(|row| f64::from(values[row * 5000 + i])).sum()).collect();
        assert_eq!(columns, want);
        let want: Vec<f64> = values.chunks(5000).map(|row| row.iter().map(|&x| f64::from(x)).sum()).collect();
        assert_eq!(folded(&layout, &[false, true], &values), want);
        let halves: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
        assert_eq!(folded(&layout, &[true, false], &halves), columns);
        let all = values.iter().map(|&x| f64::from(x)).sum::<f64>();
        assert_eq!(folded(&layout, &[true, true], &halves), [all]);
    }
}
