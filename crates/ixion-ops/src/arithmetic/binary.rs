//! Stand-alone arithmetic: the TorchScript operators that PNNX keeps below optimisation level 2, such as `aten::add`.
//!
//! At level 2 they are parts of a `pnnx.Expression`. Here each becomes an [`Expression`] of its own, so that arithmetic and
//! type promotion are implemented once: a table lists the expression of each operator and the names of its arguments. An
//! argument is an input, or a Python number if the file has a constant.

use super::expression::{Compiled, Expression};
use crate::op::{
    CpuLayer, Creator, Field, FieldDefault, FieldValue, FromOperator, Io, Layer, LayerError, OperatorReader,
    Registry, RegistryError, Result, TensorMeta,
};
use crate::reduction::extremes::{Max, Min};
use crate::support::broadcast::{TensorOrScalar, common};
use ixion_pnnx::Expr;
use ixion_tensor::{DType, Dim, Scalar, Tensor};
use std::ops::RangeInclusive;

/// A field that is a number or an input.
const fn field(key: &'static str, default: Option<&'static str>, doc: &'static str) -> Field {
    let default = match default {
        Some(text) => Some(FieldDefault::Text(text)),
        None => None,
    };
    Field { key, kind: "a number or an input", default, doc, is_parameter: false }
}

pub(crate) const INPUT: Field = field("input", None, "The first operand.");
const OTHER: Field = field("other", None, "The second operand; tensors are broadcast.");
const ALPHA: Field = field("alpha", Some("1"), "The factor of the operand that is added or subtracted.");
const EXPONENT: Field = field("exponent", None, "The exponent.");
const FIRST: Field = field("tensor1", None, "The first factor, or the dividend.");
const SECOND: Field = field("tensor2", None, "The second factor, or the divisor.");
const VALUE: Field = field("value", Some("1"), "The factor of the product or quotient.");
const END: Field = field("end", None, "The end point: the result for a weight of 1.");
const WEIGHT: Field = field("weight", None, "The weight of `end`: 0 gives `input`, 1 gives `end`.");

pub(crate) const ONE: &[Field] = &[INPUT];
pub(crate) const TWO: &[Field] = &[INPUT, OTHER];
const SCALED: &[Field] = &[INPUT, OTHER, ALPHA];
const POWER: &[Field] = &[INPUT, EXPONENT];
const PRODUCT: &[Field] = &[INPUT, FIRST, SECOND, VALUE];
const BETWEEN: &[Field] = &[INPUT, END, WEIGHT];

/// The type, the arguments in TorchScript's order, and the expression of the arguments.
const TEMPLATES: &[(&str, &[Field], &str)] = &[
    ("aten::__and__", TWO, "and(@0,@1)"),
    ("aten::__lshift__", TWO, "lshift(@0,@1)"),
    ("aten::__or__", TWO, "or(@0,@1)"),
    ("aten::__rshift__", TWO, "rshift(@0,@1)"),
    ("aten::__xor__", TWO, "xor(@0,@1)"),
    ("aten::abs", ONE, "abs(@0)"),
    ("aten::acos", ONE, "acos(@0)"),
    ("aten::acosh", ONE, "acosh(@0)"),
    ("aten::add", SCALED, "add(@0,mul(@1,@2))"),
    ("aten::asin", ONE, "asin(@0)"),
    ("aten::asinh", ONE, "asinh(@0)"),
    ("aten::atan", ONE, "atan(@0)"),
    ("aten::atan2", TWO, "atan2(@0,@1)"),
    ("aten::atanh", ONE, "atanh(@0)"),
    ("aten::ceil", ONE, "ceil(@0)"),
    ("aten::cos", ONE, "cos(@0)"),
    ("aten::cosh", ONE, "cosh(@0)"),
    ("aten::deg2rad", ONE, "mul(@0,0.017453292519943295)"),
    ("aten::erf", ONE, "erf(@0)"),
    ("aten::exp", ONE, "exp(@0)"),
    ("aten::expm1", ONE, "expm1(@0)"),
    ("aten::floor", ONE, "floor(@0)"),
    ("aten::floor_divide", TWO, "floor_divide(@0,@1)"),
    ("aten::fmod", TWO, "fmod(@0,@1)"),
    ("aten::ldexp", TWO, "mul(@0,pow(2.0,@1))"),
    ("aten::log", ONE, "log(@0)"),
    ("aten::log10", ONE, "log10(@0)"),
    ("aten::log1p", ONE, "log1p(@0)"),
    ("aten::logaddexp", TWO, "logaddexp(@0,@1)"),
    ("aten::maximum", TWO, "maximum(@0,@1)"),
    ("aten::minimum", TWO, "minimum(@0,@1)"),
    ("aten::mul", TWO, "mul(@0,@1)"),
    ("aten::neg", ONE, "neg(@0)"),
    ("aten::pow", POWER, "pow(@0,@1)"),
    ("aten::rad2deg", ONE, "mul(@0,57.29577951308232)"),
    ("aten::reciprocal", ONE, "reciprocal(@0)"),
    ("aten::remainder", TWO, "remainder(@0,@1)"),
    ("aten::rsqrt", ONE, "rsqrt(@0)"),
    ("aten::rsub", SCALED, "sub(@1,mul(@0,@2))"),
    ("aten::sign", ONE, "sign(@0)"),
    ("aten::sin", ONE, "sin(@0)"),
    ("aten::sinh", ONE, "sinh(@0)"),
    ("aten::sqrt", ONE, "sqrt(@0)"),
    ("aten::square", ONE, "square(@0)"),
    ("aten::sub", SCALED, "sub(@0,mul(@1,@2))"),
    ("aten::tan", ONE, "tan(@0)"),
    ("aten::tanh", ONE, "tanh(@0)"),
    ("aten::trunc", ONE, "trunc(@0)"),
    ("aten::true_divide", TWO, "div(@0,@1)"),
    ("aten::addcdiv", PRODUCT, "add(@0,mul(div(@1,@2),@3))"),
    ("aten::addcmul", PRODUCT, "add(@0,mul(mul(@1,@2),@3))"),
    ("aten::exp2", ONE, "pow(2.0,@0)"),
    ("aten::frac", ONE, "sub(@0,trunc(@0))"),
    ("aten::lerp", BETWEEN, "add(@0,mul(sub(@1,@0),@2))"),
    ("prim::NumToTensor", ONE, "@0"),
];

