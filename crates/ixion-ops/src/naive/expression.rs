//! Element-wise arithmetic.

use super::evaluate;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use ixion_pnnx::Expr;
use std::ops::RangeInclusive;

// ANCHOR: expression
crate::operator! {
    /// `pnnx.Expression`: evaluates an expression such as `add(@0,@1)`, where `@0` is the first input. All inputs have the
    /// same shape.
    pub struct Expression for "pnnx.Expression" {
        /// The expression.
        expr: Expr,
    }
}

impl Layer for Expression {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        // ANCHOR: count_todo -- task 1: return the number of inputs of the expression
        let count = self.expr.input_count();
        count..=count
        // ANCHOR_END: count_todo
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: sum_infer_todo -- task 1: return one output like the first input, if all inputs have its shape
        let Some(first) = inputs.first() else {
            return Err(LayerError::Unsupported("an expression without inputs".to_owned()));
        };
        match inputs.iter().find(|input| input.dims() != first.dims()) {
            Some(other) => Err(LayerError::shape("an input", first, other)),
            None => Ok(vec![first.clone()]),
        }
        // ANCHOR_END: sum_infer_todo
    }
}

impl CpuLayer for Expression {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: sum_forward_todo -- task 1: evaluate the expression on the inputs as f64
        let mut arrays = Vec::new();
        for input in io.inputs {
            arrays.push(input.array::<f32>()?.mapv(f64::from));
        }
        let views: Vec<_> = arrays.iter().map(|array| array.view()).collect();
        let Some(value) = evaluate(&self.expr, &views) else {
            return Err(LayerError::Unsupported(format!("cannot evaluate the expression {}", self.expr)));
        };
        io.outputs[0].array::<f32>()?.assign(&value.mapv(|x| x as f32));
        Ok(())
        // ANCHOR_END: sum_forward_todo
    }
}
// ANCHOR_END: expression
