//! Element-wise activation functions.

use crate::op::{CpuLayer, ForwardContext, Io, Layer, Result, TensorFormat, TensorMeta};
use crate::support::float;
use crate::support::float::{Unary, map_unary, map_unary_in_place};
use crate::support::int8::{Lookup, pointwise};
use crate::support::views::Plain;
use ixion_kernels::{Float, activation, math, widest};
use ixion_tensor::{Complex, DType, Element, Tensor, TensorView, TensorViewMut};

/// Declares activation functions: doc comment, types, parameters, the function of one element, and PyTorch's behaviour for
/// elements other than floats: a function for integers that stay integers, or `promotes integers` if they and bools become
/// f32, and a function for complex numbers.
macro_rules! activations {
    (@given) => { false };
    (@given $($token:tt)+) => { true };
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($op_type:literal),+ $({ $($fields:tt)* })? |$this:ident, $x:ident| $body:expr
            $(, integers $integer:expr)? $(, promotes $promoted:ident)? $(, complex $complex:expr)?;
    )*) => {
        $(
            crate::operator! {
                $(#[doc = $doc])*
                pub struct $name for $($op_type),+ {
                    $($($fields)*,)?
                    /// The function as a table, in int8.
                    lookup: Lookup,
                }
            }

            impl $name {
                const TAKES: Takes = Takes {
                    integers: activations!(@given $($integer)?),
                    promoted: activations!(@given $($promoted)?),
                    complex: activations!(@given $($complex)?),
                };

                /// Applies the function to elements other than floats. Returns false if it does not support them.
                fn apply_to_others(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<bool> {
                    let ($this, _) = (self, (&input, &output));
                    let _ = $this;
                    $(if input.dtype().is_integer() {
                        map_as::<i64>(input, output, $integer)?;
                        return Ok(true);
                    })?
                    $(if input.dtype().is_complex() {
                        map_as::<Z>(input, output, $complex)?;
                        return Ok(true);
                    })?
                    Ok(false)
                }
            }

            impl Unary for $name {
                #[inline(always)]
                fn apply<T: Float>(&self, $x: T) -> T {
                    let $this = self;
                    let _ = $this;
                    $body
                }
            }

            impl Layer for $name {
                fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                    Self::TAKES.infer(inputs)
                }

                fn in_place(&self, _: usize) -> Option<usize> {
                    Some(0)
                }
            }

            impl CpuLayer for $name {
                fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                    if self.lookup.run(&io.inputs[0], &mut io.outputs[0], io.context.limits())? {
                        return Ok(());
                    }
                    if self.apply_to_others(&io.inputs[0], &mut io.outputs[0])? {
                        return Ok(());
                    }
                    if Self::TAKES.promoted && !io.inputs[0].dtype().is_float() {
                        let promoted = io.inputs[0].cast(DType::F32)?;
                        return map_unary(&promoted.view(), &mut io.outputs[0], io.context.limits(), self);
                    }
                    map_unary(&io.inputs[0], &mut io.outputs[0], io.context.limits(), self)
                }

                fn is_pointwise(&self) -> bool {
                    true
                }

                fn takes_zero_points(&self) -> bool {
                    true
                }

                fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                    pointwise::supports(position, formats)
                }

                fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
                    let lookup = Lookup::of(inputs, outputs, &mut |numbers| {
                        numbers.iter_mut().for_each(|x| *x = self.apply(*x));
                        Ok(())
                    })?;
                    self.lookup = lookup;
                    Ok(())
                }

                fn forward_in_place(
                    &mut self,
                    data: &mut TensorViewMut<'_>,
                    _: &[TensorView<'_>],
                    context: &mut ForwardContext<'_>,
                ) -> Result<()> {
                    if self.lookup.run_in_place(data, context.limits())? {
                        return Ok(());
                    }
                    if !data.dtype().is_float() {
                        let input = data.as_view().to_tensor()?;
                        self.apply_to_others(&input.view(), data)?;
                        return Ok(());
                    }
                    map_unary_in_place(data, context.limits(), self)
                }
            }
        )*

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

type Z = Complex<f64>;

/// The element types that a function supports in addition to floats.
struct Takes {
    /// Integers, which keep their type.
    integers: bool,
    /// Integers and bools, which are promoted to f32.
    promoted: bool,
    /// Complex numbers.
    complex: bool,
}

