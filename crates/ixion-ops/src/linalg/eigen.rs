//! Eigenvalues and eigenvectors.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};
use crate::support::choices::choices;
use ixion_tensor::DType;

choices! {
    /// The triangle of a symmetric or Hermitian matrix that is read.
    pub enum Half {
        /// The lower triangle.
        Lower = "L",
        /// The upper triangle.
        Upper = "U",
    }
}

crate::operator! {
    /// `torch.linalg.eigh`: the eigenvalues of symmetric or Hermitian matrices, in ascending order, and the eigenvectors as
    /// columns. Their signs are LAPACK's. Needs the feature `linalg`.
    pub struct Eigh for "aten::linalg_eigh" {
        /// The triangle that is read: `L` is the lower one, `U` the upper one.
        half as "UPLO": Half = Half::Lower,
    }
}

crate::operator! {
    /// `torch.linalg.eigvalsh`: the eigenvalues of symmetric or Hermitian matrices, in ascending order. Needs the feature
    /// `linalg`.
    pub struct Eigvalsh for "aten::linalg_eigvalsh" {
        /// The triangle that is read: `L` is the lower one, `U` the upper one.
        half as "UPLO": Half = Half::Lower,
    }
}

crate::operator! {
    /// `torch.linalg.eig`: the eigenvalues of square matrices, complex and in LAPACK's order, and the eigenvectors of norm 1 as
    /// columns. Needs the feature `linalg`.
    pub struct Eig for "aten::linalg_eig" {}
}

crate::operator! {
    /// `torch.linalg.eigvals`: the eigenvalues of square matrices, complex and in LAPACK's order. Needs the feature `linalg`.
    pub struct Eigvals for "aten::linalg_eigvals" {}
}

/// The complex type of the same precision.
fn complex(dtype: DType) -> DType {
    if dtype.real() == DType::F32 { DType::C64 } else { DType::C128 }
}

impl Layer for Eigh {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [stack.rows]), stack.meta()])
    }
}

by_lapack!(Eigh: |layer, inputs, outputs, limits| T => {
    let upper = layer.half == Half::Upper;
    let parts = each(&inputs[0], limits, |a| lapack::eigen_of_symmetric::<T>(&a, upper, true))?;
    put(&mut outputs[0], parts.iter().flat_map(|part| part.0.iter().copied()))?;
    put_matrices(&mut outputs[1], parts.iter().map(|part| &part.1))
});

impl Layer for Eigvalsh {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [stack.rows])])
    }
}

by_lapack!(Eigvalsh: |layer, inputs, outputs, limits| T => {
    let upper = layer.half == Half::Upper;
    let parts = each(&inputs[0], limits, |a| lapack::eigen_of_symmetric::<T>(&a, upper, false))?;
    put(&mut outputs[0], parts.into_iter().flat_map(|part| part.0))
});

impl Layer for Eig {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (stack, dtype) = (Stack::of_square(inputs, 0)?, complex(inputs[0].dtype()));
        Ok(vec![stack.each(dtype, [stack.rows]), stack.each(dtype, [stack.rows, stack.columns])])
    }
}

by_lapack!(Eig: |layer, inputs, outputs, limits| T => {
    let parts = each(&inputs[0], limits, |a| lapack::eigen::<T>(&a, true))?;
    put(&mut outputs[0], parts.iter().flat_map(|part| part.0.iter().copied()))?;
    put_matrices(&mut outputs[1], parts.iter().map(|part| &part.1))
});

impl Layer for Eigvals {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (stack, dtype) = (Stack::of_square(inputs, 0)?, complex(inputs[0].dtype()));
        Ok(vec![stack.each(dtype, [stack.rows])])
    }
}

by_lapack!(Eigvals: |layer, inputs, outputs, limits| T => {
    let parts = each(&inputs[0], limits, |a| lapack::eigen::<T>(&a, false))?;
    put(&mut outputs[0], parts.into_iter().flat_map(|part| part.0))
});
