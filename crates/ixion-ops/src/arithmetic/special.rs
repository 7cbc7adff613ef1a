//! Functions of one or two numbers that PNNX keeps as TorchScript operators at every level, and that expressions lack.

mod bessel;
mod complex;
mod functions;
mod gamma;
mod normal;
mod numbers;
mod polynomials;

pub(crate) use complex::conjugate;
pub use complex::{Angle, Conjugate, Polar, Sgn};
pub use functions::{MultiGamma, Polygamma};
pub(crate) use numbers::i0;

use crate::arithmetic::binary::{INPUT, ONE, TWO, creator, first, required};
use crate::op::{
    CpuLayer, Field, ForwardContext, FromOperator, Io, Layer, LayerError, OperatorReader, Registry,
    RegistryError, Result, TensorMeta, exactly,
};
use crate::support::broadcast::{TensorOrScalar, broadcast, common};
use crate::support::number;
use crate::support::number::Number;
use ixion_tensor::{Complex, DType, Element, Tensor, TensorView, TensorViewMut};
use std::f64::consts::{LN_2, PI};
use std::ops::RangeInclusive;

type Real = fn(f64) -> f64;
type Holomorphic = fn(Double) -> Double;
type Predicate = fn(f64) -> bool;
type OfTwo = fn(f64, f64) -> f64;
type Double = Complex<f64>;

/// A function of one number, real or complex.
#[derive(Debug, Clone, Copy)]
pub struct Single {
    real: Real,
    complex: Option<Holomorphic>,
    /// The kernel code, with the operand, a double, in place of `$x`.
    pub code: &'static str,
}

const fn real(real: Real, code: &'static str) -> Single {
    Single { real, complex: None, code }
}

const fn complex(real: Real, complex: Holomorphic, code: &'static str) -> Single {
    Single { real, complex: Some(complex), code }
}

/// Functions of one number: type, function, and documentation.
const SINGLE: &[(&str, Single, &str)] = &[
    (
        "aten::digamma",
        real(numbers::digamma, "d_digamma($x)"),
        "`torch.digamma`: the logarithmic derivative of the gamma function.",
    ),
    (
        "aten::erfc",
        real(libm::erfc, "erfc($x)"),
        "`torch.erfc`: the complementary error function, 1 - erf(x).",
    ),
    (
        "aten::erfinv",
        real(numbers::erfinv, "d_erfinv($x)"),
        "`torch.erfinv`: the inverse of the error function; ±∞ at ±1, NaN beyond.",
    ),
    (
        "aten::i0",
        real(numbers::i0, "d_i0($x)"),
        "`torch.i0`: the modified Bessel function of the first kind, of order 0.",
    ),
    (
        "aten::special_entr",
        real(numbers::entropy, "$x > 0 ? -$x * log($x) : $x < 0 ? -D_INFINITY : $x"),
        "`torch.special.entr`: the entropy -x·ln x; 0 at 0, -∞ below 0.",
    ),
    (
        "aten::special_ndtr",
        real(numbers::normal, "0.5 * erfc(-$x * 0.70710678118654752440)"),
        "`torch.special.ndtr`: the cumulative distribution function of the standard normal distribution.",
    ),
    (
        "aten::log2",
        complex(f64::log2, |z| z.ln() / LN_2, "log2($x)"),
        "`torch.log2`: the logarithm to base 2.",
    ),
    (
        "aten::sinc",
        complex(numbers::sinc, complex_sinc, "$x == 0 ? 1 : sin(D_PI * $x) / (D_PI * $x)"),
        "`torch.sinc`: the normalised sinc function, sin(πx)/(πx); 1 at 0.",
    ),
];

fn complex_sinc(z: Double) -> Double {
    if z == Double::default() { Complex::new(1.0, 0.0) } else { (z * PI).sin() / (z * PI) }
}

/// A predicate of one real number.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    predicate: Predicate,
    /// The kernel code, with the operand, a double, in place of `$x`.
    pub code: &'static str,
}

