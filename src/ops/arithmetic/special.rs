//! Functions of one or two numbers that stay TorchScript's operators at every level, and that no expression has.

mod complex;
mod numbers;

pub(in crate::ops) use complex::conjugate;
pub use complex::{Angle, Conjugate, Polar, Sgn};

use crate::op::{
    CpuLayer, Field, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError, TensorMeta,
};
use crate::ops::arithmetic::binary::{INPUT, ONE, TWO, creator, first, required};
use crate::ops::support::broadcast::{Factor, broadcast, common};
use crate::ops::support::number;
use crate::ops::support::number::Number;
use crate::tensor::{Complex, DType, Element, Tensor, TensorView, TensorViewMut};
use std::f64::consts::{LN_2, PI};
use std::ops::RangeInclusive;

type Real = fn(f64) -> f64;
type Holomorphic = fn(Double) -> Double;
type Asked = fn(f64) -> bool;
type OfTwo = fn(f64, f64) -> f64;
type Double = Complex<f64>;

/// Functions of one real number: type, function, and what they are.
const REAL: &[(&str, Real, &str)] = &[
    (
        "aten::digamma",
        numbers::digamma,
        "`torch.digamma`: the derivative of the logarithm of the gamma function.",
    ),
    ("aten::erfc", libm::erfc, "`torch.erfc`: 1 minus the error function."),
    (
        "aten::erfinv",
        numbers::erfinv,
        "`torch.erfinv`: of what the input is the error function; NaN beyond ±1.",
    ),
    ("aten::i0", numbers::i0, "`torch.i0`: the modified Bessel function of the first kind and order 0."),
    ("aten::special_entr", numbers::entropy, "`torch.special.entr`: -x·ln x; 0 at 0, -∞ below."),
    (
        "aten::special_ndtr",
        numbers::normal,
        "`torch.special.ndtr`: the area below the standard normal distribution.",
    ),
];

/// Functions of one real or complex number.
const COMPLEX: &[(&str, Real, Holomorphic, &str)] = &[
    ("aten::log2", f64::log2, |z| z.ln() / LN_2, "`torch.log2`: the logarithm to base 2."),
    ("aten::sinc", numbers::sinc, complex_sinc, "`torch.sinc`: sin(πx)/(πx); 1 at 0."),
];

fn complex_sinc(z: Double) -> Double {
    if z == Double::default() { Complex::new(1.0, 0.0) } else { (z * PI).sin() / (z * PI) }
}

/// Questions about one real number.
const QUESTIONS: &[(&str, Asked, &str)] = &[
    ("aten::isneginf", |x| x == f64::NEG_INFINITY, "`torch.isneginf`: whether an element is -∞."),
    ("aten::isposinf", |x| x == f64::INFINITY, "`torch.isposinf`: whether an element is ∞."),
    ("aten::signbit", f64::is_sign_negative, "`torch.signbit`: whether an element has a minus, as -0 has."),
];

/// What a function of two numbers does with integers.
#[derive(Debug, Clone, Copy)]
enum Integers {
    /// They are converted to f32.
    AsFloats,
    /// There is no result.
    Refused,
    /// The result is an integer.
    Kept(fn(i64, i64) -> i64),
    /// As before; and two tensors must have the same element type.
    KeptAlike(fn(i64, i64) -> i64),
}

use Integers::{AsFloats, Kept, KeptAlike, Refused};

