//! What a plan stores of a convolution in blocks.

use super::super::Conv;
use super::super::method::Method;
use crate::kernels::blocked::Blocking;
use crate::kernels::{Isa, isa};
use crate::op::LayerError;
use crate::ops::support::packed::{BF16, NO_PAIRS};

impl Conv {
    /// The channels of a block and whether the input lies in blocks, where there are blocks; and the tactic, where it is not the
    /// definition.
    pub(in super::super) fn stored_blocks(&self) -> Vec<u8> {
        let Some(Blocking { block, is_input_blocked }) = self.blocks.blocking else { return Vec::new() };
        let method = self.blocks.method;
        let tactic = (method != Method::Definition).then_some(method.tactic().id as u8);
        [block as u8, is_input_blocked.into()].into_iter().chain(tactic).collect()
    }

    /// Takes over what [`Conv::stored_blocks`] returned.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for anything else.
    pub(in super::super) fn restore_blocks(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let settled = self.read_state(bytes);
        if settled.is_none() && !bytes.is_empty() {
            return Err(LayerError::Unsupported(refusal(bytes)));
        }
        let (blocking, method) = settled.unzip();
        self.settle_blocks(blocking, method.unwrap_or_default());
        self.blocks.stored.settle(settled);
        Ok(())
    }

    /// How blocks lie and are computed, if there are kernels for it.
    fn read_state(&self, bytes: &[u8]) -> Option<(Blocking, Method)> {
        let (block, is_input_blocked, id) = match *bytes {
            [block @ (8 | 16), flag @ (0 | 1)] => (block, flag == 1, None),
            [block @ (8 | 16), 1, id] => (block, true, Some(id)),
            _ => return None,
        };
        let blocking = Blocking { block: block.into(), is_input_blocked };
        let method = match id {
            None => Some(Method::Definition),
            Some(id) => self.methods().into_iter().skip(1).find(|it| it.tactic().id == u32::from(id)),
        };
        let has_method =
            |method: &Method| *method == Method::Definition || self.has_method(blocking, *method);
        let method = method.filter(has_method).filter(|_| self.suits(blocking))?;
        Some((blocking, method))
    }
}

/// Why a state is refused.
fn refusal(bytes: &[u8]) -> String {
    match *bytes {
        [16, 1, id] if u32::from(id) == BF16.id => NO_PAIRS.to_owned(),
        [16, ..] if isa() < Isa::Avx512 => {
            "blocks of 16 channels may need AVX-512: build the plan on a processor like this one".to_owned()
        }
        _ => format!("{bytes:?} are no blocks of channels that there are kernels for"),
    }
}
