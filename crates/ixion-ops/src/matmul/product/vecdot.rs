//! Dot products of vectors along an axis.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast};
use crate::support::number;
use crate::support::number::Number;
use crate::support::rows::Rows;
use ixion_kernels::matrix::Field;
use ixion_tensor::{Complex, Limits, TensorView, TensorViewMut, resolve_axis};
use ndarray::Axis;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.linalg.vecdot`: the dot products of vectors along an axis, with the input conjugated if it is complex.
    pub struct Vecdot for "aten::linalg_vecdot" {
        /// The other vectors, of the same element type; both are broadcast.
        other as "y": InputIndex,
        /// The axis; may be negative, counting from the end.
        dim: i64 = -1,
    }
}

impl Vecdot {
    fn run<T: Number + Field>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let metas = TensorMeta::of_all(inputs);
        let whole = metas[0].with_dims(broadcast(metas[0].dims(), metas[self.other.0].dims())?).shape()?;
        let along = Rows::new(self.dim, &whole)?;
        let converted = |position: usize| Converted::of(&inputs[position], T::DTYPE);
        let (a, b) = (converted(0)?, converted(self.other.0)?);
        let (a, b) = (along.of(&a.expanded(&whole)?)?, along.of(&b.expanded(&whole)?)?);
        let (a, b) = (a.array::<T>()?, b.array::<T>()?);
        number::write::<T>(output, |output| {
            let product = |(a, b): (&T, &T)| a.conj() * *b;
            let Some(last) = a.ndim().checked_sub(1).map(Axis) else {
                output.iter_mut().zip(a.iter().zip(&b)).for_each(|(to, pair)| *to = product(pair));
                return Ok(());
            };
            for (to, (a, b)) in output.iter_mut().zip(a.lanes(last).into_iter().zip(b.lanes(last))) {
                limits.check_deadline()?;
                *to = a.iter().zip(&b).map(product).fold(T::zero(), |sum, product| sum + product);
            }
            Ok(())
        })
    }
}

impl Layer for Vecdot {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (a, b) = (&inputs[0], &inputs[self.other.0]);
        if !a.dtype().is_float() && !a.dtype().is_complex() {
            return Err(LayerError::dtype("the input", "floats and complex numbers", a.dtype()));
        }
        if a.dtype() != b.dtype() {
            return Err(LayerError::dtype("y", format!("{}, the input's type", a.dtype()), b.dtype()));
        }
        let whole = a.with_dims(broadcast(a.dims(), b.dims())?);
        let axis = resolve_axis(self.dim, whole.rank())?;
        let kept = whole.dims().iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| dim.clone());
        Ok(vec![whole.with_dims(kept)])
    }
}

impl CpuLayer for Vecdot {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // In double precision, because rounding errors would accumulate.
        if io.inputs[0].dtype().is_complex() {
            return self.run::<Complex<f64>>(io.inputs, &mut io.outputs[0], io.context.limits());
        }
        self.run::<f64>(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}
