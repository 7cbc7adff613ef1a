//! QR.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::stack::Stack;
use crate::op::{Layer, LayerError, TensorMeta};
use crate::ops::support::choices::choices;
use crate::tensor::Dim;

choices! {
    /// How much of QR is wanted.
    pub enum QrMode {
        /// As many columns of Q as R has rows: the smaller length of A.
        Reduced = "reduced",
        /// A square Q.
        Complete = "complete",
        /// R alone; Q is empty.
        R = "r",
    }
}

crate::operator! {
    /// `torch.linalg.qr`: columns at right angles and an upper triangle whose product is A. Signs are LAPACK's. Needs the feature
    /// `linalg`.
    pub struct Qr for "aten::linalg_qr" {
        /// How much is wanted.
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
