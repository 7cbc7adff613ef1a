//! Triangular systems, and systems given by a Cholesky factor. They are solved by substitution, without LAPACK.

use super::layer::{MatrixElement, MatrixOperator, by_elimination};
use super::stack::{Stack, common_batch, each, each_pair, lens, put_matrices};
use crate::op::{Io, LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::matrix::{Fault, Field, Triangle, adjoint, solve_triangular};
use ixion_tensor::{Limits, Shape};
use ndarray::{Array2, ArrayView2};

crate::operator! {
    /// `torch.linalg.solve_triangular`: solves A·X = B, or X·A = B, for triangular A. A zero on the diagonal gives inf or NaN.
    pub struct SolveTriangular for "aten::linalg_solve_triangular" {
        /// The right-hand sides.
        other as "B": InputIndex,
        /// Whether A is upper triangular; the other triangle is not read.
        upper: bool,
        /// Whether to solve A·X = B; else X·A = B.
        left: bool = true,
        /// Whether the diagonal of A is assumed to be all ones.
        unitriangular: bool = false,
    }
}

crate::operator! {
    /// `torch.triangular_solve`: solves A·X = b for triangular A. Outputs: X and A.
    pub struct TriangularSolve for "aten::triangular_solve" {
        /// The triangular matrices.
        matrix as "A": InputIndex,
        /// Whether A is upper triangular; the other triangle is not read.
        upper: bool = true,
        /// Whether to solve Aᵀ·X = b instead.
        transpose: bool = false,
        /// Whether the diagonal of A is assumed to be all ones.
        unitriangular: bool = false,
    }
}

crate::operator! {
    /// `torch.cholesky_solve`: solves A·X = B, given the Cholesky factor of A.
    pub struct CholeskySolve for "aten::cholesky_solve" {
        /// The Cholesky factors.
        factor as "input2": InputIndex,
        /// Whether the factors are upper triangular.
        upper: bool = false,
    }
}

crate::operator! {
    /// `torch.cholesky_inverse`: the inverse of each matrix whose Cholesky factor is given.
    pub struct CholeskyInverse for "aten::cholesky_inverse" {
        /// Whether the factors are upper triangular.
        upper: bool = false,
    }
}

/// The shapes of X and of the triangular matrices, both broadcast.
fn shapes(inputs: &[TensorMeta], [a, b]: [usize; 2], left: bool) -> Result<[TensorMeta; 2]> {
    let (triangles, sides) = (Stack::of_square(inputs, a)?, Stack::of(inputs, b)?);
    let len = if left { sides.rows } else { sides.columns };
    if triangles.rows.differs(len) {
        let wanted = format!("{} {}, like A", triangles.rows, if left { "rows" } else { "columns" });
        return Err(LayerError::shape("B", wanted, &inputs[b]));
    }
    let batch = common_batch(&triangles, &sides)?;
    let whole = Stack { batch: &batch, ..sides };
    Ok([whole.meta(), whole.each(triangles.dtype, [triangles.rows, triangles.columns])])
}

/// Solves a·x = b for a triangular matrix.
fn substituted<T: Field>(
    a: &ArrayView2<'_, T>,
    triangle: Triangle,
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    let mut x = b.as_standard_layout().into_owned();
    solve_triangular(a, triangle, &mut x.view_mut(), limits)?;
    Ok(x)
}

/// Solves a·x = b, given the Cholesky factor of a.
fn by_factor<T: Field>(
    factor: &ArrayView2<'_, T>,
    upper: bool,
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    let triangle = Triangle { upper, unit: false };
    let adjoint = adjoint(factor);
    let (first, second) = ((factor.view(), triangle), (adjoint.view(), triangle.turned()));
    // a = l·lᴴ for a lower triangle, a = uᴴ·u for an upper one.
    let (first, second) = if upper { (second, first) } else { (first, second) };
    substituted(&second.0, second.1, &substituted(&first.0, first.1, b, limits)?.view(), limits)
}

/// The batch axes.
pub(super) fn batch_of(shape: &Shape) -> &[usize] {
    let dims = shape.dims();
    &dims[..dims.len().saturating_sub(2)]
}

impl MatrixOperator for SolveTriangular {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [x, _] = shapes(inputs, [0, self.other.0], self.left)?;
        Ok(vec![x])
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let triangle = Triangle { upper: self.upper, unit: self.unitriangular };
        let (pair, shape) = ([&io.inputs[0], &io.inputs[self.other.0]], *io.outputs[0].shape());
        let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |_, a, b| {
            if self.left {
                return substituted(&a, triangle, &b, limits);
            }
            Ok(substituted(&a.t(), triangle.turned(), &b.t(), limits)?.reversed_axes())
        })?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

impl MatrixOperator for TriangularSolve {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(shapes(inputs, [self.matrix.0, 0], true)?.to_vec())
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let triangle = Triangle { upper: self.upper, unit: self.unitriangular };
        let (a, shape) = (&io.inputs[self.matrix.0], *io.outputs[0].shape());
        let x = each_pair::<T, _>([a, &io.inputs[0]], batch_of(&shape), limits, |_, a, b| {
            let (a, triangle) =
                if self.transpose { (a.reversed_axes(), triangle.turned()) } else { (a, triangle) };
            substituted(&a, triangle, &b, limits)
        })?;
        put_matrices(&mut io.outputs[0], &x)?;
        let whole = a.with_layout(a.layout().expand(io.outputs[1].shape())?)?;
        Ok(io.outputs[1].copy_from(&whole)?)
    }
}

impl MatrixOperator for CholeskySolve {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [x, _] = shapes(inputs, [self.factor.0, 0], true)?;
        Ok(vec![x])
    }

    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let (pair, shape) = ([&io.inputs[self.factor.0], &io.inputs[0]], *io.outputs[0].shape());
        let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |_, factor, b| {
            by_factor(&factor, self.upper, &b, limits)
        })?;
        put_matrices(&mut io.outputs[0], &x)
    }
}

impl MatrixOperator for CholeskyInverse {
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let unit = Array2::<T>::eye(lens(&io.inputs[0])?.1[0]);
        let inverses =
            each(&io.inputs[0], limits, |factor| by_factor(&factor, self.upper, &unit.view(), limits))?;
        put_matrices(&mut io.outputs[0], &inverses)
    }
}

operators! { by_elimination => SolveTriangular, TriangularSolve, CholeskySolve, CholeskyInverse }
