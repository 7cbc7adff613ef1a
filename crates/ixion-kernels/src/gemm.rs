//! Matrix products on slices. The loops are our own, so that operands are packed into memory that a thread keeps, and
//! results have the same bits on any number of threads; those of thin products are the crate `gemm`'s.

mod blocked;
mod integers;
mod problem;
mod tile;

use super::Float;
use super::parallel::{for_each_item, threads};
use blocked::{Blocked, blocked};
use gemm_common::Parallelism;
pub use integers::gemm_integers;
use ixion_tensor::DType;
use ndarray::{ArrayView2, ArrayViewMut2};
use problem::Problem;
use smallvec::SmallVec;
use std::convert::Infallible;

/// C = A·B, or C = C + A·B with `accumulate`: (m×k)·(k×n) → m×n, of any strides. Within a pool, threads share the work.
///
/// # Panics
/// Panics if the shapes do not match; callers check this beforehand.
pub fn gemm<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, c: ArrayViewMut2<'_, T>, accumulate: bool) {
    multiply(a, b, c, accumulate, threads());
}

/// As [`gemm()`], on the calling thread only, for use where other threads have other work.
///
/// # Panics
/// As [`gemm()`].
pub fn gemm_here<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
    accumulate: bool,
) {
    multiply(a, b, c, accumulate, 1);
}

fn multiply<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
    accumulate: bool,
    threads: usize,
) {
    let ((m, k), (k_b, n)) = (a.dim(), b.dim());
    assert!(k == k_b && c.dim() == (m, n), "{m}×{k} · {k_b}×{n} does not give {:?}", c.dim());
    let strides = |strides: &[isize]| [strides[0], strides[1]];
    let problem = Problem {
        dims: [m, n, k],
        a: a.as_ptr(),
        a_strides: strides(a.strides()),
        b: b.as_ptr(),
        b_strides: strides(b.strides()),
        c_strides: strides(c.strides()),
        c: c.as_mut_ptr(),
        accumulate,
    };
    // SAFETY: all three are ndarray views, so every element that shape and strides reach is valid; C is borrowed mutably
    // and thus does not alias A or B, and its elements are distinct, as an `ArrayViewMut2` cannot overlap itself.
    unsafe { problem.turned().solve(threads) }
}

/// A function that computes a problem with valid fields.
type Method<T> = unsafe fn(Problem<T>);

/// The number of multiply-accumulate operations that justifies another thread.
const MACS_PER_THREAD: usize = 1 << 19;

/// The output may be split at multiples of these numbers of rows and columns. Blocks compute an element in the same way
/// wherever it is; the loops for vectors do so while parts stay too long for the loop for small products.
const BLOCK_CUTS: [usize; 2] = [64, 24];
const THIN_CUTS: [usize; 2] = [512, 512];

impl<T: Float> Problem<T> {
    /// # Safety
    /// All elements of A and B must be readable, and those of C writable and distinct.
    unsafe fn solve(self, threads: usize) {
        let [m, n, k] = self.dims;
        if m == 0 || n == 0 {
            return;
        }
        let parts = threads.min(m.saturating_mul(n).saturating_mul(k) / MACS_PER_THREAD).max(1);
        let (has_blocks, by_blocks, by_crate): (bool, Method<T>, Method<T>) = match T::DTYPE {
            DType::F32 => (f32::kernels().is_some(), Self::by_blocks_of::<f32>, Self::by_crate_of::<f32>),
            _ => (f64::kernels().is_some(), Self::by_blocks_of::<f64>, Self::by_crate_of::<f64>),
        };
        let (method, cuts) = match has_blocks {
            _ if k == 0 || self.is_thin() => (by_crate, THIN_CUTS),
            true => (by_blocks, BLOCK_CUTS),
            // How the crate computes a part may depend on its size, so the output is not split.
            false => (by_crate, [usize::MAX; 2]),
        };
        if parts == 1 {
            // SAFETY: the caller's promise.
            unsafe { method(self) };
            return;
        }
        let mut all = SmallVec::new();
        self.cut(parts, cuts, &mut all);
        // No part fails.
        _ = for_each_item(all, &|part: Self| {
            // SAFETY: the caller's promise, of parts that share no element of C.
            unsafe { method(part) };
            Ok::<(), Infallible>(())
        });
    }

