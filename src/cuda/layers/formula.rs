//! From element-wise programs to kernels: whatever the length of an expression, one kernel computes it.

use crate::kernels::elementwise::{Operation, Program, Step, Value};
use crate::pnnx::Function;
use crate::tensor::{Complex, DType, Scalar};
use std::fmt::Write;

/// The numbers in which elements of a type are computed; none for complex ones.
pub(super) fn number(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => "float",
        DType::F64 => "double",
        dtype if dtype.is_complex() => return None,
        _ => "i64",
    })
}

/// The lines that compute a value, and the inputs that they read as `in0`, `in1`, …: none where there is no code for a step.
pub(super) fn code(program: &Program, value: Value) -> Option<(String, Vec<(usize, DType)>)> {
    code_of(program, value, None)
}

/// As [`code`], of a program that goes on from a value which the kernel computed under this name.
pub(super) fn code_of(
    program: &Program,
    value: Value,
    output: Option<&str>,
) -> Option<(String, Vec<(usize, DType)>)> {
    let (mut text, mut inputs) = (String::new(), Vec::new());
    for (at, step) in program.steps_to(value).iter().enumerate() {
        let number = number(step.dtype)?;
        if let Operation::Input(position) = step.operation {
            inputs.push((position, step.dtype));
        }
        let made = made(program, step, output)?;
        let rounded = rounded(&made, step.dtype);
        writeln!(text, "        {number} v{at} = {rounded};").ok()?;
    }
    Some((text, inputs))
}

fn made(program: &Program, step: &Step, output: Option<&str>) -> Option<String> {
    let number = number(step.dtype)?;
    Some(match step.operation {
        Operation::Input(position) => format!("in{position}"),
        Operation::Output => format!("({number}){}", output?),
        Operation::Constant(scalar) => constant(scalar, number)?,
        // Half a number is true as well.
        Operation::Cast(from) if step.dtype == DType::Bool => format!("v{}", from.position()),
        Operation::Cast(from) => cast(from.position(), program.dtype(from), number)?,
        Operation::Apply(function, [a, b]) => apply(function, number, a.position(), b.position())?,
    })
}

fn cast(from: usize, source: DType, to: &str) -> Option<String> {
    let is_real = self::number(source)? != "i64";
    Some(match (is_real, to) {
        (true, "i64") => format!("f_int(v{from})"),
        _ => format!("({to})v{from}"),
    })
}

/// What a type can hold of a number.
pub(super) fn rounded(made: &str, dtype: DType) -> String {
    match dtype {
        DType::F16 => format!("round_f16({made})"),
        DType::Bf16 => format!("round_bf16({made})"),
        DType::Bool => format!("({made}) != 0"),
        DType::I32 | DType::I16 | DType::I8 | DType::U8 => format!("(i64)({dtype})({made})"),
        _ => made.to_owned(),
    }
}

pub(super) fn constant(scalar: Scalar, number: &str) -> Option<String> {
    let real = match scalar {
        Scalar::Bool(value) => f64::from(u8::from(value)),
        Scalar::Int(value) if number == "i64" => return Some(long(value)),
        Scalar::Int(value) => value as f64,
        Scalar::Float(value) => value,
        Scalar::Complex(Complex { .. }) => return None,
    };
    Some(literal(real, number))
}

fn long(value: i64) -> String {
    format!("(i64){:#x}ull", value as u64)
}

/// A number with all of its bits.
pub(super) fn literal(value: f64, number: &str) -> String {
    match number {
        "float" => format!("__int_as_float({:#x})", (value as f32).to_bits()),
        "double" => format!("__longlong_as_double((i64){:#x}ull)", value.to_bits()),
        _ => long(value as i64),
    }
}

pub(super) fn apply(function: Function, number: &str, a: usize, b: usize) -> Option<String> {
    if number == "i64" { whole(function, a, b) } else { real(function, a, b) }
}

