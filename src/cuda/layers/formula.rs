//! Kernel code of element-wise programs: a single kernel computes an expression of any length.

use crate::kernels::elementwise::{Operation, Program, Step, Value};
use crate::pnnx::Function;
use crate::tensor::{Complex, DType, Scalar};
use std::fmt::Write;

/// The C++ type in which elements of a type are computed; `None` for complex types.
pub(super) fn number(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => "float",
        DType::F64 => "double",
        dtype if dtype.is_complex() => return None,
        _ => "i64",
    })
}

/// The lines of code that compute a value, and the inputs that they read as `in0`, `in1`, …; `None` if a step has no code.
pub(super) fn code(program: &Program, value: Value) -> Option<(String, Vec<(usize, DType)>)> {
    code_of(program, value, None)
}

/// As [`code`], for a program that continues from a value that the kernel has computed, in the variable `output`.
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
        let term = step_code(program, step, output)?;
        let rounded = rounded(&term, step.dtype);
        writeln!(text, "        {number} v{at} = {rounded};").ok()?;
    }
    Some((text, inputs))
}

fn step_code(program: &Program, step: &Step, output: Option<&str>) -> Option<String> {
    let number = number(step.dtype)?;
    Some(match step.operation {
        Operation::Input(position) => format!("in{position}"),
        Operation::Output => format!("({number}){}", output?),
        Operation::Constant(scalar) => constant(scalar, number)?,
        // Fractions such as 0.5 are true as well.
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

/// Rounds or wraps a value to what an element type can hold.
pub(super) fn rounded(value: &str, dtype: DType) -> String {
    match dtype {
        DType::F16 => format!("round_f16({value})"),
        DType::Bf16 => format!("round_bf16({value})"),
        DType::Bool => format!("({value}) != 0"),
        DType::I32 | DType::I16 | DType::I8 | DType::U8 => format!("(i64)({dtype})({value})"),
        _ => value.to_owned(),
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

/// A literal with all bits of a number.
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

/// Functions of float and double; C functions of the same name are overloaded for both.
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
    // Signed overflow is undefined in C++.
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

/// Converts a value to another type, by the rules of [`Tensor::cast`](crate::tensor::Tensor::cast): integers wrap in narrower
/// types, and floats are truncated.
pub(super) fn converted(value: &str, source: DType, to: DType) -> Option<String> {
    let (is_real, number) = (number(source)? != "i64", number(to)?);
    Some(match to {
        to if to == source => value.to_owned(),
        DType::Bool => format!("(i64)({value} != 0)"),
        DType::I64 if is_real => format!("f_int({value})"),
        DType::I32 if is_real => format!("f_int_within({value}, -2147483648ll, 2147483647ll)"),
        DType::I16 if is_real => format!("f_int_within({value}, -32768ll, 32767ll)"),
        DType::I8 if is_real => format!("f_int_within({value}, -128ll, 127ll)"),
        DType::U8 if is_real => format!("f_int_within({value}, 0ll, 255ll)"),
        _ => rounded(&format!("({number})({value})"), to),
    })
}
