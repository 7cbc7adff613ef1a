//! Broadcasting as it was before version 7 of ONNX's operators: from an axis on, instead of from the last one.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Optional;
use super::lowering::Source;
use crate::op::{LayerError, Result};
use ixion_tensor::Dim;

const B: Source = Source::Input(0);

crate::operator! {
    /// `Align`: the second operand of an operator before version 7, such as `Add` with `broadcast` and `axis`, with axes of length
    /// 1 appended such that its first axis is the axis `axis` of the first operand.
    pub struct Align for "Align" {
        /// The axis of the first operand; a negative one counts from the end.
        axis: i64,
        /// The first operand, whose number of axes counts.
        a as "A": Optional,
    }
}

impl Decompose for Align {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let a = self.a.source().ok_or_else(|| LayerError::missing_input(1, 1))?;
        let (wide, narrow) = (decomposition.rank(a)?, decomposition.rank(B)?);
        let axis = if self.axis < 0 { self.axis.saturating_add_unsigned(wide as u64) } else { self.axis };
        let after = usize::try_from(axis).ok().and_then(|axis| wide.checked_sub(axis)?.checked_sub(narrow));
        let Some(after) = after else {
            let reason = format!("{narrow} axes from there on must be among the {wide} of the first operand");
            return Err(LayerError::invalid("axis", self.axis, reason));
        };
        if after == 0 {
            return Ok(vec![B]);
        }
        let dims = decomposition.meta(B)?.dims().iter().cloned();
        let dims = dims.chain(std::iter::repeat_n(Dim::Fixed(1), after)).collect();
        Ok(vec![decomposition.reshape(dims, B)?])
    }
}

operators! { entry => Align; category Shape }
