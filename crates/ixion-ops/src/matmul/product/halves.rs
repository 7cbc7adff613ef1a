//! Products in half precision, some rows at a time, so that converted factors and sums stay in the cache.

use super::factors::Factors;
use super::{Product, elements};
use crate::op::Result;
use crate::support::halves::{lend, rows_at_a_time};
use crate::support::number::Number;
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{Half, Limits, TensorView};
use ndarray::{ArrayView2, ArrayViewMut2, s};

impl Product {
    /// Writes the product of factors of a type of half precision in row-major order, computed in `f32`; the factors' shapes
    /// must fit each other.
    pub(super) fn multiply_halves<H: Half>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut [H],
        limits: &Limits,
    ) -> Result<()> {
        let [left, right] = self.factors.map(|position| &inputs[position]);
        let mut copy = None;
        let right = elements::<f32>(right, &mut copy)?;
        Factors::<H, f32>::new(left, &right)?.multiply_halves(output, limits)
    }
}

impl<H: Half> Factors<'_, H, f32> {
    /// Writes the products of all matrices in turn.
    fn multiply_halves(&self, output: &mut [H], limits: &Limits) -> Result<()> {
        let [rows, inner, columns] = self.dims;
        let at_a_time = rows_at_a_time(inner + columns);
        // Matrices without elements need no writing.
        let of_matrix = (rows * columns).max(1);
        for_each_chunk(output, of_matrix, &|start, output: &mut [H]| {
            let (a, b) = self.matrices(start / of_matrix)?;
            for_each_chunk(output, at_a_time * columns, &|from, output: &mut [H]| {
                limits.check_deadline()?;
                let (first, rows) = (from / columns, output.len() / columns);
                let a = a.slice(s![first..first + rows, ..]);
                lend([rows * inner, output.len()], |left, sums| {
                    // Contiguous rows are not copied.
                    if let Some(a) = a.as_standard_layout().as_slice() {
                        H::load_all(a, left);
                    }
                    let a = ArrayView2::from_shape((rows, inner), &*left)?;
                    f32::multiply(a, b, ArrayViewMut2::from_shape((rows, columns), &mut *sums)?);
                    H::store_all(sums, output);
                    Ok(())
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::support::testing::operator;
    use ixion_tensor::{DType, Tensor};
    use proptest::prelude::*;

    /// Small integers, whose products and sums are exact in half precision.
    fn integers(shape: &[usize], dtype: DType, seed: usize) -> Tensor {
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|i| ((i * 7 + seed) % 5) as f32 - 2.0).collect();
        Tensor::from_vec::<f32>(numbers, shape).unwrap().cast(dtype).unwrap()
    }

    proptest! {
        #[test]
        fn they_equal_those_of_f32(
            (batch, m, k, n) in (1usize..4, 1usize..30, 0usize..20, 1usize..30),
            dtype in prop_oneof![Just(DType::F16), Just(DType::Bf16)],
            is_shared: bool,
        ) {
            let right: &[usize] = if is_shared { &[k, n] } else { &[batch, k, n] };
            let product = |dtype| {
                let (x, y) = (integers(&[batch, m, k], dtype, 1), integers(right, dtype, 3));
                operator("torch.matmul", &[]).with_names(&["input", "other"]).run_one(&[&x, &y]).unwrap()
            };
            prop_assert_eq!(product(dtype).cast(DType::F32).unwrap(), product(DType::F32));
        }
    }
}
