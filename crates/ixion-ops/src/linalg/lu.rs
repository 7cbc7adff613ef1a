//! LU factorisation with row pivoting, and linear systems that are solved by it. It does not need LAPACK.

use super::layer::{MatrixElement, MatrixOperator, by_elimination};
use super::stack::{Stack, check_results, common_batch, each, each_pair, lens, put, put_matrices};
use super::triangular::batch_of;
use crate::op::{Io, LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::elimination::{self, Lu as Factors, rows_of};
use ixion_kernels::matrix::{Fault, Field, adjoint};
use ixion_tensor::{DType, Dim, Limits, TensorView};
use ndarray::{Array2, ArrayView2};

crate::operator! {
    /// `torch.linalg.lu`: the factorisation A = P·L·U of each matrix: a permutation P, a lower triangular L with ones on its
    /// diagonal, and an upper triangular U.
    pub struct Lu for "aten::linalg_lu" {
        /// Whether rows are swapped; must be true on a CPU, as in PyTorch.
        pivot: bool = true,
    }
    validate |this| { with_pivots(this.pivot) }
}

crate::operator! {
    /// `torch.linalg.lu_factor`: the LU factorisation in compact form: one matrix with L below its diagonal and U on and above
    /// it, and the pivots: the rows that were swapped, counted from 1. A singular matrix is an error.
    pub struct LuFactor for "aten::linalg_lu_factor" {
        /// Whether rows are swapped; must be true on a CPU, as in PyTorch.
        pivot: bool = true,
    }
    validate |this| { with_pivots(this.pivot) }
}

crate::operator! {
    /// `torch.linalg.lu_factor_ex`: as `torch.linalg.lu_factor`, with a third output: for each matrix, the first zero on U's
    /// diagonal, counted from 1, or 0 if there is none.
    pub struct LuFactorEx for "aten::linalg_lu_factor_ex", "aten::_lu_with_info" {
        /// Whether rows are swapped; must be true on a CPU, as in PyTorch.
        pivot: bool = true,
        /// Whether a singular matrix is an error.
        check_errors: bool = false,
    }
    validate |this| { with_pivots(this.pivot) }
}

crate::operator! {
    /// `torch.lu_unpack`: unpacks the outputs of `torch.linalg.lu_factor` into P, L and U.
    pub struct LuUnpack for "aten::lu_unpack" {
        /// The pivots.
        pivots as "LU_pivots": InputIndex,
        /// Whether to return L and U; else they are empty.
        unpack_data: bool = true,
        /// Whether to return P; else it is empty.
        unpack_pivots: bool = true,
    }
}

crate::operator! {
    /// `torch.linalg.lu_solve`: solves A·X = B, or X·A = B, given the outputs of `torch.linalg.lu_factor` for A. A zero on the
    /// diagonal gives inf or NaN.
    pub struct LuSolve for "aten::linalg_lu_solve" {
        /// The pivots.
        pivots: InputIndex,
        /// The right-hand sides.
        other as "B": InputIndex,
        /// Whether to solve A·X = B; else X·A = B.
        left: bool = true,
        /// Whether to solve with Aᴴ instead of A.
        adjoint: bool = false,
    }
}

crate::operator! {
    /// `torch.lu_solve`: solves A·X = B, as `torch.linalg.lu_solve`; B is the first input.
    pub struct LuSolveOfSides for "aten::lu_solve" {
        /// L and U in compact form.
        factors as "LU_data": InputIndex,
        /// The pivots.
        pivots as "LU_pivots": InputIndex,
    }
}

fn with_pivots(pivot: bool) -> Result<()> {
    if pivot {
        Ok(())
    } else {
        Err(LayerError::invalid("pivot", "False", "pivoting cannot be disabled on a CPU"))
    }
}

/// P, L and U as tensors.
fn three(stack: &Stack<'_>) -> Vec<TensorMeta> {
    let k = stack.rank();
    let dims = [[stack.rows, stack.rows], [stack.rows, &k], [&k, stack.columns]];
    dims.map(|dims| stack.each(stack.dtype, dims)).to_vec()
}

/// Both triangles in one matrix, and the pivots.
fn packed(stack: &Stack<'_>) -> [TensorMeta; 2] {
    [stack.meta(), stack.each(DType::I32, [&stack.rank()])]
}

fn factors<T: Field>(input: &TensorView<'_>, limits: &Limits) -> Result<Vec<Factors<T>>> {
    each(input, limits, |a| Ok(Factors::of(&a, limits)?))
}

/// As [`factors`], for matrices that must not be singular.
fn regular<T: Field>(input: &TensorView<'_>, limits: &Limits) -> Result<Vec<Factors<T>>> {
    each(input, limits, |a| {
        let factors = Factors::of(&a, limits)?;
        factors.singular.map_or(Ok(factors), |at| Err(Fault::Singular(at + 1)))
    })
}

/// Rows as LAPACK counts them: from 1.
fn pivots<T>(factors: &[Factors<T>]) -> impl Iterator<Item = i32> {
    factors.iter().flat_map(|factors| factors.rows.iter().map(|&row| row as i32 + 1))
}

impl MatrixOperator for Lu {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(three(&Stack::of(inputs, 0)?))
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (factors, m) = (factors::<T>(&io.inputs[0], limits)?, lens(&io.inputs[0])?.1[0]);
        let order: Vec<Array2<T>> =
            factors.iter().map(|part| elimination::permutation(&part.rows, m)).collect();
        put_matrices(&mut io.outputs[0], &order)?;
        put_matrices(&mut io.outputs[1], &factors.iter().map(Factors::lower).collect::<Vec<_>>())?;
        put_matrices(&mut io.outputs[2], &factors.iter().map(Factors::upper).collect::<Vec<_>>())
    }
}

