//! Evenly spaced numbers: linspace, logspace and range.

use super::counted::{Integer, counted_layers, vector as of_floats};
use super::filled::{NumberArgument, number_dtype};
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::broadcast::fitting;
use ixion_kernels::widest;
use ixion_tensor::{Complex, DType, Element, Float, Limits, Scalar, Tensor, TensorView};

crate::operator! {
    /// `torch.linspace`: a vector of evenly spaced numbers from `start` up to and including `end`.
    pub struct Linspace for "aten::linspace" {
        /// The first number.
        start: NumberArgument,
        /// The last number.
        end: NumberArgument,
        /// The number of numbers.
        steps: Integer,
        /// The element type; f32 by default, or c64 if `start` or `end` is complex.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.logspace`: a vector of the powers of `base` whose exponents are evenly spaced from `start` up to and including
    /// `end`.
    pub struct Logspace for "aten::logspace" {
        /// The first exponent.
        start: NumberArgument,
        /// The last exponent.
        end: NumberArgument,
        /// The number of powers.
        steps: Integer,
        /// The base of the powers.
        base: f64 = 10.0,
        /// The element type; f32 by default, or c64 if `start` or `end` is complex. For integers, the exponents at both ends are
        /// truncated.
        dtype: Option<DType> = None,
    }
}

crate::operator! {
    /// `torch.range`: a vector of the numbers `start`, `start + step`, … up to and including `end`.
    pub struct InclusiveRange for "aten::range" {
        /// The first number.
        start: f64,
        /// The end of the range, inclusive.
        end: f64,
        /// The difference of adjacent numbers.
        step: f64 = 1.0,
        /// The element type; f32 by default. For integers, all three numbers are truncated.
        dtype: Option<DType> = None,
    }
    validate |range| { range.numbers().map(drop) }
}

/// Numbers between two ends, or powers with such exponents.
#[derive(Debug, Clone, Copy)]
struct Between<'a> {
    /// The first and the last number.
    ends: [NumberArgument; 2],
    steps: &'a Integer,
    /// The base of powers; `None` for the numbers themselves.
    base: Option<f64>,
    /// The parameter `dtype`.
    dtype: Option<DType>,
}

impl Between<'_> {
    /// The element type of the numbers.
    fn dtype(self, inputs: &[TensorMeta]) -> Result<DType> {
        let is_complex = self.ends.iter().any(|&end| number_dtype(end, inputs).is_complex());
        let dtype = self.dtype.unwrap_or(if is_complex { DType::C64 } else { DType::F32 });
        match dtype {
            DType::Bool => Err(LayerError::dtype("`dtype`", "a type of numbers", dtype)),
            real if is_complex && !real.is_complex() => {
                Err(LayerError::dtype("`dtype`", "a complex type, like `start` or `end`", real))
            }
            dtype => Ok(dtype),
        }
    }

    fn meta(self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        Ok(TensorMeta::new(self.dtype(inputs)?, [self.steps.length("steps", inputs)?]))
    }

    fn tensor(self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        let dtype = self.dtype(&TensorMeta::of_all(inputs))?;
        let count = self.steps.count("steps", inputs)?;
        let what = if self.base.is_some() { "the values of logspace" } else { "the values of linspace" };
        limits.check_tensor(what, (count as u64).saturating_mul(16))?;
        let Some(base) = self.base else {
            return Spaced::between(&self.converted(inputs, dtype)?, count)?.into_tensor(dtype);
        };
        // A single exponent is not converted to the element type.
        let of_exponents = match count {
            1 if dtype.is_complex() => DType::C128,
            1 => DType::F64,
            _ => dtype,
        };
        Spaced::between(&self.converted(inputs, of_exponents)?, count)?.powers(base).into_tensor(dtype)
    }

    /// Both ends as tensors of an element type that can hold them.
    fn converted(self, inputs: &[TensorView<'_>], dtype: DType) -> Result<[Tensor; 2]> {
        let [start, end] = self.ends;
        let number = |end: NumberArgument| fitting(end.value(inputs)?.unwrap_or(Scalar::Int(0)), dtype);
        Ok([number(start)?, number(end)?])
    }
}

