//! Cumulative extremes and log-sum-exp along an axis: cummax, cummin, logcumsumexp.

use super::extremes::{check_order, places, with_order, with_places};
use crate::op::{CpuLayer, Io, Layer, Result, TensorMeta};
use crate::support::delegation::delegating;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use crate::support::order::First;
use crate::support::rows::Rows;
use ixion_kernels::Float;
use ixion_tensor::{Complex, TensorView, TensorViewMut, resolve_axis};

delegating! {
    {
        /// The axis; a negative value counts from the end.
        dim: i64,
    }

    /// `torch.cummax`: the cumulative maximum along an axis: for each element, the largest of it and all before it.
    /// The second output has its position, the last one of equal elements. From a NaN on, all elements are NaN.
    Cummax for "aten::cummax" |layer| Running { first: First::Largest, dim: layer.dim };

    /// `torch.cummin`: the cumulative minimum along an axis: for each element, the smallest of it and all before it.
    /// The second output has its position, the last one of equal elements. From a NaN on, all elements are NaN.
    Cummin for "aten::cummin" |layer| Running { first: First::Smallest, dim: layer.dim };
}

/// The extremes of the elements so far along an axis, and their positions.
#[derive(Debug, Clone)]
struct Running {
    first: First,
    dim: i64,
}

impl Layer for Running {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        resolve_axis(self.dim, inputs[0].rank())?;
        Ok(with_places(inputs[0].with_dims(inputs[0].dims().to_vec())))
    }
}

impl CpuLayer for Running {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let along = Rows::new(self.dim, io.inputs[0].shape())?;
        let rows = along.of(&io.inputs[0])?;
        let best = with_order!(rows.dtype(), T => places::<T>(&rows, along.len, io.context.limits(), |row| {
            let is_nan = |x: T| x.partial_cmp(&x).is_none();
            let mut best = 0;
            let next = row.iter().enumerate().map(|(place, x)| {
                if is_nan(*x) || (!is_nan(row[best]) && self.first.is_late(&row[best], x)) {
                    best = place;
                }
                best
            });
            next.collect()
        }))?;
        along.write(&rows, best, io.outputs)
    }
}

crate::operator! {
    /// `torch.logcumsumexp`: the logarithm of the cumulative sum of the exponentials along an axis.
    pub struct Logcumsumexp for "aten::logcumsumexp" {
        /// The axis; a negative value counts from the end.
        dim: i64,
    }
}

impl Layer for Logcumsumexp {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        resolve_axis(self.dim, inputs[0].rank())?;
        if inputs[0].dtype().is_complex() {
            return Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())]);
        }
        float::same_as_input(inputs)
    }
}

impl Logcumsumexp {
    fn run<T: Float>(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let along = Rows::new(self.dim, input.shape())?;
        let (rows, len) = (along.of(input)?, along.len.max(1));
        let values = float::read::<T>(&rows)?;
        float::write::<T>(&mut along.of_output(output)?, |output| {
            for (row, output) in values.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
                let mut sum = f64::NEG_INFINITY;
                for (x, y) in row.iter().zip(output) {
                    sum = joined(sum, x.to_f64().unwrap_or(f64::NAN));
                    *y = T::of(sum);
                }
            }
            Ok(())
        })
    }

    fn run_complex(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let along = Rows::new(self.dim, input.shape())?;
        let (rows, len) = (along.of(input)?, along.len.max(1));
        let values = number::read::<Complex<f64>>(&rows)?;
        number::write::<Complex<f64>>(&mut along.of_output(output)?, |output| {
            for (row, output) in values.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
                let mut sum = Complex::new(f64::NEG_INFINITY, 0.0);
                for (&z, to) in row.iter().zip(output) {
                    sum = joined_complex(sum, z);
                    *to = sum;
                }
            }
            Ok(())
        })
    }
}

