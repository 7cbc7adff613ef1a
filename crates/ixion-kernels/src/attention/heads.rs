//! Scaled dot-product attention with many heads, in `f32`.
//!
//! Queries, keys and values are read in place. The keys and values of one head are packed, and stay in the cache while
//! blocks of queries are processed. The scores of a block are kept only until the values have been weighted with them.

use crate::isa::{Isa, isa};
use crate::packed::{
    Factors, PanelsView, Results, Size, TERMS, Target, multiply_alone, pack_columns, pack_rows,
};
use crate::parallel::{for_each_item, threads};
use crate::{softmax, widest};
use ixion_tensor::Limits;
use ixion_tensor::Result;
use ndarray::{ArrayViewMut2, ShapeBuilder};
use std::fmt;
use std::ops::Range;

/// The matrices of all heads. Each row is contiguous.
#[derive(Debug, Clone, Copy)]
pub struct Matrices<'a> {
    /// The elements, starting at the first one of the first matrix.
    pub data: &'a [f32],
    /// The strides of the matrices.
    pub place: Place,
}

/// The strides of the matrices of all heads, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From one sample to the next.
    pub sample: usize,
    /// From one head of a sample to the next.
    pub head: usize,
    /// From one row to the next.
    pub row: usize,
    /// The number of consecutive heads that share one matrix, at least 1.
    pub shared: usize,
}

impl Place {
    fn start(&self, sample: usize, head: usize) -> usize {
        sample * self.sample + head / self.shared.max(1) * self.head
    }
}

/// The number of heads and the sizes of their matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// N: samples.
    pub samples: usize,
    /// Heads per sample.
    pub heads: usize,
    /// L: queries per head.
    pub rows: usize,
    /// S: keys and values per head, at least 1.
    pub columns: usize,
    /// E: length of queries and keys, at least 1.
    pub width: usize,
    /// V: length of values.
    pub out_width: usize,
}

/// Adds a mask to a block of score rows, given `[sample, head]` and the index of the first row.
pub type AddMask<'a> = dyn Fn([usize; 2], usize, ArrayViewMut2<'_, f32>) + Sync + 'a;

/// Attention over all heads.
#[derive(Clone, Copy)]
pub struct Heads<'a> {
    /// The number of heads and the sizes of their matrices.
    pub sizes: Sizes,
    /// L×E: one query per row.
    pub query: Matrices<'a>,
    /// S×E: one key per column of the scores.
    pub key: Matrices<'a>,
    /// S×V: one value per column of the scores.
    pub value: Matrices<'a>,
    /// Adds the mask to the scores.
    pub mask: Option<&'a AddMask<'a>>,
    /// The factor of the products of query and key.
    pub scale: f32,
    /// Whether row i only sees columns 0 to i.
    pub causal: bool,
    /// Whether a row that sees no column at all gives zeros; otherwise it gives NaN.
    pub blind_is_zero: bool,
}

impl fmt::Debug for Heads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heads").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

/// The number of scores per block, which should stay in or near the first-level cache.
const SCORES: usize = 1 << 14;

/// A block holds up to this many queries even if their scores exceed [`SCORES`].
const MIN_ROWS: usize = 14;

/// The maximum number of parts with scratch memory of their own.
const MAX_PARTS: usize = 16;

/// The number of parts into which the work is split: more than threads if possible, so that a thread that finishes early
/// can take another part.
fn parts_of(threads: usize) -> usize {
    if threads <= 1 { 1 } else { (2 * threads).min(MAX_PARTS) }
}

/// How the work is split, and the scratch memory that it needs.
#[derive(Debug, Clone, Copy)]
struct Cuts {
    /// Queries per block, and the number of blocks.
    rows: usize,
    blocks: usize,
    /// The distance between rows of scores, in elements.
    scores: usize,
    /// The number of elements of packed keys, packed values and scores.
    lens: [usize; 3],
}

