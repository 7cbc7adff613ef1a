//! The algorithms that a convolution can use, as tactics.

use super::Conv;
use super::algorithm::ConvAlgorithm;
use crate::layout::padding::PaddingMode;
use crate::op::{LayerError, Weight};
use ixion_kernels::blocked::{Blocking, Tile};
use ixion_kernels::multiplies_pairs;
use ixion_tensor::DType;

impl Conv {
    /// The tile sizes that Winograd's algorithm supports, judging by the parameters: it requires a 3×3 kernel, a stride and
    /// dilation of 1, and one group.
    fn tiles(&self, weight: &[usize]) -> &'static [Tile] {
        let is_all_ones = |values: &[usize]| values.iter().all(|&value| value == 1);
        let suits = matches!(weight, [_, _, 3, 3])
            && self.groups == 1
            && is_all_ones(self.stride.values())
            && is_all_ones(self.dilation.values());
        if suits { &Tile::ALL } else { &[] }
    }

    /// The algorithms that may be available, direct convolution first.
    pub(super) fn algorithms(&self) -> Vec<ConvAlgorithm> {
        let mut algorithms = vec![ConvAlgorithm::Direct];
        let (Weight::Attribute(weight), None | Some(Weight::Attribute(_))) = (&self.weight, &self.bias)
        else {
            return algorithms;
        };
        let channels = weight.shape().get(1).copied().unwrap_or(0);
        if weight.dtype() == DType::F32 && self.padding_mode == PaddingMode::Zeros {
            algorithms.extend(self.tiles(weight.shape()).iter().copied().map(ConvAlgorithm::Winograd));
            let are_pairs = weight.shape().len() == 4 && channels.is_multiple_of(2) && channels > 0;
            algorithms.extend((are_pairs && multiplies_pairs()).then_some(ConvAlgorithm::Bf16));
        }
        algorithms
    }

    /// Returns true if an algorithm other than direct convolution supports this blocking.
    pub(super) fn supports_algorithm(&self, blocking: Blocking, algorithm: ConvAlgorithm) -> bool {
        let Weight::Attribute(weight) = &self.weight else { return false };
        let [out_channels, per_group, ..] = *weight.shape() else { return false };
        let channels = per_group.saturating_mul(self.groups);
        blocking.is_input_blocked && algorithm.dense(blocking).suits(channels, out_channels, self.groups)
    }

    /// Selects the algorithm of a tactic.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if no algorithm has this id.
    pub(super) fn select_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        let algorithm = self.algorithms().into_iter().find(|algorithm| algorithm.tactic().id == id);
        let algorithm = algorithm.ok_or_else(|| LayerError::Unsupported(format!("unknown tactic {id}")))?;
        self.set_algorithm(algorithm);
        Ok(())
    }
}
