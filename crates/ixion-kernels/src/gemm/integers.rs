//! Matrix products of integers that wrap around.

use crate::widest;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};

/// Outputs of fewer columns are computed by dot products, because rows would be too short for vectors.
const FEW_COLUMNS: usize = 6;

/// Columns that are computed at a time, so that those of B stay in the first-level cache.
const COLUMNS: usize = 32;

/// Rows of B that are multiplied together, so that sums are loaded and stored less often.
const TOGETHER: usize = 4;

/// C = A·B: (m×k)·(k×n) → m×n, of any strides. Sums and products wrap around.
///
/// # Panics
/// Panics if the shapes do not match; callers check this beforehand.
pub fn gemm_integers(a: ArrayView2<'_, i64>, b: ArrayView2<'_, i64>, mut c: ArrayViewMut2<'_, i64>) {
    let ((m, k), (k_b, n)) = (a.dim(), b.dim());
    assert!(k == k_b && c.dim() == (m, n), "{m}×{k} · {k_b}×{n} does not give {:?}", c.dim());
    if k == 0 || n == 0 {
        c.fill(0);
        return;
    }
    // Contiguous factors are not copied.
    let a = a.as_standard_layout();
    let Some(a) = a.as_slice() else { return };
    for (b, mut c) in b.axis_chunks_iter(Axis(1), COLUMNS).zip(c.axis_chunks_iter_mut(Axis(1), COLUMNS)) {
        let b = if b.ncols() < FEW_COLUMNS { b.reversed_axes() } else { b };
        let b = b.as_standard_layout();
        let Some(b) = b.as_slice() else { return };
        let mut sums = [0; COLUMNS];
        for (a, mut c) in a.chunks_exact(k).zip(c.rows_mut()) {
            match c.as_slice_mut() {
                Some(c) => widest!(|| multiply_row(a, b, c)),
                None => {
                    widest!(|| multiply_row(a, b, &mut sums[..c.len()]));
                    c.iter_mut().zip(&sums).for_each(|(c, &sum)| *c = sum);
                }
            }
        }
    }
}

/// Multiplies a row of A by B, whose rows, or, if these are short, columns, are contiguous.
#[inline(always)]
fn multiply_row(a: &[i64], b: &[i64], c: &mut [i64]) {
    if c.len() < FEW_COLUMNS {
        let add = |sum: i64, (&a, &b): (&i64, &i64)| sum.wrapping_add(a.wrapping_mul(b));
        c.iter_mut().zip(b.chunks_exact(a.len())).for_each(|(c, b)| *c = a.iter().zip(b).fold(0, add));
        return;
    }
    c.fill(0);
    for (a, b) in a.chunks(TOGETHER).zip(b.chunks(TOGETHER * c.len())) {
        let row = |index: usize| &b[index * c.len()..][..c.len()];
        if let &[a0, a1, a2, a3] = a {
            let rows = row(0).iter().zip(row(1)).zip(row(2).iter().zip(row(3)));
            for (c, ((b0, b1), (b2, b3))) in c.iter_mut().zip(rows) {
                let first = a0.wrapping_mul(*b0).wrapping_add(a1.wrapping_mul(*b1));
                let last = a2.wrapping_mul(*b2).wrapping_add(a3.wrapping_mul(*b3));
                *c = c.wrapping_add(first).wrapping_add(last);
            }
            continue;
        }
        for (&a, b) in a.iter().zip(b.chunks_exact(c.len())) {
            c.iter_mut().zip(b).for_each(|(c, &b)| *c = c.wrapping_add(a.wrapping_mul(b)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_sums_by_definition(
            (m, k, n) in (0usize..11, 0usize..20, 0usize..40),
            turns: [bool; 3],
            seed: i64,
        ) {
            let stored = |rows: usize, columns: usize, turn: bool, step: i64| {
                let dim = if turn { (columns, rows) } else { (rows, columns) };
                Array2::from_shape_fn(dim, |(i, j)| {
                    seed.wrapping_mul(i as i64 + 3).wrapping_add(j as i64 * step) >> (j % 60)
                })
            };
            let (a, b, mut c) = (stored(m, k, turns[0], 5), stored(k, n, turns[1], 7), stored(m, n, turns[2], 1));
            let a = if turns[0] { a.t() } else { a.view() };
            let b = if turns[1] { b.t() } else { b.view() };
            let mut c = if turns[2] { c.view_mut().reversed_axes() } else { c.view_mut() };
            gemm_integers(a, b, c.view_mut());
            for ((i, j), &got) in c.indexed_iter() {
                let want = (0..k).fold(0i64, |sum, k| sum.wrapping_add(a[[i, k]].wrapping_mul(b[[k, j]])));
                prop_assert_eq!(got, want);
            }
        }
    }
}
