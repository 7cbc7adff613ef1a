//! LDL factorisation of symmetric and Hermitian matrices, which need not be positive definite. It does not need LAPACK.

use super::layer::{MatrixElement, MatrixOperator, by_elimination};
use super::lu::{pivots_of, unknowns};
use super::stack::{Stack, each, each_pair, lens, put, put_matrices};
use super::triangular::batch_of;
use crate::op::{Io, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::matrix::{Fault, Field};
use ixion_kernels::symmetric::{self, Ldl};
use ixion_tensor::{DType, Limits, TensorView};

crate::operator! {
    /// `torch.linalg.ldl_factor`: the LDL factorisation in compact form: one matrix with L below its diagonal and D, with
    /// blocks of one or two rows, on it, and the pivots in LAPACK's format. Only the lower triangle of A is read. A zero block
    /// of D is an error.
    pub struct LdlFactor for "aten::linalg_ldl_factor" {
        /// Whether a complex A is Hermitian; else it is symmetric.
        hermitian: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.ldl_factor_ex`: as `torch.linalg.ldl_factor`, with a third output: for each matrix, the first row where D
    /// is zero, counted from 1, or 0 if there is none.
    pub struct LdlFactorEx for "aten::linalg_ldl_factor_ex" {
        /// Whether a complex A is Hermitian; else it is symmetric.
        hermitian: bool = false,
        /// Whether a zero block of D is an error.
        check_errors: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.ldl_solve`: solves A·X = B, given the outputs of `torch.linalg.ldl_factor` for A.
    pub struct LdlSolve for "aten::linalg_ldl_solve" {
        /// The pivots.
        pivots: InputIndex,
        /// The right-hand sides.
        other as "B": InputIndex,
        /// Whether a complex A is Hermitian; else it is symmetric.
        hermitian: bool = false,
    }
}

/// Factorises each matrix; with `regular`, a zero block of D is an error.
fn factors<T: Field>(
    input: &TensorView<'_>,
    (hermitian, regular): (bool, bool),
    limits: &Limits,
) -> Result<Vec<Ldl<T>>> {
    each(input, limits, |a| {
        let factors = Ldl::of(&a, hermitian, limits)?;
        match factors.singular.filter(|_| regular) {
            Some(at) => Err(Fault::Singular(at + 1)),
            None => Ok(factors),
        }
    })
}

impl MatrixOperator for LdlFactor {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [stack.rows])])
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let factors = factors::<T>(&io.inputs[0], (self.hermitian, true), limits)?;
        put_matrices(&mut io.outputs[0], factors.iter().map(|part| &part.factors))?;
        put(&mut io.outputs[1], factors.iter().flat_map(|part| part.pivots.iter().copied()))
    }
}

impl MatrixOperator for LdlFactorEx {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.meta(), stack.each(DType::I32, [stack.rows]), stack.each(DType::I32, [])])
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let factors = factors::<T>(&io.inputs[0], (self.hermitian, self.check_errors), limits)?;
        put_matrices(&mut io.outputs[0], factors.iter().map(|part| &part.factors))?;
        put(&mut io.outputs[1], factors.iter().flat_map(|part| part.pivots.iter().copied()))?;
        put(&mut io.outputs[2], factors.iter().map(|part| part.singular.map_or(0, |at| at as i32 + 1)))
    }
}

impl MatrixOperator for LdlSolve {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (factors, sides) = (Stack::of_square(inputs, 0)?, Stack::of(inputs, self.other.0)?);
        unknowns([&factors, &sides], &inputs[self.pivots.0], true)
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (pair, shape) = ([&io.inputs[0], &io.inputs[self.other.0]], *io.outputs[0].shape());
        let pivots = pivots_of(&io.inputs[self.pivots.0], lens(pair[0])?.0.iter().product(), limits)?;
        let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |which, factors, b| {
            symmetric::solve((&factors, &pivots[which], self.hermitian), &b, limits)
        })?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

operators! { by_elimination => LdlFactor, LdlFactorEx, LdlSolve }