impl MatrixOperator for LuFactor {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(packed(&Stack::of(inputs, 0)?).to_vec())
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let factors = regular::<T>(&io.inputs[0], limits)?;
        put_matrices(&mut io.outputs[0], factors.iter().map(|part| &part.factors))?;
        put(&mut io.outputs[1], pivots(&factors))
    }
}

impl MatrixOperator for LuFactorEx {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        let [factors, pivots] = packed(&stack);
        Ok(vec![factors, pivots, stack.each(DType::I32, [])])
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let factors = if self.check_errors { regular::<T> } else { factors::<T> }(&io.inputs[0], limits)?;
        put_matrices(&mut io.outputs[0], factors.iter().map(|part| &part.factors))?;
        put(&mut io.outputs[1], pivots(&factors))?;
        put(&mut io.outputs[2], factors.iter().map(|part| part.singular.map_or(0, |at| at as i32 + 1)))
    }
}

/// Checks the element type and the shape of pivots.
pub(super) fn check_pivots(factors: &Stack<'_>, pivots: &TensorMeta) -> Result<()> {
    if pivots.dtype() != DType::I32 {
        return Err(LayerError::dtype("the pivots", "i32", pivots.dtype()));
    }
    let wanted = factors.each(DType::I32, [&factors.rank()]);
    let differ = |(a, b): (&Dim, &Dim)| a.differs(b);
    if pivots.rank() != wanted.rank() || pivots.dims().iter().zip(wanted.dims()).any(differ) {
        return Err(LayerError::shape("the pivots", &wanted, pivots));
    }
    Ok(())
}

/// The pivots of each matrix.
pub(super) fn pivots_of(pivots: &TensorView<'_>, count: usize, limits: &Limits) -> Result<Vec<Vec<i32>>> {
    check_results::<Vec<i32>>(count, limits)?;
    let len = pivots.shape().last().copied().unwrap_or(0);
    let all = pivots.to_tensor()?.to_vec::<i32>()?;
    Ok((0..count).map(|index| all[index * len..][..len].to_vec()).collect())
}

