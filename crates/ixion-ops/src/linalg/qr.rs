//! QR factorisation.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};
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

impl Layer for Qr {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of(inputs, 0)?;
        let k = if self.mode == QrMode::Complete { stack.rows.clone() } else { stack.rank() };
        let r = stack.each(stack.dtype, [&k, stack.columns]);
        let q = match self.mode {
            QrMode::R => TensorMeta::new(stack.dtype, [Dim::Fixed(0)]),
            QrMode::Reduced | QrMode::Complete => stack.each(stack.dtype, [stack.rows, &k]),
        };
        Ok(vec![q, r])
    }
}

by_lapack!(Qr: |layer, inputs, outputs, limits| T => {
    let parts = each(&inputs[0], limits, |a| lapack::qr::<T>(&a, layer.mode == QrMode::Complete))?;
    if layer.mode != QrMode::R {
        put_matrices(&mut outputs[0], parts.iter().map(|part| &part.0))?;
    }
    put_matrices(&mut outputs[1], parts.iter().map(|part| &part.1))
});