impl Takes {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [input, ..] = inputs else { return float::same_as_input(inputs) };
        let dtype = input.dtype();
        if (self.integers && dtype.is_integer()) || (self.complex && dtype.is_complex()) {
            return Ok(vec![input.with_dtype(dtype)]);
        }
        if self.promoted && (dtype.is_integer() || dtype == DType::Bool) {
            return Ok(vec![input.with_dtype(DType::F32)]);
        }
        float::same_as_input(inputs)
    }
}

/// Applies a function to every element, converted to a wider type.
fn map_as<T: Element>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    function: impl Fn(T) -> T,
) -> Result<()> {
    change_all::<T>(input, output, &|from, to| {
        widest!(|| to.iter_mut().zip(from).for_each(|(to, &x)| *to = function(x)));
    })
}

/// Lets `change` compute all elements of the output from those of the input, both converted to `T`.
fn change_all<T: Element>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    change: &dyn Fn(&[T], &mut [T]),
) -> Result<()> {
    if [input.dtype(), output.dtype()] == [T::DTYPE; 2] && output.layout().is_contiguous() {
        let input = Plain::of(input)?;
        change(input.view().slice::<T>()?, output.slice::<T>()?);
        return Ok(());
    }
    let from = input.cast(T::DTYPE)?;
    let mut to = Tensor::empty(T::DTYPE, input.shape())?;
    change(from.view().slice::<T>()?, to.view_mut()?.slice::<T>()?);
    Ok(output.cast_from(&to.view())?)
}

