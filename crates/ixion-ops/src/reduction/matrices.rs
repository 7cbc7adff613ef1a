//! Sums and norms of matrices and of slices: trace, renorm.

use super::along_axes::Sum;
use crate::layout::diagonals::Place;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::Accumulator;
use crate::support::float::{self, with_float};
use crate::support::number;
use ixion_kernels::{Float, reduce};
use ixion_tensor::{Complex, DType, Tensor, TensorView, TensorViewMut, resolve_axis};

crate::operator! {
    /// `torch.trace`: the sum of the elements on the main diagonal of a matrix. Integers are summed as i64.
    pub struct Trace for "aten::trace" {}
}

crate::operator! {
    /// `torch.renorm`: the slices along an axis, scaled down to `maxnorm` where their norm is above it.
    pub struct Renorm for "aten::renorm" {
        /// The order of the norm, above 0.
        p: f64,
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The largest norm, at least 0.
        maxnorm: f64,
    }
    validate |layer| {
        if layer.p.is_nan() || layer.p <= 0.0 {
            return Err(LayerError::invalid("p", layer.p, "it must be above 0"));
        }
        if layer.maxnorm.is_nan() || layer.maxnorm < 0.0 {
            return Err(LayerError::invalid("maxnorm", layer.maxnorm, "it must be at least 0"));
        }
        Ok(())
    }
}

/// The sum of all elements.
fn sum_of_all() -> Sum {
    Sum { dtype: Accumulator(None), dim: None, keepdim: false }
}

impl Layer for Trace {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [rows, columns] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "a matrix", &inputs[0]));
        };
        number::check("the input", inputs[0].dtype())?;
        sum_of_all().infer(&[inputs[0].with_dims([rows.clone().min(columns.clone())])])
    }
}

impl CpuLayer for Trace {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let layout = Place::new(0, 0, 1, io.inputs[0].shape().rank())?.layout(io.inputs[0].layout())?;
        let diagonal = [io.inputs[0].with_layout(layout)?];
        sum_of_all().forward(&mut Io::new(&diagonal, io.outputs, &mut io.context))
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        sum_of_all().workspace(inputs, outputs)
    }
}

impl Renorm {
    /// The factor for a slice of this norm.
    fn factor(&self, norm: f64) -> f64 {
        // The small number is PyTorch's.
        if norm > self.maxnorm { self.maxnorm / (norm + 1e-7) } else { 1.0 }
    }

    /// Scales rows of `len` elements.
    fn scale<T: Float>(
        &self,
        rows: &TensorView<'_>,
        len: usize,
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let values = float::read::<T>(rows)?;
        float::write::<T>(output, |output| {
            for (from, to) in values.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
                let factor = T::of(self.factor(reduce::norm(from, self.p)));
                to.iter_mut().zip(from).for_each(|(to, &x)| *to = x * factor);
            }
            Ok(())
        })
    }

    /// As [`Renorm::scale`], of complex numbers.
    fn scale_complex(&self, rows: &TensorView<'_>, len: usize, output: &mut TensorViewMut<'_>) -> Result<()> {
        let mut values = rows.cast(DType::C128)?.to_vec::<Complex<f64>>()?;
        for row in values.chunks_exact_mut(len) {
            let magnitudes: Vec<f64> = row.iter().map(|z| z.norm()).collect();
            let factor = self.factor(reduce::norm(&magnitudes, self.p));
            row.iter_mut().for_each(|z| *z *= factor);
        }
        Ok(output.cast_from(&Tensor::from_vec(values, rows.shape())?.view())?)
    }
}

impl Layer for Renorm {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, dtype) = (&inputs[0], inputs[0].dtype());
        if !dtype.is_float() && !dtype.is_complex() {
            return Err(LayerError::dtype("the input", "floats and complex numbers", dtype));
        }
        if input.rank() < 2 {
            return Err(LayerError::shape("the input", "at least two axes", input));
        }
        resolve_axis(self.dim, input.rank())?;
        Ok(vec![input.with_dims(input.dims().to_vec())])
    }
}

impl CpuLayer for Renorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, rank) = (&io.inputs[0], io.inputs[0].shape().rank());
        let axis = input.shape().axis(self.dim)?;
        let others = (0..rank).filter(|&other| other != axis);
        let order: Vec<usize> = std::iter::once(axis).chain(others).collect();
        let rows = input.with_layout(input.layout().permute(&order)?)?;
        let layout = io.outputs[0].layout().permute(&order)?;
        let mut output = io.outputs[0].reborrow().with_layout(layout)?;
        let len = rows.shape().iter().skip(1).product::<usize>().max(1);
        if rows.dtype().is_complex() {
            return self.scale_complex(&rows, len, &mut output);
        }
        with_float!(rows.dtype(), T => self.scale::<T>(&rows, len, &mut output))
    }
}