/// Functions of two numbers; those without a function of floats take integers only.
const PAIRS: &[(&str, Option<OfTwo>, Integers, &str)] = &[
    (
        "aten::copysign",
        Some(f64::copysign),
        AsFloats,
        "`torch.copysign`: the input with the sign of another number.",
    ),
    ("aten::fmax", Some(f64::max), Kept(i64::max), "`torch.fmax`: the larger one; the other one of a NaN."),
    ("aten::fmin", Some(f64::min), Kept(i64::min), "`torch.fmin`: the smaller one; the other one of a NaN."),
    ("aten::gcd", None, Kept(numbers::gcd), "`torch.gcd`: the greatest common divisor of integers."),
    (
        "aten::heaviside",
        Some(numbers::heaviside),
        KeptAlike(numbers::whole_heaviside),
        "`torch.heaviside`: 0 below 0, 1 above it, and at 0 the other number.",
    ),
    ("aten::hypot", Some(libm::hypot), Refused, "`torch.hypot`: the root of the sum of squares."),
    ("aten::lcm", None, Kept(numbers::lcm), "`torch.lcm`: the least common multiple of integers."),
    (
        "aten::logaddexp2",
        Some(numbers::logaddexp2),
        Refused,
        "`torch.logaddexp2`: log₂ of the sum of powers of 2.",
    ),
    (
        "aten::special_xlog1py",
        Some(numbers::xlog1py),
        AsFloats,
        "`torch.special.xlog1py`: x·ln(1 + y); 0 where x is.",
    ),
    ("aten::xlogy", Some(numbers::xlogy), AsFloats, "`torch.xlogy`: x·ln y; 0 where x is, unless y is NaN."),
];

fn refused(found: DType, wanted: &str) -> LayerError {
    LayerError::DType { what: "the input".to_owned(), wanted: wanted.to_owned(), found }
}

/// Writes what the elements of an input become, computed in `T`.
fn map<T: Number, U: Number>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    context: &ForwardContext<'_>,
    function: impl Fn(T) -> U,
) -> Result<(), LayerError> {
    check_held::<T>(output, context)?;
    let values = number::read::<T>(input)?;
    number::write::<U>(output, |output| {
        output.iter_mut().zip(values.iter()).for_each(|(y, &x)| *y = function(x));
        Ok(())
    })
}

/// Refuses copies of tensors that are too large.
fn check_held<T>(output: &TensorViewMut<'_>, context: &ForwardContext<'_>) -> Result<(), LayerError> {
    let bytes = (output.num_elements() as u64).saturating_mul(std::mem::size_of::<T>() as u64);
    Ok(context.limits().check_tensor("the elements of a function", bytes)?)
}

/// The element type of what a function makes of real numbers: integers become f32.
fn real_result(dtype: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() { dtype } else { DType::F32 }
}

/// A function of one number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single {
    /// The operator's type.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "GPUs find their kernels by it"))]
    pub(crate) name: &'static str,
    real: Real,
    complex: Option<Holomorphic>,
}

impl Layer for Single {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dtype = inputs[0].dtype();
        if dtype.is_complex() && self.complex.is_none() {
            return Err(refused(dtype, "real numbers"));
        }
        Ok(vec![inputs[0].with_dtype(real_result(dtype))])
    }
}

impl CpuLayer for Single {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        match self.complex.filter(|_| inputs[0].dtype().is_complex()) {
            Some(function) => map(&inputs[0], &mut outputs[0], context, function),
            None => map(&inputs[0], &mut outputs[0], context, self.real),
        }
    }
}

/// A question about one real number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    /// The operator's type.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "GPUs find their kernels by it"))]
    pub(crate) name: &'static str,
    asked: Asked,
}

impl Layer for Question {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        match inputs[0].dtype() {
            dtype if dtype.is_complex() => Err(refused(dtype, "real numbers")),
            _ => Ok(vec![inputs[0].with_dtype(DType::Bool)]),
        }
    }
}

impl CpuLayer for Question {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        map(&inputs[0], &mut outputs[0], context, |x: f64| i64::from((self.asked)(x)))
    }
}

/// A function of two numbers, which are broadcast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    /// The operator's type.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "GPUs find their kernels by it"))]
    pub(crate) name: &'static str,
    pub(crate) factors: [Factor; 2],
    real: Option<OfTwo>,
    integers: Integers,
}

