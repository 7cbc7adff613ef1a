//! Products of one row with a matrix of half precision. What takes the time is reading the matrix, of which there are half as
//! many bytes as of f32.

use super::parallel::for_each_chunk;
use super::widest;
use crate::tensor::{bf16, f16};
use crate::{LimitError, Limits};

/// A type of half precision that becomes f32 by operations that a vector has.
pub trait Narrow: Copy + Send + Sync {
    /// The number, without loss.
    fn wide(self) -> f32;
}

impl Narrow for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// The exponent of f32 is larger by 112: multiplying with 2¹¹² puts that right, for numbers below the normal ones as well. Not
/// for infinity and NaN, whose exponent is the largest there is.
impl Narrow for f16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        const LARGEST: u32 = 0x7c00 << 13;
        let bits = u32::from(self.to_bits());
        let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
        let finite = (f32::from_bits(magnitude) * f32::from_bits((112 + 127) << 23)).to_bits();
        let special = magnitude | 0x7f80_0000;
        f32::from_bits(sign | if magnitude >= LARGEST { special } else { finite })
    }
}

/// Sums that are kept apart, so that none waits for another.
const LANES: usize = 64;

/// Rows of the matrix that one task takes.
const ROWS: usize = 32;

/// Adds the products of a row with each row of a matrix. The order of additions does not depend on the processor.
///
/// # Errors
/// A deadline that has passed.
///
/// # Panics
/// When the matrix is shorter than its rows, which are as long as `row`.
pub fn add_dots<H: Narrow>(
    row: &[f32],
    matrix: &[H],
    output: &mut [f32],
    limits: &Limits,
) -> Result<(), LimitError> {
    for_each_chunk(output, ROWS, &|start, output| {
        limits.check_deadline()?;
        let matrix = &matrix[start * row.len()..][..output.len() * row.len()];
        widest(|| {
            for (at, sum) in output.iter_mut().enumerate() {
                *sum += dot(row, &matrix[at * row.len()..][..row.len()]);
            }
        });
        Ok(())
    })
}

#[inline(always)]
fn dot<H: Narrow>(row: &[f32], weights: &[H]) -> f32 {
    let mut sums = [0f32; LANES];
    let ((rows, rest), (weights, others)) = (row.as_chunks::<LANES>(), weights.as_chunks::<LANES>());
    for (row, weights) in rows.iter().zip(weights) {
        for lane in 0..LANES {
            sums[lane] += row[lane] * weights[lane].wide();
        }
    }
    let rest: f32 = rest.iter().zip(others).map(|(x, weight)| x * weight.wide()).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_number_of_half_precision_is_the_same_in_f32() {
        for bits in 0..=u16::MAX {
            let (short, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(same(short.wide(), short.to_f32()) && same(brain.wide(), brain.to_f32()), "{bits:#x}");
        }
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_product(features in 0usize..200, outputs in 0usize..70, seed in 0usize..1000) {
            let number = |i: usize| ((i * 37 + seed) % 101) as f32 / 16.0 - 3.0;
            let row: Vec<f32> = (0..features).map(number).collect();
            let matrix: Vec<f16> = (0..features * outputs).map(|i| f16::from_f32(number(i * 3))).collect();
            let mut output: Vec<f32> = (0..outputs).map(number).collect();
            let naive: Vec<f64> = output.iter().enumerate().map(|(at, bias)| {
                let weights = &matrix[at * features..][..features];
                let products = row.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(w.to_f32()));
                f64::from(*bias) + products.sum::<f64>()
            }).collect();
            add_dots(&row, &matrix, &mut output, &Limits::default()).unwrap();
            for (got, want) in output.iter().zip(naive) {
                prop_assert!((f64::from(*got) - want).abs() < 1e-3, "{got} {want}");
            }
        }
    }
}