impl Sizes {
    fn cuts(&self, isa: Isa) -> Cuts {
        let scores = self.columns.next_multiple_of(isa.lanes());
        let most = (SCORES / scores.max(1)).max(MIN_ROWS);
        let blocks = self.rows.div_ceil(most).max(1);
        let rows = self.rows.div_ceil(blocks);
        let key = PanelsView::len_of(isa, self.columns, self.width);
        let value = PanelsView::len_of(isa, self.out_width, self.columns);
        // An upper bound that also covers fewer rows or columns, whose blocks are split differently.
        let block = self.rows.saturating_mul(scores).min(scores.saturating_mul(MIN_ROWS).max(SCORES));
        Cuts { rows, blocks, scores, lens: [key, value, block] }
    }

    fn tasks(&self, cuts: &Cuts) -> usize {
        self.samples.saturating_mul(self.heads).saturating_mul(cuts.blocks)
    }

    /// The number of elements of scratch memory that [`Heads::attend`] needs at least, on any number of threads.
    pub fn least_scratch(&self) -> usize {
        self.part(isa())
    }

    /// The number of elements of scratch memory that the threads of the current pool can make use of, for these and all
    /// smaller sizes.
    pub fn scratch(&self) -> usize {
        self.scratch_for(isa())
    }

    fn part(&self, isa: Isa) -> usize {
        self.cuts(isa).lens.iter().fold(0usize, |all, &len| all.saturating_add(len))
    }

    fn scratch_for(&self, isa: Isa) -> usize {
        let tasks = self.tasks(&self.cuts(isa));
        self.part(isa).saturating_mul(tasks.min(parts_of(threads())).max(1))
    }
}

/// The operands, the output and the limits of a computation.
struct Attention<'a> {
    heads: &'a Heads<'a>,
    isa: Isa,
    cuts: Cuts,
    output: Output,
    len: usize,
    place: Place,
    limits: &'a Limits,
}

/// A pointer to the first result.
#[derive(Clone, Copy)]
struct Output(*mut f32);

// SAFETY: it points to a slice that `attend` borrows mutably; threads write disjoint results.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

impl Heads<'_> {
    /// Computes softmax(scale · query·keyᵀ + mask) · value for all heads; each result is L×V. The threads of the current
    /// pool share the work.
    ///
    /// # Errors
    /// Fails if the deadline has passed.
    ///
    /// # Panics
    /// Panics if a slice is too short for its sizes, `columns` or `width` is 0, results overlap, or scratch is shorter
    /// than [`Sizes::least_scratch`]; callers check this beforehand.
    pub fn attend(&self, output: (&mut [f32], Place), scratch: &mut [f32], limits: &Limits) -> Result<()> {
        self.attend_for(isa(), output, scratch, limits)
    }

    fn attend_for(
        &self,
        isa: Isa,
        (output, place): (&mut [f32], Place),
        scratch: &mut [f32],
        limits: &Limits,
    ) -> Result<()> {
        let sizes = self.sizes;
        if sizes.samples == 0 || sizes.heads == 0 || sizes.rows == 0 || sizes.out_width == 0 {
            return Ok(());
        }
        assert!(
            sizes.columns > 0 && sizes.width > 0,
            "there must be columns, and queries and keys must not be empty"
        );
        assert!(place.is_injective(&sizes), "results overlap");
        assert!(
            place.end(&sizes).is_some_and(|end| end <= output.len()),
            "the output is too short for the results"
        );
        let cuts = sizes.cuts(isa);
        let (len, output) = (output.len(), Output(output.as_mut_ptr()));
        let attention = Attention { heads: self, isa, cuts, output, len, place, limits };
        let tasks = sizes.tasks(&cuts);
        assert!(scratch.len() >= sizes.part(isa), "scratch memory is too short");
        let parts = parts_of(threads()).min(tasks).min(scratch.len() / sizes.part(isa).max(1)).max(1);
        let scratch = scratch.chunks_exact_mut(cuts.lens.iter().sum::<usize>().max(1)).take(parts);
        for_each_item(scratch.enumerate(), &|(part, scratch)| {
            attention.compute(tasks * part / parts..tasks * (part + 1) / parts, scratch)
        })
    }
}

impl Place {
    /// The position after the last result.
    fn end(&self, sizes: &Sizes) -> Option<usize> {
        let axes = [(sizes.rows, self.row), (sizes.heads, self.head), (sizes.samples, self.sample)];
        axes.iter().try_fold(sizes.out_width, |end, &(len, stride)| {
            end.checked_add(len.checked_sub(1)?.checked_mul(stride)?)
        })
    }

