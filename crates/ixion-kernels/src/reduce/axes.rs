//! Reduction along any axes of an array of any strides, without a copy.
//!
//! Elements are visited in the order of memory. If the innermost axis is reduced, a run of it is reduced to one number,
//! in several independent parts; otherwise a run is joined with a row of results.

use super::{PARTS, in_pairs};
use crate::widest;
use ixion_tensor::{Layout, LimitError, Limits, MAX_RANK};
use smallvec::SmallVec;
use std::ops::Range;

/// The number of elements that are read or computed at a time, and of the results that are joined with runs before the next
/// ones.
pub const BLOCK: usize = 1024;

/// Runs that are joined with a row of results at a time, so that results are loaded and stored once.
const ROWS: usize = 4;

/// The number of elements of short runs that are read or computed together.
const GROUP: usize = 256;

/// The number of elements between checks of the deadline, and of a long run that is folded at a time.
const BETWEEN_CHECKS: usize = 256 * BLOCK;

/// The auxiliary numbers that were passed to [`Walk::fold_numbers`], as far as they belong to a range of elements.
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
    pub(super) fn block<'b>(
        &'b self,
        range: Range<usize>,
        auxiliary: Auxiliary<'_>,
        buffer: &'b mut [N],
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

    /// Writes a range of the numbers.
    pub(super) fn copy_to(&self, range: Range<usize>, auxiliary: Auxiliary<'_>, to: &mut [N]) {
        match self {
            Self::Elements(elements) => {
                to.iter_mut().zip(elements.get(range).unwrap_or_default()).for_each(|(to, &x)| *to = x);
            }
            Self::Computed(make) => make(range, auxiliary, to),
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

impl Axis {
    /// An axis of one element.
    const ONE: Self = Self { len: 1, stride: 1, step: 0, is_reduced: true };
}

/// The order in which an array is reduced.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    /// From the largest stride to the smallest.
    axes: SmallVec<[Axis; MAX_RANK]>,
    offset: usize,
    outputs: usize,
    limits: &'a Limits,
}

/// A reduction: elements are lifted to a type in which they can be joined.
pub struct Fold<A, L, J> {
    /// The result of no elements.
    pub start: A,
    /// Lifts an element.
    pub lift: L,
    /// Joins two lifted elements.
    pub join: J,
}

impl<'a> Walk<'a> {
    /// A walk over an array that reduces the axes for which `reduced` is true, unless the deadline passes. Results are in
    /// row-major order.
    pub fn new(layout: &Layout, reduced: &[bool], limits: &'a Limits) -> Self {
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
        Self { axes: merged, offset: layout.offset(), outputs, limits }
    }

    /// The number of results.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Folds numbers, whose positions the layout counts from the first element of a storage, to one number per result.
    /// `auxiliary` has one auxiliary number per result, with which the numbers that contribute to it are computed; or it is
    /// empty, for zeros.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn fold_numbers<N, A>(
        &self,
        numbers: Numbers<'_, N>,
        auxiliary: &[f64],
        results: &mut [A],
        fold: &Fold<A, impl Fn(N) -> A, impl Fn(A, A) -> A>,
    ) -> Result<(), LimitError>
    where
        N: Copy + Default,
        A: Copy,
    {
        results.fill(fold.start);
        if self.axes.iter().any(|axis| axis.len == 0) {
            return Ok(());
        }
        widest!(|| Folding { walk: self, numbers, auxiliary, fold, results, unchecked: 0 }.run())
    }
}

/// The arguments of [`Walk::fold_numbers`].
struct Folding<'a, N, A, L, J> {
    walk: &'a Walk<'a>,
    numbers: Numbers<'a, N>,
    auxiliary: &'a [f64],
    fold: &'a Fold<A, L, J>,
    results: &'a mut [A],
    /// The number of elements since the last check of the deadline.
    unchecked: usize,
}

/// Runs at the same distance from each other, and where the first one begins: in the storage and among the results.
#[derive(Clone, Copy)]
struct Plane {
    across: Axis,
    run: Axis,
    offset: usize,
    place: usize,
}

