//! Triangular systems, and systems given by a Cholesky factor. They are solved by substitution, without LAPACK.

use super::stack::{Stack, common_batch, each, each_pair, lens, put_matrices};
use crate::op::{Layer, LayerError, TensorMeta};
use crate::support::arguments::InputIndex;
use ixion_kernels::matrix::{Fault, Field, Triangle, adjoint, solve_triangular};
use ixion_tensor::{Limits, Shape};
use ndarray::{Array2, ArrayView2};
use std::ops::RangeInclusive;

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
fn shapes(inputs: &[TensorMeta], [a, b]: [usize; 2], left: bool) -> Result<[TensorMeta; 2], LayerError> {
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

impl Layer for SolveTriangular {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let [x, _] = shapes(inputs, [0, self.other.0], self.left)?;
        Ok(vec![x])
    }
}

by_matrices!(SolveTriangular: |layer, inputs, outputs, limits| T => {
    let triangle = Triangle { upper: layer.upper, unit: layer.unitriangular };
    let (pair, shape) = ([&inputs[0], &inputs[layer.other.0]], *outputs[0].shape());
    let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |_, a, b| {
        if layer.left {
            return substituted(&a, triangle, &b, limits);
        }
        Ok(substituted(&a.t(), triangle.turned(), &b.t(), limits)?.reversed_axes())
    })?;
    put_matrices(&mut outputs[0], &x)
});

impl Layer for TriangularSolve {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(shapes(inputs, [self.matrix.0, 0], true)?.to_vec())
    }
}

by_matrices!(TriangularSolve: |layer, inputs, outputs, limits| T => {
    let triangle = Triangle { upper: layer.upper, unit: layer.unitriangular };
    let (a, shape) = (&inputs[layer.matrix.0], *outputs[0].shape());
    let x = each_pair::<T, _>([a, &inputs[0]], batch_of(&shape), limits, |_, a, b| {
        let (a, triangle) = if layer.transpose { (a.reversed_axes(), triangle.turned()) } else { (a, triangle) };
        substituted(&a, triangle, &b, limits)
    })?;
    put_matrices(&mut outputs[0], &x)?;
    let whole = a.with_layout(a.layout().expand(outputs[1].shape())?)?;
    Ok(outputs[1].copy_from(&whole)?)
});

impl Layer for CholeskySolve {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let [x, _] = shapes(inputs, [self.factor.0, 0], true)?;
        Ok(vec![x])
    }
}

by_matrices!(CholeskySolve: |layer, inputs, outputs, limits| T => {
    let (pair, shape) = ([&inputs[layer.factor.0], &inputs[0]], *outputs[0].shape());
    let x = each_pair::<T, _>(pair, batch_of(&shape), limits, |_, factor, b| by_factor(&factor, layer.upper, &b, limits))?;
    put_matrices(&mut outputs[0], &x)
});

square_to_square!(CholeskyInverse);

by_matrices!(CholeskyInverse: |layer, inputs, outputs, limits| T => {
    let unit = Array2::<T>::eye(lens(&inputs[0])?.1[0]);
    let inverses = each(&inputs[0], limits, |factor| by_factor(&factor, layer.upper, &unit.view(), limits))?;
    put_matrices(&mut outputs[0], &inverses)
});
