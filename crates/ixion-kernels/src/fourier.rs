//! Fourier transforms along axes of an array, in f64. The fast transform itself comes from the crate `rustfft`.

use ixion_tensor::Complex;
use ixion_tensor::{LimitError, Limits};
use rustfft::{Fft, FftDirection, FftPlanner};
use std::sync::Arc;

const ZERO: Complex<f64> = Complex::new(0.0, 0.0);

/// Lanes of an axis other than the last that are transformed at a time, so that whole cache lines are read.
const LANES: usize = 16;

/// The direction of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Factors of exp(−2πi·jk/n).
    Forward,
    /// Factors of exp(2πi·jk/n). The result is not divided by n.
    Inverse,
}

/// A transform of rows of one length, planned once.
pub struct Plan {
    fft: Arc<dyn Fft<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Plan {
    /// A transform of rows of `len` elements.
    pub fn new(len: usize, direction: Direction) -> Self {
        let direction = match direction {
            Direction::Forward => FftDirection::Forward,
            Direction::Inverse => FftDirection::Inverse,
        };
        let fft = FftPlanner::new().plan_fft(len, direction);
        let scratch = vec![ZERO; fft.get_inplace_scratch_len()];
        Self { fft, scratch }
    }

    /// Transforms one or more whole rows in place.
    pub fn run(&mut self, rows: &mut [Complex<f64>]) {
        if !rows.is_empty() {
            self.fft.process_with_scratch(rows, &mut self.scratch);
        }
    }
}

/// A complex array in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    values: Vec<Complex<f64>>,
    shape: Vec<usize>,
}

impl Signal {
    /// A signal of these values and this shape.
    ///
    /// # Panics
    /// Panics if the number of values does not match the shape.
    pub fn new(values: Vec<Complex<f64>>, shape: &[usize]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "the values must match the shape");
        Self { values, shape: shape.to_vec() }
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[Complex<f64>] {
        &self.values
    }

    /// Returns the values in row-major order.
    pub fn into_values(self) -> Vec<Complex<f64>> {
        self.values
    }

    /// Multiplies all values by a factor.
    pub fn scale(&mut self, factor: f64) {
        self.values.iter_mut().for_each(|value| *value *= factor);
    }

    /// Truncates an axis, or pads it with zeros at its end.
    pub fn resize(&mut self, axis: usize, len: usize) {
        let (old, inner) = (self.shape[axis], self.inner(axis));
        if old == len {
            return;
        }
        let kept = old.min(len) * inner;
        let mut values = vec![ZERO; self.outer(axis) * len * inner];
        let blocks =
            values.chunks_exact_mut((len * inner).max(1)).zip(self.values.chunks_exact((old * inner).max(1)));
        blocks.for_each(|(to, from)| to[..kept].copy_from_slice(&from[..kept]));
        self.values = values;
        self.shape[axis] = len;
    }