/// Operators whose result is a number in TorchScript: type, arguments and template.
const NUMBERS: &[(&str, &[Field], &str)] = &[
    ("aten::Bool", ONE, "torch.bool(@0)"),
    ("aten::Float", ONE, "torch.double(@0)"),
    ("aten::Int", ONE, "torch.long(@0)"),
    ("aten::ScalarImplicit", ONE, "@0"),
    ("aten::floordiv", TWO, "floor_divide(@0,@1)"),
    ("aten::item", ONE, "@0"),
    ("prim::max", TWO, "maximum(@0,@1)"),
    ("prim::min", TWO, "minimum(@0,@1)"),
];

/// An operand as part of an expression.
pub(crate) fn expr_of(operand: TensorOrScalar) -> Expr {
    match operand {
        TensorOrScalar::Input(position) => Expr::Input(position),
        TensorOrScalar::Number(Scalar::Bool(value)) => Expr::Bool(value),
        TensorOrScalar::Number(Scalar::Int(value)) => Expr::Int(value),
        TensorOrScalar::Number(Scalar::Float(value)) => Expr::Float(value),
        TensorOrScalar::Number(Scalar::Complex(value)) => Expr::Complex(value),
    }
}

/// The first operand: a number, or the input at position 0.
pub(crate) fn first(reader: &mut OperatorReader<'_>) -> Result<TensorOrScalar> {
    let number = <Scalar as FieldValue>::read(reader, "input")?;
    reader.input("input");
    Ok(number.map_or(TensorOrScalar::Input(0), TensorOrScalar::Number))
}