/// Predicates: type, predicate, and documentation.
const QUESTIONS: &[(&str, Question, &str)] = &[
    (
        "aten::isneginf",
        Question { predicate: |x| x == f64::NEG_INFINITY, code: "$x == -D_INFINITY" },
        "`torch.isneginf`: whether each element is -∞.",
    ),
    (
        "aten::isposinf",
        Question { predicate: |x| x == f64::INFINITY, code: "$x == D_INFINITY" },
        "`torch.isposinf`: whether each element is +∞.",
    ),
    (
        "aten::signbit",
        Question { predicate: f64::is_sign_negative, code: "__double_as_longlong($x) < 0" },
        "`torch.signbit`: whether the sign bit of each element is set; true for -0.0.",
    ),
];

/// How a function of two numbers treats integers.
#[derive(Debug, Clone, Copy)]
enum Integers {
    /// They are converted to f32; the result is f32.
    AsFloats,
    /// They are refused.
    Refused,
    /// The result is an integer.
    Kept(fn(i64, i64) -> i64),
    /// The result is an integer, and two tensors must have the same element type.
    KeptAlike(fn(i64, i64) -> i64),
}

use Integers::{AsFloats, Kept, KeptAlike, Refused};

/// A function of two numbers. Without an implementation for floats it supports only integers.
#[derive(Debug, Clone, Copy)]
struct OfNumbers {
    real: Option<OfTwo>,
    integers: Integers,
    /// The kernel code for floats and for integers, with the operands in place of `$x` and `$y`.
    code: [&'static str; 2],
}

const fn both(real: OfTwo, integers: Integers, code: &'static str) -> OfNumbers {
    OfNumbers { real: Some(real), integers, code: [code; 2] }
}

const fn of_integers(function: fn(i64, i64) -> i64, code: &'static str) -> OfNumbers {
    OfNumbers { real: None, integers: Kept(function), code: [code; 2] }
}

/// Functions of two numbers: type, function, and documentation.
const PAIRS: &[(&str, OfNumbers, &str)] = &[
    (
        "aten::copysign",
        both(f64::copysign, AsFloats, "copysign($x, $y)"),
        "`torch.copysign`: the magnitude of the input with the sign of `other`.",
    ),
    (
        "aten::fmax",
        OfNumbers { real: Some(f64::max), integers: Kept(i64::max), code: ["fmax($x, $y)", "f_max($x, $y)"] },
        "`torch.fmax`: the larger of two elements; if one is NaN, the other.",
    ),
    (
        "aten::fmin",
        OfNumbers { real: Some(f64::min), integers: Kept(i64::min), code: ["fmin($x, $y)", "f_min($x, $y)"] },
        "`torch.fmin`: the smaller of two elements; if one is NaN, the other.",
    ),
    (
        "aten::gcd",
        of_integers(numbers::gcd, "i_gcd($x, $y)"),
        "`torch.gcd`: the greatest common divisor of integers.",
    ),
    (
        "aten::heaviside",
        both(numbers::heaviside, KeptAlike(numbers::integer_heaviside), "$x == 0 ? $y : $x > 0 ? 1 : 0"),
        "`torch.heaviside`: the step function: 0 if the input is below 0, 1 if it is above, `other` at 0.",
    ),
    ("aten::hypot", both(libm::hypot, Refused, "hypot($x, $y)"), "`torch.hypot`: the hypotenuse √(x² + y²)."),
    (
        "aten::lcm",
        of_integers(numbers::lcm, "i_lcm($x, $y)"),
        "`torch.lcm`: the least common multiple of integers.",
    ),
    (
        "aten::logaddexp2",
        both(numbers::logaddexp2, Refused, "f_logaddexp2($x, $y)"),
        "`torch.logaddexp2`: log₂(2ˣ + 2ʸ).",
    ),
    (
        "aten::special_xlog1py",
        both(numbers::xlog1py, AsFloats, "$x == 0 && !isnan($y) ? 0 : $x * log1p($y)"),
        "`torch.special.xlog1py`: x·ln(1 + y); 0 if x is 0, unless y is NaN.",
    ),
    (
        "aten::xlogy",
        both(numbers::xlogy, AsFloats, "$x == 0 && !isnan($y) ? 0 : $x * log($y)"),
        "`torch.xlogy`: x·ln y; 0 if x is 0, unless y is NaN.",
    ),
];

fn refused(found: DType, wanted: &str) -> LayerError {
    LayerError::dtype("the input", wanted, found)
}

/// Applies a function to all elements of an input, computed in `T`.
fn map<T: Number, U: Number>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    function: impl Fn(T) -> U,
) -> Result<()> {
    check_held::<T>(output, context)?;
    let values = number::read::<T>(input)?;
    number::write::<U>(output, |output| {
        output.iter_mut().zip(values.iter()).for_each(|(y, &x)| *y = function(x));
        Ok(())
    })
}

