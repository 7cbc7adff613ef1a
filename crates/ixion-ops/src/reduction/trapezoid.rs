//! Integration by the trapezoidal rule.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::broadcast::{Converted, TensorOrScalar, broadcast, common};
use crate::support::delegation::delegating;
use crate::support::number;
use crate::support::number::Number;
use ixion_kernels::matrix::Field;
use ixion_tensor::{Complex, DType, Dim, Limits, Scalar, TensorView, TensorViewMut, resolve_axis};
use ndarray::{ArrayD, ArrayViewD, Axis, Slice};

delegating! {
    {
        /// The distance between points, or their coordinates: a vector, or a tensor that is broadcast.
        spacing as "dx": TensorOrScalar = TensorOrScalar::Number(Scalar::Int(1)),
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
    }

    /// `torch.trapezoid`: the integral along an axis by the trapezoidal rule. Integers become f32.
    Trapezoid for "aten::trapezoid", "aten::trapz"
    |layer| Areas { spacing: layer.spacing, dim: layer.dim, running: false };

    /// `torch.cumulative_trapezoid`: the cumulative integral along an axis by the trapezoidal rule, up to each point but the
    /// first. Integers become f32.
    CumulativeTrapezoid for "aten::cumulative_trapezoid"
    |layer| Areas { spacing: layer.spacing, dim: layer.dim, running: true };
}

/// The trapezoidal rule along an axis.
#[derive(Debug, Clone)]
struct Areas {
    spacing: TensorOrScalar,
    dim: i64,
    /// Whether to compute the integral up to each point, instead of the total.
    running: bool,
}

/// The dimensions of the coordinates, with the rank of the points.
fn places(x: &TensorMeta, y: &TensorMeta, axis: usize) -> Result<Vec<Dim>> {
    let mut dims = vec![Dim::Fixed(1); y.rank()];
    match x.dims() {
        [len] if len.differs(&y.dims()[axis]) => {
            Err(LayerError::shape("dx", format!("a coordinate for each of the {} points", y.dims()[axis]), x))
        }
        [len] => {
            dims[axis] = len.clone();
            Ok(dims)
        }
        [] => Err(LayerError::shape("dx", "a number, a vector or more axes", x)),
        own if own.len() <= dims.len() => {
            let start = dims.len() - own.len();
            dims[start..].clone_from_slice(own);
            Ok(dims)
        }
        _ => Err(LayerError::shape("dx", format!("at most {} axes", y.rank()), x)),
    }
}

/// Each element and the next one along an axis.
fn pairs<'a, T>(array: &ArrayViewD<'a, T>, axis: Axis) -> [ArrayViewD<'a, T>; 2] {
    let len = array.len_of(axis);
    let count = len.saturating_sub(1);
    [0..count, len - count..len].map(|range| array.clone().slice_axis_move(axis, Slice::from(range)))
}

impl Layer for Areas {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let y = &inputs[0];
        if y.rank() == 0 {
            return Err(LayerError::shape("the input", "at least one axis", y));
        }
        number::check("the input", y.dtype())?;
        let axis = resolve_axis(self.dim, y.rank())?;
        let between = |mut dims: Vec<Dim>| {
            dims[axis] = (dims[axis].clone() - 1).max(0);
            dims
        };
        let (mut dims, mut dtype) = (between(y.dims().to_vec()), y.dtype());
        match self.spacing {
            TensorOrScalar::Input(position) => {
                let x = &inputs[position];
                number::check("dx", x.dtype())?;
                dims = broadcast(&dims, &between(places(x, y, axis)?))?;
                dtype = common(inputs, &[TensorOrScalar::Input(0), self.spacing]);
            }
            TensorOrScalar::Number(Scalar::Complex(z)) => {
                return Err(LayerError::invalid("dx", z, "it must be real"));
            }
            TensorOrScalar::Number(_) => {}
        }
        if !self.running {
            dims.remove(axis);
        }
        let dtype = if dtype.is_float() || dtype.is_complex() { dtype } else { DType::F32 };
        Ok(vec![y.with_dtype(dtype).with_dims(dims)])
    }
}

