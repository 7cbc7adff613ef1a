//! Cumulative sums and products along an axis.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::Accumulator;
use crate::support::broadcast::Converted;
use crate::support::delegation::delegating;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_tensor::{Complex, DType, Tensor, TensorView, TensorViewMut, resolve_axis};
use std::num::Wrapping;
use std::ops::{Add, Mul};

delegating! {
    {
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The element type that the input is converted to first; by default i64 for integers and bool.
        dtype: Accumulator = Accumulator(None),
    }

    /// `torch.cumsum`: the cumulative sum along an axis: for each element, the sum of it and all before it.
    Cumsum for "torch.cumsum", "aten::cumsum" |layer| Scan { is_product: false, dim: layer.dim, dtype: layer.dtype };

    /// `torch.cumprod`: the cumulative product along an axis: for each element, the product of it and all before it.
    Cumprod for "torch.cumprod", "aten::cumprod" |layer| Scan { is_product: true, dim: layer.dim, dtype: layer.dtype };
}

/// Cumulative sums or products along an axis.
#[derive(Debug, Clone)]
struct Scan {
    is_product: bool,
    dim: i64,
    dtype: Accumulator,
}

/// Replaces each element by the combination of it and all before it along the middle axis of …×`len`×`inner`.
fn scan<T: Copy, A: Copy>(
    values: &mut [T],
    len: usize,
    inner: usize,
    widen: impl Fn(T) -> A,
    join: impl Fn(A, A) -> A,
    narrow: impl Fn(A) -> T,
) {
    for block in values.chunks_exact_mut((len * inner).max(1)) {
        for lane in 0..inner {
            let mut lane = block.iter_mut().skip(lane).step_by(inner);
            let Some(mut total) = lane.next().map(|first| widen(*first)) else { continue };
            lane.for_each(|x| {
                total = join(total, widen(*x));
                *x = narrow(total);
            });
        }
    }
}

impl Scan {
    /// Calls [`scan`] with the sum or the product.
    fn join<T: Copy, A: Copy + Add<Output = A> + Mul<Output = A>>(
        &self,
        values: &mut [T],
        (len, inner): (usize, usize),
        widen: impl Fn(T) -> A,
        narrow: impl Fn(A) -> T,
    ) {
        match self.is_product {
            true => scan(values, len, inner, widen, |a, b| a * b, narrow),
            false => scan(values, len, inner, widen, |a, b| a + b, narrow),
        }
    }

    fn join_integers(&self, values: &mut [i64], sizes: (usize, usize)) {
        self.join(values, sizes, Wrapping, |joined: Wrapping<i64>| joined.0);
    }

    fn run<T: Float>(
        &self,
        tensor: &TensorView<'_>,
        sizes: (usize, usize),
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let input = float::read::<T>(tensor)?;
        float::write::<T>(output, |output| {
            output.copy_from_slice(&input);
            // In f64, so that long rows lose no precision.
            self.join(output, sizes, |x: T| x.to_f64().unwrap_or(f64::NAN), T::of);
            Ok(())
        })
    }
}

impl Layer for Scan {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        resolve_axis(self.dim, inputs[0].rank())?;
        let input = inputs[0].dtype();
        let usual = if input.is_float() || input.is_complex() { input } else { DType::I64 };
        let dtype = self.dtype.of(input).unwrap_or(usual);
        if dtype == DType::Bool {
            return Err(LayerError::dtype("the input", "numbers", dtype));
        }
        Ok(vec![inputs[0].with_dtype(dtype)])
    }
}

impl CpuLayer for Scan {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let shape = *io.inputs[0].shape();
        let axis = resolve_axis(self.dim, shape.rank())?;
        let sizes = (shape.get(axis).copied().unwrap_or(1), shape.iter().skip(axis + 1).product());
        let output = &mut io.outputs[0];
        if output.dtype().is_float() {
            let input = Converted::of(&io.inputs[0], output.dtype())?;
            return with_float!(output.dtype(), T => self.run::<T>(&input.view(), sizes, output));
        }
        if output.dtype() == DType::I64 && output.layout().is_contiguous() {
            output.cast_from(&io.inputs[0])?;
            self.join_integers(output.slice()?, sizes);
            return Ok(());
        }
        let input = io.inputs[0].to_tensor()?;
        let result = if output.dtype().is_complex() {
            let mut values = input.cast(output.dtype())?.cast(DType::C128)?.to_vec::<Complex<f64>>()?;
            self.join(&mut values, sizes, |z| z, |z| z);
            Tensor::from_vec(values, &shape)?
        } else {
            let mut values = input.cast(DType::I64)?.to_vec::<i64>()?;
            self.join_integers(&mut values, sizes);
            Tensor::from_vec(values, &shape)?
        };
        Ok(output.copy_from(&result.cast(output.dtype())?.view())?)
    }
}

operators! { Cumsum, Cumprod }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, counting, operator, tensor};

    #[test]
    fn elements_add_up() {
        let x = counting(DType::F64, &[2, 3]);
        let run = |op_type, dim| operator(op_type, &[("dim", dim)]).run_one(&[&x]).unwrap();
        assert_close(&run("torch.cumsum", "1"), &[2, 3], &[0.0, 1.0, 3.0, 3.0, 7.0, 12.0]);
        assert_close(&run("torch.cumsum", "-2"), &[2, 3], &[0.0, 1.0, 2.0, 3.0, 5.0, 7.0]);
        assert_close(&run("torch.cumprod", "1"), &[2, 3], &[0.0, 0.0, 0.0, 3.0, 12.0, 60.0]);
        let bools = operator("torch.cumsum", &[("dim", "0")])
            .run_one(&[&tensor(&[3], &[true, false, true])])
            .unwrap();
        assert_eq!(bools.to_vec::<i64>().unwrap(), [1, 1, 2]);
        let wide = operator("torch.cumprod", &[("dim", "0"), ("dtype", "torch.float")]);
        assert_close(&wide.run_one(&[&tensor(&[2], &[3u8, 100])]).unwrap(), &[2], &[3.0, 300.0]);
        for op_type in ["torch.cumsum", "torch.cumprod"] {
            assert!(operator(op_type, &[("dim", "0"), ("dtype", "torch.bool")]).run(&[&x]).is_err());
            operator(op_type, &[("dim", "-1")]).survives(1);
        }
    }
}
