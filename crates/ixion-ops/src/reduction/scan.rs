//! Cumulative sums and products along an axis.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::Accumulator;
use crate::support::broadcast::Converted;
use crate::support::delegation::delegating;
use crate::support::float;
use crate::support::float::{SHARE, with_float};
use ixion_kernels::Float;
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{Complex, DType, Limits, Tensor, TensorView, TensorViewMut, resolve_axis};
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

/// Rows that are combined side by side, because each combination has to wait for the one before it in its row.
const ROWS: usize = 4;

/// Adjacent lanes that are combined side by side.
const LANES: usize = 64;

/// The number of combinations between checks of the deadline.
const BETWEEN_CHECKS: usize = 1 << 16;

/// Replaces each element by the combination of `start`, all elements before it and itself along the middle axis of
/// …×`len`×`inner`.
fn scan<T: Copy, A: Copy>(
    values: &mut [T],
    (len, inner, limits): (usize, usize, &Limits),
    start: A,
    widen: impl Fn(T) -> A,
    join: impl Fn(A, A) -> A,
    narrow: impl Fn(A) -> T,
) -> Result<()> {
    let (block, mut unchecked) = ((len * inner).max(1), 0);
    if inner == 1 {
        let mut groups = values.chunks_exact_mut(block.saturating_mul(ROWS));
        for group in &mut groups {
            unchecked += group.len();
            if unchecked >= BETWEEN_CHECKS {
                unchecked = 0;
                limits.check_deadline()?;
            }
            let mut rows = group.chunks_exact_mut(block);
            let rows: [&mut [T]; ROWS] = std::array::from_fn(|_| rows.next().unwrap_or_default());
            scan_rows((rows, limits), start, &widen, &join, &narrow)?;
        }
        let mut rest = groups.into_remainder().chunks_exact_mut(block);
        return rest.try_for_each(|row| scan_rows(([row], limits), start, &widen, &join, &narrow));
    }
    for block in values.chunks_exact_mut(block) {
        for lane in (0..inner).step_by(LANES) {
            let width = LANES.min(inner - lane);
            let rows = block.chunks_exact_mut(inner).map(|row| &mut row[lane..lane + width]);
            let mut totals = [start; LANES];
            for row in rows {
                for (x, total) in row.iter_mut().zip(&mut totals) {
                    *total = join(*total, widen(*x));
                    *x = narrow(*total);
                }
                unchecked += width;
                if unchecked >= BETWEEN_CHECKS {
                    unchecked = 0;
                    limits.check_deadline()?;
                }
            }
        }
    }
    Ok(())
}

/// Scans rows of the same length side by side.
fn scan_rows<const R: usize, T: Copy, A: Copy>(
    (mut rows, limits): ([&mut [T]; R], &Limits),
    start: A,
    widen: &impl Fn(T) -> A,
    join: &impl Fn(A, A) -> A,
    narrow: &impl Fn(A) -> T,
) -> Result<()> {
    let len = rows.iter().map(|row| row.len()).min().unwrap_or(0);
    let mut totals = [start; R];
    for first in (0..len).step_by(BETWEEN_CHECKS) {
        if first > 0 {
            limits.check_deadline()?;
        }
        for at in first..len.min(first + BETWEEN_CHECKS) {
            for (row, total) in rows.iter_mut().zip(&mut totals) {
                *total = join(*total, widen(row[at]));
                row[at] = narrow(*total);
            }
        }
    }
    Ok(())
}

impl Scan {
    /// Calls [`scan`] with the sum, which starts at zero as in PyTorch, so that it is never -0, or with the product, which starts
    /// at one.
    fn join<T: Copy, A: Copy + Add<Output = A> + Mul<Output = A>>(
        &self,
        values: &mut [T],
        sizes: (usize, usize, &Limits),
        [zero, one]: [A; 2],
        widen: impl Fn(T) -> A,
        narrow: impl Fn(A) -> T,
    ) -> Result<()> {
        match self.is_product {
            true => scan(values, sizes, one, widen, |a, b| a * b, narrow),
            false => scan(values, sizes, zero, widen, |a, b| a + b, narrow),
        }
    }

    fn join_integers(&self, values: &mut [i64], sizes: (usize, usize, &Limits)) -> Result<()> {
        self.join(values, sizes, [Wrapping(0), Wrapping(1)], Wrapping, |joined: Wrapping<i64>| joined.0)
    }

    fn run<T: Float>(
        &self,
        input: &TensorView<'_>,
        sizes: (usize, usize, &Limits),
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let (len, inner, limits) = sizes;
        float::transform_rows::<T>(Some(input), output, len * inner, limits, &|_, input, output| {
            if let Some(input) = input {
                output.copy_from_slice(input);
            }
            // In f64, so that long rows lose no precision.
            self.join(output, sizes, [0.0, 1.0], |x: T| x.to_f64().unwrap_or(f64::NAN), T::of)
        })
    }