/// Evenly spaced numbers, in the type that they are computed in.
enum Spaced {
    Single(Vec<f32>),
    Double(Vec<f64>),
    Complex(Vec<Complex<f64>>),
}

impl Spaced {
    /// `count` numbers between both ends. As in PyTorch, half precision is computed in f32 and integers in f64.
    fn between(ends: &[Tensor; 2], count: usize) -> Result<Self> {
        Ok(match ends[0].dtype() {
            DType::F32 | DType::F16 | DType::Bf16 => Self::Single(spread(in_type(ends)?, count)),
            dtype if dtype.is_complex() => Self::Complex(spread_complex(in_type(ends)?, count)),
            _ => Self::Double(spread(in_type(ends)?, count)),
        })
    }

    /// The powers of a base with these exponents.
    fn powers(self, base: f64) -> Self {
        match self {
            Self::Single(exponents) => {
                Self::Double(exponents.into_iter().map(|exponent| base.powf(exponent.into())).collect())
            }
            Self::Double(exponents) => {
                Self::Double(exponents.into_iter().map(|exponent| base.powf(exponent)).collect())
            }
            Self::Complex(exponents) => {
                let power = |exponent| Complex::from(base).powc(exponent);
                Self::Complex(exponents.into_iter().map(power).collect())
            }
        }
    }

    /// A vector of these numbers.
    fn into_tensor(self, dtype: DType) -> Result<Tensor> {
        let tensor = match self {
            Self::Single(numbers) => vector(numbers),
            Self::Double(numbers) => vector(numbers),
            Self::Complex(numbers) => vector(numbers),
        };
        Ok(tensor?.cast(dtype)?)
    }
}

fn vector<T: Element>(numbers: Vec<T>) -> Result<Tensor> {
    let len = numbers.len();
    Ok(Tensor::from_vec(numbers, &[len])?)
}

/// Both ends in another type.
fn in_type<T: Element>([start, end]: &[Tensor; 2]) -> Result<[T; 2]> {
    Ok([start.cast(T::DTYPE)?.item()?, end.cast(T::DTYPE)?.item()?])
}

/// Evenly spaced real numbers. Each half is computed from its end, so that both ends are exact; products are not rounded before
/// they are added, as in PyTorch's kernels.
pub(crate) fn spread<T: Float>([start, end]: [T; 2], count: usize) -> Vec<T> {
    if count == 1 {
        return vec![start];
    }
    let step = (end - start) / T::of(count.saturating_sub(1) as f64);
    let mut numbers = vec![T::zero(); count];
    let (first, second) = numbers.split_at_mut(count / 2);
    widest!(|| {
        for (place, number) in first.iter_mut().enumerate() {
            *number = step.mul_add(T::of(place as f64), start);
        }
        for (place, number) in second.iter_mut().rev().enumerate() {
            *number = (-step).mul_add(T::of(place as f64), end);
        }
    });
    numbers
}

/// Evenly spaced complex numbers.
fn spread_complex([start, end]: [Complex<f64>; 2], count: usize) -> Vec<Complex<f64>> {
    let step = (end - start) / count.saturating_sub(1).max(1) as f64;
    let number = |place: usize| {
        if place < count.div_ceil(2) {
            start + step * place as f64
        } else {
            end - step * (count - 1 - place) as f64
        }
    };
    (0..count).map(number).collect()
}

impl Linspace {
    fn between(&self) -> Between<'_> {
        Between { ends: [self.start, self.end], steps: &self.steps, base: None, dtype: self.dtype }
    }

    fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        self.between().meta(inputs)
    }

    fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        self.between().tensor(inputs, limits)
    }
}

impl Logspace {
    fn between(&self) -> Between<'_> {
        Between { ends: [self.start, self.end], steps: &self.steps, base: Some(self.base), dtype: self.dtype }
    }

    fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        self.between().meta(inputs)
    }

    fn tensor(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        self.between().tensor(inputs, limits)
    }
}

impl InclusiveRange {
    fn dtype(&self) -> Result<DType> {
        match self.dtype.unwrap_or(DType::F32) {
            dtype if dtype.is_float() || dtype.is_integer() => Ok(dtype),
            other => Err(LayerError::dtype("`dtype`", "real numbers", other)),
        }
    }

