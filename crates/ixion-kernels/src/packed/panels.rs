//! Weights in the order in which they are multiplied.

use super::packing::Packing;
use super::pairs::round;
use super::view::PanelsView;
use crate::isa::{Isa, isa};
use ixion_tensor::{Result, Tensor, TensorError};
use std::ops::Range;

/// A cache line, so that vectors begin where cache lines do and no load crosses two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// The number of values in a line.
const LINE: usize = 16;

/// Packed weights: for each panel of output channels and each factor, a vector of words of weights. The last panel is
/// padded with 0. Each panel also has a vector of biases.
#[derive(Debug, Clone)]
pub struct Panels {
    isa: Isa,
    packing: Packing,
    outputs: usize,
    depth: usize,
    numbers: Numbers,
}

/// The weights of all panels, followed by their biases, both padded to whole lines.
#[derive(Debug, Clone)]
enum Numbers {
    Packed(Vec<Line>),
    Stored(Tensor),
}

/// The number of weights and of biases, both padded to whole lines.
fn lens(isa: Isa, outputs: usize, depth: usize) -> [usize; 2] {
    let biases = outputs.div_ceil(isa.lanes()).saturating_mul(isa.lanes());
    [biases.saturating_mul(depth), biases].map(|len| len.div_ceil(LINE).saturating_mul(LINE))
}

impl Panels {
    /// Packs `weight(output, k)` for `outputs` outputs and `depth` factors, and a bias for each output, for the
    /// instruction set of this process.
    pub fn new(
        outputs: usize,
        depth: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        Self::for_isa(isa(), outputs, depth, weight, bias)
    }

    /// As [`Panels::new`], for any instruction set.
    ///
    /// # Panics
    /// Panics if the processor does not support it.
    pub(crate) fn for_isa(
        isa: Isa,
        outputs: usize,
        depth: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        let mut panels = Self::zeroed(isa, outputs, depth);
        panels.pack(0..outputs, weight);
        let (_, biases) = panels.parts_mut();
        biases.iter_mut().zip(0..outputs).for_each(|(number, output)| *number = bias(output));
        panels
    }