impl<N: Copy + Default, A: Copy, L: Fn(N) -> A, J: Fn(A, A) -> A> Folding<'_, N, A, L, J> {
    #[inline(always)]
    fn run(mut self) -> Result<(), LimitError> {
        let walk = self.walk;
        let (inner, outer) =
            walk.axes.split_last().map_or((Axis::ONE, &[][..]), |(inner, outer)| (*inner, outer));
        let (across, outer) =
            outer.split_last().map_or((Axis::ONE, outer), |(across, outer)| (*across, outer));
        // Short parts of a long inner axis that is not reduced, so that their results stay in the cache for all runs. If it is
        // reduced, the deadline is checked between parts.
        let part = if inner.is_reduced { BETWEEN_CHECKS } else { BLOCK };
        let mut buffer = [N::default(); ROWS * BLOCK];
        for start in (0..inner.len).step_by(part) {
            let run = Axis { len: part.min(inner.len - start), ..inner };
            let (mut offset, mut place) = (walk.offset + start * inner.stride, start * inner.step);
            let mut index = [0; MAX_RANK];
            loop {
                self.plane(Plane { across, run, offset, place }, &mut buffer)?;
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
        Ok(())
    }
}

impl<N: Copy, A: Copy, L: Fn(N) -> A, J: Fn(A, A) -> A> Folding<'_, N, A, L, J> {
    /// Folds all runs of a plane into their results.
    #[inline(always)]
    fn plane(&mut self, plane: Plane, buffer: &mut [N]) -> Result<(), LimitError> {
        let Plane { across, run, .. } = plane;
        let is_contiguous = run.stride == 1 && (run.is_reduced || run.step == 1);
        let group = Self::rows_together(across, run);
        let mut at = 0;
        while at < across.len {
            let (offset, place) = (plane.offset + at * across.stride, plane.place + at * across.step);
            let left = across.len - at;
            let runs = if !is_contiguous {
                self.each(run, offset, place, buffer);
                1
            } else if run.is_reduced {
                let rows = Axis { len: group.min(left), ..across };
                self.rows(rows, run.len, offset, place, buffer);
                rows.len
            } else if across.is_reduced && left >= ROWS {
                self.columns([0, 1, 2, 3].map(|row| offset + row * across.stride), run.len, place, buffer);
                ROWS
            } else {
                self.column(run.len, offset, place, buffer);
                1
            };
            at += runs;
            self.check_after(runs * run.len)?;
        }
        Ok(())
    }

    /// Checks the deadline if there were many elements since the last check; these are the latest of them.
    #[inline(always)]
    fn check_after(&mut self, elements: usize) -> Result<(), LimitError> {
        self.unchecked += elements;
        if self.unchecked < BETWEEN_CHECKS {
            return Ok(());
        }
        self.unchecked = 0;
        self.walk.limits.check_deadline()
    }

    /// The number of rows that are reduced together: several if they are short and adjacent.
    #[inline(always)]
    fn rows_together(across: Axis, run: Axis) -> usize {
        let is_adjacent = !across.is_reduced && across.stride == run.len;
        if is_adjacent { (GROUP / run.len.max(1)).max(1) } else { 1 }
    }

    #[inline(always)]
    fn auxiliary_at(&self, place: usize) -> f64 {
        self.auxiliary.get(place).copied().unwrap_or(0.0)
    }

    /// Folds a run of any stride.
    #[inline(always)]
    fn each(&mut self, run: Axis, offset: usize, place: usize, buffer: &mut [N]) {
        for index in 0..run.len {
            let (place, at) = (place + index * run.step, offset + index * run.stride);
            let auxiliary = Auxiliary::One(self.auxiliary_at(place));
            let number = self.numbers.block(at..at + 1, auxiliary, buffer).first();
            let (Some(&x), Some(result)) = (number, self.results.get_mut(place)) else { return };
            *result = (self.fold.join)(*result, (self.fold.lift)(x));
        }
    }

    /// Reduces adjacent rows of `len` elements to one number each.
    #[inline(always)]
    fn rows(&mut self, rows: Axis, len: usize, offset: usize, place: usize, buffer: &mut [N]) {
        if rows.len == 1 {
            let auxiliary = Auxiliary::One(self.auxiliary_at(place));
            let Some(result) = self.results.get_mut(place) else { return };
            for start in (0..len).step_by(BLOCK) {
                let range = offset + start..offset + len.min(start + BLOCK);
                *result = self.fold.row(*result, self.numbers.block(range, auxiliary, buffer));
            }
            return;
        }
        let range = offset..offset + rows.len * len;
        let mut each = [0.0; GROUP];
        let auxiliary = if self.auxiliary.is_empty() {
            Auxiliary::One(0.0)
        } else {
            for (row, each) in each.chunks_exact_mut(len).take(rows.len).enumerate() {
                each.fill(self.auxiliary_at(place + row * rows.step));
            }
            Auxiliary::Each(each.get(..range.len()).unwrap_or_default())
        };
        let block = self.numbers.block(range, auxiliary, buffer);
        for (row, numbers) in block.chunks_exact(len).enumerate() {
            let Some(result) = self.results.get_mut(place + row * rows.step) else { return };
            *result = self.fold.row(*result, numbers);
        }
    }

    /// The auxiliary numbers of `len` adjacent results.
    #[inline(always)]
    fn auxiliary_of(&self, place: usize, len: usize) -> Auxiliary<'_> {
        self.auxiliary.get(place..place + len).map_or(Auxiliary::One(0.0), Auxiliary::Each)
    }

    /// Joins a run with a row of results.
    #[inline(always)]
    fn column(&mut self, len: usize, offset: usize, place: usize, buffer: &mut [N]) {
        let block = self.numbers.block(offset..offset + len, self.auxiliary_of(place, len), buffer);
        let results = self.results.get_mut(place..place + len).unwrap_or_default();
        let lanes = results.iter_mut().zip(block);
        lanes.for_each(|(result, &x)| *result = (self.fold.join)(*result, (self.fold.lift)(x)));
    }

    /// Joins several runs with a row of results.
    #[inline(always)]
    fn columns(&mut self, offsets: [usize; ROWS], len: usize, place: usize, buffer: &mut [N]) {
        let auxiliary = self.auxiliary_of(place, len);
        let (buffers, _) = buffer.as_chunks_mut::<BLOCK>();
        let mut buffers = buffers.iter_mut();
        let [a, b, c, d] = offsets.map(|offset| {
            let buffer = buffers.next().map_or(&mut [][..], |buffer| &mut buffer[..]);
            self.numbers.block(offset..offset + len, auxiliary, buffer)
        });
        let Fold { lift, join, .. } = self.fold;
        let results = self.results.get_mut(place..place + len).unwrap_or_default();
        for ((((result, &a), &b), &c), &d) in results.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *result = join(join(join(join(*result, lift(a)), lift(b)), lift(c)), lift(d));
        }
    }
}

