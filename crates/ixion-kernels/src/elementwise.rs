//! Element-wise programs: arithmetic of any length in one pass over the data.
//!
//! A [`Program`] is a list of steps, each of which computes one value from earlier ones. It is run over blocks of
//! elements that stay in the first-level cache: all steps of one block, then the next. However long the program is, every
//! input is read once, the output is written once, and intermediate results never take more than a few blocks. Values
//! that are the same for all elements are computed once, before the first block.
//!
//! A program that runs often is [prepared](Program::prepare) once. It then allocates nothing more, and threads share its
//! blocks.
//!
//! Blocks are computed in `i16`, `i32`, `i64`, `f32`, `f64`, `Complex<f32>` and `Complex<f64>`. After every step of another
//! element type, the block is rounded or wrapped to that type, as in PyTorch.

mod complex;
mod in_place;
mod integer;
mod number;
mod operand;
mod prepared;
mod real;
mod run;
mod scaling;
mod source;
mod values;

use ixion_tensor::Function;
use ixion_tensor::Limits;
use ixion_tensor::{DType, Result, Scalar, Shape, TensorError, TensorView, TensorViewMut};
use operand::Operand;
pub use prepared::Prepared;
pub use run::{ApplyEpilogue, Run};

/// The number of elements that are computed at a time. A few blocks of `f32` fit the first-level cache.
const BLOCK: usize = 2048;

/// A list of element-wise steps.
///
/// ```
/// use ixion_tensor::Limits;
/// use ixion_kernels::elementwise::Program;
/// use ixion_tensor::Function;
/// use ixion_tensor::{DType, Scalar, Tensor};
///
/// // x * 2 + 1
/// let mut program = Program::default();
/// let x = program.input(0, DType::F32);
/// let one = program.constant(Scalar::Float(1.0), DType::F32);
/// let two = program.constant(Scalar::Float(2.0), DType::F32);
/// let product = program.apply(Function::Mul, DType::F32, x, two);
/// let sum = program.apply(Function::Add, DType::F32, product, one);
///
/// let x = Tensor::from_vec(vec![0.0f32, 1.0, 2.0], &[3])?;
/// let mut y = Tensor::zeros(DType::F32, &[3])?;
/// program.run(sum, &[x.view()], &mut y.view_mut()?, &Limits::default())?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0]);
/// # Ok::<(), ixion_tensor::TensorError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Program {
    steps: Vec<Step>,
}

/// A value of the program that returned it. Another program may panic if it is used there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(usize);

/// One step of a [`Program`].
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The element type that the value is rounded to.
    pub dtype: DType,
    /// How the value is computed.
    pub operation: Operation,
}

/// How a value of a [`Program`] is computed.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    /// The elements of an input.
    Input(usize),
    /// The current elements of the output.
    Output,
    /// A constant, the same for all elements.
    Constant(Scalar),
    /// Another value, converted to the element type of the step.
    Cast(Value),
    /// A function of two values. A function of one argument gets it twice.
    Apply(Function, [Value; 2]),
}

impl Operation {
    fn arguments(&self) -> &[Value] {
        match self {
            Operation::Input(_) | Operation::Output | Operation::Constant(_) => &[],
            Operation::Cast(value) => std::slice::from_ref(value),
            Operation::Apply(_, values) => values,
        }
    }
}

impl Value {
    /// The position of the step that computes it.
    pub fn position(self) -> usize {
        self.0
    }
}

impl Program {
    /// The steps up to the one that computes a value.
    pub fn steps_to(&self, value: Value) -> &[Step] {
        &self.steps[..=value.0]
    }

    /// The elements of an input, which must have this type. An input that is requested again is not read twice.
    pub fn input(&mut self, position: usize, dtype: DType) -> Value {
        let reads_it = |step: &Step| matches!(step.operation, Operation::Input(known) if known == position);
        match self.steps.iter().position(reads_it) {
            Some(known) => Value(known),
            None => self.push(dtype, Operation::Input(position)),
        }
    }

    /// The current elements of the output, which must have this type: the program then works in place.
    pub fn output(&mut self, dtype: DType) -> Value {
        self.push(dtype, Operation::Output)
    }

    /// A constant, converted to an element type.
    pub fn constant(&mut self, scalar: Scalar, dtype: DType) -> Value {
        self.push(dtype, Operation::Constant(scalar))
    }