    /// The first number, the difference of adjacent numbers, and their count.
    fn numbers(&self) -> Result<(f64, f64, i64)> {
        let mut numbers = [self.start, self.end, self.step];
        if self.dtype()?.is_integer() {
            numbers = numbers.map(f64::trunc);
        }
        let [start, end, step] = numbers;
        let steps = (end - start) / step;
        if !steps.is_finite() || steps < 0.0 {
            let reason = format!("it must lead from {start} to {end} in finitely many steps");
            return Err(LayerError::invalid("step", step, reason));
        }
        Ok((start, step, (steps.floor() as i64).saturating_add(1)))
    }

    fn meta(&self, _: &[TensorMeta]) -> Result<TensorMeta> {
        Ok(TensorMeta::new(self.dtype()?, [self.numbers()?.2]))
    }

    fn tensor(&self, _: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        let (start, step, count) = self.numbers()?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let number = |place: usize| start + place as f64 * step;
        of_floats("the values of range", count, self.dtype()?, limits, &number)
    }
}

counted_layers!(Linspace, Logspace, InclusiveRange);

operators! {
    Linspace, Logspace, InclusiveRange;
    overload "aten::linspace"(start, end, steps, dtype, layout, device, pin_memory),
        "aten::logspace"(start, end, steps, base, dtype, layout, device, pin_memory),
        "aten::range"(start, end, dtype, layout, device, pin_memory) of 6,
        "aten::range"(start, end, step, dtype, layout, device, pin_memory)
}

#[cfg(test)]
mod tests {
    use crate::op::{LayerError, TensorMeta};
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{Complex, DType, Dim, Limits, Tensor};

    type Params = &'static [(&'static str, &'static str)];

    fn linspace(params: Params) -> Tensor {
        operator("aten::linspace", params).run_one(&[]).unwrap()
    }

    /// PyTorch's results.
    #[test]
    fn both_ends_are_included() {
        let five = linspace(&[("start", "-1"), ("end", "1"), ("steps", "5")]);
        assert_close(&five, &[5], &[-1.0, -0.5, 0.0, 0.5, 1.0]);
        let integers = [("start", "-2.7"), ("end", "2.7"), ("steps", "5"), ("dtype", "torch.long")];
        let integers = operator("aten::linspace", &integers).run_one(&[]).unwrap();
        assert_eq!(integers.to_vec::<i64>().unwrap(), [-2, -1, 0, 1, 2]);
        let bytes = linspace(&[("start", "0"), ("end", "255"), ("steps", "3"), ("dtype", "torch.uint8")]);
        assert_eq!(bytes.to_vec::<u8>().unwrap(), [0, 127, 255]);
        assert_close(&linspace(&[("start", "5"), ("end", "1"), ("steps", "1")]), &[1], &[5.0]);
        assert_close(&linspace(&[("start", "5"), ("end", "1"), ("steps", "0")]), &[0], &[]);
        assert_close(&linspace(&[("start", "0"), ("end", "inf"), ("steps", "2")]), &[2], &[f64::NAN; 2]);
        let half = linspace(&[("start", "0"), ("end", "1"), ("steps", "3"), ("dtype", "torch.half")]);
        assert_eq!(half.dtype(), DType::F16);
        assert_close(&half, &[3], &[0.0, 0.5, 1.0]);
        let plane = linspace(&[("start", "0"), ("end", "0.0e+00+1.0e+00j"), ("steps", "3")]);
        let i = |im: f32| Complex::new(0.0, im);
        assert_eq!(plane.to_vec::<Complex<f32>>().unwrap(), [i(0.0), i(0.5), i(1.0)]);
    }

