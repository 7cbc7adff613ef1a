//! Views of packed weights in borrowed memory: those of [`Panels`](super::Panels), or weights that are packed
//! temporarily.

use super::packing::Packing;
use crate::isa::Isa;
use crate::widest;
use std::ops::Range;

/// Packed weights in borrowed memory, in the same order as those of [`Panels`](super::Panels).
#[derive(Debug, Clone, Copy)]
pub(crate) struct PanelsView<'a> {
    pub(super) isa: Isa,
    pub(super) packing: Packing,
    pub(super) outputs: usize,
    pub(super) depth: usize,
    pub(super) weights: &'a [f32],
    /// `None` for zeros.
    pub(super) biases: Option<&'a [f32]>,
}

/// The maximum number of panels of a tile.
const MAX_PANELS: usize = 8;

/// The biases of a tile without biases: zeros.
pub(super) static ZEROS: [f32; MAX_PANELS * 16] = [0.0; MAX_PANELS * 16];

impl<'a> PanelsView<'a> {
    /// The number of packed weights for `outputs` outputs and `depth` factors.
    pub(crate) fn len_of(isa: Isa, outputs: usize, depth: usize) -> usize {
        outputs.next_multiple_of(isa.lanes()).saturating_mul(depth)
    }

    /// A view of weights without biases that [`pack_rows`] or [`pack_columns`] has packed for an instruction set.
    ///
    /// # Panics
    /// Panics if there are too few weights, or the processor does not support the instructions.
    pub(crate) fn new(isa: Isa, outputs: usize, depth: usize, weights: &'a [f32]) -> Self {
        assert!(isa.is_supported(), "the processor must support the instructions of the panels");
        let weights = &weights[..Self::len_of(isa, outputs, depth)];
        Self { isa, packing: Packing::F32, outputs, depth, weights, biases: None }
    }

    pub(super) fn count(&self) -> usize {
        self.outputs.div_ceil(self.lanes())
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.weights)
    }

    /// The instruction set that the weights are packed for.
    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// The contents of the words.
    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    /// The weights of a range of panels, which must exist.
    pub(super) fn weights(&self, panels: Range<usize>) -> &'a [f32] {
        let panel = self.depth * self.lanes();
        &self.weights[panels.start * panel..panels.end * panel]
    }

    /// The biases of a range of panels.
    pub(super) fn biases(&self, panels: Range<usize>) -> &'a [f32] {
        match self.biases {
            Some(biases) => &biases[panels.start * self.lanes()..panels.end * self.lanes()],
            None => &ZEROS[..panels.len() * self.lanes()],
        }
    }
}

/// Packs a matrix whose rows, `row` elements apart, are the weights of the outputs.
///
/// # Panics
/// Panics if the matrix or `packed` is too short.
pub(crate) fn pack_rows(
    isa: Isa,
    (matrix, row): (&[f32], usize),
    [outputs, depth]: [usize; 2],
    packed: &mut [f32],
) {
    let lanes = isa.lanes();
    let packed = &mut packed[..PanelsView::len_of(isa, outputs, depth)];
    let panels = packed.chunks_exact_mut((depth * lanes).max(1)).take(outputs.div_ceil(lanes));
    widest!(|| {
        for (panel, packed) in panels.enumerate() {
            let first = panel * lanes;
            let count = lanes.min(outputs - first);
            if count < lanes {
                packed.fill(0.0);
            }
            for lane in 0..count {
                let from = &matrix[(first + lane) * row..][..depth];
                let places = packed[lane..].iter_mut().step_by(lanes);
                places.zip(from).for_each(|(to, &from)| *to = from);
            }
        }
    });
}

/// Packs a matrix whose columns are the weights of the outputs; its rows are `row` elements apart.
///
/// # Panics
/// As [`pack_rows`].
pub(crate) fn pack_columns(
    isa: Isa,
    (matrix, row): (&[f32], usize),
    [outputs, depth]: [usize; 2],
    packed: &mut [f32],
) {
    let lanes = isa.lanes();
    let packed = &mut packed[..PanelsView::len_of(isa, outputs, depth)];
    for (panel, packed) in packed.chunks_exact_mut((depth * lanes).max(1)).enumerate() {
        let first = panel * lanes;
        let count = lanes.min(outputs - first);
        for (k, packed) in packed.chunks_exact_mut(lanes).enumerate() {
            let (numbers, rest) = packed.split_at_mut(count);
            numbers.copy_from_slice(&matrix[k * row + first..][..count]);
            rest.fill(0.0);
        }
    }
}
