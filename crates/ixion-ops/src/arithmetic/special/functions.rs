//! Rarer functions of real numbers, which only CPUs compute: Bessel functions, incomplete gamma functions, orthogonal polynomials.

use super::polynomials::{Family, polynomial};
use super::{
    AsFloats, Integers, OfNumbers, OfTwo, Pair, Real, Refused, bessel, gamma, map, normal, of_one, real,
};
use crate::arithmetic::binary::{INPUT, TWO, creator, first, required};
use crate::op::{
    CpuLayer, Creator, Field, Io, Layer, LayerError, OperatorReader, Registry, RegistryError, Result,
    TensorMeta,
};
use crate::support::broadcast::TensorOrScalar;
use crate::support::number;
use ixion_tensor::{Scalar, TensorView};
use std::ops::RangeInclusive;

/// Functions of one number: type, function, and documentation.
const SINGLE: &[(&str, Real, &str)] = &[
    ("aten::special_airy_ai", bessel::airy, "`torch.special.airy_ai`: Airy's function Ai."),
    (
        "aten::special_bessel_j0",
        bessel::j0,
        "`torch.special.bessel_j0`: the Bessel function of the first kind, of order 0.",
    ),
    (
        "aten::special_bessel_j1",
        bessel::j1,
        "`torch.special.bessel_j1`: the Bessel function of the first kind, of order 1.",
    ),
    (
        "aten::special_bessel_y0",
        bessel::y0,
        "`torch.special.bessel_y0`: the Bessel function of the second kind, of order 0.",
    ),
    (
        "aten::special_bessel_y1",
        bessel::y1,
        "`torch.special.bessel_y1`: the Bessel function of the second kind, of order 1.",
    ),
    (
        "aten::special_erfcx",
        normal::erfcx,
        "`torch.special.erfcx`: the scaled complementary error function, exp(x²)·erfc(x).",
    ),
    (
        "aten::special_i0e",
        bessel::i0e,
        "`torch.special.i0e`: the modified Bessel function of the first kind, of order 0, times exp(-|x|).",
    ),
    (
        "aten::special_i1",
        bessel::i1,
        "`torch.special.i1`: the modified Bessel function of the first kind, of order 1.",
    ),
    (
        "aten::special_i1e",
        bessel::i1e,
        "`torch.special.i1e`: the modified Bessel function of the first kind, of order 1, times exp(-|x|).",
    ),
    (
        "aten::special_log_ndtr",
        normal::log_ndtr,
        "`torch.special.log_ndtr`: the logarithm of the distribution function of the standard normal distribution.",
    ),
    (
        "aten::special_modified_bessel_i0",
        bessel::i0,
        "`torch.special.modified_bessel_i0`: the modified Bessel function of the first kind, of order 0.",
    ),
    (
        "aten::special_modified_bessel_i1",
        bessel::i1,
        "`torch.special.modified_bessel_i1`: the modified Bessel function of the first kind, of order 1.",
    ),
    (
        "aten::special_modified_bessel_k0",
        bessel::k0,
        "`torch.special.modified_bessel_k0`: the modified Bessel function of the second kind, of order 0.",
    ),
    (
        "aten::special_modified_bessel_k1",
        bessel::k1,
        "`torch.special.modified_bessel_k1`: the modified Bessel function of the second kind, of order 1.",
    ),
    (
        "aten::special_ndtri",
        normal::ndtri,
        "`torch.special.ndtri`: the inverse of the distribution function of the standard normal distribution.",
    ),
    (
        "aten::special_scaled_modified_bessel_k0",
        bessel::scaled_k0,
        "`torch.special.scaled_modified_bessel_k0`: the modified Bessel function of the second kind, of order 0, times eˣ.",
    ),
    (
        "aten::special_scaled_modified_bessel_k1",
        bessel::scaled_k1,
        "`torch.special.scaled_modified_bessel_k1`: the modified Bessel function of the second kind, of order 1, times eˣ.",
    ),
    (
        "aten::special_spherical_bessel_j0",
        bessel::spherical_j0,
        "`torch.special.spherical_bessel_j0`: the spherical Bessel function of order 0, sin(x)/x.",
    ),
];

/// Functions of two numbers: type, function, how it treats integers, and documentation.
const PAIRS: &[(&str, OfTwo, Integers, &str)] = &[
    (
        "aten::igamma",
        gamma::lower,
        Refused,
        "`torch.special.gammainc`: the regularised lower incomplete gamma function of a (the input) and x (`other`).",
    ),
    (
        "aten::igammac",
        gamma::upper,
        Refused,
        "`torch.special.gammaincc`: the regularised upper incomplete gamma function of a (the input) and x (`other`).",
    ),
    (
        "aten::special_zeta",
        gamma::zeta,
        AsFloats,
        "`torch.special.zeta`: the zeta function of Hurwitz, the sum of (q + k)⁻ˣ over k ≥ 0; `other` is q.",
    ),
];

