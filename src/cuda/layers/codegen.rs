//! Kernel code of element-wise programs: a single kernel computes an expression of any length.

use crate::kernels::elementwise::{Operation, Program, Step, Value};
use crate::pnnx::Function;
use crate::tensor::{Complex, DType, Scalar};
use std::fmt::Write;

/// The C++ type in which elements of a type are computed; `None` for complex types.
pub(super) fn compute_type(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => "float",
        DType::F64 => "double",
        dtype if dtype.is_complex() => return None,
        _ => "i64",
    })
}

/// A C++ type with the size of an element, for kernels that only move elements.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "u8",
        2 => "i16",
        4 => "i32",
        8 => "i64",
        _ => "Bytes16",
    }
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
        let compute_type = compute_type(step.dtype)?;
        if let Operation::Input(position) = step.operation {
            inputs.push((position, step.dtype));
        }
        let expression = step_code(program, step, output)?;
        let rounded = rounded(&expression, step.dtype);
        writeln!(text, "        {compute_type} v{at} = {rounded};").ok()?;
    }
    Some((text, inputs))
}

fn step_code(program: &Program, step: &Step, output: Option<&str>) -> Option<String> {
    let compute_type = compute_type(step.dtype)?;
    Some(match step.operation {
        Operation::Input(position) => format!("in{position}"),
        Operation::Output => format!("({compute_type}){}", output?),
        Operation::Constant(scalar) => constant(scalar, compute_type)?,
        // Fractions such as 0.5 are true as well.
        Operation::Cast(from) if step.dtype == DType::Bool => format!("v{}", from.position()),
        Operation::Cast(from) => cast(from.position(), program.dtype(from), compute_type)?,
        Operation::Apply(function, [a, b]) => apply(function, compute_type, a.position(), b.position())?,
    })
}

fn cast(from: usize, source: DType, to: &str) -> Option<String> {
    let is_float = self::compute_type(source)? != "i64";
    Some(match (is_float, to) {
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

pub(super) fn constant(scalar: Scalar, compute_type: &str) -> Option<String> {
    let value = match scalar {
        Scalar::Bool(value) => f64::from(u8::from(value)),
        Scalar::Int(value) if compute_type == "i64" => return Some(i64_literal(value)),
        Scalar::Int(value) => value as f64,
        Scalar::Float(value) => value,
        Scalar::Complex(Complex { .. }) => return None,
    };
    Some(literal(value, compute_type))
}

fn i64_literal(value: i64) -> String {
    format!("(i64){:#x}ull", value as u64)
}

/// A literal with all bits of a number.
pub(super) fn literal(value: f64, compute_type: &str) -> String {
    match compute_type {
        "float" => format!("__int_as_float({:#x})", (value as f32).to_bits()),
        "double" => format!("__longlong_as_double((i64){:#x}ull)", value.to_bits()),
        _ => i64_literal(value as i64),
    }
}

pub(super) fn apply(function: Function, compute_type: &str, a: usize, b: usize) -> Option<String> {
    if compute_type == "i64" { integer_function(function, a, b) } else { float_function(function, a, b) }
}

/// Functions of float and double; C functions of the same name are overloaded for both.
fn float_function(function: Function, a: usize, b: usize) -> Option<String> {
    use Function as F;
    let unary = |name: &str| format!("{name}(v{a})");
    let binary = |name: &str| format!("{name}(v{a}, v{b})");
    let infix = |sign: &str| format!("v{a} {sign} v{b}");
    Some(match function {
        F::Abs => unary("fabs"),
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
        | F::Trunc => unary(function.name()),
        F::Round => unary("rint"),
        F::Reciprocal => unary("f_reciprocal"),
        F::Rsqrt => unary("f_rsqrt"),
        F::Sign => unary("f_sign"),
        F::Square => unary("f_square"),
        F::Relu => unary("f_relu"),
        F::Relu6 => unary("f_relu6"),
        F::Sigmoid => unary("f_sigmoid"),
        F::Silu => unary("f_silu"),
        F::Gelu => unary("f_gelu"),
        F::GeluTanh => unary("f_gelu_tanh"),
        F::Hardsigmoid => unary("f_hardsigmoid"),
        F::Hardswish => unary("f_hardswish"),
        F::Softplus => unary("f_softplus"),
        F::Mish => unary("f_mish"),
        F::Add => infix("+"),
        F::Sub => infix("-"),
        F::Mul => infix("*"),
        F::Div => infix("/"),
        F::FloorDivide => binary("f_floor_divide"),
        F::Remainder => binary("f_remainder"),
        F::Fmod => binary("fmod"),
        F::Pow => binary("f_pow"),
        F::Atan2 => binary("atan2"),
        F::Max | F::Maximum => binary("f_max"),
        F::Min | F::Minimum => binary("f_min"),
        F::Logaddexp => binary("f_logaddexp"),
        F::LeakyRelu => binary("f_leaky_relu"),
        F::Elu => binary("f_elu"),
        _ => return None,
    })
}

fn integer_function(function: Function, a: usize, b: usize) -> Option<String> {
    use Function as F;
    let binary = |name: &str| format!("{name}(v{a}, v{b})");
    let infix = |sign: &str| format!("v{a} {sign} v{b}");
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
        F::FloorDivide => binary("i_floor_divide"),
        F::Remainder => binary("i_remainder"),
        F::Fmod => binary("i_fmod"),
        F::Pow => binary("i_pow"),
        F::Max | F::Maximum => binary("f_max"),
        F::Min | F::Minimum => binary("f_min"),
        F::And => infix("&"),
        F::Or => infix("|"),
        F::Xor => infix("^"),
        F::Lshift => binary("i_lshift"),
        F::Rshift => binary("i_rshift"),
        _ => return None,
    })
}

/// Converts a value to another type, by the rules of [`Tensor::cast`](crate::tensor::Tensor::cast): integers wrap in narrower
/// types, and floats are truncated.
pub(super) fn converted(value: &str, source: DType, to: DType) -> Option<String> {
    let (is_float, compute_type) = (compute_type(source)? != "i64", compute_type(to)?);
    Some(match to {
        to if to == source => value.to_owned(),
        DType::Bool => format!("(i64)({value} != 0)"),
        DType::I64 if is_float => format!("f_int({value})"),
        DType::I32 if is_float => format!("f_int_within({value}, -2147483648ll, 2147483647ll)"),
        DType::I16 if is_float => format!("f_int_within({value}, -32768ll, 32767ll)"),
        DType::I8 if is_float => format!("f_int_within({value}, -128ll, 127ll)"),
        DType::U8 if is_float => format!("f_int_within({value}, 0ll, 255ll)"),
        _ => rounded(&format!("({compute_type})({value})"), to),
    })
}