/// The logarithm of eᵃ + eᵇ. As in PyTorch, its imaginary part is that of the larger number plus the angle by which the other
/// rotates the sum: it may be beyond ±π. If the sum is 0, it is that of the first number.
fn joined_complex(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    if a.is_nan() || b.is_nan() {
        return Complex::new(f64::NAN, f64::NAN);
    }
    let (low, high) = if b.re < a.re { (b, a) } else { (a, b) };
    if high.re.is_infinite() && low.re == high.re {
        return if high.re < 0.0 { low } else { (low.exp() + high.exp()).ln() };
    }
    let part = (low - high).exp();
    let magnitude = (part.re * (2.0 + part.re) + part.im * part.im).ln_1p() / 2.0;
    Complex::new(magnitude, part.im.atan2(1.0 + part.re)) + high
}

/// The logarithm of eᵃ + eᵇ.
fn joined(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let (low, high) = (a.min(b), a.max(b));
    if high.is_infinite() { high } else { high + (low - high).exp().ln_1p() }
}

impl CpuLayer for Logcumsumexp {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].dtype().is_complex() {
            return self.run_complex(&io.inputs[0], &mut io.outputs[0]);
        }
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(&io.inputs[0], &mut io.outputs[0]))
    }
}

operators! { Cummax, Cummin, Logcumsumexp }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::Complex;

    #[test]
    fn cumulative_extremes() {
        let x = tensor(&[5], &[1f32, 3.0, 3.0, f32::NAN, 9.0]);
        let run = |op_type| operator(op_type, &[("dim", "0")]).with_outputs(2).run(&[&x]).unwrap();
        let largest = run("aten::cummax");
        assert_close(&largest[0], &[5], &[1.0, 3.0, 3.0, f64::NAN, f64::NAN]);
        assert_eq!(largest[1].to_vec::<i64>().unwrap(), [0, 1, 2, 3, 3]);
        assert_eq!(run("aten::cummin")[1].to_vec::<i64>().unwrap(), [0, 0, 0, 3, 3]);
        let columns = tensor(&[2, 2], &[4i64, 1, 2, 3]);
        let rows = operator("aten::cummin", &[("dim", "-2")]).with_outputs(2).run(&[&columns]).unwrap();
        assert_eq!(rows[0].to_vec::<i64>().unwrap(), [4, 1, 2, 1]);
    }

    #[test]
    fn logarithms_of_complex_sums() {
        let number = |re: f64, im: f64| Complex::new(re, im);
        let inf = f64::INFINITY;
        let z = [number(-inf, 1.0), number(1.0, 2.0), number(1.0, 2.0), number(inf, 1.0), number(0.0, 3.0)];
        let got = operator("aten::logcumsumexp", &[("dim", "0")]).run_one(&[&tensor(&[5], &z)]).unwrap();
        let two = number(1.0 + 2f64.ln(), 2.0);
        let want = [number(-inf, 0.0), number(1.0, 2.0), two, number(inf, 1.0), number(inf, 1.0)];
        assert_eq!(got.to_vec::<Complex<f64>>().unwrap(), want);
        // Beyond π: e^(3.1i) and a little of e^(4i).
        let z = [number(0.0, 3.1), number(-1.0, 4.0)];
        let got = operator("aten::logcumsumexp", &[("dim", "0")]).run_one(&[&tensor(&[2], &z)]).unwrap();
        let sum = got.to_vec::<Complex<f64>>().unwrap()[1];
        assert!(sum.im > std::f64::consts::PI && (sum.exp() - z[0].exp() - z[1].exp()).norm() < 1e-14);
    }

    #[test]
    fn logarithms_of_sums() {
        let x = tensor(&[3], &[f64::NEG_INFINITY, 0.0, 3f64.ln()]);
        let run = operator("aten::logcumsumexp", &[("dim", "0")]).run_one(&[&x]).unwrap();
        assert_close(&run, &[3], &[f64::NEG_INFINITY, 0.0, 4f64.ln()]);
    }

    #[test]
    fn odd_inputs() {
        operator("aten::cummax", &[("dim", "-1")]).with_outputs(2).survives(1);
        operator("aten::logcumsumexp", &[("dim", "0")]).survives(1);
    }
}