const N: Field = Field {
    key: "n",
    kind: "a number or an input",
    default: None,
    doc: "The degree, truncated to an integer; tensors are broadcast. Polynomials of negative degree are 0.",
    is_parameter: false,
};

/// Polynomials of Chebyshev, with or without "shifted" in the type: its end, the polynomial of x and n, that of 2x - 1, and the
/// kind.
const CHEBYSHEV: [(&str, OfTwo, OfTwo, &str); 4] = [
    ("t", |x, n| polynomial(Family::T, x, n), |x, n| polynomial(Family::T, 2.0 * x - 1.0, n), "first"),
    ("u", |x, n| polynomial(Family::U, x, n), |x, n| polynomial(Family::U, 2.0 * x - 1.0, n), "second"),
    ("v", |x, n| polynomial(Family::V, x, n), |x, n| polynomial(Family::V, 2.0 * x - 1.0, n), "third"),
    ("w", |x, n| polynomial(Family::W, x, n), |x, n| polynomial(Family::W, 2.0 * x - 1.0, n), "fourth"),
];

/// Other polynomials: the name of the function, the polynomial, its name, and whether the degree must be bounded.
const POLYNOMIALS: [(&str, OfTwo, &str, bool); 4] = [
    ("hermite_polynomial_h", |x, n| polynomial(Family::Physicists, x, n), "physicist's Hermite", false),
    ("hermite_polynomial_he", |x, n| polynomial(Family::Probabilists, x, n), "probabilist's Hermite", false),
    ("laguerre_polynomial_l", |x, n| polynomial(Family::Laguerre, x, n), "Laguerre", true),
    ("legendre_polynomial_p", |x, n| polynomial(Family::Legendre, x, n), "Legendre", true),
];

/// A function of one number.
#[derive(Debug, Clone, Copy)]
struct One(Real);

impl Layer for One {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        real(self.0, "").infer(inputs)
    }
}

impl CpuLayer for One {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        map(&io.inputs[0], &mut io.outputs[0], &io.context, self.0)
    }
}

/// A function of two operands, which are broadcast.
#[derive(Debug, Clone, Copy)]
struct Two {
    pair: Pair,
    /// Whether the second operand is a degree that must be bounded: each costs a step of a recurrence for each element.
    is_bounded: bool,
}

impl Two {
    /// The highest degree that is computed.
    const HIGHEST: f64 = 1e6;

    fn check_degrees(&self, inputs: &[TensorView<'_>]) -> Result<()> {
        if !self.is_bounded {
            return Ok(());
        }
        let [_, degree] = self.pair.factors;
        let highest = match degree {
            TensorOrScalar::Input(position) => {
                number::read::<f64>(&inputs[position])?.iter().copied().fold(0.0, f64::max)
            }
            TensorOrScalar::Number(Scalar::Int(degree)) => degree as f64,
            TensorOrScalar::Number(Scalar::Float(degree)) => degree,
            TensorOrScalar::Number(_) => 0.0,
        };
        if highest > Self::HIGHEST {
            let reason = format!("degrees of more than {} are not computed", Self::HIGHEST);
            return Err(LayerError::invalid(N.key, highest, reason));
        }
        Ok(())
    }
}

impl Layer for Two {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.pair.num_inputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.pair.infer(inputs)
    }
}

impl CpuLayer for Two {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.check_degrees(io.inputs)?;
        self.pair.forward(io)
    }
}

crate::operator! {
    /// `torch.polygamma`: a derivative of `torch.digamma`.
    pub struct Polygamma for "aten::polygamma" {
        /// The order of the derivative; 0 is digamma itself.
        n: usize,
    }
}

impl Layer for Polygamma {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        real(f64::ln, "").infer(inputs)
    }
}

impl CpuLayer for Polygamma {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let order = u32::try_from(self.n).unwrap_or(u32::MAX);
        map(&io.inputs[0], &mut io.outputs[0], &io.context, |x: f64| gamma::polygamma(order, x))
    }
}

crate::operator! {
    /// `torch.special.multigammaln`: the logarithm of the gamma function of several variables.
    pub struct MultiGamma for "aten::mvlgamma" {
        /// The number of variables, 1 to 1000.
        p: usize,
    }
    validate |layer| {
        match layer.p {
            1..=1000 => Ok(()),
            p => Err(LayerError::invalid("p", p, "it must be 1 to 1000")),
        }
    }
}