    /// Returns true if no two results overlap.
    fn is_injective(&self, sizes: &Sizes) -> bool {
        let mut axes = [(sizes.rows, self.row), (sizes.heads, self.head), (sizes.samples, self.sample)];
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = sizes.out_width;
        self.shared <= 1
            && axes.iter().filter(|(len, _)| *len > 1).all(|&(len, stride)| {
                let steps_over = stride >= reach;
                reach = reach.saturating_add((len - 1).saturating_mul(stride));
                steps_over
            })
    }
}

impl Attention<'_> {
    /// Computes a range of blocks, head by head.
    fn compute(&self, tasks: Range<usize>, scratch: &mut [f32]) -> Result<()> {
        let [key_len, value_len, scores_len] = self.cuts.lens;
        let (key, rest) = scratch.split_at_mut(key_len);
        let (value, scores) = rest.split_at_mut(value_len);
        let scores = &mut scores[..scores_len];
        let mut packed = None;
        for task in tasks {
            let (number, block) = (task / self.cuts.blocks, task % self.cuts.blocks);
            let at = [number / self.heads.sizes.heads, number % self.heads.sizes.heads];
            if packed != Some(number) {
                self.pack(at, key, value);
                packed = Some(number);
            }
            self.block(at, block, [key, value], scores)?;
        }
        Ok(())
    }

    fn pack(&self, [sample, head]: [usize; 2], key: &mut [f32], value: &mut [f32]) {
        let Heads { sizes, key: keys, value: values, .. } = self.heads;
        let from = &keys.data[keys.place.start(sample, head)..];
        pack_rows(self.isa, (from, keys.place.row), [sizes.columns, sizes.width], key);
        let from = &values.data[values.place.start(sample, head)..];
        pack_columns(self.isa, (from, values.place.row), [sizes.out_width, sizes.columns], value);
    }

    fn block(
        &self,
        at: [usize; 2],
        block: usize,
        [key, value]: [&[f32]; 2],
        scores: &mut [f32],
    ) -> Result<()> {
        let Heads { sizes, query, .. } = self.heads;
        let (lanes, distance) = (self.isa.lanes(), self.cuts.scores);
        let first = block * self.cuts.rows;
        let size = Size { lines: 1, rows: self.cuts.rows.min(sizes.rows.saturating_sub(first)) };
        let factors = |data, piece, row| Factors { data, pieces: &[0], piece, last: (0, 0), row, line: 0 };
        let start = query.place.start(at[0], at[1]) + first * query.place.row;
        let queries = factors(&query.data[start..], sizes.width, query.place.row);
        let panels = PanelsView::new(self.isa, sizes.columns, sizes.width, key);
        let target = Target { last: lanes, row: distance, line: 0, panel: lanes };
        let (output, len) = (scores.as_mut_ptr(), scores.len());
        let results = Results { output, len, target, is_far: false, terms: TERMS };
        // SAFETY: the scores are borrowed mutably.
        unsafe { multiply_alone(panels, &queries, size, results, self.limits)? };
        self.weigh(at, first, &mut scores[..size.rows * distance]);
        let panels = PanelsView::new(self.isa, sizes.out_width, sizes.columns, value);
        let start = self.place.start(at[0], at[1]) + first * self.place.row;
        let last = sizes.out_width - (sizes.out_width - 1) / lanes * lanes;
        let results = Results {
            output: self.output.0.wrapping_add(start),
            len: self.len.saturating_sub(start),
            target: Target { last, row: self.place.row, line: 0, panel: lanes },
            is_far: false,
            terms: TERMS,
        };
        let weights = factors(&*scores, sizes.columns, distance);
        // SAFETY: `attend` borrows the output mutably. Results of different heads and rows do not overlap, and only this
        // call computes those of this head and these rows.
        unsafe { multiply_alone(panels, &weights, size, results, self.limits) }
    }

    /// Converts the scores of some rows to weights.
    fn weigh(&self, at: [usize; 2], first: usize, scores: &mut [f32]) {
        let (columns, distance) = (self.heads.sizes.columns, self.cuts.scores);
        let scale = self.heads.scale;
        widest!(|| scores.iter_mut().for_each(|score| *score *= scale));
        if let Some(add) = self.heads.mask {
            let shape = (scores.len() / distance, columns).strides((distance, 1));
            if let Ok(block) = ArrayViewMut2::from_shape(shape, &mut *scores) {
                add(at, first, block);
            }
        }
        for (index, scores) in scores.chunks_exact_mut(distance).enumerate() {
            let scores = &mut scores[..columns];
            let seen = if self.heads.causal { columns.min(first + index + 1) } else { columns };
            let (seen, hidden) = scores.split_at_mut(seen);
            hidden.fill(0.0);
            if self.heads.blind_is_zero && seen.iter().all(|&score| score == f32::NEG_INFINITY) {
                seen.fill(0.0);
                continue;
            }
            let len = seen.len();
            softmax::softmax(None, seen, len, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Head;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::{Array2, ArrayView2};
    use proptest::prelude::*;

    /// Pseudo-random values from −1 to 1.
    fn noise(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|index| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    /// Heads adjacent in the rows of all samples, or one matrix after the other.
    fn place(is_joined: bool, [samples, heads, rows, width]: [usize; 4], shared: usize) -> (Place, usize) {
        let own = heads / shared;
        let place = match is_joined {
            true => Place { sample: width * own, head: width, row: samples * own * width, shared },
            false => Place { sample: own * rows * width, head: rows * width, row: width, shared },
        };
        (place, samples * own * rows * width)
    }

    #[derive(Debug, Clone)]
    struct Case {
        sizes: Sizes,
        are_joined: [bool; 4],
        shared: usize,
        mask: Option<usize>,
        causal: bool,
        blind_is_zero: bool,
    }

    impl Case {
        fn dims(&self, which: usize) -> [usize; 4] {
            let Sizes { samples, heads, rows, columns, width, out_width } = self.sizes;
            let [rows, width] =
                [[rows, width], [columns, width], [columns, out_width], [rows, out_width]][which];
            [samples, heads, rows, width]
        }

        fn stored(&self, which: usize) -> (Vec<f32>, Place) {
            let shared = if which == 0 || which == 3 { 1 } else { self.shared };
            let (place, len) = place(self.are_joined[which], self.dims(which), shared);
            (noise(len, which), place)
        }

        fn matrix(
            &self,
            which: usize,
            sample: usize,
            head: usize,
            data: &[f32],
            place: Place,
        ) -> Array2<f64> {
            let [_, _, rows, width] = self.dims(which);
            let start = place.start(sample, head);
            Array2::from_shape_fn((rows, width), |(i, j)| f64::from(data[start + i * place.row + j]))
        }

        fn mask(&self, sample: usize, head: usize, row: usize, column: usize) -> f32 {
            let Some(modulus) = self.mask else { return 0.0 };
            let place = sample * 5 + head * 3 + row * 2 + column;
            if place.is_multiple_of(modulus) { f32::NEG_INFINITY } else { (place % 3) as f32 }
        }

        fn run(&self, isa: Isa) -> (Vec<f32>, Place) {
            let [(query, query_place), (key, key_place), (value, value_place)] =
                [0, 1, 2].map(|which| self.stored(which));
            let add = |[sample, head]: [usize; 2], first: usize, mut block: ArrayViewMut2<'_, f32>| {
                for ((row, column), score) in block.indexed_iter_mut() {
                    *score += self.mask(sample, head, first + row, column);
                }
            };
            let heads = Heads {
                sizes: self.sizes,
                query: Matrices { data: &query, place: query_place },
                key: Matrices { data: &key, place: key_place },
                value: Matrices { data: &value, place: value_place },
                mask: self.mask.is_some().then_some(&add),
                scale: 0.7,
                causal: self.causal,
                blind_is_zero: self.blind_is_zero,
            };
            let (mut output, place) = self.stored(3);
            output.fill(9.0);
            let mut scratch = vec![f32::NAN; self.sizes.scratch_for(isa)];
            heads.attend_for(isa, (&mut output, place), &mut scratch, &Limits::default()).unwrap();
            (output, place)
        }

        fn want(&self, sample: usize, head: usize) -> Array2<f64> {
            let [query, key, value] = [0, 1, 2].map(|which| {
                let (data, place) = self.stored(which);
                self.matrix(which, sample, head, &data, place)
            });
            let shape = (self.sizes.rows, self.sizes.columns);
            let mask = Array2::from_shape_fn(shape, |(i, j)| f64::from(self.mask(sample, head, i, j)));
            let mask: Option<ArrayView2<'_, f64>> = self.mask.map(|_| mask.view());
            let (causal, blind_is_zero) = (self.causal, self.blind_is_zero);
            let (query, key, value) = (query.view(), key.view(), value.view());
            naive::attention(&Head { query, key, value, mask, scale: 0.7, causal, blind_is_zero }).0
        }
    }

    fn cases() -> impl Strategy<Value = Case> {
        let sizes = (
            1usize..3,
            1usize..4,
            prop_oneof![1usize..40, 100usize..300],
            1usize..150,
            1usize..40,
            1usize..40,
        );
        (sizes, any::<[bool; 4]>(), any::<(bool, bool, bool)>(), prop::option::of(1usize..7)).prop_map(
            |(
                (samples, heads, rows, columns, width, out_width),
                are_joined,
                (shares, causal, blind_is_zero),
                mask,
            )| {
                let sizes = Sizes { samples, heads, rows, columns, width, out_width };
                Case {
                    sizes,
                    are_joined,
                    shared: if shares { heads } else { 1 },
                    mask,
                    causal,
                    blind_is_zero,
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn all_heads_equal_the_naive_one(case in cases()) {
            for isa in Isa::supported() {
                let (got, place) = case.run(isa);
                for number in 0..case.sizes.samples * case.sizes.heads {
                    let (sample, head) = (number / case.sizes.heads, number % case.sizes.heads);
                    let got = case.matrix(3, sample, head, &got, place);
                    for (got, want) in got.iter().zip(&case.want(sample, head)) {
                        let close = (got - want).abs() < 1e-4 || (got.is_nan() && want.is_nan());
                        prop_assert!(close, "{:?}: {} where {}", isa, got, want);
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn threads_change_no_bit(case in cases()) {
            let bits = |(numbers, _): (Vec<f32>, Place)| numbers.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            for isa in Isa::supported() {
                let (alone, pooled) = on_threads(&[1, 2, 3], || bits(case.run(isa)));
                prop_assert!(pooled.iter().all(|got| *got == alone), "{:?}", isa);
            }
        }
    }

    #[test]
    fn rows_that_see_no_column_give_zeros_even_without_a_mask() {
        let sizes = Sizes { samples: 1, heads: 1, rows: 9, columns: 3, width: 1, out_width: 2 };
        let place = |row| Place { sample: 0, head: 0, row, shared: 1 };
        // Products of -1e60, which are -inf in single precision.
        let (query, key, value) = ([1e30; 9], [-1e30; 3], [1.0; 6]);
        let [query, key] = [&query[..], &key[..]].map(|data| Matrices { data, place: place(1) });
        let value = Matrices { data: &value, place: place(2) };
        let (scale, causal, blind_is_zero) = (1.0, false, true);
        let heads = Heads { sizes, query, key, value, mask: None, scale, causal, blind_is_zero };
        let (mut output, mut scratch) = ([7.0; 18], vec![f32::NAN; sizes.scratch()]);
        heads.attend((&mut output, place(2)), &mut scratch, &Limits::default()).unwrap();
        assert_eq!(output, [0.0; 18]);
    }

    #[test]
    #[should_panic(expected = "the output is too short for the results")]
    fn results_beyond_the_output_are_rejected() {
        let sizes = Sizes { samples: 3, heads: 1, rows: 1, columns: 1, width: 1, out_width: 1 };
        let here = Place { sample: 0, head: 0, row: 1, shared: 1 };
        let [query, key, value] = [Matrices { data: &[1.0], place: here }; 3];
        let (scale, causal, blind_is_zero) = (1.0, false, true);
        let heads = Heads { sizes, query, key, value, mask: None, scale, causal, blind_is_zero };
        let far = Place { sample: 1 << 63, ..here };
        let mut scratch = vec![0.0; sizes.scratch()];
        _ = heads.attend((&mut [0.0; 3], far), &mut scratch, &Limits::default());
    }
}
