//! Gathers elements along an axis in another order, some of them never, once or often.

use crate::widest;
use ixion_tensor::{LimitError, Limits, MAX_RANK};
use smallvec::{SmallVec, smallvec};

/// The number of elements that are copied between checks of the deadline.
const BETWEEN_CHECKS: usize = 1 << 16;

/// Writes, for every block of `len`×`inner` elements, the rows of `inner` elements that `sources` selects, in that order.
/// Sources must be below `len`.
pub fn take<B: Copy>(input: &[B], len: usize, inner: usize, sources: &[usize], output: &mut [B]) {
    let runs = Runs::new(sources, inner);
    let (from, to) = ((len * inner).max(1), (sources.len() * inner).max(1));
    for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
        runs.take(input, output);
    }
}

/// As [`take`], for sources that are the elements of a tensor, few of which are consecutive.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn take_rows<B: Copy>(
    input: &[B],
    (len, inner): (usize, usize),
    sources: &[u64],
    output: &mut [B],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (from, to) = ((len * inner).max(1), (sources.len() * inner).max(1));
    let (rows, mut unchecked) = ((BETWEEN_CHECKS / inner.max(1)).max(1), 0);
    for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
        for (sources, output) in sources.chunks(rows).zip(output.chunks_mut((rows * inner).max(1))) {
            copy_all(input, inner, sources, output);
            unchecked += output.len();
            if unchecked >= BETWEEN_CHECKS {
                unchecked = 0;
                limits.check_deadline()?;
            }
        }
    }
    Ok(())
}

/// Copies rows of any length.
#[inline]
fn copy_all<B: Copy>(input: &[B], inner: usize, sources: &[u64], output: &mut [B]) {
    match inner {
        1 => output.iter_mut().zip(sources).for_each(|(y, &source)| *y = input[source as usize]),
        2..4 => copy_rows::<B, 2>(input, inner, sources, output),
        4..8 => copy_rows::<B, 4>(input, inner, sources, output),
        8..16 => copy_rows::<B, 8>(input, inner, sources, output),
        16..=32 => copy_rows::<B, 16>(input, inner, sources, output),
        _ => {
            for (row, &source) in output.chunks_exact_mut(inner.max(1)).zip(sources) {
                row.copy_from_slice(&input[source as usize * inner..][..inner]);
            }
        }
    }
}

/// Copies rows of `N` to `2 * N` elements: the first `N` and the last `N`, so that no loop over a few elements is needed.
#[inline]
fn copy_rows<B: Copy, const N: usize>(input: &[B], inner: usize, sources: &[u64], output: &mut [B]) {
    for (to, &source) in output.chunks_exact_mut(inner).zip(sources) {
        let from = &input[source as usize * inner..][..inner];
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
            *to = *from;
        }
        if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
            *to = *from;
        }
    }
}

/// The first index that is negative, or not below `len`.
pub fn first_outside(indices: &[i64], len: usize) -> Option<i64> {
    // Without branches within a block, so that it is vectorised. Negative numbers become large ones.
    let is_outside = |index: i64| index as u64 >= len as u64;
    let any_outside = |block: &[i64]| block.iter().fold(false, |any, &index| any | is_outside(index));
    let block = indices.chunks(1024).find(|block| widest!(|| any_outside(block)))?;
    block.iter().copied().find(|&index| is_outside(index))
}

/// As [`take`], along several consecutive axes, the last of which has rows of `inner` elements. Each axis is given by its
/// length and the sources along it.
pub fn take_axes<B: Copy>(input: &[B], axes: &[(usize, Vec<usize>)], inner: usize, output: &mut [B]) {
    Taking::new(axes, inner).run(input, output);
}

/// Axes that are prepared for [`take_axes`] of several arrays.
pub(super) struct Taking<'a> {
    outer: &'a [(usize, Vec<usize>)],
    /// The length of the last axis, and its sources.
    last: Option<(usize, Runs<'a>)>,
}

impl<'a> Taking<'a> {
    pub(super) fn new(axes: &'a [(usize, Vec<usize>)], inner: usize) -> Self {
        let Some(((len, sources), outer)) = axes.split_last() else {
            return Self { outer: axes, last: None };
        };
        Self { outer, last: Some((*len, Runs::new(sources, inner))) }
    }

