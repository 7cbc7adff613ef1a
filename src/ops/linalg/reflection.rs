//! Products of reflections.

use super::stack::{Stack, each_pair, put_matrices};
use super::triangular::batch_of;
use crate::kernels::reflection::reflections;
use crate::op::{Layer, LayerError, TensorMeta};
use crate::ops::support::arguments::Operand;
use crate::tensor::Dim;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.linalg.householder_product`: the first columns of the product of the reflections 1 − τᵢ·vᵢ·vᵢᴴ, as many as A has.
    /// The vectors are A's columns, 1 on the diagonal and 0 above it, whatever is there.
    pub struct HouseholderProduct for "aten::linalg_householder_product", "aten::orgqr" {
        /// The factors τ.
        tau: Operand,
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
            return Err(LayerError::dtype("tau", format!("{}, as the input is", stack.dtype), tau.dtype()));
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