    fn run_integers(
        &self,
        input: &TensorView<'_>,
        sizes: (usize, usize, &Limits),
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let same = if input.dtype() == DType::I64 { input.slice::<i64>().ok() } else { None };
        if same.is_none() {
            output.cast_from(input)?;
        }
        let (len, inner, limits) = sizes;
        let block = (len * inner).max(1);
        let part = SHARE.div_ceil(block).saturating_mul(block);
        for_each_chunk(output.slice::<i64>()?, part, &|start, output: &mut [i64]| -> Result<()> {
            limits.check_deadline()?;
            if let Some(input) = same.and_then(|input| input.get(start..start + output.len())) {
                output.copy_from_slice(input);
            }
            self.join_integers(output, sizes)
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
        let (len, inner) = (shape.get(axis).copied().unwrap_or(1), shape.iter().skip(axis + 1).product());
        let (sizes, output) = ((len, inner, io.context.limits()), &mut io.outputs[0]);
        if shape.rank() == 0 {
            return Ok(output.cast_from(&io.inputs[0])?);
        }
        if output.dtype().is_float() {
            let input = Converted::of(&io.inputs[0], output.dtype())?;
            return with_float!(output.dtype(), T => self.run::<T>(&input.view(), sizes, output));
        }
        if output.dtype() == DType::I64 && output.layout().is_contiguous() {
            return self.run_integers(&io.inputs[0], sizes, output);
        }
        let input = io.inputs[0].to_tensor()?;
        let result = if output.dtype().is_complex() {
            let mut values = input.cast(output.dtype())?.cast(DType::C128)?.to_vec::<Complex<f64>>()?;
            let neutral = [Complex::new(0.0, 0.0), Complex::new(1.0, 0.0)];
            self.join(&mut values, sizes, neutral, |z| z, |z| z)?;
            Tensor::from_vec(values, &shape)?
        } else {
            let mut values = input.cast(DType::I64)?.to_vec::<i64>()?;
            self.join_integers(&mut values, sizes)?;
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
    fn long_axes_are_left_at_the_deadline() {
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        let sums = Scan { is_product: false, dim: 0, dtype: Accumulator(None) };
        let is_left = |len: usize, inner: usize, limits: &Limits| {
            sums.join_integers(&mut vec![1; len * inner], (len, inner, limits)).is_err()
        };
        for (len, inner) in [(2 * BETWEEN_CHECKS, 1), (BETWEEN_CHECKS, 3), (2, BETWEEN_CHECKS)] {
            assert!(is_left(len, inner, &late) && !is_left(len, inner, &Limits::default()), "{len}×{inner}");
        }
        assert!(!is_left(100, 7, &late));
        // Many short rows, too.
        assert!(sums.join_integers(&mut vec![1; 2 * BETWEEN_CHECKS], (2, 1, &late)).is_err());
    }

    #[test]
    fn elements_add_up() {
        let x = counting(DType::F64, &[2, 3]);
        let run = |op_type, dim| operator(op_type, &[("dim", dim)]).run_one(&[&x]).unwrap();
        assert_close(&run("torch.cumsum", "1"), &[2, 3], &[0.0, 1.0, 3.0, 3.0, 7.0, 12.0]);
        assert_close(&run("torch.cumsum", "-2"), &[2, 3], &[0.0, 1.0, 2.0, 3.0, 5.0, 7.0]);
        assert_close(&run("torch.cumprod", "1"), &[2, 3], &[0.0, 0.0, 0.0, 3.0, 12.0, 60.0]);
        let (tall, flat) = (counting(DType::F64, &[7, 3]), counting(DType::I64, &[7, 3]));
        let sums = |row: i32| [3 * row, 6 * row + 1, 9 * row + 3].map(f64::from);
        let want: Vec<f64> = (0..7).flat_map(sums).collect();
        for x in [&tall, &flat] {
            assert_close(&operator("torch.cumsum", &[("dim", "1")]).run_one(&[x]).unwrap(), &[7, 3], &want);
        }
        let bools = operator("torch.cumsum", &[("dim", "0")])
            .run_one(&[&tensor(&[3], &[true, false, true])])
            .unwrap();
        assert_eq!(bools.to_vec::<i64>().unwrap(), [1, 1, 2]);
        let wide = operator("torch.cumprod", &[("dim", "0"), ("dtype", "torch.float")]);
        assert_close(&wide.run_one(&[&tensor(&[2], &[3u8, 100])]).unwrap(), &[2], &[3.0, 300.0]);
        // The signs of zeros are those of PyTorch.
        let zeros = tensor(&[2, 2], &[-0f32; 4]);
        for (op_type, dim, signs) in [
            ("torch.cumsum", "0", [1.0; 4]),
            ("torch.cumsum", "1", [1.0; 4]),
            ("torch.cumprod", "1", [-1.0, 1.0, -1.0, 1.0]),
        ] {
            let got = operator(op_type, &[("dim", dim)]).run_one(&[&zeros]).unwrap();
            let got: Vec<f32> = got.to_vec::<f32>().unwrap().iter().map(|x| x.signum()).collect();
            assert_eq!(got, signs, "{op_type} along {dim}");
        }
        let scalar = operator("torch.cumsum", &[("dim", "0")]).run_one(&[&Tensor::scalar(-0f32)]).unwrap();
        assert!(scalar.item::<f32>().unwrap().is_sign_negative());
        for op_type in ["torch.cumsum", "torch.cumprod"] {
            assert!(operator(op_type, &[("dim", "0"), ("dtype", "torch.bool")]).run(&[&x]).is_err());
            operator(op_type, &[("dim", "-1")]).survives(1);
        }
    }
}