    /// Extends an axis from its first ⌊len/2⌋ + 1 elements, which must be present, to `len`: the spectrum of a real
    /// signal, whose element `len − k` is the conjugate of element k.
    pub fn mirror(&mut self, axis: usize, len: usize) {
        self.resize(axis, len / 2 + 1);
        self.resize(axis, len);
        let inner = self.inner(axis);
        for block in self.values.chunks_exact_mut((len * inner).max(1)) {
            for k in len / 2 + 1..len {
                let (from, to) = block.split_at_mut(k * inner);
                let from = &from[(len - k) * inner..][..inner];
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.conj());
            }
        }
    }

    /// Transforms along an axis, without any scaling.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn transform(
        &mut self,
        axis: usize,
        direction: Direction,
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let (len, inner) = (self.shape[axis], self.inner(axis));
        if self.values.is_empty() || len == 1 {
            return Ok(());
        }
        let mut plan = Plan::new(len, direction);
        if inner == 1 {
            for rows in self.values.chunks_mut(len * LANES) {
                limits.check_deadline()?;
                plan.run(rows);
            }
            return Ok(());
        }
        let mut rows = vec![ZERO; len * LANES.min(inner)];
        for block in self.values.chunks_exact_mut(len * inner) {
            for first in (0..inner).step_by(LANES) {
                limits.check_deadline()?;
                let lanes = LANES.min(inner - first);
                let rows = &mut rows[..len * lanes];
                for (i, line) in block.chunks_exact(inner).enumerate() {
                    let line = &line[first..][..lanes];
                    line.iter().enumerate().for_each(|(lane, &value)| rows[lane * len + i] = value);
                }
                plan.run(rows);
                for (i, line) in block.chunks_exact_mut(inner).enumerate() {
                    let line = &mut line[first..][..lanes];
                    line.iter_mut().enumerate().for_each(|(lane, value)| *value = rows[lane * len + i]);
                }
            }
        }
        Ok(())
    }

    fn outer(&self, axis: usize) -> usize {
        self.shape[..axis].iter().product()
    }

    fn inner(&self, axis: usize) -> usize {
        self.shape[axis + 1..].iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::*;
    use crate::naive;
    use proptest::prelude::*;

    fn noise(shape: &[usize], seed: usize) -> Vec<Complex<f64>> {
        let parts = integer_noise(&[shape, &[2]].concat(), seed).into_raw_vec_and_offset().0;
        parts.chunks_exact(2).map(|part| Complex::new(part[0], part[1])).collect()
    }

    proptest! {
        #[test]
        fn it_equals_the_definition(
            shape in proptest::collection::vec(1usize..20, 1..4),
            axis in 0usize..3,
            inverse: bool,
            seed: usize,
        ) {
            let axis = axis % shape.len();
            let direction = if inverse { Direction::Inverse } else { Direction::Forward };
            let values = noise(&shape, seed);
            let mut signal = Signal::new(values.clone(), &shape);
            signal.transform(axis, direction, &Limits::default()).unwrap();
            let inner: usize = shape[axis + 1..].iter().product();
            for (position, got) in signal.values().iter().enumerate() {
                let (k, start) = (position / inner % shape[axis], position % inner + position / inner / shape[axis] * shape[axis] * inner);
                let lane: Vec<Complex<f64>> = values[start..].iter().step_by(inner).take(shape[axis]).copied().collect();
                let want = naive::fourier(&lane, k, inverse);
                prop_assert!((got - want).norm() < 1e-9, "{got} where {want} is expected");
            }
        }

        #[test]
        fn a_mirrored_spectrum_equals_that_of_a_real_signal(len in 1usize..12, inner in 1usize..4, seed: usize) {
            let mut real: Vec<Complex<f64>> = noise(&[len, inner], seed);
            real.iter_mut().for_each(|value| value.im = 0.0);
            let mut whole = Signal::new(real, &[len, inner]);
            whole.transform(0, Direction::Forward, &Limits::default()).unwrap();
            let mut half = whole.clone();
            half.resize(0, len / 2 + 1);
            half.mirror(0, len);
            for (got, want) in half.values().iter().zip(whole.values()) {
                prop_assert!((got - want).norm() < 1e-9);
            }
        }
    }

    proptest! {
        /// The bounds of the book's page on numerics, relative to the definition in f64: no element can be larger than
        /// the sum of all magnitudes. Lengths with large prime factors use another algorithm than others.
        #[test]
        fn transforms_are_as_exact_as_promised(len in prop_oneof![1usize..300, Just(509), Just(512), Just(720)], inverse: bool, seed: usize) {
            let direction = if inverse { Direction::Inverse } else { Direction::Forward };
            let values: Vec<Complex<f64>> = noise(&[len], seed).into_iter().map(|value| value / 3.0).collect();
            let sum: f64 = values.iter().map(|value| value.norm()).sum();
            let mut found = values.clone();
            Plan::new(len, direction).run(&mut found);
            for (k, found) in found.iter().enumerate() {
                let want = naive::fourier(&values, k, inverse);
                prop_assert!((found - want).norm() <= 1e-14 * sum, "{found} where {want} is expected");
            }
        }
    }

    #[test]
    fn axes_grow_and_shrink() {
        let mut signal = Signal::new(noise(&[2, 3, 2], 1), &[2, 3, 2]);
        let before = signal.clone();
        signal.resize(1, 4);
        assert_eq!(signal.values()[6..8], [ZERO; 2]);
        signal.resize(1, 3);
        assert_eq!(signal, before);
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        assert!(signal.transform(1, Direction::Forward, &late).is_err());
    }
}
