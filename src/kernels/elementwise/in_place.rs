//! Functions of what stands in the output alone: many an epilogue is no more than that, and has short pieces to finish.

use super::{Operation, Step};
use crate::kernels::wide::{Work, run_widest};
use crate::kernels::{Float, activation, math};
use crate::pnnx::Function;
use crate::tensor::DType;

/// A function that is computed where its argument stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InPlace {
    Gelu,
    GeluTanh,
    Hardsigmoid,
    Hardswish,
    Mish,
    Sigmoid,
    Silu,
    Tanh,
}

impl InPlace {
    /// The function that steps come down to, if they do.
    pub(super) fn of(steps: &[Step]) -> Option<Self> {
        let [output, last] = steps else { return None };
        let is_native = output.dtype == last.dtype && [DType::F32, DType::F64].contains(&last.dtype);
        match (output.operation, last.operation) {
            (Operation::Output, Operation::Apply(function, _)) if is_native => Self::named(function),
            _ => None,
        }
    }

    fn named(function: Function) -> Option<Self> {
        Some(match function {
            Function::Gelu => Self::Gelu,
            Function::GeluTanh => Self::GeluTanh,
            Function::Hardsigmoid => Self::Hardsigmoid,
            Function::Hardswish => Self::Hardswish,
            Function::Mish => Self::Mish,
            Function::Sigmoid => Self::Sigmoid,
            Function::Silu => Self::Silu,
            Function::Tanh => Self::Tanh,
            _ => return None,
        })
    }

    /// Computes it, with the bits that [`real`](super::real) gives.
    pub(super) fn apply<T: Float>(self, piece: &mut [T]) {
        run_widest(Apply(self, piece));
    }
}

struct Apply<'a, T>(InPlace, &'a mut [T]);

impl<T: Float> Work for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(function, piece) = self;
        match function {
            InPlace::Gelu => map(piece, activation::gelu),
            InPlace::GeluTanh => map(piece, activation::gelu_tanh),
            InPlace::Hardsigmoid => map(piece, activation::hardsigmoid),
            InPlace::Hardswish => map(piece, activation::hardswish),
            InPlace::Mish => map(piece, activation::mish),
            InPlace::Sigmoid => map(piece, math::sigmoid),
            InPlace::Silu => map(piece, activation::silu),
            InPlace::Tanh => map(piece, math::tanh),
        }
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
    use super::super::{Finish, Program};
    use super::*;
    use crate::tensor::{Shape, Tensor};

    #[test]
    fn the_bits_are_those_of_a_program() {
        let numbers: Vec<f32> =
            (-300..300).map(|i| i as f32 * 0.05).chain([f32::NAN, f32::INFINITY]).collect();
        let shape = Shape::new(&[numbers.len()]).unwrap();
        let mut found = 0;
        for &function in Function::ALL {
            let Some(in_place) = InPlace::named(function) else { continue };
            found += 1;
            let mut program = Program::default();
            let own = program.output(DType::F32);
            let value = program.apply(function, DType::F32, own, own);
            let mut prepared = program.prepare(value, &[], DType::F32, &shape).unwrap();
            assert_eq!(prepared.in_place, Some(in_place));
            let mut piece = numbers.clone();
            prepared.start(&[]).unwrap().finish(0, &mut piece).unwrap();

            let mut program = Program::default();
            let x = program.input(0, DType::F32);
            let value = program.apply(function, DType::F32, x, x);
            let x = Tensor::from_vec(numbers.clone(), &[numbers.len()]).unwrap();
            let mut y = Tensor::zeros(DType::F32, &[numbers.len()]).unwrap();
            let limits = crate::Limits::default();
            program.run(value, &[x.view()], &mut y.view_mut().unwrap(), &limits).unwrap();
            let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&piece), bits(&y.to_vec::<f32>().unwrap()), "{function:?}");
        }
        assert_eq!(found, 8);
    }
}