    /// A value converted to another element type, by the rules of [`Tensor::cast`](ixion_tensor::Tensor::cast).
    pub fn cast(&mut self, value: Value, dtype: DType) -> Value {
        if self.dtype(value) == dtype { value } else { self.push(dtype, Operation::Cast(value)) }
    }

    /// A function of one argument, which is passed twice, or of two. The result is rounded to an element type.
    ///
    /// Arguments are used as they are if they are computed in the same type as the result (f16, bf16 and f32 share one,
    /// i16, narrower integers and bool another, and c32 and c64 a third); otherwise they are converted. The absolute value
    /// of a complex number is complex here; a cast drops its imaginary part.
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
    /// [`TensorError::WrongDType`] if an input or the output has another type than the program requires;
    /// [`TensorError::UndefinedFor`] if a function is not defined for its type; [`TensorError::DivisionByZero`] for
    /// integers. Also fails if an input is missing, blocked, or cannot be broadcast, or if the deadline has passed.
    pub fn run(
        &self,
        value: Value,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let shape = *output.shape();
        if shape.num_elements() == 0 {
            return Ok(());
        }
        self.prepare(value, inputs, output.dtype(), &shape)?.start(inputs)?.whole(output, limits)
    }

    /// Prepares the program to compute a value for an output of this type and shape, from inputs with the types and
    /// layouts of these.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn prepare(
        &self,
        value: Value,
        inputs: &[TensorView<'_>],
        dtype: DType,
        shape: &Shape,
    ) -> Result<Prepared> {
        let mut prepared = Prepared::new(&self.steps[..=value.0], inputs, dtype, shape)?;
        prepared.compute_constants()?;
        Ok(prepared)
    }
}

