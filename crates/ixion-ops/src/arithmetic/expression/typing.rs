//! Element types and shapes of the nodes of a formula, and the program that computes them.

use super::formula::{Compiled, Form, Formula, Node};
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::broadcast::broadcast;
use crate::support::promotion::{NumberKind, Standing, default_precision, result_type};
use ixion_kernels::elementwise::{Program, Value};
use ixion_pnnx::Function;
use ixion_tensor::{DType, Dim, Scalar, resolve_axis};

/// The type and shape of a node's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Type {
    /// The element type.
    pub(super) dtype: DType,
    /// The element type in which the node's function is computed.
    computed: DType,
    /// Whether it is a Python number, as literals and sizes are, and not a tensor.
    pub(super) is_number: bool,
    /// The shape.
    pub(super) dims: Vec<Dim>,
}

impl Type {
    fn number(dtype: DType) -> Self {
        Self { dtype, computed: dtype, is_number: true, dims: Vec::new() }
    }

    fn standing(&self) -> Standing {
        match (self.is_number, self.dims.is_empty()) {
            (true, _) => Standing::Number,
            (false, true) => Standing::Scalar,
            (false, false) => Standing::Tensor,
        }
    }

    /// The element type as a tensor: a Python float becomes f32.
    pub(super) fn stored(&self) -> DType {
        if self.is_number { default_precision(self.dtype) } else { self.dtype }
    }
}

impl Formula {
    /// The types of all nodes, in order.
    ///
    /// # Errors
    /// Returns an error if an input is missing, shapes are incompatible, or a function does not support an element type.
    pub(super) fn types(&self, inputs: &[TensorMeta]) -> Result<Vec<Type>> {
        let mut types: Vec<Type> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let next = match node {
                Node::Input(position) => {
                    let input = input(inputs, *position)?;
                    let (dtype, dims) = (input.dtype(), input.dims().to_vec());
                    Type { dtype, computed: dtype, is_number: false, dims }
                }
                Node::Number(scalar) => Type::number(match scalar {
                    Scalar::Bool(_) => DType::Bool,
                    Scalar::Int(_) => DType::I64,
                    Scalar::Float(_) => DType::F64,
                    _ => DType::C128,
                }),
                Node::Size { of, axis } => {
                    size(&types[*of], *axis)?;
                    Type::number(DType::I64)
                }
                Node::Call { function, args: [a, b] } => call(*function, &types[*a], &types[*b])?,
            };
            types.push(next);
        }
        Ok(types)
    }

    /// The program that computes the last node, and the value of this node in the program. All sizes must be numbers.
    ///
    /// `place` maps an input of the expression to an input of the program, or to `None` if it is in the output.
    pub(super) fn program(
        &self,
        types: &[Type],
        place: impl Fn(usize) -> Option<usize>,
    ) -> Result<(Program, Value)> {
        let mut program = Program::default();
        let mut values: Vec<Option<Value>> = vec![None; self.nodes.len()];
        let mut last = None;
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| self.needed[*index]) {
            let this = &types[index];
            let value = match node {
                Node::Input(position) => match place(*position) {
                    Some(position) => program.input(position, this.dtype),
                    None => program.output(this.dtype),
                },
                Node::Number(scalar) => program.constant(*scalar, this.dtype),
                Node::Size { of, axis } => {
                    let dim = size(&types[*of], *axis)?;
                    let len = dim.fixed().ok_or_else(|| LayerError::shape("a size", "a number", dim))?;
                    program.constant(Scalar::Int(len), DType::I64)
                }
                Node::Call { function, args } => {
                    let [Some(a), Some(b)] = args.map(|arg| values[arg]) else { continue };
                    emit(&mut program, *function, this, [a, b], &types[args[1]])
                }
            };
            values[index] = Some(value);
            last = Some((value, this.stored()));
        }
        let (value, stored) =
            last.ok_or_else(|| LayerError::Unsupported("the expression is empty".to_owned()))?;
        let value = program.cast(value, stored);
        Ok((program, value))
    }
}

impl Compiled {
    /// The program that computes the expression. `place` maps an input of the expression to an input of the program, or to
    /// `None` if it is in the output.
    pub fn program(
        &self,
        inputs: &[TensorMeta],
        place: impl Fn(usize) -> Option<usize>,
    ) -> Result<(Program, Value)> {
        match &self.form {
            Form::Value(formula) => formula.program(&formula.types(inputs)?, place),
            _ => Err(LayerError::Unsupported("a list has no program".to_owned())),
        }
    }
}

fn input(inputs: &[TensorMeta], position: usize) -> Result<&TensorMeta> {
    inputs.get(position).ok_or_else(|| LayerError::InputCount {
        wanted: format!("at least {}", position.saturating_add(1)),
        found: inputs.len(),
    })
}

fn size(of: &Type, axis: i64) -> Result<&Dim> {
    let axis = resolve_axis(axis, of.dims.len())?;
    of.dims.get(axis).ok_or_else(|| LayerError::shape("the value whose size is taken", "an axis", "a scalar"))
}