    /// As [`take_axes`].
    pub(super) fn run<B: Copy>(&self, input: &[B], output: &mut [B]) {
        match &self.last {
            Some((len, last)) => take_outer(input, self.outer, (*len, last), output),
            None => output.copy_from_slice(input),
        }
    }
}

/// As [`take_axes`], with a prepared last axis.
fn take_outer<B: Copy>(
    input: &[B],
    axes: &[(usize, Vec<usize>)],
    (len, last): (usize, &Runs<'_>),
    output: &mut [B],
) {
    let lens = axes.iter().map(|(len, sources)| (*len, sources.len()));
    let (from, to) = lens.fold((len * last.inner, last.sources.len() * last.inner), |(from, to), lens| {
        (from * lens.0, to * lens.1)
    });
    for (input, output) in input.chunks_exact(from.max(1)).zip(output.chunks_exact_mut(to.max(1))) {
        let Some(((axis, sources), rest)) = axes.split_first() else {
            last.take(input, output);
            continue;
        };
        let (from, to) = (from / (*axis).max(1), to / sources.len().max(1));
        for (position, &source) in sources.iter().enumerate() {
            // Copy the previous part if it has the same source.
            if position > 0 && sources[position - 1] == source {
                output.copy_within((position - 1) * to..position * to, position * to);
            } else {
                take_outer(
                    &input[source * from..][..from],
                    rest,
                    (len, last),
                    &mut output[position * to..][..to],
                );
            }
        }
    }
}

/// Sources along an axis with rows of `inner` elements.
struct Runs<'a> {
    sources: &'a [usize],
    inner: usize,
    /// Runs of consecutive sources, if there are few.
    runs: Option<SmallVec<[&'a [usize]; 8]>>,
    /// How often each of consecutive sources is repeated; 0 if it differs.
    repeats: usize,
}

impl<'a> Runs<'a> {
    fn new(sources: &'a [usize], inner: usize) -> Self {
        let runs = is_in_runs(sources).then(|| runs_of(sources).collect());
        Self { sources, inner, runs, repeats: repeats_of(sources) }
    }

    /// Writes one block.
    #[inline]
    fn take<B: Copy>(&self, input: &[B], output: &mut [B]) {
        match &self.runs {
            Some(runs) => self.take_runs(runs.iter().copied(), input, output),
            None if self.inner == 1 => match self.repeats {
                2 => self.repeat::<B, 2>(input, output),
                3 => self.repeat::<B, 3>(input, output),
                4 => self.repeat::<B, 4>(input, output),
                _ => output.iter_mut().zip(self.sources).for_each(|(y, &source)| *y = input[source]),
            },
            None if self.inner == 8 => self.take_arrays::<B, 8>(input, output),
            None if self.inner == 16 => self.take_arrays::<B, 16>(input, output),
            None => self.take_runs(runs_of(self.sources), input, output),
        }
    }

    /// Writes each of consecutive elements `N` times.
    #[inline]
    fn repeat<B: Copy, const N: usize>(&self, input: &[B], output: &mut [B]) {
        let first = self.sources.first().copied().unwrap_or_default();
        let (groups, rest) = output.as_chunks_mut::<N>();
        if let Some(&last) = input.get(first + groups.len()) {
            rest.fill(last);
        }
        groups.iter_mut().zip(&input[first..]).for_each(|(group, &element)| *group = [element; N]);
    }

    /// Copies rows whose length is known at compile time.
    #[inline]
    fn take_arrays<B: Copy, const N: usize>(&self, input: &[B], output: &mut [B]) {
        let (input, output) = (input.as_chunks::<N>().0, output.as_chunks_mut::<N>().0);
        output.iter_mut().zip(self.sources).for_each(|(y, &source)| *y = input[source]);
    }

    #[inline]
    fn take_runs<'r, B: Copy>(
        &self,
        runs: impl Iterator<Item = &'r [usize]>,
        input: &[B],
        mut output: &mut [B],
    ) {
        for run in runs {
            let Some(first) = run.first() else { continue };
            let (part, rest) = output.split_at_mut(run.len() * self.inner);
            // Most runs of a padding are single elements, for which a call takes longer than the copy.
            match (part, &input[first * self.inner..]) {
                ([to], [from, ..]) => *to = *from,
                (part, input) => part.copy_from_slice(&input[..part.len()]),
            }
            output = rest;
        }
    }
}

