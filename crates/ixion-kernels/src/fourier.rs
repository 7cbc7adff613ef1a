//! Fourier transforms along axes of arrays, in the type of their elements. The fast transform of a complex row comes from
//! the crate `rustfft`.
//!
//! A real signal is transformed as a complex one of half its length, whose elements are pairs of the signal's. Lines along
//! an axis other than the last are gathered as rows, transformed, and written back.

mod lines;
mod plan;
mod real;

pub use lines::{Lines, complete, signals, spectra, transform, transpose};
pub use plan::{Direction, Plan, Real};
pub use real::RealPlan;

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ixion_tensor::{Complex, Limits};
    use proptest::prelude::*;

    fn noise<T: Real>(count: usize, seed: usize) -> Vec<Complex<T>> {
        let parts = integer_noise(&[count, 2], seed).into_raw_vec_and_offset().0;
        parts.chunks_exact(2).map(|part| Complex::new(T::of(part[0]), T::of(part[1]))).collect()
    }

    fn real_noise<T: Real>(count: usize, seed: usize) -> Vec<T> {
        noise::<T>(count, seed).into_iter().map(|value| value.re).collect()
    }

    fn complex<T: Real>(values: &[T]) -> Vec<Complex<T>> {
        values.iter().map(|&value| Complex::new(value, T::zero())).collect()
    }

    fn direction(inverse: bool) -> Direction {
        if inverse { Direction::Inverse } else { Direction::Forward }
    }

    /// The line of an array to which the element at a position belongs, and the position in it.
    fn line_at<E: Copy>(values: &[E], lines: Lines, position: usize) -> (Vec<E>, usize) {
        let (len, inner) = (lines.len, lines.inner);
        let start = position % inner + position / inner / len * len * inner;
        (values[start..].iter().step_by(inner).take(len).copied().collect(), position / inner % len)
    }

    /// The sum of all magnitudes, and the distance of two numbers, in f64.
    fn sum<T: Real>(values: &[Complex<T>]) -> f64 {
        values.iter().map(|value| wide(*value).norm()).sum()
    }

    fn wide<T: Real>(value: Complex<T>) -> Complex<f64> {
        let part = |part: T| part.to_f64().unwrap_or(f64::NAN);
        Complex::new(part(value.re), part(value.im))
    }

    /// Compares transforms of one type with the definition; errors are relative to the sum of all magnitudes.
    fn check<T: Real>(lines: Lines, blocks: usize, inverse: bool, seed: usize, bound: f64) {
        let (limits, way) = (Limits::default(), direction(inverse));
        let (len, inner, half) = (lines.len, lines.inner, lines.len / 2 + 1);
        let values = noise::<T>(blocks * len * inner, seed);
        let (got, pooled) = on_threads(&[1, 3], || {
            let mut got = values.clone();
            transform(&mut got, lines, way, &limits).unwrap();
            got
        });
        assert!(pooled.iter().all(|other| *other == got), "threads change bits");
        for (position, got) in got.iter().enumerate() {
            let (line, k) = line_at(&values, lines, position);
            let line: Vec<Complex<f64>> = line.into_iter().map(wide).collect();
            let want = naive::fourier(&line, k, inverse);
            assert!((wide(*got) - want).norm() <= bound * sum(&line), "{got} where {want} is expected");
        }
        let values = real_noise::<T>(blocks * len * inner, seed);
        let mut halves = vec![Complex::new(T::one(), T::one()); blocks * half * inner];
        spectra(&values, lines, (&mut halves, half), way, &limits).unwrap();
        let whole = complex(&values);
        let shorter = Lines::new(half, inner);
        for (position, got) in halves.iter().enumerate() {
            let at = position % (half * inner) + position / (half * inner) * len * inner;
            let (line, k) = line_at(&whole, lines, at);
            let line: Vec<Complex<f64>> = line.into_iter().map(wide).collect();
            let want = naive::fourier(&line, k, inverse);
            assert!((wide(*got) - want).norm() <= bound * sum(&line), "{got} where {want} is expected");
        }
        let mut back = vec![T::one(); values.len()];
        signals(&halves, lines, &mut back, direction(!inverse), &limits).unwrap();
        for (position, (got, want)) in back.iter().zip(&values).enumerate() {
            let at = position % inner + position / (len * inner) * half * inner;
            let bound = bound * (1.0 + 2.0 * sum(&line_at(&halves, shorter, at).0));
            let (got, want) = (got.to_f64().unwrap(), want.to_f64().unwrap() * len as f64);
            assert!((got - want).abs() <= bound, "{got} where {want} is expected");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn lines_are_transformed_by_the_definition(
            (blocks, len, inner) in (1usize..4, 1usize..40, prop_oneof![Just(1usize), 2usize..40]),
            inverse: bool,
            seed: usize,
        ) {
            check::<f64>(Lines::new(len, inner), blocks, inverse, seed, 1e-14);
            check::<f32>(Lines::new(len, inner), blocks, inverse, seed, 1e-6);
        }

        #[test]
        fn the_other_half_of_a_spectrum_is_the_conjugate_of_the_first(
            shape in proptest::collection::vec(1usize..7, 1..4),
            kept in 0usize..8,
            seed: usize,
        ) {
            let (limits, last) = (Limits::default(), shape.len() - 1);
            let axes: Vec<usize> = (0..last).filter(|axis| kept >> axis & 1 == 1).chain([last]).collect();
            let count: usize = shape.iter().product();
            let values = real_noise::<f64>(count, seed);
            let mut want = complex(&values);
            let lines = |axis: usize| Lines::new(shape[axis], shape[axis + 1..].iter().product());
            for &axis in &axes {
                transform(&mut want, lines(axis), Direction::Forward, &limits).unwrap();
            }
            let (len, half) = (shape[last], shape[last] / 2 + 1);
            let mut got = vec![Complex::new(9.0, 9.0); count];
            spectra(&values, lines(last), (&mut got, len), Direction::Forward, &limits).unwrap();
            for &axis in axes.iter().filter(|&&axis| axis != last) {
                transform(&mut got, lines(axis).within(len, half), Direction::Forward, &limits).unwrap();
            }
            complete(&mut got, &shape, &axes, &limits).unwrap();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).norm() < 1e-9, "{got} where {want} is expected");
            }
        }

        /// The bounds of the book's page on numerics, relative to the definition in f64: no element can be larger than
        /// the sum of all magnitudes. Lengths with large prime factors use another algorithm than others.
        #[test]
        fn transforms_are_as_exact_as_promised(len in prop_oneof![1usize..300, Just(509), Just(512), Just(720)], inverse: bool, seed: usize) {
            let values: Vec<Complex<f64>> = noise::<f64>(len, seed).into_iter().map(|value| value / 3.0).collect();
            let singles: Vec<Complex<f32>> =
                values.iter().map(|value| Complex::new(value.re as f32, value.im as f32)).collect();
            let rounded: Vec<Complex<f64>> = singles.iter().copied().map(wide).collect();
            let (mut found, mut single) = (values.clone(), singles);
            let (plan, short) = (Plan::new(len, direction(inverse)), Plan::new(len, direction(inverse)));
            plan.run(&mut found, &mut vec![Complex::new(0.0, 0.0); plan.scratch()]);
            short.run(&mut single, &mut vec![Complex::new(0.0, 0.0); short.scratch()]);
            for (k, (found, single)) in found.iter().zip(single).enumerate() {
                let want = naive::fourier(&values, k, inverse);
                prop_assert!((found - want).norm() <= 1e-14 * sum(&values), "{found} where {want} is expected");
                let want = naive::fourier(&rounded, k, inverse);
                prop_assert!((wide(single) - want).norm() <= 1e-6 * sum(&rounded), "{single} where {want} is expected");
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        let rows: Vec<u32> = (0..20 * 33).collect();
        let mut columns = vec![0; rows.len()];
        transpose(&rows, 33, &mut columns, &Limits::default()).unwrap();
        assert!((0..columns.len()).all(|at| columns[at] == rows[at % 20 * 33 + at / 20]));
    }

    #[test]
    fn plans_are_kept_up_to_a_number() {
        for len in (1..50).chain([7, 48]) {
            let plan = Plan::<f32>::new(len, Direction::Forward);
            let mut row = vec![Complex::new(1.0, 0.0); len];
            plan.run(&mut row, &mut vec![Complex::new(0.0, 0.0); plan.scratch()]);
            assert!(
                (row[0].re - len as f32).abs() < 1e-3 && row[1..].iter().all(|value| value.norm() < 1e-3)
            );
        }
    }

    #[test]
    fn a_deadline_that_has_passed_ends_a_transform() {
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        for lines in [Lines::new(4, 1), Lines::new(2, 2)] {
            let mut values = noise::<f64>(4, 1);
            assert!(transform(&mut values, lines, Direction::Forward, &late).is_err());
        }
        assert!(transform::<f32>(&mut [], Lines::new(4, 2), Direction::Forward, &late).is_ok());
    }
}
