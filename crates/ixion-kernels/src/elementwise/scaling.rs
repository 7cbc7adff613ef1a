//! Products with an input whose rows are long or repeated, such as the gates of squeeze-and-excitation. The input is read
//! in place instead of being expanded to a block first.

use super::source::{Rows, Source};
use super::{Operation, Step, Value};
use crate::Float;
use crate::widest;
use ixion_tensor::DType;
use ixion_tensor::Function;
use std::ops::Range;

/// A program that is one such product. Values are identified by their steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scaling {
    /// The value that is scaled: an input, or the current elements of the output.
    pub(super) scaled: usize,
    /// The factors.
    pub(super) factors: usize,
}

impl Scaling {
    /// The product that the steps compute; `None` if they compute anything else.
    pub(super) fn of(steps: &[Step], sources: &[Option<Source>]) -> Option<Self> {
        let [.., Step { dtype, operation: Operation::Apply(Function::Mul, [Value(a), Value(b)]) }] = *steps
        else {
            return None;
        };
        let is_native =
            [DType::F32, DType::F64].contains(&dtype) && steps.iter().all(|step| step.dtype == dtype);
        let is_scaled = |value: usize| match &sources[value] {
            Some(source) => source.is_direct,
            None => matches!(steps[value].operation, Operation::Output),
        };
        let repeats = |value: usize| {
            sources[value].as_ref().is_some_and(|source| {
                !source.is_direct && !source.is_uniform && source.repeats_for() >= PATTERN / 2
            })
        };
        let order =
            [(a, b), (b, a)].into_iter().find(|&(scaled, factors)| is_scaled(scaled) && repeats(factors));
        let (scaled, factors) = order.filter(|_| is_native && steps.len() == 3)?;
        Some(Self { scaled, factors })
    }
}

/// Short rows are repeated up to this many elements, so that loops over them are several vectors long.
const PATTERN: usize = 128;

/// Writes the products of `numbers`, or of the current elements of the output, with the elements of a source at these
/// positions of the output. `storage` begins at the first element of the source.
///
/// # Panics
/// Panics if there are fewer numbers than positions, or the innermost stride of the source is greater than 1.
pub(super) fn scale<T: Float>(
    numbers: Option<&[T]>,
    (source, storage): (&Source, &[T]),
    range: Range<usize>,
    output: &mut [T],
) {
    widest!(|| Scale { numbers, source, storage, range, output }.run());
}

struct Scale<'a, T> {
    numbers: Option<&'a [T]>,
    source: &'a Source,
    storage: &'a [T],
    range: Range<usize>,
    output: &'a mut [T],
}

impl<T: Float> Scale<'_, T> {
    #[inline(always)]
    fn run(self) {
        let (inner_len, stride) = self.source.inner();
        assert!(stride <= 1, "the innermost axis must be contiguous or broadcast");
        let (mut at, mut pattern) = (0, [T::zero(); PATTERN]);
        for Rows { start, column, len } in self.source.rows(self.range) {
            let output = &mut self.output[at..at + len];
            let numbers = self.numbers.map(|numbers| &numbers[at..at + len]);
            at += len;
            if stride == 0 {
                pattern.fill(self.storage[start]);
                multiply(numbers, &pattern, output);
                continue;
            }
            let row = &self.storage[start..][..inner_len];
            let (first, others) = output.split_at_mut((inner_len - column).min(len));
            multiply(numbers, &row[column..], first);
            let numbers = numbers.map(|numbers| &numbers[first.len()..]);
            if inner_len > PATTERN || others.len() <= inner_len {
                multiply(numbers, row, others);
                continue;
            }
            let pattern = &mut pattern[..PATTERN / inner_len * inner_len];
            pattern.chunks_exact_mut(inner_len).for_each(|part| part.copy_from_slice(row));
            multiply(numbers, pattern, others);
        }
    }
}

