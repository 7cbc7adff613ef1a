//! Cumulative sums and products along an axis.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::support::arguments::Accumulator;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_tensor::{Complex, DType, Tensor, TensorView, TensorViewMut, resolve_axis};

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

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal by $inexact:expr, $integer:expr;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The axis; a negative value counts from the end.
                dim: i64,
                /// The element type that the input is converted to first; by default i64 for integers and bool.
                dtype: Accumulator = Accumulator(None),
            }
        }

        impl $name {
            fn run<T: Float>(tensor: &TensorView<'_>, sizes: (usize, usize), output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
                let input = float::read::<T>(tensor)?;
                float::write::<T>(output, |output| {
                    output.copy_from_slice(&input);
                    // In f64, so that long rows lose no precision.
                    let wide = |x: T| x.to_f64().unwrap_or(f64::NAN);
                    scan(output, sizes.0, sizes.1, wide, $inexact, T::of);
                    Ok(())
                })
            }
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                resolve_axis(self.dim, inputs[0].rank())?;
                let input = inputs[0].dtype();
                let usual = if input.is_float() || input.is_complex() { input } else { DType::I64 };
                let dtype = self.dtype.of(input).unwrap_or(usual);
                if dtype == DType::Bool {
                    let wanted = "numbers".to_owned();
                    return Err(LayerError::DType { what: "the input".to_owned(), wanted, found: dtype });
                }
                Ok(vec![inputs[0].with_dtype(dtype)])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let shape = *inputs[0].shape();
                let axis = resolve_axis(self.dim, shape.rank())?;
                let sizes = (shape.get(axis).copied().unwrap_or(1), shape.iter().skip(axis + 1).product());
                let output = &mut outputs[0];
                if output.dtype().is_float() {
                    let input = crate::support::broadcast::Converted::of(&inputs[0], output.dtype())?;
                    return with_float!(output.dtype(), T => Self::run::<T>(&input.view(), sizes, output));
                }
                if output.dtype() == DType::I64 && output.layout().is_contiguous() {
                    output.cast_from(&inputs[0])?;
                    scan(output.slice::<i64>()?, sizes.0, sizes.1, |x| x, $integer, |x| x);
                    return Ok(());
                }
                let input = inputs[0].to_tensor()?;
                let result = if output.dtype().is_complex() {
                    let mut values = input.cast(output.dtype())?.cast(DType::C128)?.to_vec::<Complex<f64>>()?;
                    scan(&mut values, sizes.0, sizes.1, |z| z, $inexact, |z| z);
                    Tensor::from_vec(values, &shape)?
                } else {
                    let mut values = input.cast(DType::I64)?.to_vec::<i64>()?;
                    scan(&mut values, sizes.0, sizes.1, |x| x, $integer, |x| x);
                    Tensor::from_vec(values, &shape)?
                };
                Ok(output.copy_from(&result.cast(output.dtype())?.view())?)
            }
        }
    )*};
}

scans! {
    /// `torch.cumsum`: the cumulative sum along an axis: for each element, the sum of it and all before it.
    Cumsum for "torch.cumsum" by |a, b| a + b, i64::wrapping_add;

    /// `torch.cumprod`: the cumulative product along an axis: for each element, the product of it and all before it.
    Cumprod for "torch.cumprod" by |a, b| a * b, i64::wrapping_mul;
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