/// The rows that were swapped in each matrix.
fn rows(pivots: &TensorView<'_>, factors: &TensorView<'_>, limits: &Limits) -> Result<Vec<Vec<usize>>> {
    let (batch, [m, _]) = lens(factors)?;
    let rows =
        pivots_of(pivots, batch.iter().product(), limits)?.into_iter().map(|pivots| rows_of(&pivots, m));
    rows.collect::<Result<_, Fault>>().map_err(|fault| LayerError::Unsupported(fault.to_string()))
}

impl MatrixOperator for LuUnpack {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        check_pivots(&stack, &inputs[self.pivots.0])?;
        let wanted = [self.unpack_pivots, self.unpack_data, self.unpack_data].into_iter().zip(three(&stack));
        let nothing = TensorMeta::new(stack.dtype, [Dim::Fixed(0)]);
        Ok(wanted.map(|(wanted, meta)| if wanted { meta } else { nothing.clone() }).collect())
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        if self.unpack_pivots {
            let m = lens(&io.inputs[0])?.1[0];
            let rows = rows(&io.inputs[self.pivots.0], &io.inputs[0], limits)?;
            let order: Vec<Array2<T>> = rows.iter().map(|rows| elimination::permutation(rows, m)).collect();
            put_matrices(&mut io.outputs[0], &order)?;
        }
        if self.unpack_data {
            let lower = each::<T, _>(&io.inputs[0], limits, |a| Ok(elimination::lower(&a)))?;
            put_matrices(&mut io.outputs[1], &lower)?;
            let upper = each::<T, _>(&io.inputs[0], limits, |a| Ok(elimination::upper(&a)))?;
            put_matrices(&mut io.outputs[2], &upper)?;
        }
        Ok(())
    }
}

/// The shape of X.
pub(super) fn unknowns(
    [factors, sides]: [&Stack<'_>; 2],
    pivots: &TensorMeta,
    left: bool,
) -> Result<Vec<TensorMeta>> {
    check_pivots(factors, pivots)?;
    let len = if left { sides.rows } else { sides.columns };
    if factors.rows.differs(len) {
        let wanted = format!("{} {}, like A", factors.rows, if left { "rows" } else { "columns" });
        return Err(LayerError::shape("B", wanted, sides.meta()));
    }
    let batch = common_batch(factors, sides)?;
    Ok(vec![Stack { batch: &batch, ..*sides }.meta()])
}

/// Solves one system.
fn solved<T: Field>(
    (factors, rows): (&ArrayView2<'_, T>, &[usize]),
    b: &ArrayView2<'_, T>,
    [left, is_adjoint]: [bool; 2],
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    if left {
        let solve = if is_adjoint { elimination::solve_adjoint } else { elimination::solve };
        return solve(factors, rows, b, limits);
    }
    // x·A = B is Aᴴ·xᴴ = Bᴴ.
    let x = solved((factors, rows), &adjoint(b).view(), [true, !is_adjoint], limits)?;
    Ok(adjoint(&x.view()))
}

impl MatrixOperator for LuSolve {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (factors, sides) = (Stack::of_square(inputs, 0)?, Stack::of(inputs, self.other.0)?);
        unknowns([&factors, &sides], &inputs[self.pivots.0], self.left)
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (pair, shape) = ([&io.inputs[0], &io.inputs[self.other.0]], *io.outputs[0].shape());
        let rows = rows(&io.inputs[self.pivots.0], pair[0], limits)?;
        let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |which, factors, b| {
            solved((&factors, &rows[which]), &b, [self.left, self.adjoint], limits)
        })?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

impl MatrixOperator for LuSolveOfSides {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (factors, sides) = (Stack::of_square(inputs, self.factors.0)?, Stack::of(inputs, 0)?);
        unknowns([&factors, &sides], &inputs[self.pivots.0], true)
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (pair, shape) = ([&io.inputs[self.factors.0], &io.inputs[0]], *io.outputs[0].shape());
        let rows = rows(&io.inputs[self.pivots.0], pair[0], limits)?;
        let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |which, factors, b| {
            solved((&factors, &rows[which]), &b, [true, false], limits)
        })?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

operators! { by_elimination => Lu, LuFactor, LuFactorEx, LuUnpack, LuSolve, LuSolveOfSides }
