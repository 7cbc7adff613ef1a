//! Element-wise programs: arithmetic of any length in one pass over the data.
//!
//! A [`Program`] is a list of steps, each of which computes one value from earlier ones. It is run over blocks of
//! elements that stay in the first-level cache: all steps of one block, then the next. So however long the program is,
//! every input is read once, the output is written once, and intermediate results never take more than a few blocks.
//! Values that are the same for all elements are computed once, before the first block.
//!
//! Blocks are computed in `i64`, `f32`, `f64`, `Complex<f32>` and `Complex<f64>`. After every step of another type the
//! block is rounded or wrapped to what that type can hold, as PyTorch does.

mod complex;
mod integer;
mod number;
mod operand;
mod real;
mod run;
mod source;

use crate::Limits;
use crate::pnnx::Function;
use crate::tensor::{DType, Result, Scalar, Tensor, TensorError, TensorView, TensorViewMut};
use operand::Operand;
use run::Run;

/// Number of elements that are computed at a time: a few blocks of 8 bytes fit the first-level cache.
const BLOCK: usize = 1024;

/// A list of element-wise steps.
///
/// ```
/// use ixion::Limits;
/// use ixion::kernels::elementwise::Program;
/// use ixion::pnnx::Function;
/// use ixion::tensor::{DType, Scalar, Tensor};
///
/// // x * 2 + 1
/// let mut program = Program::default();
/// let x = program.input(0, DType::F32);
/// let (one, two) = (program.constant(Scalar::Float(1.0), DType::F32), program.constant(Scalar::Float(2.0), DType::F32));
/// let product = program.apply(Function::Mul, DType::F32, x, two);
/// let sum = program.apply(Function::Add, DType::F32, product, one);
///
/// let x = Tensor::from_vec(vec![0.0f32, 1.0, 2.0], &[3])?;
/// let mut y = Tensor::zeros(DType::F32, &[3])?;
/// program.run(sum, &[x.view()], &mut y.view_mut()?, &Limits::default())?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0]);
/// # Ok::<(), ixion::tensor::TensorError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Program {
    steps: Vec<Step>,
}

/// A value of the program that returned it; another program may panic at the sight of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(usize);

/// One step: how its value comes about, and the element type that the value is rounded to.
#[derive(Debug, Clone, Copy)]
struct Step {
    dtype: DType,
    operation: Operation,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Input(usize),
    Constant(Scalar),
    /// Conversion of another value.
    Cast(Value),
    /// A function of two values; of one argument, it stands here twice.
    Apply(Function, [Value; 2]),
}

impl Operation {
    fn arguments(&self) -> &[Value] {
        match self {
            Operation::Input(_) | Operation::Constant(_) => &[],
            Operation::Cast(value) => std::slice::from_ref(value),
            Operation::Apply(_, values) => values,
        }
    }
}

impl Program {
    /// The elements of an input, which will have this type.
    pub fn input(&mut self, position: usize, dtype: DType) -> Value {
        let same = |step: &Step| matches!(step.operation, Operation::Input(known) if known == position);
        match self.steps.iter().position(same) {
            Some(known) => Value(known),
            None => self.push(dtype, Operation::Input(position)),
        }
    }

    /// A number.
    pub fn constant(&mut self, scalar: Scalar, dtype: DType) -> Value {
        self.push(dtype, Operation::Constant(scalar))
    }

    /// A value converted to another element type, by the rules of [`Tensor::cast`].
    pub fn cast(&mut self, value: Value, dtype: DType) -> Value {
        if self.dtype(value) == dtype { value } else { self.push(dtype, Operation::Cast(value)) }
    }

    /// A function of one argument (which is given twice) or two, whose result is rounded to an element type.
    ///
    /// Arguments keep their values if they are computed in the same numbers as the result (f16, bf16 and f32 are, all
    /// integers and bool are, c32 and c64 are); otherwise they are converted. The absolute value of a complex number is
    /// complex here; a cast drops its imaginary part.
    pub fn apply(&mut self, function: Function, dtype: DType, first: Value, second: Value) -> Value {
        let arguments = [first, second].map(|value| {
            let same = number::dtype_of(self.dtype(value)) == number::dtype_of(dtype);
            if same { value } else { self.cast(value, dtype) }
        });
        self.push(dtype, Operation::Apply(function, arguments))
    }

    /// The element type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.steps[value.0].dtype
    }

    fn push(&mut self, dtype: DType, operation: Operation) -> Value {
        self.steps.push(Step { dtype, operation });
        Value(self.steps.len() - 1)
    }

    /// Computes a value for every element of the output. Inputs are broadcast to the output's shape.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] when an input or the output is of another type than the program says;
    /// [`TensorError::UndefinedFor`] for a function that the numbers do not have; [`TensorError::DivisionByZero`] for
    /// integers; an input that is missing, blocked, or cannot be broadcast; a deadline that has passed.
    pub fn run(
        &self,
        value: Value,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        if output.layout().is_contiguous() {
            return Run::new(&self.steps[..=value.0], inputs, output.shape())?.all(output, limits);
        }
        let mut whole = Tensor::zeros(output.dtype(), output.shape())?;
        self.run(value, inputs, &mut whole.view_mut()?, limits)?;
        output.copy_from(&whole.view())
    }
}

fn undefined(function: Function, dtype: DType) -> TensorError {
    TensorError::UndefinedFor { operation: function.name(), dtype, advice: "convert the arguments first" }
}
