//! Gathers elements along an axis in another order, some of them never, once or often.

use ixion_tensor::MAX_RANK;
use smallvec::{SmallVec, smallvec};

/// Writes, for every block of `len`×`inner` elements, the rows of `inner` elements that `sources` selects, in that order.
/// Sources must be below `len`.
pub fn take<B: Copy>(input: &[B], len: usize, inner: usize, sources: &[usize], output: &mut [B]) {
    let runs = Runs::new(sources, inner);
    let (from, to) = ((len * inner).max(1), (sources.len() * inner).max(1));
    for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
        runs.take(input, output);
    }
}

/// As [`take`], along several consecutive axes, the last of which has rows of `inner` elements. Each axis is given by its
/// length and the sources along it.
pub fn take_axes<B: Copy>(input: &[B], axes: &[(usize, Vec<usize>)], inner: usize, output: &mut [B]) {
    let Some(((len, sources), outer)) = axes.split_last() else {
        output.copy_from_slice(input);
        return;
    };
    take_outer(input, outer, (*len, &Runs::new(sources, inner)), output);
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
}

impl<'a> Runs<'a> {
    fn new(sources: &'a [usize], inner: usize) -> Self {
        let runs = is_in_runs(sources).then(|| runs_of(sources).collect());
        Self { sources, inner, runs }
    }

    /// Writes one block.
    #[inline]
    fn take<B: Copy>(&self, input: &[B], output: &mut [B]) {
        match &self.runs {
            Some(runs) => self.take_runs(runs.iter().copied(), input, output),
            None if self.inner == 1 => {
                output.iter_mut().zip(self.sources).for_each(|(y, &source)| *y = input[source]);
            }
            None if self.inner == 8 => self.take_arrays::<B, 8>(input, output),
            None if self.inner == 16 => self.take_arrays::<B, 16>(input, output),
            None => self.take_runs(runs_of(self.sources), input, output),
        }
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
            part.copy_from_slice(&input[first * self.inner..][..part.len()]);
            output = rest;
        }
    }
}

/// Splits sources into runs of consecutive ones.
fn runs_of(sources: &[usize]) -> impl Iterator<Item = &[usize]> {
    sources.chunk_by(|&a, &b| a + 1 == b)
}

/// Returns true if most sources are consecutive, as in padding.
fn is_in_runs(sources: &[usize]) -> bool {
    sources.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() * 8 > sources.len() * 7
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

    proptest! {
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
