//! The state of a blocked convolution that a plan stores.

use super::super::Conv;
use super::super::algorithm::ConvAlgorithm;
use crate::op::LayerError;
use crate::support::packed::{BF16, NO_PAIRS};
use ixion_kernels::blocked::Blocking;
use ixion_kernels::{Isa, isa};

impl Conv {
    /// The number of channels per block, whether the input is blocked, and the tactic unless it is direct convolution. Empty if
    /// nothing is blocked.
    pub(in super::super) fn stored_blocks(&self) -> Vec<u8> {
        let Some(Blocking { block, is_input_blocked }) = self.blocks.blocking else { return Vec::new() };
        let algorithm = self.blocks.algorithm;
        let tactic = (algorithm != ConvAlgorithm::Direct).then_some(algorithm.tactic().id as u8);
        [block as u8, is_input_blocked.into()].into_iter().chain(tactic).collect()
    }

    /// Restores the state that [`Conv::stored_blocks`] returned.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the bytes are no such state, or no kernel supports it.
    pub(in super::super) fn restore_blocks(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let state = self.read_state(bytes);
        if state.is_none() && !bytes.is_empty() {
            return Err(LayerError::Unsupported(refusal(bytes)));
        }
        let (blocking, algorithm) = state.unzip();
        self.reset_blocks(blocking, algorithm.unwrap_or_default());
        self.blocks.stored.set_order(state);
        Ok(())
    }

    /// Decodes the blocking and the algorithm; `None` if the bytes are invalid or no kernel supports them.
    fn read_state(&self, bytes: &[u8]) -> Option<(Blocking, ConvAlgorithm)> {
        let (block, is_input_blocked, id) = match *bytes {
            [block @ (8 | 16), flag @ (0 | 1)] => (block, flag == 1, None),
            [block @ (8 | 16), 1, id] => (block, true, Some(id)),
            _ => return None,
        };
        let blocking = Blocking { block: block.into(), is_input_blocked };
        let algorithm = match id {
            None => Some(ConvAlgorithm::Direct),
            Some(id) => self.algorithms().into_iter().skip(1).find(|it| it.tactic().id == u32::from(id)),
        };
        let supports_algorithm = |algorithm: &ConvAlgorithm| {
            *algorithm == ConvAlgorithm::Direct || self.supports_algorithm(blocking, *algorithm)
        };
        let algorithm = algorithm.filter(supports_algorithm).filter(|_| self.suits(blocking))?;
        Some((blocking, algorithm))
    }
}

/// The reason for rejecting a state.
fn refusal(bytes: &[u8]) -> String {
    match *bytes {
        [16, 1, id] if u32::from(id) == BF16.id => NO_PAIRS.to_owned(),
        [16, ..] if isa() < Isa::Avx512 => {
            "blocks of 16 channels may need AVX-512: build the plan on a processor like this one".to_owned()
        }
        _ => format!("no kernel supports the channel blocking {bytes:?}"),
    }
}
