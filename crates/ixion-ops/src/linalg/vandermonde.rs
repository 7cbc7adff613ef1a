//! Vandermonde matrices: each row holds the powers of one number.

use crate::indexing::by_index::with_axis;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::number::{self, Number};
use ixion_tensor::{Complex, DType, Dim, TensorView, TensorViewMut};

crate::operator! {
    /// `torch.linalg.vander`: the Vandermonde matrix of each vector: for each number, a row with its powers from the 0th on. A
    /// tensor without axes is a vector of one number.
    pub struct PowersOfEach for "aten::linalg_vander" {
        /// The number of powers, at least 2; by default the length of the vector.
        count as "N": Option<usize> = None,
    }
    validate |this| {
        match this.count {
            Some(count @ 0..=1) => Err(LayerError::invalid("N", count, "it must be at least 2")),
            _ => Ok(()),
        }
    }
}

crate::operator! {
    /// `torch.vander`: the Vandermonde matrix of a vector: for each number, a row with its powers down to the 0th.
    pub struct Vander for "aten::vander" {
        /// The number of powers; by default the length of the vector.
        count as "N": Option<usize> = None,
        /// Whether the powers are in ascending order, from the 0th on.
        increasing: bool = false,
    }
}

/// The input's shape with an additional axis for the powers. Integers become i64.
fn powers(input: &TensorMeta, count: Option<usize>) -> Result<Vec<TensorMeta>> {
    let Some(len) = input.dims().last() else {
        return Err(LayerError::shape("the input", "a vector", input));
    };
    let count = count.map_or(len.clone(), Dim::from);
    let dtype = match input.dtype() {
        dtype if dtype.is_float() || dtype.is_complex() => dtype,
        _ => DType::I64,
    };
    Ok(vec![input.with_dtype(dtype).with_dims(input.dims().iter().cloned().chain([count]))])
}

/// Writes a row of powers for each number.
fn write<T: Number>(input: &TensorView<'_>, output: &mut TensorViewMut<'_>, rising: bool) -> Result<()> {
    let (numbers, count) = (number::read::<T>(input)?, output.shape().last().copied().unwrap_or(0));
    number::write::<T>(output, |output| {
        for (row, &number) in output.chunks_exact_mut(count.max(1)).zip(numbers.iter()) {
            let powers = std::iter::successors(Some(T::of(1.0)), |&power| Some(T::times(power, number)));
            row.iter_mut().zip(powers).for_each(|(to, power)| *to = power);
            if !rising {
                row.reverse();
            }
        }
        Ok(())
    })
}

fn run(input: &TensorView<'_>, output: &mut TensorViewMut<'_>, rising: bool) -> Result<()> {
    // In double precision, because rounding errors would add up.
    match output.dtype() {
        DType::I64 => write::<i64>(input, output, rising),
        dtype if dtype.is_complex() => write::<Complex<f64>>(input, output, rising),
        _ => write::<f64>(input, output, rising),
    }
}

impl Layer for PowersOfEach {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = inputs[0].dtype();
        if matches!(dtype, DType::Bool | DType::F16 | DType::Bf16 | DType::C32) {
            return Err(LayerError::dtype("the input", "integers, f32, f64, c64 and c128", dtype));
        }
        powers(&with_axis(&inputs[0]), self.count)
    }
}

impl CpuLayer for PowersOfEach {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        run(&io.inputs[0], &mut io.outputs[0], true)
    }
}

impl Layer for Vander {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].rank() != 1 {
            return Err(LayerError::shape("the input", "a vector", &inputs[0]));
        }
        powers(&inputs[0], self.count)
    }
}

impl CpuLayer for Vander {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        run(&io.inputs[0], &mut io.outputs[0], self.increasing)
    }
}
