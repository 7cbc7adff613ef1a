//! Interpolation along one axis after the other.

use super::Float;
use super::naive::{Interpolation, Resampling};
use super::take::take;
use super::wide::widest;
use crate::{LimitError, Limits};
use std::borrow::Cow;

/// Resamples the last axes of an array of shape …×`lens`: the axes one after the other, first the one that makes the
/// least of it.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`].
pub fn interpolate<T: Float>(
    input: &[T],
    axes: &[Resampling],
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let mut lens: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by(|&a, &b| growth(&axes[a]).total_cmp(&growth(&axes[b])));
    let Some(last) = order.pop() else {
        output.copy_from_slice(input);
        return Ok(());
    };
    let mut current = Cow::Borrowed(input);
    for axis in order {
        let inner: usize = lens[axis + 1..].iter().product();
        let block: usize = axes[axis].len * inner;
        let outer = current.len() / block.max(1);
        let mut next = vec![T::zero(); outer * axes[axis].outputs * inner];
        widest(|| resample(&current, &axes[axis], inner, &mut next, limits))?;
        lens[axis] = axes[axis].outputs;
        current = Cow::Owned(next);
    }
    let inner: usize = lens[last + 1..].iter().product();
    widest(|| resample(&current, &axes[last], inner, output, limits))
}

fn growth(axis: &Resampling) -> f64 {
    axis.outputs as f64 / axis.len as f64
}

/// Resamples the middle axis of …×`len`×`inner`.
#[inline(always)]
fn resample<T: Float>(
    input: &[T],
    axis: &Resampling,
    inner: usize,
    output: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (from, to) = ((axis.len * inner).max(1), (axis.outputs * inner).max(1));
    let sources: Option<Vec<usize>> =
        (0..axis.outputs).map(|position| axis.only_tap::<T>(position)).collect();
    if let Some(sources) = sources {
        for (input, output) in input.chunks(from).zip(output.chunks_mut(to)) {
            limits.check_deadline()?;
            take(input, axis.len, inner, &sources, output);
        }
        return Ok(());
    }
    if inner == 1 && axis.interpolation == Interpolation::Linear {
        let pairs: Vec<[(usize, T); 2]> = (0..axis.outputs).map(|position| axis.two_taps(position)).collect();
        for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
            limits.check_deadline()?;
            let both = |[a, b]: &[(usize, T); 2]| input[a.0] * a.1 + input[b.0] * b.1;
            output.iter_mut().zip(&pairs).for_each(|(y, pair)| *y = both(pair));
        }
        return Ok(());
    }
    let taps: Vec<Vec<(usize, T)>> = (0..axis.outputs).map(|position| axis.taps(position)).collect();
    for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
        limits.check_deadline()?;
        if inner == 1 {
            let mix =
                |taps: &Vec<(usize, T)>| taps.iter().map(|&(index, weight)| input[index] * weight).sum();
            output.iter_mut().zip(&taps).for_each(|(y, taps)| *y = mix(taps));
            continue;
        }
        for (output, taps) in output.chunks_exact_mut(inner.max(1)).zip(&taps) {
            limits.check_deadline()?;
            output.fill(T::zero());
            for &(index, weight) in taps {
                let row = &input[index * inner..][..inner];
                output.iter_mut().zip(row).for_each(|(y, &x)| *y += x * weight);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive;
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            sizes in proptest::collection::vec((1usize..6, 1usize..9), 1..4),
            interpolation in prop_oneof![
                Just(Interpolation::Nearest),
                Just(Interpolation::NearestExact),
                Just(Interpolation::Linear),
                Just(Interpolation::Cubic),
            ],
            align_corners: bool,
            factor in proptest::option::of(0.3f64..3.0),
        ) {
            let resampling = |&(len, outputs): &(usize, usize)| {
                Resampling { interpolation, align_corners, len, outputs, factor }
            };
            let axes: Vec<Resampling> = sizes.iter().map(resampling).collect();
            let lens: Vec<usize> = sizes.iter().map(|size| size.0).collect();
            let count = lens.iter().product::<usize>() * 2;
            let x: Vec<f64> = (0..count).map(|i| ((i * i * 7 + i * 3) % 23) as f64).collect();
            let array = ArrayD::from_shape_vec(IxDyn(&[&[2], &lens[..]].concat()), x.clone()).unwrap();
            let want = naive::interpolate(array.view(), &axes);
            let mut got = vec![7.0; want.len()];
            interpolate(&x, &axes, &mut got, &Limits::default()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-10, "{got} where {want} is expected");
            }
        }
    }
}
