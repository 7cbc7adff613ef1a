//! Values of `f32` rounded to `bf16`, two of which fit one word.

use super::packing::Packing;
use crate::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::Limits;
use ixion_tensor::Result;

/// Words per cache line.
const LINE: usize = 16;

/// The layout of rows of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounded {
    /// The number of words of a row that hold values.
    pub depth: usize,
    /// The distance between rows in words: an odd number of cache lines, so that consecutive rows are in different sets
    /// of a cache.
    pub row: usize,
}

impl Rounded {
    /// The layout of rows of `numbers` values.
    pub fn new(numbers: usize) -> Self {
        let depth = Packing::Bf16Pairs.count(numbers);
        Self { depth, row: (depth.div_ceil(LINE) | 1).saturating_mul(LINE) }
    }

    /// The number of words of `rows` rows.
    pub fn len(self, rows: usize) -> usize {
        self.row.saturating_mul(rows)
    }
}

/// Rounds values to the nearest `bf16`, ties to even. The last word is padded with 0.
///
/// # Panics
/// Panics if there are fewer words than the values fill.
pub(crate) fn round(numbers: &[f32], words: &mut [f32]) {
    let words = &mut words[..Packing::Bf16Pairs.count(numbers.len())];
    if let (1, Some(last)) = (numbers.len() % 2, words.last_mut()) {
        *last = 0.0;
    }
    // SAFETY: a word is two values of 16 bits, and any bits are valid.
    let halves: &mut [u16] =
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 2) };
    widest!(|| {
        for (to, from) in halves.iter_mut().zip(numbers) {
            *to = nearest(*from);
        }
    });
}

/// The bits of the nearest `bf16`.
#[inline(always)]
fn nearest(number: f32) -> u16 {
    let bits = number.to_bits();
    let is_odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff + is_odd) >> 16;
    // NaN stays NaN, whatever its bits are.
    let nan = bits >> 16 | 0x40;
    (if number.is_nan() { nan } else { rounded }) as u16
}

/// Rounds the rows of a matrix, which are `row` elements apart. The threads of the current pool share the work.
///
/// # Errors
/// Fails if the deadline has passed.
///
/// # Panics
/// Panics if the matrix is too short, or there are fewer words than [`Rounded::len`].
pub fn round_rows(
    (matrix, row): (&[f32], usize),
    [rows, columns]: [usize; 2],
    words: &mut [f32],
    limits: &Limits,
) -> Result<()> {
    /// The target number of words per task.
    const WORDS_PER_TASK: usize = 1 << 13;
    let rounded = Rounded::new(columns);
    let words = &mut words[..rounded.len(rows)];
    let at_a_time = (WORDS_PER_TASK / rounded.row).max(1) * rounded.row;
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
    fn words_hold_the_nearest_values_and_zero_padding() {
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
