//! Eigenvalues and eigenvectors.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{Result, TensorMeta};
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

impl MatrixOperator for Eigh {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [stack.rows]), stack.meta()])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let upper = self.half == Half::Upper;
        let parts = each(&io.inputs[0], limits, |a| lapack::eigen_of_symmetric::<T>(&a, upper, true))?;
        put(&mut io.outputs[0], parts.iter().flat_map(|part| part.0.iter().copied()))?;
        put_matrices(&mut io.outputs[1], parts.iter().map(|part| &part.1))
    }
}

impl MatrixOperator for Eigvalsh {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of_square(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [stack.rows])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let upper = self.half == Half::Upper;
        let parts = each(&io.inputs[0], limits, |a| lapack::eigen_of_symmetric::<T>(&a, upper, false))?;
        put(&mut io.outputs[0], parts.into_iter().flat_map(|part| part.0))
    }
}

impl MatrixOperator for Eig {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (stack, dtype) = (Stack::of_square(inputs, 0)?, complex(inputs[0].dtype()));
        Ok(vec![stack.each(dtype, [stack.rows]), stack.each(dtype, [stack.rows, stack.columns])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let parts = each(&io.inputs[0], limits, |a| lapack::eigen::<T>(&a, true))?;
        put(&mut io.outputs[0], parts.iter().flat_map(|part| part.0.iter().copied()))?;
        put_matrices(&mut io.outputs[1], parts.iter().map(|part| &part.1))
    }
}

impl MatrixOperator for Eigvals {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (stack, dtype) = (Stack::of_square(inputs, 0)?, complex(inputs[0].dtype()));
        Ok(vec![stack.each(dtype, [stack.rows])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let parts = each(&io.inputs[0], limits, |a| lapack::eigen::<T>(&a, false))?;
        put(&mut io.outputs[0], parts.into_iter().flat_map(|part| part.0))
    }
}

operators! { by_lapack => Eigh, Eigvalsh, Eig, Eigvals }