/// Multiplies by the factors, which are repeated. The loop over factors is the inner one, and its length is not a
/// constant; otherwise the compiler would vectorise across rows.
#[inline(always)]
fn multiply<T: Float>(numbers: Option<&[T]>, factors: &[T], output: &mut [T]) {
    let parts = output.chunks_mut(factors.len());
    match numbers {
        Some(numbers) => {
            for (output, numbers) in parts.zip(numbers.chunks(factors.len())) {
                for ((y, &x), &factor) in output.iter_mut().zip(numbers).zip(factors) {
                    *y = x * factor;
                }
            }
        }
        None => {
            for output in parts {
                output.iter_mut().zip(factors).for_each(|(y, &factor)| *y *= factor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ApplyEpilogue, Program};
    use ixion_tensor::Function;
    use ixion_tensor::Limits;
    use ixion_tensor::{DType, Shape, Tensor};
    use proptest::prelude::*;

    fn spread(x: &Tensor, gate: &Tensor) -> Vec<f32> {
        let gate = gate.expand(x.shape()).unwrap().to_vec::<f32>().unwrap();
        x.to_vec::<f32>().unwrap().iter().zip(gate).map(|(x, gate)| x * gate).collect()
    }

    proptest! {
        #[test]
        fn inputs_and_outputs_are_scaled(
            outer in 1usize..4, middle in 1usize..70, inner in prop_oneof![Just(8usize), Just(16), 1usize..40],
            repeated in [any::<bool>(); 3], is_first: bool, cut in 0usize..3000,
        ) {
            let lens = [outer, middle, inner];
            let numbers = |len: usize, of: f32| (0..len).map(|i| (i as f32 * of).sin()).collect::<Vec<f32>>();
            let x = Tensor::from_vec(numbers(lens.iter().product(), 0.7), &lens).unwrap();
            let gates = [0, 1, 2].map(|axis| if repeated[axis] { 1 } else { lens[axis] });
            let gate = Tensor::from_vec(numbers(gates.iter().product(), 1.3), &gates).unwrap();
            let wanted = spread(&x, &gate);

            let mut program = Program::default();
            let (a, b) = (program.input(0, DType::F32), program.input(1, DType::F32));
            let value = if is_first { program.apply(Function::Mul, DType::F32, a, b) } else { program.apply(Function::Mul, DType::F32, b, a) };
            let mut y = Tensor::zeros(DType::F32, &lens).unwrap();
            program.run(value, &[x.view(), gate.view()], &mut y.view_mut().unwrap(), &Limits::default()).unwrap();
            prop_assert_eq!(&y.to_vec::<f32>().unwrap(), &wanted);

            let mut program = Program::default();
            let (own, gates) = (program.output(DType::F32), program.input(0, DType::F32));
            let value = program.apply(Function::Mul, DType::F32, own, gates);
            let inputs = [gate.view()];
            let mut prepared = program.prepare(value, &inputs, DType::F32, &Shape::new(&lens).unwrap()).unwrap();
            let run = prepared.start(&inputs).unwrap();
            let mut numbers = x.to_vec::<f32>().unwrap();
            let (first, second) = numbers.split_at_mut(cut.min(wanted.len()));
            run.apply(0, first).unwrap();
            run.apply(first.len(), second).unwrap();
            prop_assert_eq!(&numbers, &wanted);
        }
    }

    #[test]
    fn only_a_single_product_of_floats_is_a_scaling() {
        let shape = Shape::new(&[2, 100]).unwrap();
        let scaling = |dtype: DType, function: Function, gate: &[usize]| {
            let (x, gate) = (Tensor::zeros(dtype, &shape).unwrap(), Tensor::zeros(dtype, gate).unwrap());
            let mut program = Program::default();
            let (a, b) = (program.input(0, dtype), program.input(1, dtype));
            let value = program.apply(function, dtype, a, b);
            program.prepare(value, &[x.view(), gate.view()], dtype, &shape).unwrap().scaling
        };
        let found = scaling(DType::F64, Function::Mul, &[2, 1]).unwrap();
        assert_eq!((found.scaled, found.factors), (0, 1));
        assert!(scaling(DType::F32, Function::Mul, &[100]).is_some());
        assert!(scaling(DType::F32, Function::Mul, &[1]).is_none());
        assert!(scaling(DType::F32, Function::Mul, &[2, 100]).is_none(), "nothing repeats");
        assert!(scaling(DType::F32, Function::Add, &[100]).is_none());
        assert!(scaling(DType::F16, Function::Mul, &[100]).is_none());
        assert!(scaling(DType::I32, Function::Mul, &[100]).is_none());
    }
}