    /// Panels for `outputs` outputs of `numbers` weights each, for the instruction set of this process. Weights and biases are
    /// 0 until they are set by [`Panels::pack_rows`] and [`Panels::set_biases`].
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] if there is no memory for them.
    ///
    /// # Panics
    /// Panics if the processor does not multiply such words.
    pub fn unpacked(packing: Packing, outputs: usize, numbers: usize) -> Result<Self> {
        assert!(packing.are_supported(), "the processor must support the instructions of the panels");
        let (isa, depth) = (isa(), packing.count(numbers));
        let count = Self::len(isa, outputs, depth) / LINE;
        let mut lines = Vec::new();
        let refuse = |_| TensorError::OutOfMemory { bytes: count.saturating_mul(size_of::<Line>()) };
        lines.try_reserve_exact(count).map_err(refuse)?;
        lines.resize(count, Line([0.0; LINE]));
        Ok(Self { isa, packing, outputs, depth, numbers: Numbers::Packed(lines) })
    }

    /// Packs the weights of some outputs, `numbers` of each, from output `first` on, which must be the first one of a panel.
    pub fn pack_rows(&mut self, first: usize, rows: &[f32], numbers: usize) {
        let outputs = first..first + rows.len() / numbers.max(1);
        if self.packing == Packing::F32 {
            return self.pack(outputs, |output, k| rows[(output - first) * numbers + k]);
        }
        let depth = self.packing.count(numbers);
        let mut rounded = vec![0.0; outputs.len() * depth];
        let words = rounded.chunks_exact_mut(depth.max(1));
        rows.chunks_exact(numbers.max(1)).zip(words).for_each(|(row, words)| round(row, words));
        self.pack(outputs, |output, k| rounded[(output - first) * depth + k]);
    }

    /// Sets the biases of all outputs.
    pub fn set_biases(&mut self, values: &[f32]) {
        let outputs = self.outputs;
        let (_, biases) = self.parts_mut();
        biases.iter_mut().take(outputs).zip(values).for_each(|(number, &value)| *number = value);
    }

    /// Panels whose weights and biases are all 0, for weights that are packed [in parts](Panels::pack).
    ///
    /// # Panics
    /// Panics if the processor does not support the instruction set.
    pub(crate) fn zeroed(isa: Isa, outputs: usize, depth: usize) -> Self {
        assert!(isa.is_supported(), "the processor must support the instructions of the panels");
        let lines = vec![Line([0.0; LINE]); Self::len(isa, outputs, depth) / LINE];
        Self { isa, packing: Packing::F32, outputs, depth, numbers: Numbers::Packed(lines) }
    }

    /// Packs `weight(output, k)` for some of the outputs, from the first one of a panel on.
    pub(crate) fn pack(&mut self, outputs: Range<usize>, weight: impl Fn(usize, usize) -> f32) {
        let (lanes, depth, end) = (self.lanes(), self.depth, outputs.end.min(self.outputs));
        let (weights, _) = self.parts_mut();
        let panels = weights.chunks_exact_mut(lanes.saturating_mul(depth).max(1)).skip(outputs.start / lanes);
        for (vectors, first) in panels.zip((outputs.start..end).step_by(lanes)) {
            let outputs = first..(first + lanes).min(end);
            for (k, vector) in vectors.chunks_exact_mut(lanes).enumerate() {
                vector
                    .iter_mut()
                    .zip(outputs.clone())
                    .for_each(|(number, output)| *number = weight(output, k));
            }
        }
    }

    /// As [`Panels::new`], with weights that are [rounded to pairs](Packing::Bf16Pairs).
    ///
    /// # Panics
    /// Panics if the processor does not multiply pairs.
    pub fn pairs(
        outputs: usize,
        numbers: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        assert!(
            Packing::Bf16Pairs.are_supported(),
            "the processor must support the instructions of the panels"
        );
        let depth = Packing::Bf16Pairs.count(numbers);
        let mut rounded = vec![0.0; outputs.saturating_mul(depth)];
        let mut row = vec![0.0; numbers];
        for (output, rounded) in rounded.chunks_exact_mut(depth.max(1)).enumerate() {
            row.iter_mut().enumerate().for_each(|(k, number)| *number = weight(output, k));
            round(&row, rounded);
        }
        let panels = Self::new(outputs, depth, |output, k| rounded[output * depth + k], bias);
        Self { packing: Packing::Bf16Pairs, ..panels }
    }

    /// Restores panels whose [values](Panels::numbers) were stored, for `outputs` outputs and `depth` words of factors.
    /// Returns `None` if the number or the type of the values does not match.
    ///
    /// # Panics
    /// Panics if the processor does not support the instruction set, or does not multiply such words.
    pub fn stored(
        (isa, packing): (Isa, Packing),
        outputs: usize,
        depth: usize,
        numbers: Tensor,
    ) -> Option<Self> {
        assert!(
            isa.is_supported() && packing.are_supported(),
            "the processor must support the instructions of the panels"
        );
        let len = numbers.slice::<f32>().ok()?.len();
        let [weights, biases] = lens(isa, outputs, depth);
        let is_right = Some(len) == weights.checked_add(biases);
        is_right.then_some(Self { isa, packing, outputs, depth, numbers: Numbers::Stored(numbers) })
    }

    /// The number of values of panels for `outputs` outputs and `depth` words of factors, in whole lines of 64 bytes.
    pub fn len(isa: Isa, outputs: usize, depth: usize) -> usize {
        lens(isa, outputs, depth).into_iter().fold(0, usize::saturating_add)
    }

    /// All values to store: weights, biases, and their padding.
    pub fn numbers(&self) -> &[f32] {
        match &self.numbers {
            Numbers::Packed(lines) => numbers(lines),
            Numbers::Stored(numbers) => numbers.slice().unwrap_or_default(),
        }
    }

    /// The number of panels.
    pub fn count(&self) -> usize {
        self.outputs.div_ceil(self.lanes())
    }

    /// The number of output channels.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of words of factors per output.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The contents of the words.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// The number of output channels per panel.
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    /// The size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        lens(self.isa, self.outputs, self.depth)[0].saturating_mul(size_of::<f32>())
    }

    /// A view of the panels to multiply with.
    pub(crate) fn view(&self) -> PanelsView<'_> {
        let [weights, _] = lens(self.isa, self.outputs, self.depth);
        let (weights, biases) = self.numbers().split_at(weights);
        let Self { isa, packing, outputs, depth, .. } = *self;
        PanelsView { isa, packing, outputs, depth, weights, biases: Some(biases) }
    }

    /// The weights and the biases of packed panels; nothing of stored ones, which are never written.
    fn parts_mut(&mut self) -> (&mut [f32], &mut [f32]) {
        let [weights, _] = lens(self.isa, self.outputs, self.depth);
        match &mut self.numbers {
            Numbers::Packed(lines) => numbers_mut(lines).split_at_mut(weights),
            Numbers::Stored(_) => (&mut [], &mut []),
        }
    }

    /// The instruction set that the weights are packed for.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// The weights of a range of panels, which must exist.
    pub(crate) fn weights(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.depth * self.lanes();
        &self.numbers()[panels.start * panel..panels.end * panel]
    }

    /// The biases of a range of panels.
    pub(crate) fn biases(&self, panels: Range<usize>) -> &[f32] {
        let [weights, _] = lens(self.isa, self.outputs, self.depth);
        &self.numbers()[weights..][panels.start * self.lanes()..panels.end * self.lanes()]
    }
}

fn numbers(lines: &[Line]) -> &[f32] {
    // SAFETY: a line is an array of `LINE` values and nothing else.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LINE) }
}

fn numbers_mut(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: as above; the lines are borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LINE) }
}
