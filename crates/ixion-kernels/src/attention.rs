//! Scaled dot-product attention, computed in blocks of rows: for one head, and for many heads in `f32`.

mod heads;

use super::gemm::gemm;
use super::{Float, softmax};
pub use heads::{AddMask, Heads, Matrices, Place, Sizes};
use ndarray::{ArrayView2, ArrayViewMut2, Zip, s};

/// The number of rows whose scores are held at a time, whatever the total number of rows. Each row corresponds to a bit
/// of a `u64`.
pub const ROWS: usize = 64;

/// One head of attention.
#[derive(Debug)]
pub struct Head<'a, T> {
    /// L×E: one query per row.
    pub query: ArrayView2<'a, T>,
    /// S×E: one key per column of the scores.
    pub key: ArrayView2<'a, T>,
    /// S×V: one value per column of the scores.
    pub value: ArrayView2<'a, T>,
    /// L×S, added to the scores.
    pub mask: Option<ArrayView2<'a, T>>,
    /// The factor of the products of query and key.
    pub scale: f64,
    /// Whether row i only sees columns 0 to i.
    pub causal: bool,
    /// Whether a row that sees no column at all gives zeros; otherwise it gives NaN.
    pub blind_is_zero: bool,
}

/// The number of elements of scratch memory that [`attend`] needs for `columns` columns.
pub fn scratch_len(columns: usize) -> usize {
    columns.saturating_mul(ROWS)
}

/// softmax(scale · query·keyᵀ + mask) · value, as `torch.nn.functional.scaled_dot_product_attention`.
///
/// # Panics
/// Panics if shapes do not match, or scratch is shorter than [`scratch_len`]; callers check this beforehand.
pub fn attend<T: Float>(head: &Head<'_, T>, scratch: &mut [T], output: ArrayViewMut2<'_, T>) {
    attend_with(head, scratch, output, |_, _| {}, |_, _| {});
}

/// As [`attend`], with callbacks for each block of rows: `add` may add to the scores of the block, for masks that are not
/// given as a matrix, and `weigh` receives the weights, which are the softmax of the scores. Both get the index of the
/// first row.
///
/// # Panics
/// As [`attend`].
pub fn attend_with<T: Float>(
    head: &Head<'_, T>,
    scratch: &mut [T],
    mut output: ArrayViewMut2<'_, T>,
    mut add: impl FnMut(usize, ArrayViewMut2<'_, T>),
    mut weigh: impl FnMut(usize, ArrayView2<'_, T>),
) {
    let (rows, columns) = (head.query.nrows(), head.key.nrows());
    if columns == 0 {
        return output.fill(T::zero());
    }
    for start in (0..rows).step_by(ROWS) {
        let end = (start + ROWS).min(rows);
        let (shape, scores) = ((end - start, columns), &mut scratch[..(end - start) * columns]);
        let Ok(mut block) = ArrayViewMut2::from_shape(shape, &mut *scores) else { return };
        gemm(head.query.slice(s![start..end, ..]), head.key.t(), block.view_mut(), false);
        // With E = 0 the scores are 0, and the default scale is infinite.
        if head.query.ncols() > 0 {
            let scale = T::of(head.scale);
            block.mapv_inplace(|score| score * scale);
        }
        if let Some(mask) = &head.mask {
            Zip::from(&mut block)
                .and(mask.slice(s![start..end, ..]))
                .for_each(|score, &added| *score += added);
        }
        add(start, block.view_mut());
        if head.causal {
            for (row, mut scores) in block.rows_mut().into_iter().enumerate() {
                scores.slice_mut(s![(start + row + 1).min(columns)..]).fill(T::neg_infinity());
            }
        }
        let blind = if head.blind_is_zero { blind_rows(scores, columns) } else { 0 };
        softmax::softmax(None, scores, columns, 1);
        for (row, weights) in scores.chunks_exact_mut(columns).enumerate() {
            if blind >> row & 1 == 1 {
                weights.fill(T::zero());
            }
        }
        let Ok(block) = ArrayView2::from_shape(shape, scores) else { return };
        gemm(block, head.value.view(), output.slice_mut(s![start..end, ..]), false);
        weigh(start, block);
    }
}

/// A bit mask of the rows, at most [`ROWS`], that see no column.
fn blind_rows<T: Float>(scores: &[T], columns: usize) -> u64 {
    let rows = scores.chunks_exact(columns).enumerate();
    let blind = rows.filter(|(_, scores)| scores.iter().all(|&score| score == T::neg_infinity()));
    blind.fold(0, |bits, (row, _)| bits | 1 << row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::testing::noise;
    use ndarray::Array2;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            (rows, columns, inner, width) in (1usize..150, 0usize..9, 0usize..5, 1usize..5),
            (masked, by_blocks, causal, blind_is_zero) in any::<(bool, bool, bool, bool)>(),
        ) {
            let (query, key, value) = (noise(rows, inner, 1), noise(columns, inner, 2), noise(columns, width, 3));
            let hidden = |x: f64| if x > 0.5 { f64::NEG_INFINITY } else { x };
            let mask = noise(rows, columns, 4).mapv(hidden);
            let mask = masked.then(|| mask.view());
            let head = Head { query: query.view(), key: key.view(), value: value.view(), mask, scale: 0.7, causal, blind_is_zero };
            let mut output = Array2::from_elem((rows, width), 7.0);
            let mut weights = Array2::zeros((rows, columns));
            let mut scratch = vec![9.0; scratch_len(columns)];
            // The mask is passed as a whole, or added block by block.
            let unmasked = Head { mask: None, ..head };
            let (taken, added) = if by_blocks { (&unmasked, mask) } else { (&head, None) };
            let add = |start: usize, mut block: ArrayViewMut2<'_, f64>| {
                if let Some(added) = &added {
                    block += &added.slice(s![start..start + block.nrows(), ..]);
                }
            };
            attend_with(taken, &mut scratch, output.view_mut(), add, |start, block| {
                weights.slice_mut(s![start..start + block.nrows(), ..]).assign(&block);
            });
            let (want, want_weights) = naive::attention(&head);
            let pairs = output.iter().chain(&weights).zip(want.iter().chain(&want_weights));
            for (got, want) in pairs {
                prop_assert!((got - want).abs() < 1e-9 || (got.is_nan() && want.is_nan()), "{got} where {want}");
            }
        }
    }
}