fn undefined(function: Function, dtype: DType) -> TensorError {
    TensorError::UndefinedFor { operation: function.name(), dtype, advice: "convert the arguments first" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use ixion_tensor::Tensor;
    use proptest::prelude::*;

    fn run(program: &Program, value: Value, inputs: &[Tensor]) -> Result<Tensor> {
        let mut output = Tensor::zeros(program.dtype(value), &[3])?;
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        program.run(value, &views, &mut output.view_mut()?, &Limits::default())?;
        Ok(output)
    }

    fn row<T: ixion_tensor::Element>(values: [T; 3]) -> Tensor {
        Tensor::from_vec(values.to_vec(), &[3]).unwrap()
    }

    #[test]
    fn every_value_of_a_program_can_be_its_result() {
        let mut program = Program::default();
        let x = program.input(0, DType::I8);
        let three = program.constant(Scalar::Int(3), DType::I8);
        let product = program.apply(Function::Mul, DType::I8, x, three);
        let float = program.cast(product, DType::F16);
        let root = program.apply(Function::Sqrt, DType::F16, float, float);
        let inputs = [row([1i8, 3, 100])];
        let result = |value| run(&program, value, &inputs).unwrap();
        assert_eq!(result(x).to_vec::<i8>().unwrap(), [1, 3, 100]);
        assert_eq!(result(three).to_vec::<i8>().unwrap(), [3; 3]);
        assert_eq!(result(product).to_vec::<i8>().unwrap(), [3, 9, 44]);
        assert_eq!(
            result(root).cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
            [1.7324219, 3.0, 6.6328125]
        );
        assert_eq!(program.cast(root, DType::F16), root);
        assert_eq!(program.input(0, DType::I8), x);
    }

    proptest! {
        #[test]
        fn arithmetic_equals_the_naive_kernels(
            pairs in proptest::collection::vec((-30f64..30.0, -30f64..30.0), 3),
            a in -9f64..9.0,
        ) {
            let [x, y] = [|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1]
                .map(|side| row([0, 1, 2].map(|place| side(&pairs[place]))));
            let mut program = Program::default();
            let (first, second) = (program.input(0, DType::F64), program.input(1, DType::F64));
            let factor = program.constant(Scalar::Float(a), DType::F64);
            let product = program.apply(Function::Mul, DType::F64, first, factor);
            let array = |tensor: &Tensor| tensor.array::<f64>().unwrap().to_owned();
            let (left, right) = (array(&x), array(&y));
            let results = [
                (program.apply(Function::Add, DType::F64, first, second), naive::add(left.view(), right.view())),
                (program.apply(Function::Sub, DType::F64, first, second), naive::subtract(left.view(), right.view())),
                (program.apply(Function::Add, DType::F64, product, second), naive::axpy(a, left.view(), right.view())),
                (program.apply(Function::Sigmoid, DType::F64, first, first), naive::sigmoid(left.view())),
            ];
            for (value, want) in results {
                let got = array(&run(&program, value, &[x.clone(), y.clone()]).unwrap());
                prop_assert!(naive::all_close(got.view(), want.view(), 1e-14, 1e-14), "{got}, not {want}");
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let mut program = Program::default();
        let (x, y) = (program.input(0, DType::F32), program.input(1, DType::F32));
        let sum = program.apply(Function::Add, DType::F32, x, y);
        let value = program.apply(Function::Sin, DType::F32, sum, sum);
        let wide = Tensor::from_vec((0..300_000).map(|i| i as f32 * 0.01).collect(), &[300, 1000]).unwrap();
        let line = Tensor::from_vec((0..300).map(|i| i as f32).collect(), &[300, 1]).unwrap();
        let (alone, pooled) = crate::parallel::tests::on_threads(&[1, 2, 3], || {
            let mut output = Tensor::zeros(DType::F32, &[300, 1000]).unwrap();
            let inputs = [wide.view(), line.view()];
            program.run(value, &inputs, &mut output.view_mut().unwrap(), &Limits::default()).unwrap();
            output.to_le_bytes().unwrap()
        });
        assert!(pooled.iter().all(|bytes| *bytes == alone));
    }

    #[test]
    fn pieces_and_rows_of_an_output() {
        let mut program = Program::default();
        let (x, y) = (program.output(DType::F32), program.input(0, DType::F32));
        let value = program.apply(Function::Sub, DType::F32, y, x);
        let y = Tensor::from_vec(vec![10f32, 20.0], &[2, 1]).unwrap();
        let shape = Shape::new(&[2, 3]).unwrap();
        let inputs = [y.view()];
        let mut prepared = program.prepare(value, &inputs, DType::F32, &shape).unwrap();
        let run = prepared.start(&inputs).unwrap();
        let mut piece = [1f32, 2.0, 3.0];
        run.piece(2, &mut piece).unwrap();
        assert_eq!(piece, [9.0, 18.0, 17.0]);
        assert!(run.piece(0, &mut [0f64]).is_err());
        let mut memory = [1f32; 9];
        let layout = ixion_tensor::Layout::strided(shape, &[4, 1], 1).unwrap();
        let mut output = TensorViewMut::from_slice(&mut memory, layout).unwrap();
        run.whole(&mut output, &Limits::default()).unwrap();
        assert_eq!(memory, [1.0, 9.0, 9.0, 9.0, 1.0, 19.0, 19.0, 19.0, 1.0]);
    }

    #[test]
    fn arguments_of_other_types_are_converted() {
        let mut program = Program::default();
        let (x, y) = (program.input(0, DType::I32), program.input(1, DType::F64));
        let sum = program.apply(Function::Add, DType::F64, x, y);
        let sum = run(&program, sum, &[row([1i32, 2, 3]), row([0.5, 0.5, 0.5])]).unwrap();
        assert_eq!(sum.to_vec::<f64>().unwrap(), [1.5, 2.5, 3.5]);
    }

    #[test]
    fn mismatched_inputs_and_outputs_are_errors() {
        let mut program = Program::default();
        let x = program.input(0, DType::F32);
        assert!(matches!(run(&program, x, &[]), Err(TensorError::OutOfRange { .. })));
        assert!(matches!(run(&program, x, &[row([1f64; 3])]), Err(TensorError::WrongDType { .. })));
        let long = Tensor::zeros(DType::F32, &[4]).unwrap();
        assert!(run(&program, x, &[long]).is_err());
        let mut output = Tensor::zeros(DType::F64, &[3]).unwrap();
        let inputs = [row([1f32; 3])];
        let error = program.run(x, &[inputs[0].view()], &mut output.view_mut().unwrap(), &Limits::default());
        assert!(matches!(error, Err(TensorError::WrongDType { .. })));
        let and = program.apply(Function::And, DType::F32, x, x);
        assert!(matches!(run(&program, and, &inputs), Err(TensorError::UndefinedFor { .. })));
    }
}