impl Pair {
    fn run<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        dtype: DType,
        function: fn(T, T) -> T,
    ) -> Result<(), LayerError> {
        let shape = *output.shape();
        let [x, y] = self.factors.map(|factor| factor.converted(inputs, dtype));
        let (x, y) = (x?, y?);
        let (x, y) = (x.expanded(&shape)?, y.expanded(&shape)?);
        let (x, y) = (number::read::<T>(&x)?, number::read::<T>(&y)?);
        number::write::<T>(output, |output| {
            output.iter_mut().zip(x.iter().zip(y.iter())).for_each(|(to, (&x, &y))| *to = function(x, y));
            Ok(())
        })
    }

    /// Refuses tensors of two element types where both must have one.
    fn check_alike(&self, inputs: &[TensorMeta]) -> Result<(), LayerError> {
        if let (KeptAlike(_), [Factor::Input(x), Factor::Input(y)]) = (self.integers, self.factors)
            && inputs[x].dtype() != inputs[y].dtype()
        {
            let (what, wanted) = ("the other input".to_owned(), inputs[x].dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: inputs[y].dtype() });
        }
        Ok(())
    }
}

impl Layer for Pair {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = self.factors.iter().map(Factor::num_inputs).sum();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.check_alike(inputs)?;
        let dtype = common(inputs, &self.factors);
        let result = match (dtype, self.integers) {
            (dtype, _) if dtype.is_complex() => return Err(refused(dtype, "real numbers")),
            (dtype, _) if dtype.is_float() && self.real.is_none() => return Err(refused(dtype, "integers")),
            (dtype, _) if dtype.is_float() => dtype,
            (dtype, Refused) => return Err(refused(dtype, "f32, f64, f16 and bf16")),
            (DType::Bool, _) if self.real.is_none() => return Err(refused(dtype, "integers")),
            (_, AsFloats) => DType::F32,
            (dtype, Kept(_) | KeptAlike(_)) => dtype,
        };
        let [x, y] = self.factors.map(|factor| factor.dims(inputs).to_vec());
        Ok(vec![TensorMeta::new(result, broadcast(&x, &y)?)])
    }
}

impl CpuLayer for Pair {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        check_held::<[f64; 2]>(&outputs[0], context)?;
        let dtype = outputs[0].dtype();
        match (self.integers, self.real) {
            (Kept(function) | KeptAlike(function), _) if !dtype.is_float() => {
                self.run(inputs, &mut outputs[0], dtype, function)
            }
            (_, Some(function)) => self.run(inputs, &mut outputs[0], dtype, function),
            _ => Err(refused(dtype, "integers")),
        }
    }
}

crate::operator! {
    /// `torch.logit`: ln(x / (1 - x)); NaN beyond 0 and 1 where no `eps` is given.
    pub struct Logit for "aten::logit" {
        /// What is nearer than this to 0 or 1, or beyond them, is taken to lie there.
        eps: Option<f64> = None,
    }
}

impl Layer for Logit {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Single { name: "", real: f64::ln, complex: None }.infer(inputs)
    }
}

impl CpuLayer for Logit {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let eps = self.eps.filter(|eps| *eps >= 0.0);
        map(&inputs[0], &mut outputs[0], context, |x: f64| numbers::logit(x, eps))
    }
}