impl Layer for MultiGamma {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        real(f64::ln, "").infer(inputs)
    }
}

impl CpuLayer for MultiGamma {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let order = u32::try_from(self.p).unwrap_or(u32::MAX);
        map(&io.inputs[0], &mut io.outputs[0], &io.context, |x: f64| gamma::multigamma(order, x))
    }
}

fn of_two(
    doc: &str,
    fields: &'static [Field],
    (function, integers): (OfTwo, Integers),
    is_bounded: bool,
) -> Creator {
    let function = OfNumbers { real: Some(function), integers, code: [""; 2] };
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let second: &Field = &fields[1];
        let factors = [first(reader)?, required(reader, second.key)?];
        Ok(Box::new(Two { pair: Pair { factors, function }, is_bounded }))
    };
    creator(doc.to_owned(), fields, create)
}

operators! { Polygamma, MultiGamma; with add_functions; overload "aten::polygamma"(n, input) }

fn add_functions(registry: &mut Registry) -> Result<(), RegistryError> {
    const OF_DEGREE: &[Field] = &[INPUT, N];
    for &(op_type, function, doc) in SINGLE {
        registry.add(op_type, of_one(doc, One(function)))?;
    }
    for &(op_type, function, integers, doc) in PAIRS {
        registry.add(op_type, of_two(doc, TWO, (function, integers), false))?;
    }
    for (end, plain, shifted, kind) in CHEBYSHEV {
        for (prefix, function, of) in [("", plain, "x"), ("shifted_", shifted, "2x - 1")] {
            let name = format!("{prefix}chebyshev_polynomial_{end}");
            let doc =
                format!("`torch.special.{name}`: the Chebyshev polynomial of the {kind} kind, of {of}.");
            let creator = of_two(&doc, OF_DEGREE, (function, AsFloats), false);
            registry.add(format!("aten::special_{name}"), creator)?;
        }
    }
    for (name, function, title, is_bounded) in POLYNOMIALS {
        let doc = format!("`torch.special.{name}`: the {title} polynomial.");
        let creator = of_two(&doc, OF_DEGREE, (function, AsFloats), is_bounded);
        registry.add(format!("aten::special_{name}"), creator)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{Complex, DType, Tensor};

    #[test]
    fn types_and_shapes() {
        let (whole, float) = (tensor(&[2], &[3i64, 4]), tensor(&[2, 1], &[2.5f32, 0.5]));
        let of_whole = operator("aten::special_i1", &[]).run_one(&[&whole]).unwrap();
        assert_eq!(of_whole.dtype(), DType::F32);
        let zeta = operator("aten::special_zeta", &[])
            .with_names(&["input", "other"])
            .run_one(&[&whole, &float])
            .unwrap();
        assert_eq!((zeta.dtype(), zeta.shape().dims()), (DType::F32, &[2, 2][..]));
        let refused = |op_type: &'static str, inputs: &[&Tensor]| {
            operator(op_type, &[]).with_names(&["input", "other"]).run(inputs).is_err()
        };
        let complex = tensor(&[1], &[Complex::new(1.0f32, 0.0)]);
        assert!(refused("aten::igamma", &[&whole, &whole]) && refused("aten::special_erfcx", &[&complex]));
        assert!(refused("aten::special_zeta", &[&complex, &float]));
    }

    #[test]
    fn degrees_and_orders() {
        let x = tensor(&[2], &[0.5f64, 2.0]);
        let cubic = operator("aten::special_hermite_polynomial_he", &[("n", "3")]).run_one(&[&x]).unwrap();
        assert_eq!(cubic.to_vec::<f64>().unwrap(), [-1.375, 2.0]);
        let far = operator("aten::special_laguerre_polynomial_l", &[("n", "1e9")]).run(&[&x]).unwrap_err();
        assert!(far.to_string().contains("degrees of more than 1000000 are not computed"), "{far}");
        assert!(operator("aten::polygamma", &[("n", "-1")]).create(1).is_err());
        assert!(operator("aten::mvlgamma", &[("p", "0")]).create(1).is_err());
        assert!(operator("aten::mvlgamma", &[("p", "1001")]).create(1).is_err());
    }

    #[test]
    fn unusual_tensors() {
        operator("aten::polygamma", &[("n", "2")]).survives(1);
        operator("aten::mvlgamma", &[("p", "2")]).survives(1);
        for op_type in ["aten::special_ndtri", "aten::special_airy_ai", "aten::special_i0e"] {
            operator(op_type, &[]).survives(1);
        }
        for op_type in ["aten::igammac", "aten::special_zeta", "aten::special_legendre_polynomial_p"] {
            operator(op_type, &[]).with_names(&["input", "other"]).survives(2);
        }
    }
}