/// The operand of this name: a number or an input, which is the first input if the first operand is a number.
fn later(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<TensorOrScalar>> {
    if let Some(number) = <Scalar as FieldValue>::read(reader, key)? {
        return Ok(Some(TensorOrScalar::Number(number)));
    }
    Ok(reader.input(key).map(TensorOrScalar::Input))
}

pub(crate) fn required(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<TensorOrScalar> {
    let present = reader.keys();
    later(reader, key)?.ok_or_else(|| LayerError::MissingParameter {
        key: key.to_owned(),
        wanted: "a number or an input",
        present,
    })
}

/// Replaces the inputs of an expression by operands. Multiplications by the integer 1 are dropped.
fn substituted(expr: &Expr, operands: &[Expr]) -> Expr {
    match expr {
        Expr::Input(position) => operands.get(*position).unwrap_or(expr).clone(),
        Expr::Call { function, args } => {
            let mut args: Vec<Expr> = args.iter().map(|arg| substituted(arg, operands)).collect();
            if *function == ixion_pnnx::Function::Mul && args.last() == Some(&Expr::Int(1)) {
                return args.swap_remove(0);
            }
            Expr::Call { function: *function, args }
        }
        other => other.clone(),
    }
}

/// The expression of a template, with operands in place of its inputs.
///
/// # Errors
/// [`LayerError::Unsupported`] if the template is not an expression.
pub(crate) fn compiled(template: &str, operands: &[Expr]) -> Result<Expression> {
    let unreadable = |error: ixion_pnnx::ExpressionError| LayerError::Unsupported(error.to_string());
    let template = Expr::parse(template).map_err(unreadable)?;
    Ok(Expression::new(Compiled::new(&substituted(&template, operands))?))
}

pub(crate) fn creator(
    doc: String,
    fields: &[Field],
    create: impl Fn(&mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>> + Send + Sync + 'static,
) -> Creator {
    Creator::new(Creator::<dyn CpuLayer>::BUILT_IN, "1", create).described(doc, fields)
}

/// The creator of an operator of `TEMPLATES`.
fn of_table(fields: &'static [Field], template: &'static str) -> Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let mut operands = vec![expr_of(first(reader)?)];
        for field in fields.iter().skip(1) {
            operands.push(match field.default {
                Some(_) => later(reader, field.key)?.map_or(Expr::Int(1), expr_of),
                None => expr_of(required(reader, field.key)?),
            });
        }
        Ok(Box::new(compiled(template, &operands)?))
    };
    let doc = format!(
        "Computes `{template}` by the rules of `pnnx.Expression`; `@0`, `@1`, … are the operands in order."
    );
    creator(doc, fields, create)
}

/// `aten::div`, with its three rounding modes.
fn division() -> Creator {
    let mode = Field {
        key: "rounding_mode",
        kind: "a string or None",
        default: Some(FieldDefault::Text("None")),
        doc: "`floor` rounds the quotient down, `trunc` towards zero; `None` does not round.",
        is_parameter: false,
    };
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let operands = [first(reader)?, required(reader, "other")?];
        let exprs = operands.map(expr_of);
        let mode = Option::<String>::read(reader, "rounding_mode")?.flatten();
        match mode.as_deref() {
            None => Ok(Box::new(compiled("div(@0,@1)", &exprs)?)),
            Some("floor") => Ok(Box::new(compiled("floor_divide(@0,@1)", &exprs)?)),
            Some("trunc") => {
                let floats = compiled("trunc(div(@0,@1))", &exprs)?;
                let integers = compiled("floor_divide(sub(@0,fmod(@0,@1)),@1)", &exprs)?;
                Ok(Box::new(ByType { operands, is_first: DType::is_float, either: [floats, integers] }))
            }
            Some(other) => Err(LayerError::WrongParameter {
                key: "rounding_mode".to_owned(),
                wanted: "None, floor or trunc".to_owned(),
                found: other.to_owned(),
            }),
        }
    };
    creator("`torch.div`: divides the input by `other`.".to_owned(), &[INPUT, OTHER, mode], create)
}

/// `aten::round`, to integers or to a number of decimals.
fn rounding() -> Creator {
    let decimals = Field {
        key: "decimals",
        kind: "an integer",
        default: Some(FieldDefault::Text("0")),
        doc: "The number of decimals; a negative number rounds digits before the decimal point.",
        is_parameter: false,
    };
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let number = expr_of(first(reader)?);
        let decimals = i64::read(reader, "decimals")?.unwrap_or(0).clamp(-400, 400);
        let power = Expr::Float(10f64.powi(decimals.unsigned_abs() as i32));
        let template = match decimals {
            0 => "round(@0)",
            1.. => "div(round(mul(@0,@1)),@1)",
            _ => "mul(round(div(@0,@1)),@1)",
        };
        Ok(Box::new(compiled(template, &[number, power])?))
    };
    let doc =
        "`torch.round`: rounds to the nearest number with `decimals` decimals; halves are rounded to even."
            .to_owned();
    creator(doc, &[INPUT, decimals], create)
}

/// `aten::max` and `aten::min`: element-wise for two tensors, or by the layer of `torch.max` for one.
fn extreme<T: FromOperator + CpuLayer + 'static>(template: &'static str) -> Creator {
    let create = move |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        reader.input("input");
        match later(reader, "other")? {
            None => {
                let layer = T::from_operator(reader)?;
                layer.validate()?;
                Ok(Box::new(layer))
            }
            Some(other) => Ok(Box::new(compiled(template, &[Expr::Input(0), expr_of(other)])?)),
        }
    };
    let fields = [TWO, T::FIELDS].concat();
    creator(format!("Of two tensors, `{template}`; of one tensor:\n{}", T::DOC), &fields, create)
}

