//! Interpolation along one axis after the other.

mod bytes;
mod pixels;

use super::Float;
use super::naive::{Interpolation, Resampling};
use super::parallel::for_each_chunk;
use super::take::{Taking, take};
use crate::widest;
pub use bytes::ByteResampler;
use ixion_tensor::{LimitError, Limits};
pub use pixels::PixelResampler;
use smallvec::SmallVec;

/// The elements that each position of an axis is computed from.
#[derive(Debug, Clone)]
enum Taps<T> {
    /// One element.
    One(Vec<usize>),
    /// Two elements and their weights, which are read for every output; short positions make that less.
    Two(Vec<[(u32, T); 2]>),
    /// Any number of elements and their weights.
    Many(Vec<Vec<(usize, T)>>),
}

/// The resampling of one axis of …×`len`×`inner`.
#[derive(Debug, Clone)]
struct Step<T> {
    len: usize,
    outputs: usize,
    inner: usize,
    taps: Taps<T>,
}

/// The resampling of the last axes of an array: one after the other, starting with the axis that shrinks most.
#[derive(Debug, Clone)]
pub struct Resampler<T> {
    steps: SmallVec<[Step<T>; 3]>,
    /// Used instead of steps if elements are only copied.
    copies: Option<Copies>,
}

/// The sources of the elements of each axis, and the number of lanes of each element.
#[derive(Debug, Clone)]
struct Copies {
    axes: Vec<(usize, Vec<usize>)>,
    lanes: usize,
}

/// The order in which axes are resampled, given their lengths before and after.
fn order(lens: &[usize], outputs: &[usize]) -> SmallVec<[usize; 3]> {
    let growth = |axis: usize| outputs[axis] as f64 / lens[axis] as f64;
    let mut order: SmallVec<[usize; 3]> = (0..lens.len()).collect();
    order.sort_by(|&a, &b| growth(a).total_cmp(&growth(b)));
    order
}

/// The number of elements of scratch memory that resampling axes of `lens` to `outputs`, `outer` times, needs.
pub fn scratch_len(outer: usize, lens: &[usize], outputs: &[usize]) -> usize {
    let mut current: SmallVec<[usize; 3]> = SmallVec::from_slice(lens);
    let mut total = 0usize;
    let order = order(lens, outputs);
    for &axis in order.iter().take(order.len().saturating_sub(1)) {
        current[axis] = outputs[axis];
        total = total.saturating_add(current.iter().fold(outer, |product, &len| product.saturating_mul(len)));
    }
    total
}

impl<T: Float> Resampler<T> {
    /// Prepares the resampling of these axes. Each element has `lanes` lanes, which are resampled together.
    pub fn new(axes: &[Resampling], lanes: usize) -> Self {
        let sources = |axis: &Resampling| {
            let sources = (0..axis.outputs).map(|position| axis.only_tap::<T>(position));
            Some((axis.len, sources.collect::<Option<Vec<usize>>>()?))
        };
        if let Some(axes) = axes.iter().map(sources).collect() {
            return Self { steps: SmallVec::new(), copies: Some(Copies { axes, lanes }) };
        }
        let mut lens: SmallVec<[usize; 3]> = axes.iter().map(|axis| axis.len).collect();
        let outputs: SmallVec<[usize; 3]> = axes.iter().map(|axis| axis.outputs).collect();
        let order = order(&lens, &outputs);
        let step = |axis: usize| {
            let inner = lens[axis + 1..].iter().product::<usize>() * lanes;
            lens[axis] = outputs[axis];
            Step { len: axes[axis].len, outputs: outputs[axis], inner, taps: Taps::new(&axes[axis], inner) }
        };
        Self { steps: order.into_iter().map(step).collect(), copies: None }
    }

    /// Resamples the last axes of an array. If elements are only copied, threads share the planes.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if scratch is shorter than [`scratch_len`]; if elements are only copied, it may be empty.
    pub fn run(
        &self,
        input: &[T],
        output: &mut [T],
        mut scratch: &mut [T],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        if let Some(copies) = &self.copies {
            return copies.run(input, output, limits);
        }
        let Some((last, steps)) = self.steps.split_last() else {
            output.copy_from_slice(input);
            return Ok(());
        };
        let mut current = input;
        for step in steps {
            let len = current.len() / (step.len * step.inner).max(1) * step.outputs * step.inner;
            let (next, rest) = scratch.split_at_mut(len);
            widest!(|| step.run(current, next, limits))?;
            (current, scratch) = (next, rest);
        }
        widest!(|| last.run(current, output, limits))
    }
}