/// Splits sources into runs of consecutive ones.
fn runs_of(sources: &[usize]) -> impl Iterator<Item = &[usize]> {
    sources.chunk_by(|&a, &b| a + 1 == b)
}

/// How often each source is repeated, as in upsampling, if sources are consecutive otherwise; 0 if they are not.
fn repeats_of(sources: &[usize]) -> usize {
    let Some(&first) = sources.first() else { return 0 };
    let count = sources.iter().take_while(|&&source| source == first).count();
    let mut groups = sources.chunks(count).enumerate();
    let is_regular = groups.all(|(place, group)| group.iter().all(|&source| source == first + place));
    if is_regular { count } else { 0 }
}

/// Returns true if most sources are consecutive, as in padding.
fn is_in_runs(sources: &[usize]) -> bool {
    sources.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() * 6 > sources.len() * 5
}

/// Visits every index of a shape in row-major order, with the position of its element in an array of strides `across`,
/// where its index along `axis` is replaced by the next of `indices`, and its position in an array of strides `along`.
#[inline(always)]
pub fn each_place(
    shape: &[usize],
    axis: usize,
    indices: &[usize],
    across: &[usize],
    along: &[usize],
    mut visit: impl FnMut(usize, usize),
) {
    let mut rows = RowPlaces::new(shape, axis, across, along);
    for indices in indices.chunks(rows.len) {
        let (from, to) = rows.next();
        for (column, &index) in indices.iter().enumerate() {
            visit(from + column * rows.step + index * rows.by_index, to + column * rows.plain);
        }
    }
}

/// An index along one axis for each element of a shape, in row-major order. The position along all other axes is that of
/// the element.
#[derive(Debug, Clone, Copy)]
pub struct IndicesAlong<'a> {
    /// The shape of the indices.
    pub shape: &'a [usize],
    /// The axis.
    pub axis: usize,
    /// The indices, each of which must be below the length of the axis.
    pub indices: &'a [u64],
}

impl IndicesAlong<'_> {
    /// Writes the element at each index of an array of these strides.
    ///
    /// # Panics
    /// Panics if a position is not in the array.
    pub fn gather<B: Copy>(&self, input: &[B], strides: &[usize], output: &mut [B]) {
        let mut rows = RowPlaces::new(self.shape, self.axis, strides, &[]);
        for (indices, output) in self.indices.chunks(rows.len).zip(output.chunks_mut(rows.len)) {
            let input = &input[rows.next().0..];
            let pairs = output.iter_mut().zip(indices);
            match (rows.step, rows.by_index) {
                (0, 1) => pairs.for_each(|(y, &index)| *y = input[index as usize]),
                (step, by_index) => pairs.enumerate().for_each(|(column, (y, &index))| {
                    *y = input[column * step + index as usize * by_index];
                }),
            }
        }
    }

    /// Joins elements with those at each index of a target, in order. Both arrays are given with their strides; the last axis
    /// of the elements must be contiguous.
    ///
    /// # Panics
    /// Panics if a position is not in its array.
    pub fn scatter<T, S: Copy>(
        &self,
        (elements, along): (&[S], &[usize]),
        (target, across): (&mut [T], &[usize]),
        join: impl Fn(&mut T, S),
    ) {
        let mut rows = RowPlaces::new(self.shape, self.axis, across, along);
        for indices in self.indices.chunks(rows.len) {
            let (start, place) = rows.next();
            let target = &mut target[start..];
            let pairs = elements[place..][..indices.len()].iter().zip(indices);
            match (rows.step, rows.by_index) {
                (0, 1) => pairs.for_each(|(&x, &index)| join(&mut target[index as usize], x)),
                (step, by_index) => pairs.enumerate().for_each(|(column, (&x, &index))| {
                    join(&mut target[column * step + index as usize * by_index], x);
                }),
            }
        }
    }
}