operators! { Trace, Renorm }

#[cfg(test)]
mod tests {
    use crate::op::Result;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{Complex, DType, Tensor};

    /// PyTorch's results.
    #[test]
    fn sums_of_diagonals() {
        let trace = |x: &Tensor| operator("aten::trace", &[]).run_one(&[x]);
        let x = tensor(&[2, 3], &[200i64, 2, 3, 4, 100, 6]);
        for dtype in [DType::I64, DType::I32, DType::U8] {
            let sum = trace(&x.cast(dtype).unwrap()).unwrap();
            assert_eq!((sum.rank(), sum.item::<i64>().unwrap()), (0, 300));
        }
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
            let sum = trace(&x.cast(dtype).unwrap()).unwrap();
            assert_eq!(sum.dtype(), dtype);
            assert_close(&sum, &[], &[300.0]);
        }
        let i = Complex::new(0.0, 1.0);
        let sum = trace(&tensor(&[2, 2], &[i, i, i, i + 2.0])).unwrap();
        assert_eq!(sum.item::<Complex<f64>>().unwrap(), Complex::new(2.0, 2.0));
        assert_close(&trace(&Tensor::zeros(DType::F32, &[0, 3]).unwrap()).unwrap(), &[], &[0.0]);
        assert!(trace(&counting(DType::F32, &[3])).is_err() && trace(&x.cast(DType::Bool).unwrap()).is_err());
        operator("aten::trace", &[]).survives(1);
    }

    fn renorm(p: &'static str, dim: &'static str, maxnorm: &'static str, x: &Tensor) -> Result<Tensor> {
        operator("aten::renorm", &[("p", p), ("dim", dim), ("maxnorm", maxnorm)]).run_one(&[x])
    }

    /// PyTorch's results.
    #[test]
    fn slices_are_scaled_down() {
        let x = tensor(&[3, 2], &[3.0f32, 4.0, 0.1, 0.2, 0.0, 0.0]);
        let rows = |p, first| {
            assert_close(
                &renorm(p, "0", "1", &x).unwrap(),
                &[3, 2],
                &[first, first / 0.75, 0.1, 0.2, 0.0, 0.0],
            );
        };
        rows("2", 0.6);
        rows("1", 0.428_571_46);
        rows("0.5", 0.215_390_29);
        rows("inf", 0.75);
        let columns = renorm("2", "-1", "1", &x).unwrap();
        assert_close(&columns, &[3, 2], &[0.999_445, 0.998_752_4, 0.033_314_83, 0.049_937_62, 0.0, 0.0]);
        assert_close(&renorm("2", "0", "inf", &x).unwrap(), &[3, 2], &[3.0, 4.0, 0.1, 0.2, 0.0, 0.0]);
        assert_close(&renorm("2", "0", "0", &x).unwrap(), &[3, 2], &[0.0; 6]);
        let cube = renorm("2", "1", "5", &counting(DType::F64, &[2, 2, 2])).unwrap();
        let wanted =
            [0.0, 0.771_516_7, 1.010_152_6, 1.515_228_9, 3.086_067, 3.857_583_7, 3.030_457_7, 3.535_534];
        assert!(cube.to_vec::<f64>().unwrap().iter().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-6));
    }

    /// PyTorch's results.
    #[test]
    fn special_numbers() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let x = tensor(&[2, 2], &[nan, 4.0, inf, 0.0]);
        assert_close(&renorm("2", "0", "1", &x).unwrap(), &[2, 2], &[f64::NAN, 4.0, f64::NAN, 0.0]);
        let z = tensor(&[1, 2], &[Complex::new(3.0, 4.0), Complex::new(4.0f32, 0.0)]);
        let z = renorm("2", "0", "1", &z).unwrap().to_vec::<Complex<f32>>().unwrap();
        assert!((z[0].re - 0.468_521_3).abs() < 1e-6 && (z[0].im - 0.624_695_06).abs() < 1e-6);
        for (p, dim, maxnorm) in [("0", "0", "1"), ("nan", "0", "1"), ("2", "0", "-1"), ("2", "2", "1")] {
            assert!(renorm(p, dim, maxnorm, &x).is_err());
        }
        assert!(renorm("2", "0", "1", &tensor(&[2], &[3.0f32, 4.0])).is_err());
        assert!(renorm("2", "0", "1", &tensor(&[1, 1], &[3i64])).is_err());
        operator("aten::renorm", &[("p", "2"), ("dim", "1"), ("maxnorm", "1")]).survives(1);
    }
}