impl Copies {
    fn run<T: Float>(&self, input: &[T], output: &mut [T], limits: &Limits) -> Result<(), LimitError> {
        let lens = self.axes.iter().map(|(len, sources)| (*len, sources.len()));
        let (from, to) =
            lens.fold((self.lanes, self.lanes), |(from, to), (len, outputs)| (from * len, to * outputs));
        let (from, to) = (from.max(1), to.max(1));
        let taking = Taking::new(&self.axes, self.lanes);
        for_each_chunk(output, to, &|start, output| {
            limits.check_deadline()?;
            let input = &input[start / to * from..][..from];
            taking.run(input, output);
            Ok(())
        })
    }
}

impl<T: Float> Taps<T> {
    fn new(axis: &Resampling, inner: usize) -> Self {
        let positions = 0..axis.outputs;
        if let Some(sources) = positions.clone().map(|position| axis.only_tap::<T>(position)).collect() {
            return Self::One(sources);
        }
        let is_linear = axis.interpolation == Interpolation::Linear && !axis.is_filter();
        if inner == 1 && is_linear && u32::try_from(axis.len).is_ok() {
            let narrow = |(index, weight): (usize, T)| (index as u32, weight);
            return Self::Two(positions.map(|position| axis.two_taps(position).map(narrow)).collect());
        }
        Self::Many(positions.map(|position| axis.taps(position)).collect())
    }
}

impl<T: Float> Step<T> {
    #[inline(always)]
    fn run(&self, input: &[T], output: &mut [T], limits: &Limits) -> Result<(), LimitError> {
        let inner = self.inner;
        let (from, to) = ((self.len * inner).max(1), (self.outputs * inner).max(1));
        for (input, output) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
            limits.check_deadline()?;
            match &self.taps {
                Taps::One(sources) => take(input, self.len, inner, sources, output),
                Taps::Two(pairs) => {
                    for (y, [a, b]) in output.iter_mut().zip(pairs) {
                        *y = input[a.0 as usize] * a.1 + input[b.0 as usize] * b.1;
                    }
                }
                Taps::Many(taps) if inner == 1 => {
                    for (y, taps) in output.iter_mut().zip(taps) {
                        *y = taps.iter().map(|&(index, weight)| input[index] * weight).sum();
                    }
                }
                Taps::Many(taps) => {
                    for (output, taps) in output.chunks_exact_mut(inner.max(1)).zip(taps) {
                        limits.check_deadline()?;
                        output.fill(T::zero());
                        for &(index, weight) in taps {
                            let row = &input[index * inner..][..inner];
                            output.iter_mut().zip(row).for_each(|(y, &x)| *y += x * weight);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
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
                Just(Interpolation::Lanczos),
            ],
            align_corners: bool,
            antialias: bool,
            factor in proptest::option::of(0.3f64..3.0),
        ) {
            // A filter whose positions do not fit the lengths may see only the lobes that cancel each other.
            let factor = factor.filter(|_| !antialias && interpolation != Interpolation::Lanczos);
            let resampling = |&(len, outputs): &(usize, usize)| {
                Resampling { interpolation, align_corners, antialias, len, outputs, factor }
            };
            let axes: Vec<Resampling> = sizes.iter().map(resampling).collect();
            let lens: Vec<usize> = sizes.iter().map(|size| size.0).collect();
            let count = lens.iter().product::<usize>() * 2;
            let x: Vec<f64> = (0..count).map(|i| ((i * i * 7 + i * 3) % 23) as f64).collect();
            let array = ArrayD::from_shape_vec(IxDyn(&[&[2], &lens[..]].concat()), x.clone()).unwrap();
            let want = naive::interpolate(array.view(), &axes);
            let mut got = vec![7.0; want.len()];
            let outputs: Vec<usize> = sizes.iter().map(|size| size.1).collect();
            let mut scratch = vec![7.0; scratch_len(2, &lens, &outputs)];
            Resampler::new(&axes, 1).run(&x, &mut got, &mut scratch, &Limits::default()).unwrap();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-10, "{got} where {want} is expected");
            }
            // Both arrays again, as the lanes of one.
            let places = count / 2;
            let lanes: Vec<f64> = (0..count).map(|i| x[i % 2 * places + i / 2]).collect();
            let mut got = vec![7.0; want.len()];
            Resampler::new(&axes, 2).run(&lanes, &mut got, &mut scratch, &Limits::default()).unwrap();
            let outputs = want.len() / 2;
            for (i, got) in got.iter().enumerate() {
                let want = want.as_slice().unwrap()[i % 2 * outputs + i / 2];
                prop_assert!((got - want).abs() < 1e-10, "{got} where {want} is expected in a lane");
            }
        }
    }
}