/// Checks a converted copy of a tensor against the limits.
fn check_held<T>(output: &TensorViewMut<'_>, context: &ForwardContext<'_>) -> Result<()> {
    let bytes = (output.num_elements() as u64).saturating_mul(std::mem::size_of::<T>() as u64);
    Ok(context.limits().check_tensor("the elements of a function", bytes)?)
}

/// The element type of the result of a function of real numbers: integers become f32.
fn real_result(dtype: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() { dtype } else { DType::F32 }
}

impl Layer for Single {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = inputs[0].dtype();
        if dtype.is_complex() && self.complex.is_none() {
            return Err(refused(dtype, "real numbers"));
        }
        Ok(vec![inputs[0].with_dtype(real_result(dtype))])
    }
}

impl CpuLayer for Single {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        match self.complex.filter(|_| io.inputs[0].dtype().is_complex()) {
            Some(function) => map(&io.inputs[0], &mut io.outputs[0], &io.context, function),
            None => map(&io.inputs[0], &mut io.outputs[0], &io.context, self.real),
        }
    }
}

impl Layer for Question {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        match inputs[0].dtype() {
            dtype if dtype.is_complex() => Err(refused(dtype, "real numbers")),
            _ => Ok(vec![inputs[0].with_dtype(DType::Bool)]),
        }
    }
}

impl CpuLayer for Question {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        map(&io.inputs[0], &mut io.outputs[0], &io.context, |x: f64| i64::from((self.predicate)(x)))
    }
}

/// A function of two operands, which are broadcast.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// The operands x and y, each an input or a number of the file, broadcast to the shape of the output.
    pub factors: [TensorOrScalar; 2],
    function: OfNumbers,
}

impl Pair {
    /// The kernel code for floats or integers, with the operands in place of `$x` and `$y`.
    pub fn code(&self, is_float: bool) -> &'static str {
        let [of_floats, of_integers] = self.function.code;
        if is_float { of_floats } else { of_integers }
    }

    fn run<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        dtype: DType,
        function: fn(T, T) -> T,
    ) -> Result<()> {
        let shape = *output.shape();
        let [x, y] = self.factors.map(|operand| operand.converted(inputs, dtype));
        let (x, y) = (x?, y?);
        let (x, y) = (x.expanded(&shape)?, y.expanded(&shape)?);
        let (x, y) = (number::read::<T>(&x)?, number::read::<T>(&y)?);
        number::write::<T>(output, |output| {
            output.iter_mut().zip(x.iter().zip(y.iter())).for_each(|(to, (&x, &y))| *to = function(x, y));
            Ok(())
        })
    }

    /// Checks that two tensors have the same element type, if they must.
    fn check_alike(&self, inputs: &[TensorMeta]) -> Result<()> {
        if let (KeptAlike(_), [TensorOrScalar::Input(x), TensorOrScalar::Input(y)]) =
            (self.function.integers, self.factors)
            && inputs[x].dtype() != inputs[y].dtype()
        {
            return Err(LayerError::dtype("the other input", inputs[x].dtype(), inputs[y].dtype()));
        }
        Ok(())
    }
}

