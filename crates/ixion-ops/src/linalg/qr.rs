//! QR factorisation.

use super::layer::{MatrixOperator, by_lapack};
use super::stack::Stack;
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{Result, TensorMeta};
use crate::support::choices::choices;
use ixion_tensor::Dim;

choices! {
    /// The form of a QR factorisation.
    pub enum QrMode {
        /// Q has as many columns as R has rows: the smaller of A's rows and columns.
        Reduced = "reduced",
        /// Q is square.
        Complete = "complete",
        /// Only R; Q is empty.
        R = "r",
    }
}

crate::operator! {
    /// `torch.linalg.qr`: the factorisation A = Q·R of each matrix: Q has orthonormal columns, R is upper triangular. Signs are
    /// LAPACK's. Needs the feature `linalg`.
    pub struct Qr for "aten::linalg_qr" {
        /// The form: `reduced`, `complete` (Q is square), or `r` (only R).
        mode: QrMode = QrMode::Reduced,
    }
}

impl MatrixOperator for Qr {
    const OUTPUTS: usize = 2;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        let k = if self.mode == QrMode::Complete { stack.rows.clone() } else { stack.rank() };
        let r = stack.each(stack.dtype, [&k, stack.columns]);
        let q = match self.mode {
            QrMode::R => TensorMeta::new(stack.dtype, [Dim::Fixed(0)]),
            QrMode::Reduced | QrMode::Complete => stack.each(stack.dtype, [stack.rows, &k]),
        };
        Ok(vec![q, r])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let parts = each(&io.inputs[0], limits, |a| lapack::qr::<T>(&a, self.mode == QrMode::Complete))?;
        if self.mode != QrMode::R {
            put_matrices(&mut io.outputs[0], parts.iter().map(|part| &part.0))?;
        }
        put_matrices(&mut io.outputs[1], parts.iter().map(|part| &part.1))
    }
}

operators! { by_lapack => Qr }
