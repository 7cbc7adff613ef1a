//! Weights that are packed in memory which others own: those of [`Panels`](super::Panels), or what is packed for a moment.

use super::Words;
use crate::isa::Isa;
use crate::wide::{Work, run_widest};
use std::ops::Range;

/// Packed weights that lie anywhere, in the same order as those of [`Panels`](super::Panels).
#[derive(Debug, Clone, Copy)]
pub(crate) struct PanelsView<'a> {
    pub(super) isa: Isa,
    pub(super) words: Words,
    pub(super) outputs: usize,
    pub(super) depth: usize,
    pub(super) weights: &'a [f32],
    /// Zeros where there are none.
    pub(super) biases: Option<&'a [f32]>,
}

/// The most panels of a tile.
const MOST_PANELS: usize = 8;

/// The biases of the panels of a tile where there are none.
static ZEROS: [f32; MOST_PANELS * 16] = [0.0; MOST_PANELS * 16];

impl<'a> PanelsView<'a> {
    /// How many numbers the packed weights of so many outputs and factors are.
    pub(crate) fn len_of(isa: Isa, outputs: usize, depth: usize) -> usize {
        outputs.next_multiple_of(isa.lanes()).saturating_mul(depth)
    }

    /// Weights without biases that [`pack_rows`] or [`pack_columns`] has packed for an instruction set.
    ///
    /// # Panics
    /// When there are too few, or the processor doesn't have the instructions.
    pub(crate) fn new(isa: Isa, outputs: usize, depth: usize, weights: &'a [f32]) -> Self {
        assert!(isa.is_here(), "panels are for instructions that there are");
        let weights = &weights[..Self::len_of(isa, outputs, depth)];
        Self { isa, words: Words::Singles, outputs, depth, weights, biases: None }
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

    /// The instructions that multiply with them.
    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// What is multiplied at each step.
    pub(super) fn words(&self) -> Words {
        self.words
    }

    /// The weights of some panels, which there must be.
    pub(super) fn weights(&self, panels: Range<usize>) -> &'a [f32] {
        let panel = self.depth * self.lanes();
        &self.weights[panels.start * panel..panels.end * panel]
    }

    /// Their biases.
    pub(super) fn biases(&self, panels: Range<usize>) -> &'a [f32] {
        match self.biases {
            Some(biases) => &biases[panels.start * self.lanes()..panels.end * self.lanes()],
            None => &ZEROS[..panels.len() * self.lanes()],
        }
    }
}

/// Packs a matrix whose rows are the weights of the outputs, each `row` numbers from the one before.
///
/// # Panics
/// When the matrix is shorter, or there is too little room for it.
pub(crate) fn pack_rows(
    isa: Isa,
    (matrix, row): (&[f32], usize),
    [outputs, depth]: [usize; 2],
    packed: &mut [f32],
) {
    struct Rows<'a>(&'a [f32], usize, [usize; 2], usize, &'a mut [f32]);
    impl Work for Rows<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            let Self(matrix, row, [outputs, depth], lanes, packed) = self;
            let panels = packed.chunks_exact_mut((depth * lanes).max(1)).take(outputs.div_ceil(lanes));
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
        }
    }
    let packed = &mut packed[..PanelsView::len_of(isa, outputs, depth)];
    run_widest(Rows(matrix, row, [outputs, depth], isa.lanes(), packed));
}

/// Packs a matrix whose columns are the weights of the outputs; its rows begin `row` numbers from each other.
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