activations! {
    /// `torch.nn.ReLU`: the rectified linear unit, max(0, x). NaN stays NaN.
    ReLU for "nn.ReLU", "F.relu", "aten::relu" { /// Accepted for compatibility; the result is the same.
        inplace: bool = false } |_layer, x| activation::relu(x),
        integers |x: i64| x.max(0);

    /// `torch.nn.ReLU6`: min(max(0, x), 6). NaN stays NaN.
    ReLU6 for "nn.ReLU6", "F.relu6", "aten::relu6" |_layer, x| activation::relu6(x),
        integers |x: i64| x.clamp(0, 6);

    /// `torch.nn.Sigmoid`: the logistic function, 1 / (1 + e⁻ˣ).
    Sigmoid for "nn.Sigmoid", "F.sigmoid", "aten::sigmoid" |_layer, x| math::sigmoid(x),
        promotes integers, complex |z: Z| (1.0 + (-z).exp()).inv();

    /// `torch.nn.SiLU` (swish): x · sigmoid(x).
    SiLU for "nn.SiLU", "F.silu", "aten::silu" |_layer, x| activation::silu(x),
        complex |z: Z| z / (1.0 + (-z).exp());

    /// `torch.nn.Tanh`: the hyperbolic tangent, tanh(x).
    Tanh for "nn.Tanh", "F.tanh" |_layer, x| math::tanh(x),
        promotes integers, complex |z: Z| z.tanh();

    /// `torch.nn.Hardsigmoid`: x/6 + 1/2, clamped to 0..1.
    Hardsigmoid for "nn.Hardsigmoid", "F.hardsigmoid", "aten::hardsigmoid" |_layer, x| activation::hardsigmoid(x);

    /// `torch.nn.Hardswish`: x · hardsigmoid(x).
    Hardswish for "nn.Hardswish", "F.hardswish", "aten::hardswish" |_layer, x| activation::hardswish(x);

    /// `torch.nn.LeakyReLU`: x if x is positive, otherwise `negative_slope` · x.
    LeakyReLU for "nn.LeakyReLU", "F.leaky_relu", "aten::leaky_relu" {
        /// Slope for negative x.
        negative_slope: f64 = 0.01
    } |layer, x| activation::leaky_relu(x, T::of(layer.negative_slope));

    /// `torch.nn.RReLU` in evaluation mode: x if x is positive, otherwise x times the mean of `lower` and `upper`.
    RReLU for "nn.RReLU", "F.rrelu" {
        /// The smallest slope in training.
        lower: f64 = 0.125,
        /// The largest slope in training.
        upper: f64 = 1.0 / 3.0
    } |layer, x| activation::leaky_relu(x, T::of((layer.lower + layer.upper) / 2.0));

    /// `torch.nn.Threshold`: x if x is greater than `threshold`, otherwise `value`. NaN stays NaN.
    Threshold for "nn.Threshold", "F.threshold", "aten::threshold" {
        /// The threshold.
        threshold: f64,
        /// The replacement for elements that do not exceed the threshold.
        value: f64
    } |layer, x| if x <= T::of(layer.threshold) { T::of(layer.value) } else { x },
        integers |x: i64| if x <= layer.threshold as i64 { layer.value as i64 } else { x };

    /// `torch.nn.ELU`: x if x is positive, otherwise `alpha` · (eˣ − 1).
    ELU for "nn.ELU", "F.elu" {
        /// Scale of the negative part.
        alpha: f64 = 1.0
    } |layer, x| activation::elu(x, T::of(layer.alpha));

    /// `torch.nn.CELU` (Barron 2017): x if x is positive, otherwise `alpha` · (e^(x/alpha) − 1).
    CELU for "nn.CELU", "F.celu", "aten::celu" {
        /// Scale of the negative part.
        alpha: f64 = 1.0
    } |layer, x| if x > T::zero() { x } else { T::of(layer.alpha) * math::exp_m1(x / T::of(layer.alpha)) };

    /// `torch.nn.SELU` (Klambauer et al. 2017): scaled ELU, with the constants that preserve mean 0 and variance 1.
    SELU for "nn.SELU", "F.selu", "aten::selu" |_layer, x| {
        let alpha = T::of(1.673_263_242_354_377_3);
        let scale = T::of(1.050_700_987_355_480_5);
        scale * if x > T::zero() { x } else { alpha * math::exp_m1(x) }
    };

    /// `torch.nn.Softplus`: ln(1 + e^(beta·x)) / beta, a smooth ReLU; x itself if beta·x exceeds `threshold`.
    Softplus for "nn.Softplus", "F.softplus", "aten::softplus" {
        /// Sharpness of the transition.
        beta: f64 = 1.0,
        /// The value of beta·x above which the function is the identity.
        threshold: f64 = 20.0
    } |layer, x| {
        let beta = T::of(layer.beta);
        let bent = math::ln_1p(math::exp(x * beta)) / beta;
        if x * beta > T::of(layer.threshold) { x } else { bent }
    };

    /// `torch.lgamma`: the logarithm of the absolute value of the gamma function.
    Lgamma for "torch.lgamma", "aten::lgamma" |_layer, x| math::lgamma(x), promotes integers;

    /// `torch.nn.Softsign`: x / (1 + |x|).
    Softsign for "nn.Softsign", "F.softsign" |_layer, x| x / (T::one() + x.abs()),
        promotes integers, complex |z: Z| z / (1.0 + z.norm());

    /// `torch.nn.Softshrink`: x − `lambd` if x > `lambd`, x + `lambd` if x < −`lambd`, otherwise 0.
    Softshrink for "nn.Softshrink", "F.softshrink", "aten::softshrink" {
        /// Half the width of the dead zone.
        lambd: f64 = 0.5
    } |layer, x| {
        let lambd = T::of(layer.lambd);
        if x > lambd { x - lambd } else if x < -lambd { x + lambd } else { x * T::zero() }
    };

    /// `torch.nn.Hardshrink`: x if |x| > `lambd`, otherwise 0.
    Hardshrink for "nn.Hardshrink", "F.hardshrink", "aten::hardshrink" {
        /// Half the width of the dead zone.
        lambd: f64 = 0.5
    } |layer, x| if x.abs() <= T::of(layer.lambd) { T::zero() } else { x };

    /// `torch.nn.Tanhshrink`: x − tanh(x).
    Tanhshrink for "nn.Tanhshrink", "F.tanhshrink" |_layer, x| x - math::tanh(x),
        promotes integers, complex |z: Z| z - z.tanh();

    /// `torch.nn.Hardtanh`: x clamped to `min_val`..`max_val`.
    Hardtanh for "nn.Hardtanh", "F.hardtanh", "aten::hardtanh" {
        /// The lower bound.
        min_val: f64 = -1.0,
        /// The upper bound.
        max_val: f64 = 1.0
    } |layer, x| activation::clamp(x, T::of(layer.min_val), T::of(layer.max_val)),
        integers |x: i64| x.max(layer.min_val as i64).min(layer.max_val as i64);

    /// `torch.nn.Mish` (Misra 2019): x · tanh(softplus(x)).
    Mish for "nn.Mish", "F.mish", "aten::mish" |_layer, x| activation::mish(x);

    /// `torch.nn.LogSigmoid`: ln(sigmoid(x)), computed without overflow for large |x|.
    LogSigmoid for "nn.LogSigmoid", "F.logsigmoid" |_layer, x| {
        let floor = if x < T::zero() { x } else { T::zero() };
        floor - math::ln_1p(math::exp(-x.abs()))
    };
}

