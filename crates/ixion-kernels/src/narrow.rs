//! Products of one row with a matrix of bfloat16. Reading the matrix dominates the time, and it has half as many bytes as
//! in f32.

use super::parallel::for_each_chunk;
use crate::widest;
use ixion_tensor::bf16;
use ixion_tensor::{LimitError, Limits};

/// Independent partial sums, so that none waits for another.
const LANES: usize = 64;

/// Rows of the matrix per task.
const ROWS: usize = 32;

/// Adds the dot product of `row` with each row of a matrix to `output`. The order of additions does not depend on the
/// processor.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if the matrix has too few rows, which are as long as `row`.
pub fn add_dots(row: &[f32], matrix: &[bf16], output: &mut [f32], limits: &Limits) -> Result<(), LimitError> {
    for_each_chunk(output, ROWS, &|start, output| {
        limits.check_deadline()?;
        let matrix = &matrix[start * row.len()..][..output.len() * row.len()];
        widest!(|| {
            for (at, sum) in output.iter_mut().enumerate() {
                *sum += dot(row, &matrix[at * row.len()..][..row.len()]);
            }
        });
        Ok(())
    })
}

/// A bfloat16 is the upper half of an f32.
#[inline(always)]
fn wide(number: bf16) -> f32 {
    f32::from_bits(u32::from(number.to_bits()) << 16)
}

#[inline(always)]
fn dot(row: &[f32], weights: &[bf16]) -> f32 {
    let mut sums = [0f32; LANES];
    let ((rows, rest), (weights, others)) = (row.as_chunks::<LANES>(), weights.as_chunks::<LANES>());
    for (row, weights) in rows.iter().zip(weights) {
        for lane in 0..LANES {
            sums[lane] += row[lane] * wide(weights[lane]);
        }
    }
    let rest: f32 = rest.iter().zip(others).map(|(x, weight)| x * wide(*weight)).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_naive_product(features in 0usize..200, outputs in 0usize..70, seed in 0usize..1000) {
            let number = |i: usize| ((i * 37 + seed) % 101) as f32 / 16.0 - 3.0;
            let row: Vec<f32> = (0..features).map(number).collect();
            let matrix: Vec<bf16> = (0..features * outputs).map(|i| bf16::from_f32(number(i * 3))).collect();
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
