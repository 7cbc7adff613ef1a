//! Functions of the output alone, computed in place. Many epilogues are no more than that, and run on short slices.

use super::{Operation, Step};
use crate::widest;
use crate::{Float, activation, math};
use ixion_tensor::DType;
use ixion_tensor::Function;

/// A function that is computed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InPlace(Function);

impl InPlace {
    /// The single function that the steps apply to the output; `None` if they do anything else.
    pub(super) fn of(steps: &[Step]) -> Option<Self> {
        let [output, last] = steps else { return None };
        let is_native = output.dtype == last.dtype && [DType::F32, DType::F64].contains(&last.dtype);
        match (output.operation, last.operation) {
            (Operation::Output, Operation::Apply(function, _)) if is_native => Self::named(function),
            _ => None,
        }
    }

    fn named(function: Function) -> Option<Self> {
        FUNCTIONS.contains(&function).then_some(Self(function))
    }

    /// Applies the function. The results have the same bits as those of [`real`](super::real).
    pub(super) fn apply<T: Float>(self, piece: &mut [T]) {
        widest!(|| apply_here(self, piece));
    }
}

/// The functions that are computed in place: [`apply_here`] has a loop for each.
const FUNCTIONS: [Function; 8] = [
    Function::Gelu,
    Function::GeluTanh,
    Function::Hardsigmoid,
    Function::Hardswish,
    Function::Mish,
    Function::Sigmoid,
    Function::Silu,
    Function::Tanh,
];

#[inline(always)]
fn apply_here<T: Float>(InPlace(function): InPlace, piece: &mut [T]) {
    match function {
        Function::Gelu => map(piece, activation::gelu),
        Function::GeluTanh => map(piece, activation::gelu_tanh),
        Function::Hardsigmoid => map(piece, activation::hardsigmoid),
        Function::Hardswish => map(piece, activation::hardswish),
        Function::Mish => map(piece, activation::mish),
        Function::Sigmoid => map(piece, math::sigmoid),
        Function::Silu => map(piece, activation::silu),
        Function::Tanh => map(piece, math::tanh),
        _ => debug_assert!(false, "{function:?} is not computed in place"),
    }
}

#[inline(always)]
fn map<T: Copy>(piece: &mut [T], function: impl Fn(T) -> T) {
    for x in piece {
        *x = function(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ApplyEpilogue, Program};
    use super::*;
    use ixion_tensor::Limits;
    use ixion_tensor::{Shape, Tensor};

    /// Applies a function in place, and by a program with a separate input and output.
    fn both<T: Float>(function: Function, numbers: &[T]) -> [Vec<T>; 2] {
        let shape = Shape::new(&[numbers.len()]).unwrap();
        let mut program = Program::default();
        let own = program.output(T::DTYPE);
        let value = program.apply(function, T::DTYPE, own, own);
        let mut prepared = program.prepare(value, &[], T::DTYPE, &shape).unwrap();
        assert_eq!(prepared.in_place, Some(InPlace(function)));
        let mut piece = numbers.to_vec();
        prepared.start(&[]).unwrap().apply(0, &mut piece).unwrap();

        let mut program = Program::default();
        let x = program.input(0, T::DTYPE);
        let value = program.apply(function, T::DTYPE, x, x);
        let x = Tensor::from_vec(numbers.to_vec(), &shape).unwrap();
        let mut y = Tensor::zeros(T::DTYPE, &shape).unwrap();
        program.run(value, &[x.view()], &mut y.view_mut().unwrap(), &Limits::default()).unwrap();
        [piece, y.to_vec::<T>().unwrap()]
    }

    #[test]
    fn the_bits_are_those_of_a_program() {
        let edges =
            [0.0, -0.0, 1e-310, -1e-40, 1e-45, 800.0, -800.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let numbers: Vec<f64> = (-300..300).map(|i| f64::from(i) * 0.05).chain(edges).collect();
        let singles: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
        for function in FUNCTIONS {
            let [piece, program] = both(function, &singles)
                .map(|values| values.into_iter().map(f32::to_bits).collect::<Vec<_>>());
            assert_eq!(piece, program, "{function:?}");
            let [piece, program] = both(function, &numbers)
                .map(|values| values.into_iter().map(f64::to_bits).collect::<Vec<_>>());
            assert_eq!(piece, program, "{function:?}");
        }
    }

    #[test]
    fn other_functions_and_types_are_left_to_programs() {
        let in_place = |function: Function, dtype: DType| {
            let mut program = Program::default();
            let own = program.output(dtype);
            let value = program.apply(function, dtype, own, own);
            program.prepare(value, &[], dtype, &Shape::new(&[3]).unwrap()).unwrap().in_place
        };
        assert_eq!(in_place(Function::Silu, DType::F64), Some(InPlace(Function::Silu)));
        assert_eq!(in_place(Function::Silu, DType::F16), None);
        assert_eq!(in_place(Function::Cos, DType::F32), None);
    }
}