impl Layer for Pair {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.factors.iter().map(TensorOrScalar::num_inputs).sum())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.check_alike(inputs)?;
        let dtype = common(inputs, &self.factors);
        let result = match (dtype, self.function.integers) {
            (dtype, _) if dtype.is_complex() => return Err(refused(dtype, "real numbers")),
            (dtype, _) if dtype.is_float() && self.function.real.is_none() => {
                return Err(refused(dtype, "integers"));
            }
            (dtype, _) if dtype.is_float() => dtype,
            (dtype, Refused) => return Err(refused(dtype, "f32, f64, f16 and bf16")),
            (DType::Bool, _) if self.function.real.is_none() => return Err(refused(dtype, "integers")),
            (_, AsFloats) => DType::F32,
            (dtype, Kept(_) | KeptAlike(_)) => dtype,
        };
        let [x, y] = self.factors.map(|operand| operand.dims(inputs).to_vec());
        Ok(vec![TensorMeta::new(result, broadcast(&x, &y)?)])
    }
}

impl CpuLayer for Pair {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held::<[f64; 2]>(&io.outputs[0], &io.context)?;
        let dtype = io.outputs[0].dtype();
        match (self.function.integers, self.function.real) {
            (Kept(function) | KeptAlike(function), _) if !dtype.is_float() => {
                self.run(io.inputs, &mut io.outputs[0], dtype, function)
            }
            (_, Some(function)) => self.run(io.inputs, &mut io.outputs[0], dtype, function),
            _ => Err(refused(dtype, "integers")),
        }
    }
}

crate::operator! {
    /// `torch.logit`: ln(x / (1 - x)); NaN outside of 0 to 1 if `eps` is not given.
    pub struct Logit for "aten::logit" {
        /// If given, elements are first clamped to the range from `eps` to 1 - `eps`.
        eps: Option<f64> = None,
    }
}

impl Layer for Logit {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        real(f64::ln, "").infer(inputs)
    }
}

impl CpuLayer for Logit {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let eps = self.eps.filter(|eps| *eps >= 0.0);
        map(&io.inputs[0], &mut io.outputs[0], &io.context, |x: f64| numbers::logit(x, eps))
    }
}

crate::operator! {
    /// `torch.isclose`: whether |input - other| ≤ `atol` + `rtol`·|other|, for each element. Equal infinities are close.
    pub struct IsClose for "aten::isclose" {
        /// The tensor to compare with, of the same element type; it is broadcast.
        other: crate::support::arguments::InputIndex,
        /// The relative tolerance.
        rtol: f64 = 1e-5,
        /// The absolute tolerance.
        atol: f64 = 1e-8,
        /// Whether two NaN are close.
        equal_nan: bool = false,
    }
    validate |layer| {
        match [("rtol", layer.rtol), ("atol", layer.atol)].into_iter().find(|(_, x)| x.is_nan() || *x < 0.0) {
            None => Ok(()),
            Some((key, found)) => {
                Err(LayerError::invalid(key, found, "it must not be negative or NaN"))
            }
        }
    }
}

impl IsClose {
    fn ask<T: Element>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        close: impl Fn(T, T) -> bool,
    ) -> Result<()> {
        let shape = *output.shape();
        let read = |position: usize| -> Result<Vec<T>> {
            let converted = TensorOrScalar::Input(position).converted(inputs, T::DTYPE)?;
            Ok(converted.expanded(&shape)?.to_vec()?)
        };
        let (x, y) = (read(0)?, read(self.other.0)?);
        let answers: Vec<bool> = x.into_iter().zip(y).map(|(x, y)| close(x, y)).collect();
        Ok(output.copy_from(&Tensor::from_vec(answers, &shape)?.view())?)
    }

    /// Returns true if two numbers at this distance are close; `other` is the magnitude of the second.
    fn is_near(&self, distance: f64, other: f64) -> bool {
        distance.is_finite() && distance <= self.atol + self.rtol * other
    }
}