crate::operator! {
    /// `torch.isclose`: whether |input - other| is at most `atol` + `rtol`·|other|. Infinities are close to themselves.
    pub struct IsClose for "aten::isclose" {
        /// What the input is compared with, of the same element type; it is broadcast.
        other: crate::ops::support::arguments::Operand,
        /// The share of |other| that is allowed.
        rtol: f64 = 1e-5,
        /// What is allowed besides.
        atol: f64 = 1e-8,
        /// Whether NaN is close to NaN.
        equal_nan: bool = false,
    }
    validate |layer| {
        match [("rtol", layer.rtol), ("atol", layer.atol)].into_iter().find(|(_, x)| x.is_nan() || *x < 0.0) {
            None => Ok(()),
            Some((key, found)) => {
                let reason = "a tolerance is not negative".to_owned();
                Err(LayerError::InvalidParameter { key, found: found.to_string(), reason })
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
    ) -> Result<(), LayerError> {
        let shape = *output.shape();
        let read = |position: usize| -> Result<Vec<T>, LayerError> {
            let converted = Factor::Input(position).converted(inputs, T::DTYPE)?;
            Ok(converted.expanded(&shape)?.to_vec()?)
        };
        let (x, y) = (read(0)?, read(self.other.0)?);
        let answers: Vec<bool> = x.into_iter().zip(y).map(|(x, y)| close(x, y)).collect();
        Ok(output.copy_from(&Tensor::from_vec(answers, &shape)?.view())?)
    }

    /// Of numbers with this distance, of which one is so large.
    fn is_near(&self, distance: f64, other: f64) -> bool {
        distance.is_finite() && distance <= self.atol + self.rtol * other
    }
}

impl Layer for IsClose {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (x, y) = (&inputs[0], &inputs[self.other.0]);
        if x.dtype() != y.dtype() {
            let (what, wanted) = ("the other input".to_owned(), x.dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: y.dtype() });
        }
        Ok(vec![TensorMeta::new(DType::Bool, broadcast(x.dims(), y.dims())?)])
    }
}

impl CpuLayer for IsClose {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        check_held::<[Double; 2]>(&outputs[0], context)?;
        let output = &mut outputs[0];
        match inputs[0].dtype() {
            dtype if dtype.is_complex() => self.ask::<Double>(inputs, output, |x, y| {
                x == y
                    || (self.equal_nan && x.is_nan() && y.is_nan())
                    || self.is_near((x - y).norm(), y.norm())
            }),
            // As PyTorch computes it: a bound of f64 would differ by a rounding.
            DType::F32 | DType::F16 | DType::Bf16 => self.ask::<f32>(inputs, output, |x, y| {
                let (distance, most) = ((x - y).abs(), self.atol as f32 + (self.rtol as f32 * y).abs());
                x == y
                    || (self.equal_nan && x.is_nan() && y.is_nan())
                    || (distance.is_finite() && distance <= most)
            }),
            _ => self.ask::<f64>(inputs, output, |x, y| {
                x == y || (self.equal_nan && x.is_nan() && y.is_nan()) || self.is_near((x - y).abs(), y.abs())
            }),
        }
    }
}

fn of_one(doc: &str, layer: impl CpuLayer + Clone + 'static) -> crate::op::Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>, LayerError> {
        reader.input(INPUT.key);
        Ok(Box::new(layer.clone()))
    };
    creator(doc.to_owned(), ONE, create)
}

fn of_two(name: &'static str, doc: &str, real: Option<OfTwo>, integers: Integers) -> crate::op::Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>, LayerError> {
        let other: &Field = &TWO[1];
        let factors = [first(reader)?, required(reader, other.key)?];
        Ok(Box::new(Pair { name, factors, real, integers }))
    };
    creator(doc.to_owned(), TWO, create)
}

operators! { Logit, IsClose; of complex; with add_functions }

fn add_functions(registry: &mut Registry) -> Result<(), RegistryError> {
    for &(op_type, real, doc) in REAL {
        registry.add(op_type, of_one(doc, Single { name: op_type, real, complex: None }))?;
    }
    for &(op_type, real, complex, doc) in COMPLEX {
        registry.add(op_type, of_one(doc, Single { name: op_type, real, complex: Some(complex) }))?;
    }
    for &(op_type, question, doc) in QUESTIONS {
        registry.add(op_type, of_one(doc, Question { name: op_type, asked: question }))?;
    }
    for &(op_type, real, integers, doc) in PAIRS {
        registry.add(op_type, of_two(op_type, doc, real, integers))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::support::testing::{operator, tensor};
    use crate::tensor::{Complex, Tensor};

    /// What PyTorch refuses.
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