impl CpuLayer for Areas {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (output, limits) = (&mut io.outputs[0], io.context.limits());
        // In double precision, because rounding errors would add up.
        if output.dtype().is_complex() {
            return self.run::<Complex<f64>>(io.inputs, output, limits);
        }
        self.run::<f64>(io.inputs, output, limits)
    }
}

impl Areas {
    fn run<T: Number + Field>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let y = Converted::of(&inputs[0], T::DTYPE)?;
        let y = y.view().array::<T>()?;
        let axis = Axis(resolve_axis(self.dim, y.ndim())?);
        let [left, right] = pairs(&y, axis);
        let mut areas: ArrayD<T> = (&left + &right) * T::nearest(0.5);
        match self.spacing {
            TensorOrScalar::Number(_) => {
                let step = self.spacing.number(inputs, DType::F64)?.get_scalar(&[])?;
                let step = if let Scalar::Float(step) = step { step } else { f64::NAN };
                areas.mapv_inplace(|area| area * T::nearest(step));
            }
            TensorOrScalar::Input(position) => {
                let x = Converted::of(&inputs[position], T::DTYPE)?;
                let metas = TensorMeta::of_all(inputs);
                let dims = metas[0].with_dims(places(&metas[position], &metas[0], axis.index())?).shape()?;
                let x = x.view();
                let x = x.to_tensor()?.reshape(&dims)?;
                let [left, right] = pairs(&x.array::<T>()?, axis);
                let widths = &right - &left;
                let whole = broadcast(&as_dims(areas.shape()), &as_dims(widths.shape()))?;
                let whole = metas[0].with_dims(whole).shape()?;
                limits.check_tensor("the areas", (whole.num_elements() as u64).saturating_mul(16))?;
                areas = areas * widths;
            }
        }
        if self.running {
            areas.accumulate_axis_inplace(axis, |&before, area| *area = *area + before);
        } else {
            areas = areas.sum_axis(axis);
        }
        number::write::<T>(output, |output| {
            output.iter_mut().zip(&areas).for_each(|(to, &area)| *to = area);
            Ok(())
        })
    }
}

fn as_dims(lens: &[usize]) -> Vec<Dim> {
    lens.iter().map(|&len| Dim::from(len)).collect()
}

operators! { Trapezoid, CumulativeTrapezoid }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};

    #[test]
    fn integrals() {
        let y = tensor(&[2, 3], &[1i64, 2, 6, 0, 2, 0]);
        let run = |op_type, params| operator(op_type, params).run_one(&[&y]).unwrap();
        assert_close(&run("aten::trapezoid", &[]), &[2], &[5.5, 2.0]);
        assert_close(&run("aten::trapz", &[("dx", "2.0"), ("dim", "0")]), &[3], &[1.0, 4.0, 6.0]);
        assert_close(&run("aten::cumulative_trapezoid", &[]), &[2, 2], &[1.5, 5.5, 1.0, 2.0]);
        let at = |x: &ixion_tensor::Tensor| {
            operator("aten::trapezoid", &[]).with_names(&["input", "dx"]).run_one(&[&y, x])
        };
        assert_close(&at(&tensor(&[3], &[0.0f32, 1.0, 3.0])).unwrap(), &[2], &[9.5, 3.0]);
        assert_close(&at(&tensor(&[2, 3], &[0.0, 1.0, 3.0, 3.0, 2.0, 1.0])).unwrap(), &[2], &[9.5, -2.0]);
        for wrong in [&[2][..], &[], &[1, 2, 3], &[3, 3]] {
            let count = wrong.iter().product();
            assert!(at(&tensor(wrong, &vec![1.0; count])).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fewer_than_two_points() {
        for (len, running) in [(0, 0), (1, 0), (2, 1)] {
            let y = tensor(&[2, len], &vec![1.0; 2 * len]);
            let found = operator("aten::trapezoid", &[]).run_one(&[&y]).unwrap();
            assert_close(&found, &[2], &[running as f64; 2]);
            let found = operator("aten::cumulative_trapezoid", &[]).run_one(&[&y]).unwrap();
            assert_eq!(found.shape().dims(), [2, running]);
        }
    }

    #[test]
    fn odd_inputs() {
        for op_type in ["aten::trapezoid", "aten::cumulative_trapezoid"] {
            operator(op_type, &[]).survives(1);
            operator(op_type, &[]).with_names(&["input", "dx"]).survives(2);
        }
    }
}
