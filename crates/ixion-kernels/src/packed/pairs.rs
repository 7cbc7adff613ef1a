//! Numbers of `f32` rounded to `bf16`, two of which fill the place of one.

use super::Words;
use crate::parallel::for_each_chunk;
use crate::wide::{Work, run_widest};
use ixion_tensor::Limits;
use ixion_tensor::Result;

/// Numbers in a cache line.
const LINE: usize = 16;

/// Rows of pairs, each some words from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounded {
    /// Words of a row that mean something.
    pub depth: usize,
    /// From one row to the next: an odd number of cache lines, so that rows below each other lie in different sets of a cache.
    pub row: usize,
}

impl Rounded {
    /// Rows of so many numbers.
    pub fn new(numbers: usize) -> Self {
        let depth = Words::Pairs.count(numbers);
        Self { depth, row: (depth.div_ceil(LINE) | 1).saturating_mul(LINE) }
    }

    /// Words of so many rows.
    pub fn len(self, rows: usize) -> usize {
        self.row.saturating_mul(rows)
    }
}

/// Rounds numbers to the nearest of `bf16`, of two to the even one. What fills up the last word is 0.
///
/// # Panics
/// When there are fewer words than the numbers fill.
pub(crate) fn round(numbers: &[f32], words: &mut [f32]) {
    struct Row<'a>(&'a [f32], &'a mut [u16]);
    impl Work for Row<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            self.1.iter_mut().zip(self.0).for_each(|(to, from)| *to = nearest(*from));
        }
    }
    let words = &mut words[..Words::Pairs.count(numbers.len())];
    if let (1, Some(last)) = (numbers.len() % 2, words.last_mut()) {
        *last = 0.0;
    }
    // SAFETY: a word is two numbers of 16 bits, of which any are valid.
    let halves = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 2) };
    run_widest(Row(numbers, halves));
}

/// The bits of the nearest number of `bf16`.
#[inline(always)]
fn nearest(number: f32) -> u16 {
    let bits = number.to_bits();
    let is_odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff + is_odd) >> 16;
    // NaN stays what it is, whatever its bits are.
    let nan = bits >> 16 | 0x40;
    (if number.is_nan() { nan } else { rounded }) as u16
}

/// Rounds the rows of a matrix, each `row` numbers from the one before. Threads of the pool around it share the work.
///
/// # Errors
/// A deadline that has passed.
///
/// # Panics
/// When the matrix is shorter, or there are fewer words than [`Rounded::len`] says.
pub fn round_rows(
    (matrix, row): (&[f32], usize),
    [rows, columns]: [usize; 2],
    words: &mut [f32],
    limits: &Limits,
) -> Result<()> {
    /// Words that are worth a thread.
    const WORTH: usize = 1 << 13;
    let rounded = Rounded::new(columns);
    let words = &mut words[..rounded.len(rows)];
    let at_a_time = (WORTH / rounded.row).max(1) * rounded.row;
    for_each_chunk(words, at_a_time, &|start, words: &mut [f32]| -> Result<()> {
        limits.check_deadline()?;
        for (index, words) in words.chunks_exact_mut(rounded.row).enumerate() {
            round(&matrix[(start / rounded.row + index) * row..][..columns], words);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::bf16;
    use proptest::prelude::*;

    #[test]
    fn words_hold_what_is_nearest_and_zero_behind_it() {
        let numbers =
            [1.0, -2.5, f32::NAN, f32::INFINITY, f32::MAX, -0.0, 1e-40, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0];
        let mut words = [7.0; 6];
        round(&numbers, &mut words);
        let halves =
            words[..5].iter().flat_map(|word| [word.to_bits() as u16, (word.to_bits() >> 16) as u16]);
        for (got, want) in halves.zip(numbers.map(bf16::from_f32).into_iter().chain([bf16::ZERO])) {
            assert!(got == want.to_bits() || want.is_nan() && bf16::from_bits(got).is_nan(), "{got} {want}");
        }
        assert_eq!(words[5], 7.0);
    }

    proptest! {
        #[test]
        fn rows_are_rounded_where_they_belong(rows in 0usize..30, columns in 0usize..70, further in 0usize..5, bits: u32) {
            let row = columns + further;
            let bits_of = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9) ^ bits;
            let matrix: Vec<f32> = (0..rows * row).map(|index| f32::from_bits(bits_of(index))).collect();
            let rounded = Rounded::new(columns);
            let mut words = vec![0.5; rounded.len(rows) + 3];
            round_rows((&matrix, row), [rows, columns], &mut words, &Limits::default()).unwrap();
            prop_assert!(words[rounded.len(rows)..].iter().all(|word| *word == 0.5));
            for (words, numbers) in words.chunks_exact(rounded.row).zip(matrix.chunks_exact(row.max(1))) {
                for (k, number) in numbers[..columns].iter().enumerate() {
                    let got = bf16::from_bits((words[k / 2].to_bits() >> (k % 2 * 16)) as u16);
                    let want = bf16::from_f32(*number);
                    prop_assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
                }
                if columns % 2 == 1 {
                    prop_assert_eq!(words[columns / 2].to_bits() >> 16, 0);
                }
            }
        }
    }
}