/// The type of a function's result.
fn call(function: Function, a: &Type, b: &Type) -> Result<Type> {
    let common = result_type([a, b].map(|arg| (arg.dtype, arg.standing())));
    let is_number = a.is_number && b.is_number;
    check_kinds(function, [a.dtype, b.dtype, common])?;
    let (computed, dtype) = signature(function, common, is_number);
    Ok(Type { dtype, computed, is_number, dims: broadcast(&a.dims, &b.dims)? })
}

/// The element type in which a function computes, and that of its result, given the common type of its arguments.
fn signature(function: Function, common: DType, is_number: bool) -> (DType, DType) {
    use Function as F;
    let integer = matches!(NumberKind::of(common), NumberKind::Bool | NumberKind::Integer);
    match function {
        F::Cast(dtype) => (common, dtype),
        F::Int => (common, DType::I64),
        F::Abs => (common, common.real()),
        // Python's `math.floor` and similar functions return integers, PyTorch's do not.
        F::Ceil | F::Floor | F::Round | F::Trunc if is_number => (common, DType::I64),
        // In Python `True + True` is 2, in PyTorch it is true.
        F::Add | F::Mul if is_number && common == DType::Bool => (DType::I64, DType::I64),
        F::Square if common == DType::Bool => (DType::I64, DType::I64),
        _ if integer && is_floating(function) => {
            let float = if is_number { DType::F64 } else { DType::F32 };
            (float, float)
        }
        _ => (common, common),
    }
}

/// Functions whose result is never an integer.
fn is_floating(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Acos
            | F::Acosh
            | F::Asin
            | F::Asinh
            | F::Atan
            | F::Atan2
            | F::Atanh
            | F::Cos
            | F::Cosh
            | F::Div
            | F::Erf
            | F::Exp
            | F::Expm1
            | F::Log
            | F::Log10
            | F::Log1p
            | F::Reciprocal
            | F::Rsqrt
            | F::Sigmoid
            | F::Sin
            | F::Sinh
            | F::Sqrt
            | F::Tan
            | F::Tanh
    )
}

/// The kinds of numbers that a function supports in PyTorch, and their names.
fn kinds(function: Function) -> (&'static [NumberKind], &'static str) {
    use Function as F;
    use NumberKind::{Bool, Complex, Float, Integer};
    match function {
        F::Abs | F::Neg | F::Sub | F::Pow => {
            (&[Integer, Float, Complex], "integers, floats and complex numbers")
        }
        F::Ceil | F::Floor | F::Round | F::Trunc | F::FloorDivide | F::Remainder | F::Fmod => {
            (&[Integer, Float], "integers and floats")
        }
        F::Atan2 | F::Erf | F::Int | F::Max | F::Maximum | F::Min | F::Minimum | F::Sign => {
            (&[Bool, Integer, Float], "bools, integers and floats")
        }
        F::Relu | F::Relu6 => (&[Integer, Float], "integers and floats"),
        F::Sigmoid => (&[Bool, Integer, Float], "bools, integers and floats"),
        F::Silu
        | F::Gelu
        | F::GeluTanh
        | F::Hardsigmoid
        | F::Hardswish
        | F::Softplus
        | F::Mish
        | F::LeakyRelu
        | F::Elu => (&[Float], "floats"),
        F::Logaddexp => (&[Float, Complex], "floats and complex numbers"),
        F::And | F::Or | F::Xor => (&[Bool, Integer], "bools and integers"),
        F::Lshift | F::Rshift => (&[Integer], "integers"),
        _ => (&[Bool, Integer, Float, Complex], "all types"),
    }
}

fn check_kinds(function: Function, [a, b, common]: [DType; 3]) -> Result<()> {
    let (taken, names) = kinds(function);
    // A subtraction with a bool operand is an error, even if the other operand is not bool.
    let checked = if function == Function::Sub { vec![a, b] } else { vec![common] };
    match checked.into_iter().find(|dtype| !taken.contains(&NumberKind::of(*dtype))) {
        None => Ok(()),
        Some(found) => Err(LayerError::dtype(format!("`{}`", function.name()), names, found)),
    }
}

/// Adds a function's steps to a program.
fn emit(program: &mut Program, function: Function, this: &Type, [a, b]: [Value; 2], second: &Type) -> Value {
    use Function as F;
    let is_integer =
        matches!(function, F::Ceil | F::Floor | F::Round | F::Trunc) && !this.computed.is_float();
    let value = if is_integer || matches!(function, F::Int | F::Cast(_)) {
        a
    } else {
        // PyTorch does not round the second factor or the divisor to a half type if it is a single number.
        let half = matches!(this.computed, DType::F16 | DType::Bf16) && second.dims.is_empty();
        let exact = half && matches!(function, F::Mul | F::Div | F::FloorDivide | F::LeakyRelu | F::Elu);
        let b_dtype = if exact { DType::F32 } else { this.computed };
        let (first, second) = (program.cast(a, this.computed), program.cast(b, b_dtype));
        let mut apply = |function, first, second| program.apply(function, this.computed, first, second);
        if function == F::Rsqrt {
            // In two steps, as in PyTorch: the root of a half is rounded before its reciprocal is computed.
            let root = apply(F::Sqrt, first, first);
            apply(F::Reciprocal, root, root)
        } else {
            apply(function, first, second)
        }
    };
    program.cast(value, this.dtype)
}
