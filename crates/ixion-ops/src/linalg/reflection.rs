//! Products of Householder reflections.

use super::layer::{MatrixElement, MatrixOperator, by_elimination};
use super::stack::{Stack, each_pair, put_matrices};
use super::triangular::batch_of;
use crate::op::{Io, LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::reflection::reflections;
use ixion_tensor::{Dim, Limits};

crate::operator! {
    /// `torch.linalg.householder_product`: the first n columns of the product of the Householder reflections 1 − τᵢ·vᵢ·vᵢᴴ, for
    /// an input A of n columns. Vector vᵢ is column i of A; its element on the diagonal counts as 1, those above count as 0.
    pub struct HouseholderProduct for "aten::linalg_householder_product", "aten::orgqr" {
        /// The factors τ of the reflections.
        tau: InputIndex,
    }
}

impl MatrixOperator for HouseholderProduct {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
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

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let tau = &io.inputs[self.tau.0];
        let tau = tau.with_layout(tau.layout().unsqueeze(tau.shape().rank())?)?;
        let shape = *io.outputs[0].shape();
        let products = each_pair::<T, _>([&io.inputs[0], &tau], batch_of(&shape), limits, |_, a, tau| {
            Ok(reflections(&a, &tau.column(0), limits)?)
        })?;
        put_matrices(&mut io.outputs[0], &products)
    }
}

operators! { by_elimination => HouseholderProduct }
