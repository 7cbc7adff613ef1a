//! The representation of floating-point numbers: neighbours, mantissas and exponents.

use crate::op::{CpuLayer, FromOperator, Io, Layer, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast, kind};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::pairs::pairs;
use crate::support::promotion::result_type;
use crate::support::views::write_plain;
use ixion_kernels::Float;
use ixion_tensor::{DType, Element, TensorView, TensorViewMut, bf16, f16};
use std::cmp::Ordering;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nextafter`: the next representable number after each element of the input, in the direction of `other`; `other`
    /// if both are equal, NaN if one of them is.
    pub struct NextAfter for "aten::nextafter" {
        /// The numbers that the steps lead towards; they are broadcast.
        other: InputIndex,
    }
}

crate::operator! {
    /// `torch.frexp`: takes each number apart into a mantissa, whose magnitude is at least 0.5 and less than 1, and an exponent
    /// of type i32: x = mantissa · 2^exponent. Zeros, infinities and NaN are mantissas themselves, with the exponent 0.
    pub struct Frexp for "aten::frexp" {}
}

/// A floating-point type of which neighbouring numbers can be found.
trait Stepping: Element + PartialOrd {
    /// The least number above; infinity above the largest number.
    fn up(self) -> Self;

    /// The greatest number below; minus infinity below the smallest number.
    fn down(self) -> Self;
}

impl Stepping for f32 {
    fn up(self) -> Self {
        self.next_up()
    }

    fn down(self) -> Self {
        self.next_down()
    }
}

impl Stepping for f64 {
    fn up(self) -> Self {
        self.next_up()
    }

    fn down(self) -> Self {
        self.next_down()
    }
}

/// The sign of a number of half precision.
const SIGN: u16 = 1 << 15;

/// The bits of the least number above one of half precision, given its bits; it is neither infinity nor NaN.
fn bits_above(bits: u16) -> u16 {
    match bits {
        0 | SIGN => 1,
        // The magnitude grows with the bits.
        1..SIGN => bits + 1,
        _ => bits - 1,
    }
}

macro_rules! stepping {
    ($($half:ident),+) => {$(
        impl Stepping for $half {
            fn up(self) -> Self {
                Self::from_bits(bits_above(self.to_bits()))
            }

            fn down(self) -> Self {
                Self::from_bits(bits_above(self.to_bits() ^ SIGN) ^ SIGN)
            }
        }
    )+};
}

stepping!(f16, bf16);

/// The number after `x` in the direction of `y`.
fn after<T: Stepping>(x: T, y: T) -> T {
    match x.partial_cmp(&y) {
        Some(Ordering::Less) => x.up(),
        Some(Ordering::Greater) => x.down(),
        // Zeros of different signs are equal, too.
        Some(Ordering::Equal) => y,
        None if x.partial_cmp(&x).is_none() => x,
        None => y,
    }
}

impl Layer for NextAfter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, other) = (&inputs[0], &inputs[self.other.0]);
        let dims = broadcast(input.dims(), other.dims())?;
        let output = TensorMeta::new(result_type([kind(input), kind(other)]), dims);
        float::check("the input", &output)?;
        Ok(vec![output])
    }
}

impl CpuLayer for NextAfter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let output = &mut io.outputs[0];
        let dtype = output.dtype();
        let x = Converted::of(&io.inputs[0], dtype)?;
        let y = Converted::of(&io.inputs[self.other.0], dtype)?;
        match dtype {
            DType::F32 => pairs(&x, &y, output, after::<f32>),
            DType::F64 => pairs(&x, &y, output, after::<f64>),
            DType::F16 => pairs(&x, &y, output, after::<f16>),
            DType::Bf16 => pairs(&x, &y, output, after::<bf16>),
            other => Err(float::not_a_float("the input", other)),
        }
    }
}

impl Frexp {
    fn run<T: Float>(input: &TensorView<'_>, outputs: &mut [TensorViewMut<'_>]) -> Result<()> {
        let [mantissas, exponents] = outputs else { return Ok(()) };
        let input = float::read::<T>(input)?;
        let parts = |x: &T| libm::frexp(x.to_f64().unwrap_or(f64::NAN));
        float::write::<T>(mantissas, |output| {
            output.iter_mut().zip(input.iter()).for_each(|(to, x)| *to = T::of(parts(x).0));
            Ok(())
        })?;
        write_plain(exponents, &mut |output| {
            let output = output.slice::<i32>()?;
            output.iter_mut().zip(input.iter()).for_each(|(to, x)| *to = parts(x).1);
            Ok(())
        })
    }
}

impl Layer for Frexp {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut outputs = float::same_as_input(inputs)?;
        outputs.push(inputs[0].with_dtype(DType::I32));
        Ok(outputs)
    }
}

impl CpuLayer for Frexp {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => Self::run::<T>(&io.inputs[0], io.outputs))
    }
}

operators! { NextAfter, Frexp }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::Tensor;

    const INF: f32 = f32::INFINITY;

    fn next(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        operator("aten::nextafter", &[]).run_one(&[x, y])
    }

    fn are_negative(numbers: &Tensor) -> Vec<bool> {
        numbers.to_vec::<f32>().unwrap().into_iter().map(f32::is_sign_negative).collect()
    }

    /// PyTorch's results.
    #[test]
    fn neighbours_are_in_the_direction_of_the_other_number() {
        let x = tensor(&[9], &[0f32, -0.0, 1.0, -1.0, INF, -INF, f32::NAN, 65504.0, 1.0]);
        let y = tensor(&[9], &[1f32, 1.0, 2.0, -INF, 0.0, 0.0, 1.0, INF, 1.0]);
        let tiny = f32::from_bits(1);
        let want = [tiny, tiny, 1.000_000_1, -1.000_000_1, f32::MAX, f32::MIN, f32::NAN, 65504.004, 1.0];
        let got = next(&x, &y).unwrap().to_vec::<f32>().unwrap();
        let is_same = |(got, want): (&f32, f32)| *got == want || (got.is_nan() && want.is_nan());
        assert!(got.iter().zip(want).all(is_same), "{got:?}");
        let as_type = |dtype| next(&x.cast(dtype).unwrap(), &y.cast(dtype).unwrap()).unwrap();
        let got = as_type(DType::F16).to_vec::<f16>().unwrap();
        let want = [5.960_464_5e-8, 5.960_464_5e-8, 1.000_976_6, -1.000_976_6, 65504.0, -65504.0];
        assert_eq!(got.iter().take(6).map(|x| x.to_f32()).collect::<Vec<_>>(), want);
        assert!(got[6].is_nan() && got[7].to_f32() == INF && got[8].to_f32() == 1.0);
        let got = as_type(DType::Bf16).to_vec::<bf16>().unwrap();
        assert_eq!([got[2], got[3], got[7]].map(bf16::to_f32), [1.007_812_5, -1.007_812_5, 66048.0]);
        let got = as_type(DType::F64).to_vec::<f64>().unwrap();
        assert_eq!((got[0], got[2]), (f64::from_bits(1), 1.0 + f64::EPSILON));
        let zeros = next(&tensor(&[2], &[0f32, -0.0]), &tensor(&[2], &[-0f32, 0.0])).unwrap();
        assert_eq!(are_negative(&zeros), [true, false]);
    }

    #[test]
    fn neighbours_of_other_types_and_shapes() {
        let (x, y) = (tensor(&[1], &[0f32]), tensor(&[2, 1], &[1f32, -1.0]));
        let got = next(&x, &y).unwrap();
        assert_eq!(got.shape().dims(), [2, 1]);
        assert_eq!(are_negative(&got), [false, true]);
        assert_eq!(next(&x, &Tensor::scalar(1f64)).unwrap().dtype(), DType::F32);
        assert_eq!(next(&x, &y.cast(DType::F64).unwrap()).unwrap().dtype(), DType::F64);
        assert_eq!(next(&x, &tensor(&[1], &[1i64])).unwrap().dtype(), DType::F32);
        let error = next(&tensor(&[1], &[1i64]), &tensor(&[1], &[1i64])).unwrap_err().to_string();
        assert_eq!(error, "the input: expected f32, f64, f16 and bf16, got i64");
        operator("aten::nextafter", &[]).survives(2);
    }

    /// PyTorch's results.
    #[test]
    fn numbers_are_taken_apart() {
        let x = tensor(&[8], &[0f32, -0.0, 1.0, -3.0, INF, f32::NAN, f32::from_bits(2), 65504.0]);
        let parts = operator("aten::frexp", &[]).run(&[&x]).unwrap();
        let mantissas = parts[0].to_vec::<f32>().unwrap();
        assert_eq!(mantissas[..5], [0.0, 0.0, 0.5, -0.75, INF]);
        assert!(mantissas[1].is_sign_negative() && mantissas[5].is_nan());
        assert_eq!(mantissas[6..], [0.5, 0.999_511_7]);
        assert_eq!(parts[1].to_vec::<i32>().unwrap(), [0, 0, 1, 2, 0, 0, -147, 16]);
        let parts = operator("aten::frexp", &[]).run(&[&x.cast(DType::Bf16).unwrap()]).unwrap();
        assert_eq!(parts[1].to_vec::<i32>().unwrap(), [0, 0, 1, 2, 0, 0, 0, 17]);
        assert_eq!(parts[0].dtype(), DType::Bf16);
        assert!(operator("aten::frexp", &[]).run(&[&tensor(&[1], &[1i64])]).is_err());
        operator("aten::frexp", &[]).survives(1);
    }
}