    #[test]
    fn powers() {
        let logspace = |params: Params| operator("aten::logspace", params).run_one(&[]).unwrap();
        let decades = logspace(&[("start", "-1"), ("end", "2"), ("steps", "4")]);
        assert_close(&decades, &[4], &[0.1, 1.0, 10.0, 100.0]);
        let of_two =
            [("start", "0"), ("end", "10"), ("steps", "4"), ("base", "2.0"), ("dtype", "torch.long")];
        let of_two = operator("aten::logspace", &of_two).run_one(&[]).unwrap();
        assert_eq!(of_two.to_vec::<i64>().unwrap(), [1, 10, 101, 1024]);
        let whole = logspace(&[("start", "0.5"), ("end", "3.7"), ("steps", "5"), ("dtype", "torch.long")]);
        assert_eq!(whole.to_vec::<i64>().unwrap(), [1, 5, 31, 177, 1000]);
        let one = logspace(&[("start", "3.7"), ("end", "9.2"), ("steps", "1"), ("dtype", "torch.long")]);
        assert_eq!(one.to_vec::<i64>().unwrap(), [5011]);
    }

    /// PyTorch's results.
    #[test]
    fn the_end_of_a_range_is_included() {
        let range = |params: Params| operator("aten::range", params).run_one(&[]);
        assert_close(&range(&[("start", "0"), ("end", "2")]).unwrap(), &[3], &[0.0, 1.0, 2.0]);
        let halves = range(&[("start", "1"), ("end", "2.2"), ("step", "0.5")]).unwrap();
        assert_close(&halves, &[3], &[1.0, 1.5, 2.0]);
        let down = range(&[("start", "3"), ("end", "0"), ("step", "-1.5"), ("dtype", "torch.half")]).unwrap();
        assert_close(&down, &[3], &[3.0, 1.5, 0.0]);
        let whole = [("start", "0.7"), ("end", "5.9"), ("step", "2.5"), ("dtype", "torch.long")];
        let whole = operator("aten::range", &whole).run_one(&[]).unwrap();
        assert_eq!(whole.to_vec::<i64>().unwrap(), [0, 2, 4]);
        assert!(range(&[("start", "0"), ("end", "1"), ("step", "0")]).is_err());
        assert!(range(&[("start", "2"), ("end", "1")]).is_err());
        assert!(range(&[("start", "0"), ("end", "inf")]).is_err());
        assert!(range(&[("start", "0"), ("end", "1e30")]).is_err());
    }

    #[test]
    fn the_graph_may_compute_all_numbers() {
        let layer = operator("aten::linspace", &[]).with_names(&["start", "end", "steps"]);
        let (start, end) = (tensor(&[], &[1.0f64]), tensor(&[], &[3i64]));
        let numbers = layer.run_one(&[&start, &end, &tensor(&[], &[3i64])]).unwrap();
        assert_close(&numbers, &[3], &[1.0, 2.0, 3.0]);
        assert!(layer.run_one(&[&start, &end, &tensor(&[], &[-1i64])]).is_err());
        assert!(layer.run_one(&[&start, &end, &tensor(&[], &[2.0f32])]).is_err());
        let steps = operator("aten::linspace", &[("start", "0"), ("end", "1")]).with_names(&["steps"]);
        let number = TensorMeta::new(DType::I64, [0; 0]);
        let n = number.clone().with_values(vec![Dim::symbol("n")]);
        assert_eq!(steps.infer(&[n]).unwrap()[0].to_string(), "n f32");
        assert!(steps.infer(&[number]).unwrap()[0].dims()[0].fixed().is_none());
        steps.survives(1);
        operator("aten::logspace", &[("steps", "3")]).with_names(&["start", "end"]).survives(2);
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let refused = |params: Params| {
            assert!(operator("aten::linspace", params).run(&[]).is_err(), "{params:?}");
        };
        refused(&[("start", "0"), ("end", "1"), ("steps", "-1")]);
        refused(&[("start", "0"), ("end", "1"), ("steps", "2"), ("dtype", "torch.bool")]);
        refused(&[("start", "0"), ("end", "300"), ("steps", "2"), ("dtype", "torch.uint8")]);
        refused(&[("start", "0"), ("end", "0.0e+00+1.0e+00j"), ("steps", "3"), ("dtype", "torch.float")]);
        refused(&[("start", "0"), ("end", "1")]);
        let limits = Limits { max_tensor_bytes: 1000, ..Limits::default() };
        let many = operator("aten::linspace", &[("start", "0"), ("end", "1"), ("steps", "99999999999")]);
        assert!(matches!(many.create(0).unwrap().constant(&limits), Err(LayerError::Limit(_))));
    }
}