impl<A: Copy, L, J: Fn(A, A) -> A> Fold<A, L, J> {
    /// Joins a number with those of a row, in several independent parts.
    #[inline(always)]
    fn row<N: Copy>(&self, first: A, row: &[N]) -> A
    where
        L: Fn(N) -> A,
    {
        let Self { start, lift, join } = self;
        let (chunks, rest) = row.as_chunks::<PARTS>();
        let rest = rest.iter().fold(first, |joined, &x| join(joined, lift(x)));
        if chunks.is_empty() {
            return rest;
        }
        let mut parts = [*start; PARTS];
        for chunk in chunks {
            for (part, &x) in parts.iter_mut().zip(chunk) {
                *part = join(*part, lift(x));
            }
        }
        join(rest, in_pairs(parts, join))
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
            let limits = Limits::default();
            let walk = Walk::new(tensor.layout(), reduced, &limits);
            let whole = Tensor::from_vec(tensor.with_layout(Layout::contiguous(Shape::new(&[len]).unwrap())).unwrap().to_vec::<i64>().unwrap(), &[len]).unwrap();
            let storage = whole.slice::<i64>().unwrap();
            let fold = Fold { start: 0, lift: |x: i64| x * x, join: |a: i64, b: i64| a + b };
            let mut got = vec![7; walk.outputs()];
            walk.fold_numbers(Numbers::Elements(storage), &[], &mut got, &fold).unwrap();
            // The same numbers, computed, with the position of their result added.
            let make = |range: Range<usize>, auxiliary: Auxiliary<'_>, to: &mut [i64]| {
                for (index, (to, x)) in to.iter_mut().zip(&storage[range]).enumerate() {
                    let added = match auxiliary {
                        Auxiliary::One(added) => added,
                        Auxiliary::Each(all) => all[index],
                    };
                    *to = x * x + added as i64;
                }
            };
            let auxiliary: Vec<f64> = (0..walk.outputs()).map(|i| i as f64).collect();
            let mut made = vec![8; walk.outputs()];
            let fold = Fold { start: 0, lift: |x: i64| x, join: |a: i64, b: i64| a + b };
            walk.fold_numbers(Numbers::Computed(&make), &auxiliary, &mut made, &fold).unwrap();
            let squares = tensor.to_vec::<i64>().unwrap().into_iter().map(|x| x * x).collect();
            let mut want = ArrayD::from_shape_vec(tensor.shape().dims(), squares).unwrap();
            let mut count = 1;
            for (axis, _) in reduced.iter().enumerate().filter(|(_, reduced)| **reduced).rev() {
                count *= want.len_of(NdAxis(axis)) as i64;
                want = want.sum_axis(NdAxis(axis));
            }
            let want: Vec<i64> = want.iter().copied().collect();
            prop_assert_eq!(&got, &want);
            let want: Vec<i64> = want.iter().enumerate().map(|(i, x)| x + count * i as i64).collect();
            prop_assert_eq!(made, want);
        }
    }

    #[test]
    fn long_axes_are_split() {
        let values: Vec<f32> = (0..3 * 5000).map(|i| (i % 7) as f32).collect();
        let layout = Layout::contiguous(Shape::new(&[3, 5000]).unwrap());
        let folded = |reduced: &[bool]| {
            let limits = Limits::default();
            let walk = Walk::new(&layout, reduced, &limits);
            let [mut results, mut computed] = [7.0, 8.0].map(|x| vec![x; walk.outputs()]);
            let fold = Fold { start: 0.0, lift: |x: f32| f64::from(x), join: |a: f64, b: f64| a + b };
            walk.fold_numbers(Numbers::Elements(&values), &[], &mut results, &fold).unwrap();
            let make =
                |range: Range<usize>, _: Auxiliary<'_>, to: &mut [f32]| to.copy_from_slice(&values[range]);
            walk.fold_numbers(Numbers::Computed(&make), &[], &mut computed, &fold).unwrap();
            assert_eq!(results, computed);
            results
        };
        let columns = folded(&[true, false]);
        let want: Vec<f64> =
            (0..5000).map(|i| (0..3).map(|row| f64::from(values[row * 5000 + i])).sum()).collect();
        assert_eq!(columns, want);
        let want: Vec<f64> = values.chunks(5000).map(|row| row.iter().map(|&x| f64::from(x)).sum()).collect();
        assert_eq!(folded(&[false, true]), want);
        let all = values.iter().map(|&x| f64::from(x)).sum::<f64>();
        assert_eq!(folded(&[true, true]), [all]);
    }

    #[test]
    fn large_arrays_are_left_at_the_deadline() {
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        let fold = Fold { start: 0, lift: |x: u8| i64::from(x), join: |a: i64, b: i64| a + b };
        let is_left = |dims: &[usize], reduced: &[bool]| {
            let ones = vec![1u8; dims.iter().product()];
            let walk = Walk::new(&Layout::contiguous(Shape::new(dims).unwrap()), reduced, &late);
            let mut results = vec![0; walk.outputs()];
            walk.fold_numbers(Numbers::Elements(&ones), &[], &mut results, &fold).is_err()
        };
        assert!(is_left(&[2 * BETWEEN_CHECKS], &[true]));
        assert!(is_left(&[2 * BETWEEN_CHECKS / 4, 4], &[false, true]));
        assert!(is_left(&[2 * BETWEEN_CHECKS / 4, 4], &[true, false]));
        assert!(is_left(&[2, BETWEEN_CHECKS], &[true, false]));
        assert!(!is_left(&[BETWEEN_CHECKS / 2], &[true]));
    }

    #[test]
    fn parts_of_long_runs_join() {
        let len = 2 * BETWEEN_CHECKS + 100;
        let values: Vec<u8> = (0..2 * len).map(|i| (i % 251) as u8).collect();
        let limits = Limits::default();
        let fold = Fold { start: 0, lift: |x: u8| i64::from(x), join: |a: i64, b: i64| a + b };
        let layout = Layout::contiguous(Shape::new(&[2, len]).unwrap());
        let (mut rows, mut all) = ([7; 2], [7]);
        let walk = Walk::new(&layout, &[false, true], &limits);
        walk.fold_numbers(Numbers::Elements(&values), &[], &mut rows, &fold).unwrap();
        let walk = Walk::new(&layout, &[true, true], &limits);
        walk.fold_numbers(Numbers::Elements(&values), &[], &mut all, &fold).unwrap();
        let sum = |row: &[u8]| row.iter().map(|&x| i64::from(x)).sum::<i64>();
        let want = [sum(&values[..len]), sum(&values[len..])];
        assert_eq!((rows, all), (want, [want[0] + want[1]]));
    }
}