/// `Tensor.size`: the length of an axis, or of all axes.
fn size() -> Creator {
    let dim = Field {
        key: "dim",
        kind: "an integer or None",
        default: Some(FieldDefault::Text("None")),
        doc: "The axis; a negative value counts from the end. By default all axes.",
        is_parameter: false,
    };
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        reader.input("input");
        reader.input("self");
        let template = match Option::<i64>::read(reader, "dim")?.flatten() {
            Some(dim) => format!("size(@0,{dim})"),
            None => "size(@0)".to_owned(),
        };
        Ok(Box::new(compiled(&template, &[Expr::Input(0)])?))
    };
    creator(
        "`torch.Tensor.size`: the length of an axis, or a vector of all lengths.".to_owned(),
        &[INPUT, dim],
        create,
    )
    .returning_number()
}

crate::operator! {
    /// `torch.numel`: the number of elements.
    pub struct Numel for "aten::numel" {}
}

impl Layer for Numel {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, [0; 0]).with_values(vec![inputs[0].num_elements()])])
    }
}

impl CpuLayer for Numel {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let count = i64::try_from(io.inputs[0].num_elements()).unwrap_or(i64::MAX);
        Ok(io.outputs[0].copy_from(&Tensor::scalar(count).view())?)
    }
}

crate::operator! {
    /// `torch.Tensor.dim`: the number of axes.
    pub struct Rank for "aten::dim" {}
}

impl Layer for Rank {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, [0; 0]).with_values(vec![Dim::from(inputs[0].rank())])])
    }
}

impl CpuLayer for Rank {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let rank = i64::try_from(io.inputs[0].shape().rank()).unwrap_or(i64::MAX);
        Ok(io.outputs[0].copy_from(&Tensor::scalar(rank).view())?)
    }
}

/// One of two expressions of the same operands, selected by the operands' common type.
#[derive(Debug, Clone)]
pub struct ByType {
    operands: [TensorOrScalar; 2],
    /// Returns true for the types that use the first expression.
    is_first: fn(DType) -> bool,
    either: [Expression; 2],
}

impl ByType {
    /// The expression for the element type to which the operands are promoted, given the inputs of the operator.
    pub fn of(&self, inputs: &[TensorMeta]) -> &Expression {
        &self.either[usize::from(!(self.is_first)(common(inputs, &self.operands)))]
    }
}

impl Layer for ByType {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.either[0].num_inputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.of(inputs).infer(inputs)
    }
}

impl CpuLayer for ByType {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let metas: Vec<TensorMeta> = io.inputs.iter().map(TensorMeta::of).collect();
        self.of(&metas).clone().forward(io)
    }
}

/// `aten::float_power`, computed in the largest float or complex type.
fn float_power() -> Creator {
    let create = |reader: &mut OperatorReader<'_>| -> Result<Box<dyn CpuLayer>> {
        let operands = [first(reader)?, required(reader, "exponent")?];
        let exprs = operands.map(expr_of);
        let complex = compiled("pow(torch.complex128(@0),torch.complex128(@1))", &exprs)?;
        let real = compiled("pow(torch.double(@0),torch.double(@1))", &exprs)?;
        Ok(Box::new(ByType { operands, is_first: DType::is_complex, either: [complex, real] }))
    };
    creator(
        "`torch.float_power`: raises the input to the power of `exponent`, in f64 or c128.".to_owned(),
        POWER,
        create,
    )
}

operators! {
    with add_operators;
    overload "aten::max"(input, dim, keepdim) of 3, "aten::min"(input, dim, keepdim) of 3
}

fn add_operators(registry: &mut Registry) -> Result<(), RegistryError> {
    use crate::op::properties::table::{Moved, ReadsIntegers, moves, when_quantized};
    for (op_type, arguments, template) in TEMPLATES {
        registry.add(*op_type, of_table(arguments, template))?;
    }
    for (op_type, arguments, template) in NUMBERS {
        registry.add(*op_type, of_table(arguments, template).returning_number())?;
    }
    registry.add("aten::div", division())?;
    registry.add("aten::float_power", float_power())?;
    registry.add("aten::round", rounding())?;
    let [moved, reads_integers] = [moves(Moved), when_quantized(ReadsIntegers)];
    registry.add("aten::max", extreme::<Max>("maximum(@0,@1)").with_properties(moved))?;
    registry.add("aten::min", extreme::<Min>("minimum(@0,@1)").with_properties(moved))?;
    registry.add("aten::size", size().with_properties(reads_integers))?;
    registry.add("aten::numel", Creator::of::<Numel>().with_properties(reads_integers))?;
    let rank = Creator::of::<Rank>().returning_number();
    registry.add("aten::dim", rank.with_properties(reads_integers))?;
    registry.add("Tensor.size", size().with_properties(reads_integers))
}