/// The positions of the rows of a shape, in the order of [`each_place`].
struct RowPlaces<'a> {
    shape: &'a [usize],
    axis: usize,
    across: &'a [usize],
    along: &'a [usize],
    /// The number of elements of a row.
    len: usize,
    /// The distances between consecutive elements: in `across` without the index, in `across` per unit of the index, and
    /// in `along`.
    step: usize,
    by_index: usize,
    plain: usize,
    place: SmallVec<[usize; MAX_RANK]>,
}

impl<'a> RowPlaces<'a> {
    fn new(shape: &'a [usize], axis: usize, across: &'a [usize], along: &'a [usize]) -> Self {
        let last = shape.len().saturating_sub(1);
        let len = shape.get(last).copied().unwrap_or(1).max(1);
        let stride = |strides: &[usize], axis: usize| strides.get(axis).copied().unwrap_or(0);
        let (step, by_index, plain) =
            (if axis == last { 0 } else { stride(across, last) }, stride(across, axis), stride(along, last));
        Self { shape, axis, across, along, len, step, by_index, plain, place: smallvec![0; last] }
    }

    /// The start of the next row in both arrays, without the axis of the indices.
    fn next(&mut self) -> (usize, usize) {
        let offset = |strides: &[usize], skipped: Option<usize>| -> usize {
            let outer = self.place.iter().zip(strides).enumerate().filter(|(axis, _)| Some(*axis) != skipped);
            outer.map(|(_, (index, stride))| index * stride).sum()
        };
        let places = (offset(self.across, Some(self.axis)), offset(self.along, None));
        for (index, &len) in self.place.iter_mut().zip(self.shape).rev() {
            *index += 1;
            if *index < len {
                break;
            }
            *index = 0;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, ArrayD, Axis, Dimension, IxDyn};
    use proptest::prelude::*;

    #[test]
    fn indices_outside() {
        let mut indices: Vec<i64> = (0..3000).map(|i| i % 7).collect();
        assert_eq!((first_outside(&indices, 7), first_outside(&indices, 6)), (None, Some(6)));
        indices[2500] = -1;
        assert_eq!((first_outside(&indices, 7), first_outside(&[], 0)), (Some(-1), None));
        indices[2400] = i64::MAX;
        assert_eq!(first_outside(&indices, 7), Some(i64::MAX));
    }

    #[test]
    fn many_rows_are_taken_part_by_part() {
        let x: Vec<u32> = (0..2 * 7 * 3).collect();
        let sources: Vec<usize> = (0..BETWEEN_CHECKS).map(|i| i * 5 % 7).collect();
        let numbers: Vec<u64> = sources.iter().map(|&source| source as u64).collect();
        let [mut got, mut want] = [7, 8].map(|y| vec![y; 2 * sources.len() * 3]);
        take(&x, 7, 3, &sources, &mut want);
        take_rows(&x, (7, 3), &numbers, &mut got, &Limits::default()).unwrap();
        assert!(got == want);
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        assert!(take_rows(&x, (7, 3), &numbers, &mut got, &late).is_err());
    }

    #[test]
    fn repeated_elements() {
        let x: Vec<u16> = (0..20).collect();
        for repeats in 1..6 {
            for (first, len) in [(0, 1), (0, 20), (3, 13), (19, 1)] {
                for cut in 0..repeats {
                    let sources: Vec<usize> = (0..len * repeats - cut).map(|i| first + i / repeats).collect();
                    let (mut got, want) = (vec![0; sources.len()], sources.iter().map(|&source| x[source]));
                    take(&x, 20, 1, &sources, &mut got);
                    assert!(got.iter().copied().eq(want), "{repeats} times {len} from {first}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn rows_at_the_elements_of_a_tensor(
            (outer, len, inner) in (0usize..3, 1usize..7, 0usize..40),
            places in proptest::collection::vec(0usize..1000, 0..9),
        ) {
            let x: Vec<u32> = (0..outer * len * inner).map(|i| i as u32).collect();
            let sources: Vec<usize> = places.into_iter().map(|place| place % len).collect();
            let numbers: Vec<u64> = sources.iter().map(|&source| source as u64).collect();
            let mut want = vec![7; outer * sources.len() * inner];
            let mut got = want.clone();
            take(&x, len, inner, &sources, &mut want);
            take_rows(&x, (len, inner), &numbers, &mut got, &Limits::default()).unwrap();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn gathering_and_scattering_visit_every_place(
            dims in [1usize..4, 1usize..5, 1usize..6],
            fewer in [0usize..3, 0usize..3, 0usize..3],
            axis in 0usize..3,
            rank in 1usize..4,
            seed in 0usize..1000,
        ) {
            let (dims, axis) = (&dims[..rank], axis % rank);
            let shape: Vec<usize> = dims.iter().zip(fewer).map(|(&len, fewer)| len.saturating_sub(fewer).max(1)).collect();
            let (count, total) = (shape.iter().product::<usize>(), dims.iter().product::<usize>());
            let places: Vec<usize> = (0..count).map(|i| (i * 7 + seed) % dims[axis]).collect();
            let indices: Vec<u64> = places.iter().map(|&place| place as u64).collect();
            let along = IndicesAlong { shape: &shape, axis, indices: &indices };
            let strides = |dims: &[usize]| (0..rank).map(|axis| dims[axis + 1..].iter().product()).collect::<Vec<usize>>();
            let (across, own) = (strides(dims), strides(&shape));
            let numbers: Vec<i32> = (0..total as i32).collect();
            let (mut gathered, mut sums) = (vec![-1; count], numbers.clone());
            let (mut want, mut totals) = (gathered.clone(), numbers.clone());
            each_place(&shape, axis, &places, &across, &own, |from, to| {
                want[to] = numbers[from];
                totals[from] += numbers[to];
            });
            along.gather(&numbers, &across, &mut gathered);
            let (elements, target) = ((numbers.as_slice(), own.as_slice()), (sums.as_mut_slice(), across.as_slice()));
            along.scatter(elements, target, |sum: &mut i32, x| *sum += x);
            prop_assert_eq!((gathered, sums), (want, totals));
        }

        #[test]
        fn it_equals_select_of_ndarray(
            (outer, len, inner) in (0usize..4, 1usize..7, 0usize..4),
            places in proptest::collection::vec(0usize..1000, 0..9),
            in_order: bool,
        ) {
            let x = Array3::from_shape_fn((outer, len, inner), |(i, j, k)| i * 100 + j * 10 + k);
            let mut sources: Vec<usize> = places.into_iter().map(|place| place % len).collect();
            if in_order {
                sources.sort_unstable();
            }
            let want = x.select(Axis(1), &sources);
            let mut got = vec![7; want.len()];
            take(x.as_slice().unwrap(), len, inner, &sources, &mut got);
            prop_assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn several_axes_are_taken_like_one_after_the_other(
            (outer, lens, inner) in (0usize..3, [1usize..4, 1usize..5, 1usize..9], 0usize..3),
            places in [proptest::collection::vec(0usize..60, 0..6), proptest::collection::vec(0usize..60, 0..6), proptest::collection::vec(0usize..60, 0..9)],
            in_order: bool,
        ) {
            let x = ArrayD::from_shape_fn(IxDyn(&[outer, lens[0], lens[1], lens[2], inner]), |at| {
                at.slice().iter().fold(0, |number, index| number * 10 + index)
            });
            let axes: Vec<(usize, Vec<usize>)> = lens.iter().zip(places).map(|(&len, mut places)| {
                places.iter_mut().for_each(|place| *place %= len);
                if in_order {
                    places.sort_unstable();
                }
                (len, places)
            }).collect();
            let mut want = x.clone();
            for (axis, (_, sources)) in axes.iter().enumerate() {
                want = want.select(Axis(axis + 1), sources);
            }
            let mut got = vec![7; want.len()];
            take_axes(x.as_slice().unwrap(), &axes, inner, &mut got);
            prop_assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }
    }
}
