//! Products of Householder reflections.

use super::stack::{Stack, each_pair, put_matrices};
use super::triangular::batch_of;
use crate::op::{Layer, LayerError, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::reflection::reflections;
use ixion_tensor::Dim;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.linalg.householder_product`: the first n columns of the product of the Householder reflections 1 − τᵢ·vᵢ·vᵢᴴ, for
    /// an input A of n columns. Vector vᵢ is column i of A; its element on the diagonal counts as 1, those above count as 0.
    pub struct HouseholderProduct for "aten::linalg_householder_product", "aten::orgqr" {
        /// The factors τ of the reflections.
        tau: InputIndex,
    }
}

impl Layer for HouseholderProduct {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of(inputs, 0)?;
        let tau = &inputs[self.tau.0];
        if tau.dtype() != stack.dtype {
            return Err(LayerError::dtype("tau", format!("{}, like the input", stack.dtype), tau.dtype()));
        }
        let differ = |(a, b): (&Dim, &Dim)| a.differs(b);
        let fits =
            |batch: &[Dim]| batch.len() == stack.batch.len() && !batch.iter().zip(stack.batch).any(differ);
        let Some((count, _)) = tau.dims().split_last().filter(|(_, batch)| fits(batch)) else {
            return Err(LayerError::shape("tau", "a vector for each matrix", tau));
        };
        let (rows, columns) = (stack.rows.fixed(), stack.columns.fixed());
        let is_wide = rows.zip(columns).is_some_and(|(rows, columns)| rows < columns);
        if is_wide || count.fixed().zip(columns).is_some_and(|(count, columns)| count > columns) {
            let wanted = "no more columns than rows, and no more factors than columns";
            return Err(LayerError::shape("the input", wanted, format!("{} and {tau}", inputs[0])));
        }
        Ok(vec![stack.meta()])
    }
}

by_matrices!(HouseholderProduct: |layer, inputs, outputs, limits| T => {
    let tau = &inputs[layer.tau.0];
    let tau = tau.with_layout(tau.layout().unsqueeze(tau.shape().rank())?)?;
    let shape = *outputs[0].shape();
    let products = each_pair::<T, _>([&inputs[0], &tau], batch_of(&shape), limits, |_, a, tau| {
        Ok(reflections(&a, &tau.column(0), limits)?)
    })?;
    put_matrices(&mut outputs[0], &products)
});