impl Layer for IsClose {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (x, y) = (&inputs[0], &inputs[self.other.0]);
        if x.dtype() != y.dtype() {
            return Err(LayerError::dtype("the other input", x.dtype(), y.dtype()));
        }
        Ok(vec![TensorMeta::new(DType::Bool, broadcast(x.dims(), y.dims())?)])
    }
}

impl CpuLayer for IsClose {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_held::<[Double; 2]>(&io.outputs[0], &io.context)?;
        let output = &mut io.outputs[0];
        match io.inputs[0].dtype() {
            dtype if dtype.is_complex() => self.ask::<Double>(io.inputs, output, |x, y| {
                x == y
                    || (self.equal_nan && x.is_nan() && y.is_nan())
                    || self.is_near((x - y).norm(), y.norm())
            }),
            // In f32, as in PyTorch: a bound in f64 would be rounded differently.
            DType::F32 | DType::F16 | DType::Bf16 => self.ask::<f32>(io.inputs, output, |x, y| {
                let (distance, most) = ((x - y).abs(), self.atol as f32 + (self.rtol as f32 * y).abs());
                x == y
                    || (self.equal_nan && x.is_nan() && y.is_nan())
                    || (distance.is_finite() && distance <= most)
            }),
            _ => self.ask::<f64>(io.inputs, output, |x, y| {
                x == y || (self.equal_nan && x.is_nan() && y.is_nan()) || self.is_near((x - y).abs(), y.abs())
            }),
        }
    }
}

fn of_one(doc: &str, layer: impl CpuLayer + Clone + 'static) -> crate::op::Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        reader.input(INPUT.key);
        Ok(Box::new(layer.clone()))
    };
    creator(doc.to_owned(), ONE, create)
}

fn of_two(doc: &str, function: OfNumbers) -> crate::op::Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let other: &Field = &TWO[1];
        let factors = [first(reader)?, required(reader, other.key)?];
        Ok(Box::new(Pair { factors, function }))
    };
    creator(doc.to_owned(), TWO, create)
}

operators! { Logit, IsClose; of complex, functions; with add_functions }

fn add_functions(registry: &mut Registry) -> Result<(), RegistryError> {
    for &(op_type, function, doc) in SINGLE {
        registry.add(op_type, of_one(doc, function))?;
    }
    for &(op_type, question, doc) in QUESTIONS {
        registry.add(op_type, of_one(doc, question))?;
    }
    for &(op_type, function, doc) in PAIRS {
        registry.add(op_type, of_two(doc, function))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{Complex, Tensor};

    /// Types that PyTorch refuses as well.
    #[test]
    fn types_without_a_result() {
        let (whole, float, double) =
            (tensor(&[1], &[2i64]), tensor(&[1], &[2.0f32]), tensor(&[1], &[2.0f64]));
        let complex = tensor(&[1], &[Complex::new(1.0f32, 0.0)]);
        let refused = |op_type: &'static str, inputs: &[&Tensor]| operator(op_type, &[]).run(inputs).is_err();
        assert!(refused("aten::hypot", &[&whole, &whole]) && refused("aten::gcd", &[&float, &float]));
        assert!(
            refused("aten::heaviside", &[&float, &double]) && refused("aten::isclose", &[&float, &whole])
        );
        assert!(refused("aten::xlogy", &[&complex, &float]) && refused("aten::erfc", &[&complex]));
        assert!(refused("aten::signbit", &[&complex]) && refused("aten::polar", &[&float, &double]));
        assert!(operator("aten::isclose", &[("rtol", "-1.0")]).create(2).is_err());
        for op_type in
            ["aten::log2", "aten::signbit", "aten::logit", "aten::sgn", "aten::angle", "aten::_conj"]
        {
            operator(op_type, &[]).survives(1);
        }
        for op_type in ["aten::hypot", "aten::gcd", "aten::isclose", "aten::polar"] {
            operator(op_type, &[]).survives(2);
        }
    }
}
