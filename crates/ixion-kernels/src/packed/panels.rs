//! Weights in the order in which they are multiplied.

use super::Words;
use super::pairs::round;
use super::view::PanelsView;
use crate::isa::{Isa, isa};
use ixion_tensor::Tensor;
use std::ops::Range;

/// A vector at the beginning of a cache line, so that no load crosses two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Numbers in a line.
const LINE: usize = 16;

/// Packed weights: for each panel of output channels and each factor, as many words of weights as a vector has. What fills up
/// the last panel is 0. Each panel has as many biases.
#[derive(Debug, Clone)]
pub struct Panels {
    isa: Isa,
    words: Words,
    outputs: usize,
    depth: usize,
    numbers: Numbers,
}

/// The weights of all panels and then their biases, both filled up to whole lines.
#[derive(Debug, Clone)]
enum Numbers {
    Made(Vec<Line>),
    Stored(Tensor),
}

/// Numbers of the weights and of the biases, both filled up to whole lines.
fn lens(isa: Isa, outputs: usize, depth: usize) -> [usize; 2] {
    let biases = outputs.div_ceil(isa.lanes()).saturating_mul(isa.lanes());
    [biases.saturating_mul(depth), biases].map(|len| len.div_ceil(LINE).saturating_mul(LINE))
}

impl Panels {
    /// Packs `weight(output, k)` for so many outputs and factors, and a bias for each output, for the instruction set of
    /// this process.
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
    /// When the processor doesn't have it.
    pub(crate) fn for_isa(
        isa: Isa,
        outputs: usize,
        depth: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        assert!(isa.is_here(), "panels are for instructions that there are");
        let (lanes, lens) = (isa.lanes(), lens(isa, outputs, depth));
        let mut lines = vec![Line([0.0; LINE]); (lens[0].saturating_add(lens[1])) / LINE];
        let (weights, biases) = numbers_mut(&mut lines).split_at_mut(lens[0]);
        biases.iter_mut().zip(0..outputs).for_each(|(number, output)| *number = bias(output));
        let vectors = weights.chunks_exact_mut(lanes);
        for (index, vector) in vectors.take(outputs.div_ceil(lanes) * depth).enumerate() {
            let (panel, k) = (index / depth, index % depth);
            let outputs = panel * lanes..((panel + 1) * lanes).min(outputs);
            vector.iter_mut().zip(outputs).for_each(|(number, output)| *number = weight(output, k));
        }
        Self { isa, words: Words::Singles, outputs, depth, numbers: Numbers::Made(lines) }
    }

    /// As [`Panels::new`], with weights that are [rounded to pairs](Words::Pairs).
    ///
    /// # Panics
    /// When the processor doesn't multiply pairs.
    pub fn pairs(
        outputs: usize,
        numbers: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        assert!(Words::Pairs.are_here(), "panels are for instructions that there are");
        let depth = Words::Pairs.count(numbers);
        let mut rounded = vec![0.0; outputs.saturating_mul(depth)];
        let mut row = vec![0.0; numbers];
        for (output, rounded) in rounded.chunks_exact_mut(depth.max(1)).enumerate() {
            row.iter_mut().enumerate().for_each(|(k, number)| *number = weight(output, k));
            round(&row, rounded);
        }
        let panels = Self::new(outputs, depth, |output, k| rounded[output * depth + k], bias);
        Self { words: Words::Pairs, ..panels }
    }

    /// Panels whose [numbers](Panels::numbers) were stored, for so many outputs and words of factors. None where these are
    /// others.
    ///
    /// # Panics
    /// When the processor doesn't have the instruction set, or doesn't multiply such words.
    pub fn stored((isa, words): (Isa, Words), outputs: usize, depth: usize, numbers: Tensor) -> Option<Self> {
        assert!(isa.is_here() && words.are_here(), "panels are for instructions that there are");
        let len = numbers.slice::<f32>().ok()?.len();
        let [weights, biases] = lens(isa, outputs, depth);
        let is_right = Some(len) == weights.checked_add(biases);
        is_right.then_some(Self { isa, words, outputs, depth, numbers: Numbers::Stored(numbers) })
    }

    /// How many numbers panels of so many outputs and words of factors have: whole lines of 64 bytes.
    pub fn len(isa: Isa, outputs: usize, depth: usize) -> usize {
        lens(isa, outputs, depth).into_iter().fold(0, usize::saturating_add)
    }

    /// All that there is to store: weights, biases, and what fills them up.
    pub fn numbers(&self) -> &[f32] {
        match &self.numbers {
            Numbers::Made(lines) => numbers(lines),
            Numbers::Stored(numbers) => numbers.slice().unwrap_or_default(),
        }
    }

    /// How many panels there are.
    pub fn count(&self) -> usize {
        self.outputs.div_ceil(self.lanes())
    }

    /// How many output channels there are.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many words of factors each output has.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// What is multiplied at each step.
    pub fn words(&self) -> Words {
        self.words
    }

    /// Output channels of a panel.
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        lens(self.isa, self.outputs, self.depth)[0].saturating_mul(size_of::<f32>())
    }

    /// The same, to multiply with.
    pub(crate) fn view(&self) -> PanelsView<'_> {
        let [weights, _] = lens(self.isa, self.outputs, self.depth);
        let (weights, biases) = self.numbers().split_at(weights);
        let Self { isa, words, outputs, depth, .. } = *self;
        PanelsView { isa, words, outputs, depth, weights, biases: Some(biases) }
    }

    /// The instructions that multiply with them.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// The weights of some panels, which there must be.
    pub(crate) fn weights(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.depth * self.lanes();
        &self.numbers()[panels.start * panel..panels.end * panel]
    }

    /// Their biases.
    pub(crate) fn biases(&self, panels: Range<usize>) -> &[f32] {
        let [weights, _] = lens(self.isa, self.outputs, self.depth);
        &self.numbers()[weights..][panels.start * self.lanes()..panels.end * self.lanes()]
    }
}

fn numbers(lines: &[Line]) -> &[f32] {
    // SAFETY: a line is an array of so many numbers and nothing else.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LINE) }
}

fn numbers_mut(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: as above; the lines are borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LINE) }
}