operators! {
    ReLU: computes(&[("relu(@0)", &[])]).when_quantized(InFloats(OfInput)),
    ReLU6: computes(&[("relu6(@0)", &[])]).when_quantized(InFloats(OfInput)),
    Sigmoid: computes(&[("sigmoid(@0)", &[])]).when_quantized(InFloats(Fraction)),
    SiLU: computes(&[("silu(@0)", &[])]),
    Tanh: computes(&[("tanh(@0)", &[])]).when_quantized(InFloats(Signed)),
    Hardsigmoid: computes(&[("hardsigmoid(@0)", &[])]).when_quantized(InFloats(Fraction)),
    Hardswish: computes(&[("hardswish(@0)", &[])]),
    LeakyReLU: computes(&[("leaky_relu(@0,negative_slope)", &[])]).when_quantized(InFloats(OfInput)),
    RReLU, Threshold: when_quantized(InFloats(OfInput)),
    ELU: computes(&[("elu(@0,alpha)", &[])]),
    CELU, SELU, Softplus: computes(&[("softplus(@0)", &[("beta", "1"), ("threshold", "20")])]),
    Lgamma: category(Elementwise), Softsign, Softshrink, Hardshrink, Tanhshrink,
    Hardtanh: computes(&[("clamp(@0,min_val,max_val)", &[])]).when_quantized(InFloats(OfInput)),
    Mish: computes(&[("mish(@0)", &[])]),
    LogSigmoid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::LayerError;
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    /// Operator type, parameters, results.
    type Case = (&'static str, &'static [(&'static str, &'static str)], [f64; 5]);

    /// Results of PyTorch in f64 at −2, −0.25, 0, 0.25 and 3.
    #[allow(clippy::approx_constant, reason = "these are results, not constants")]
    const CASES: &[Case] = &[
        ("nn.ReLU", &[], [0.0, 0.0, 0.0, 0.25, 3.0]),
        ("nn.ReLU6", &[], [0.0, 0.0, 0.0, 0.25, 3.0]),
        (
            "nn.Sigmoid",
            &[],
            [0.11920292202211755, 0.43782349911420193, 0.5, 0.5621765008857981, 0.9525741268224334],
        ),
        (
            "nn.SiLU",
            &[],
            [-0.2384058440442351, -0.10945587477855048, 0.0, 0.14054412522144952, 2.8577223804672998],
        ),
        (
            "nn.Tanh",
            &[],
            [-0.9640275800758169, -0.24491866240370913, 0.0, 0.24491866240370913, 0.9950547536867305],
        ),
        ("nn.Hardsigmoid", &[], [0.16666666666666666, 0.4583333333333333, 0.5, 0.5416666666666666, 1.0]),
        ("nn.Hardswish", &[], [-0.3333333333333333, -0.11458333333333333, 0.0, 0.13541666666666666, 3.0]),
        ("nn.LeakyReLU", &[("negative_slope", "0.1")], [-0.2, -0.025, 0.0, 0.25, 3.0]),
        ("nn.RReLU", &[("lower", "0.1"), ("upper", "0.42")], [-0.52, -0.065, 0.0, 0.25, 3.0]),
        ("nn.Threshold", &[("threshold", "0.1"), ("value", "20")], [20.0, 20.0, 20.0, 0.25, 3.0]),
        ("nn.ELU", &[("alpha", "2")], [-1.7293294335267746, -0.44239843385719024, 0.0, 0.25, 3.0]),
        ("nn.CELU", &[("alpha", "2.0")], [-1.2642411176571153, -0.2350061948308092, 0.0, 0.25, 3.0]),
        (
            "nn.SELU",
            &[],
            [-1.5201664685956948, -0.388890197478119, 0.0, 0.2626752468388701, 3.1521029620664414],
        ),
        (
            "nn.Softplus",
            &[],
            [
                0.1269280110429725,
                0.5759394198788436,
                0.6931471805599453,
                0.8259394198788436,
                3.048587351573742,
            ],
        ),
        (
            "torch.lgamma",
            &[],
            [f64::INFINITY, 1.589575312551186, f64::INFINITY, 1.2880225246980774, std::f64::consts::LN_2],
        ),
        ("nn.Softsign", &[], [-0.6666666666666666, -0.2, 0.0, 0.2, 0.75]),
        ("nn.Softshrink", &[], [-1.5, -0.0, 0.0, 0.0, 2.5]),
        ("nn.Hardshrink", &[], [-2.0, 0.0, 0.0, 0.0, 3.0]),
        (
            "nn.Tanhshrink",
            &[],
            [-1.035972419924183, -0.005081337596290869, 0.0, 0.005081337596290869, 2.0049452463132695],
        ),
        ("nn.Hardtanh", &[("max_val", "2")], [-1.0, -0.25, 0.0, 0.25, 2.0]),
        (
            "nn.GELU",
            &[],
            [-0.04550026389635842, -0.10032341857926907, 0.0, 0.14967658142073093, 2.99595030590511],
        ),
        (
            "F.gelu",
            &[("approximate", "tanh")],
            [-0.04540230591222494, -0.100324649298315, 0.0, 0.149675350701685, 2.996362607918227],
        ),
        (
            "nn.Mish",
            &[],
            [-0.2525014826957089, -0.129926963679141, 0.0, 0.1695724096638176, 2.9865350049679575],
        ),
        (
            "nn.LogSigmoid",
            &[],
            [
                -2.1269280110429727,
                -0.8259394198788436,
                -0.6931471805599453,
                -0.5759394198788436,
                -0.04858735157374206,
            ],
        ),
    ];

    #[test]
    fn integers_stay_integers() {
        let relu = operator("F.relu", &[]).run_one(&[&tensor(&[3], &[-2i32, 0, 7])]).unwrap();
        assert_eq!(relu.to_vec::<i32>().unwrap(), [0, 0, 7]);
        assert!(operator("F.gelu", &[]).run(&[&tensor(&[1], &[1i32])]).is_err());
    }

    #[test]
    fn values_are_those_of_pytorch() {
        let input = tensor(&[5], &[-2.0, -0.25, 0.0, 0.25, 3.0]);
        for (op_type, params, want) in CASES {
            assert_close(&operator(op_type, params).run_one(&[&input]).unwrap(), &[5], want);
        }
    }

    #[test]
    fn nan_stays_and_all_floats_are_supported() {
        for op_type in
            NAMES.iter().chain(&["GELU"]).filter(|name| **name != "Lgamma").map(|name| format!("nn.{name}"))
        {
            let params = CASES.iter().find(|case| case.0 == op_type).map_or(&[][..], |case| case.1);
            let layer = operator(&op_type, params);
            let nan = layer.run_one(&[&tensor(&[1], &[f32::NAN])]).unwrap();
            assert!(nan.item::<f32>().unwrap().is_nan(), "{op_type}");
            for dtype in [DType::F16, DType::Bf16, DType::F64] {
                assert_eq!(
                    layer.run_one(&[&Tensor::zeros(dtype, &[2, 0, 3]).unwrap()]).unwrap().dtype(),
                    dtype
                );
            }
            let integers = layer.run_one(&[&Tensor::zeros(DType::I64, &[1]).unwrap()]);
            let became = integers.map(|output| output.dtype());
            match op_type.trim_start_matches("nn.") {
                "ReLU" | "ReLU6" | "Hardtanh" | "Threshold" => {
                    assert_eq!(became.unwrap(), DType::I64, "{op_type}")
                }
                "Sigmoid" | "Tanh" | "Softsign" | "Tanhshrink" => {
                    assert_eq!(became.unwrap(), DType::F32, "{op_type}")
                }
                _ => assert!(matches!(became, Err(LayerError::DType { .. })), "{op_type}"),
            }
        }
    }
}