/// Functions of float and double; those of the same name in C are overloaded for both.
fn real(function: Function, a: usize, b: usize) -> Option<String> {
    use Function as F;
    let one = |name: &str| format!("{name}(v{a})");
    let two = |name: &str| format!("{name}(v{a}, v{b})");
    let between = |sign: &str| format!("v{a} {sign} v{b}");
    Some(match function {
        F::Abs => one("fabs"),
        F::Neg => format!("-v{a}"),
        F::Acos
        | F::Acosh
        | F::Asin
        | F::Asinh
        | F::Atan
        | F::Atanh
        | F::Ceil
        | F::Cos
        | F::Cosh
        | F::Erf
        | F::Exp
        | F::Expm1
        | F::Floor
        | F::Log
        | F::Log10
        | F::Log1p
        | F::Sin
        | F::Sinh
        | F::Sqrt
        | F::Tan
        | F::Tanh
        | F::Trunc => one(function.name()),
        F::Round => one("rint"),
        F::Reciprocal => one("f_reciprocal"),
        F::Rsqrt => one("f_rsqrt"),
        F::Sign => one("f_sign"),
        F::Square => one("f_square"),
        F::Relu => one("f_relu"),
        F::Relu6 => one("f_relu6"),
        F::Sigmoid => one("f_sigmoid"),
        F::Silu => one("f_silu"),
        F::Gelu => one("f_gelu"),
        F::GeluTanh => one("f_gelu_tanh"),
        F::Hardsigmoid => one("f_hardsigmoid"),
        F::Hardswish => one("f_hardswish"),
        F::Softplus => one("f_softplus"),
        F::Mish => one("f_mish"),
        F::Add => between("+"),
        F::Sub => between("-"),
        F::Mul => between("*"),
        F::Div => between("/"),
        F::FloorDivide => two("f_floor_divide"),
        F::Remainder => two("f_remainder"),
        F::Fmod => two("fmod"),
        F::Pow => two("f_pow"),
        F::Atan2 => two("atan2"),
        F::Max | F::Maximum => two("f_max"),
        F::Min | F::Minimum => two("f_min"),
        F::Logaddexp => two("f_logaddexp"),
        F::LeakyRelu => two("f_leaky_relu"),
        F::Elu => two("f_elu"),
        _ => return None,
    })
}

fn whole(function: Function, a: usize, b: usize) -> Option<String> {
    use Function as F;
    let two = |name: &str| format!("{name}(v{a}, v{b})");
    let between = |sign: &str| format!("v{a} {sign} v{b}");
    // Signed numbers do not wrap in C.
    let wrapping = |sign: &str| format!("(i64)((unsigned long long)v{a} {sign} (unsigned long long)v{b})");
    Some(match function {
        F::Abs => format!("i_abs(v{a})"),
        F::Neg => format!("(i64)(0ull - (unsigned long long)v{a})"),
        F::Sign => format!("f_sign(v{a})"),
        F::Square => format!("(i64)((unsigned long long)v{a} * (unsigned long long)v{a})"),
        F::Relu => format!("f_relu(v{a})"),
        F::Relu6 => format!("f_relu6(v{a})"),
        F::Add => wrapping("+"),
        F::Sub => wrapping("-"),
        F::Mul => wrapping("*"),
        F::FloorDivide => two("i_floor_divide"),
        F::Remainder => two("i_remainder"),
        F::Fmod => two("i_fmod"),
        F::Pow => two("i_pow"),
        F::Max | F::Maximum => two("f_max"),
        F::Min | F::Minimum => two("f_min"),
        F::And => between("&"),
        F::Or => between("|"),
        F::Xor => between("^"),
        F::Lshift => two("i_lshift"),
        F::Rshift => two("i_rshift"),
        _ => return None,
    })
}

/// A number as another type holds it, by the rules of [`Tensor::cast`](crate::tensor::Tensor::cast): what integers of fewer bits
/// cannot hold wraps, and of a float is cut off.
pub(super) fn converted(made: &str, source: DType, to: DType) -> Option<String> {
    let (is_real, number) = (number(source)? != "i64", number(to)?);
    Some(match to {
        to if to == source => made.to_owned(),
        DType::Bool => format!("(i64)({made} != 0)"),
        DType::I64 if is_real => format!("f_int({made})"),
        DType::I32 if is_real => format!("f_int_within({made}, -2147483648ll, 2147483647ll)"),
        DType::I16 if is_real => format!("f_int_within({made}, -32768ll, 32767ll)"),
        DType::I8 if is_real => format!("f_int_within({made}, -128ll, 127ll)"),
        DType::U8 if is_real => format!("f_int_within({made}, 0ll, 255ll)"),
        _ => rounded(&format!("({number})({made})"), to),
    })
}
