//! Elements of one axis in another order, some of them never, once or often.

/// Writes, for every block of `len`×`inner` elements, its rows of `inner` elements that `sources` names, in that order.
/// Sources are below `len`.
pub fn take<B: Copy>(input: &[B], len: usize, inner: usize, sources: &[usize], output: &mut [B]) {
    let (from, to) = ((len * inner).max(1), (sources.len() * inner).max(1));
    if inner == 1 && !is_in_runs(sources) {
        for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
            for (y, &source) in output.iter_mut().zip(sources) {
                *y = input[source];
            }
        }
        return;
    }
    let runs: Vec<&[usize]> = sources.chunk_by(|&a, &b| a + 1 == b).collect();
    for (input, mut output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
        for run in &runs {
            let Some(first) = run.first() else { continue };
            let (part, rest) = output.split_at_mut(run.len() * inner);
            part.copy_from_slice(&input[first * inner..][..part.len()]);
            output = rest;
        }
    }
}

/// Whether most sources follow each other, as those of a padding do.
fn is_in_runs(sources: &[usize]) -> bool {
    sources.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() * 8 > sources.len() * 7
}

/// For every index of a shape, one after the other: where its element lies in an array of strides `across`, if its place along
/// `axis` is the next of `indices`, and where it lies in an array of strides `along`.
#[inline(always)]
pub fn each_place(
    shape: &[usize],
    axis: usize,
    indices: &[usize],
    across: &[usize],
    along: &[usize],
    mut visit: impl FnMut(usize, usize),
) {
    let last = shape.len().saturating_sub(1);
    let row = shape.get(last).copied().unwrap_or(1).max(1);
    let stride = |strides: &[usize], axis: usize| strides.get(axis).copied().unwrap_or(0);
    let (step, by_index, plain) =
        (if axis == last { 0 } else { stride(across, last) }, stride(across, axis), stride(along, last));
    let mut place = vec![0; last];
    for indices in indices.chunks(row) {
        let offset = |strides: &[usize], skipped: Option<usize>| -> usize {
            let outer = place.iter().zip(strides).enumerate().filter(|(axis, _)| Some(*axis) != skipped);
            outer.map(|(_, (index, stride))| index * stride).sum()
        };
        let (from, to) = (offset(across, Some(axis)), offset(along, None));
        for (column, &index) in indices.iter().enumerate() {
            visit(from + column * step + index * by_index, to + column * plain);
        }
        for (index, &len) in place.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < len {
                break;
            }
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, Axis};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_that_of_ndarray(
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
    }
}