    /// # Safety
    /// As [`Problem::solve`], and `S` must be `T`.
    unsafe fn by_crate_of<S: Blocked>(self) {
        let Problem { dims: [m, n, k], a, a_strides, b, b_strides, c, c_strides, accumulate } =
            self.cast::<S>().upwards();
        let (one, threads) = (S::one(), Parallelism::None);
        // SAFETY: the caller's promise. C is not read when it is not accumulated to.
        unsafe {
            S::product()(
                m,
                n,
                k,
                c,
                c_strides[1],
                c_strides[0],
                accumulate,
                a,
                a_strides[1],
                a_strides[0],
                b,
                b_strides[1],
                b_strides[0],
                one,
                one,
                false,
                false,
                false,
                threads,
            );
        }
    }

    /// # Safety
    /// As [`Problem::solve`], and `S` must be `T`.
    unsafe fn by_blocks_of<S: Blocked>(self) {
        if let Some(kernels) = S::kernels() {
            // SAFETY: the caller's promise; the processor has the instructions that the kernels are compiled for.
            unsafe { blocked(&self.cast::<S>(), kernels) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::Array2;
    use proptest::prelude::*;

    fn matrix(rows: usize, cols: usize, seed: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, cols), |(i, j)| ((i * 7 + j * 13 + seed) % 11) as f64 - 5.0)
    }

    /// Values whose sums are rounded, so that a different order of summation shows.
    fn rough(rows: usize, cols: usize, seed: usize) -> Array2<f32> {
        Array2::from_shape_fn((rows, cols), |(i, j)| ((i * 31 + j * 17 + seed) % 97) as f32 / 7.3 - 6.1)
    }

    /// The length and the strides of a matrix that is stored within a larger one.
    fn spread(rows: usize, cols: usize, turn: bool, gap: usize) -> (usize, [isize; 2]) {
        let (inner, outer) = if turn { (rows, cols) } else { (cols, rows) };
        let (step, line) = (gap as isize, ((inner * gap).max(1) + gap) as isize);
        (outer * line as usize + 1, if turn { [step, line] } else { [line, step] })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        /// Only the blocked loops, also for sizes for which other loops are used, in f32, whose tiles differ from those
        /// of f64. Integers are exact in any order of summation.
        #[test]
        fn blocks_equal_the_naive_product(
            (m, k, n) in prop_oneof![
                3 => (1usize..100, 1usize..30, 1usize..60),
                1 => (1usize..20, 380usize..800, 1usize..20),
                1 => (Just(1usize), 1usize..500, 1usize..200),
            ],
            turns: [bool; 3],
            gaps in [1usize..3, 1usize..3, 1usize..3],
            accumulate: bool,
        ) {
            let number = |index: usize, seed: usize| ((index * 3 + index / 5 + seed) % 7) as f32 - 3.0;
            let stored = |rows, cols, which: usize| {
                let (len, strides) = spread(rows, cols, turns[which], gaps[which]);
                ((0..len).map(|index| number(index, which)).collect::<Vec<f32>>(), strides)
            };
            let ((a, a_strides), (b, b_strides), (mut c, c_strides)) = (stored(m, k, 0), stored(k, n, 1), stored(m, n, 2));
            let view = |data: &[f32], strides: [isize; 2], rows: usize, cols: usize| {
                Array2::from_shape_fn((rows, cols), |(i, j)| data[i * strides[0] as usize + j * strides[1] as usize])
            };
            let before = c.clone();
            let mut want = naive::matmul(view(&a, a_strides, m, k).view(), view(&b, b_strides, k, n).view());
            if accumulate {
                want += &view(&c, c_strides, m, n);
            }
            let Some(kernels) = f32::kernels() else { return Ok(()) };
            let problem = Problem {
                dims: [m, n, k],
                a: a.as_ptr(),
                a_strides,
                b: b.as_ptr(),
                b_strides,
                c: c.as_mut_ptr(),
                c_strides,
                accumulate,
            };
            // SAFETY: the vectors hold all elements that shapes and strides reach; C is borrowed mutably.
            unsafe { blocked(&problem.turned(), kernels) };
            prop_assert_eq!(view(&c, c_strides, m, n), want);
            let touched: std::collections::HashSet<usize> = (0..m * n)
                .map(|index| index / n * c_strides[0] as usize + index % n * c_strides[1] as usize)
                .collect();
            let kept = (0..c.len()).filter(|index| !touched.contains(index)).all(|index| c[index] == before[index]);
            prop_assert!(kept, "elements between those of C were overwritten");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn large_products_equal_the_naive_one(
            (m, k, n) in prop_oneof![
                2 => (1usize..150, 1usize..700, 1usize..150),
                1 => (250usize..600, 1usize..40, 1usize..40),
                1 => (1usize..40, 1usize..40, 250usize..600),
            ],
            turn_a: bool,
            turn_b: bool,
            turn_c: bool,
            accumulate: bool,
        ) {
            let stored = |rows, cols, seed, turn| if turn { matrix(cols, rows, seed) } else { matrix(rows, cols, seed) };
            let (a, b, mut c) = (stored(m, k, 1, turn_a), stored(k, n, 2, turn_b), stored(m, n, 3, turn_c));
            let a = if turn_a { a.t() } else { a.view() };
            let b = if turn_b { b.t() } else { b.view() };
            let mut c = if turn_c { c.view_mut().reversed_axes() } else { c.view_mut() };
            let mut want = if accumulate { c.to_owned() } else { Array2::zeros((m, n)) };
            want += &naive::matmul(a, b);
            gemm(a, b, c.view_mut(), accumulate);
            prop_assert_eq!(c, want);
        }

        #[test]
        fn threads_change_no_bit(
            (m, k, n) in prop_oneof![
                (1usize..300, 1usize..600, 1usize..300),
                (Just(1), 1000usize..2000, 700usize..1500),
                (700usize..1500, 1000usize..2000, Just(1)),
            ],
            turn_a: bool,
            turn_b: bool,
        ) {
            let stored = |rows, cols, seed, turn| if turn { rough(cols, rows, seed) } else { rough(rows, cols, seed) };
            let (a, b) = (stored(m, k, 1, turn_a), stored(k, n, 2, turn_b));
            let (alone, pooled) = on_threads(&[1, 2, 3], || {
                let a = if turn_a { a.t() } else { a.view() };
                let b = if turn_b { b.t() } else { b.view() };
                let mut c = Array2::from_elem((m, n), 0.1f32);
                gemm(a, b, c.view_mut(), true);
                c
            });
            prop_assert!(pooled.iter().all(|c| *c == alone));
        }

        #[test]
        fn it_equals_the_naive_product(m in 0usize..12, k in 0usize..12, n in 0usize..12, turn: bool, accumulate: bool) {
            let a = matrix(m, k, 1);
            let stored = if turn { matrix(n, k, 2) } else { matrix(k, n, 2) };
            let b = if turn { stored.t() } else { stored.view() };
            let mut c = matrix(m, n, 3);
            let mut want = if accumulate { c.clone() } else { Array2::zeros((m, n)) };
            want += &naive::matmul(a.view(), b);
            gemm(a.view(), b, c.view_mut(), accumulate);
            prop_assert_eq!(c, want);
        }
    }
}
