//! Weights in the order in which they are multiplied.

use crate::kernels::isa::{Isa, isa};
use std::ops::Range;

/// A vector at the beginning of a cache line, so that no load crosses two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Numbers in a line.
const LINE: usize = 16;

/// Packed weights: for each panel of output channels and each factor, as many weights as a vector has numbers. What fills up
/// the last panel is 0. Each panel has as many biases.
#[derive(Debug, Clone)]
pub struct Panels {
    isa: Isa,
    outputs: usize,
    depth: usize,
    weights: Vec<Line>,
    biases: Vec<Line>,
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
    pub(in crate::kernels) fn for_isa(
        isa: Isa,
        outputs: usize,
        depth: usize,
        weight: impl Fn(usize, usize) -> f32,
        bias: impl Fn(usize) -> f32,
    ) -> Self {
        assert!(isa.is_here(), "panels are for instructions that there are");
        let lanes = isa.lanes();
        let count = outputs.div_ceil(lanes);
        let mut panels = Self {
            isa,
            outputs,
            depth,
            weights: vec![
                Line([0.0; LINE]);
                count.saturating_mul(depth).saturating_mul(lanes).div_ceil(LINE)
            ],
            biases: vec![Line([0.0; LINE]); (count * lanes).div_ceil(LINE)],
        };
        let biases = numbers_mut(&mut panels.biases).iter_mut().zip(0..outputs);
        biases.for_each(|(number, output)| *number = bias(output));
        let vectors = numbers_mut(&mut panels.weights).chunks_exact_mut(lanes);
        for (index, vector) in vectors.take(count * depth).enumerate() {
            let (panel, k) = (index / depth, index % depth);
            let outputs = panel * lanes..((panel + 1) * lanes).min(outputs);
            vector.iter_mut().zip(outputs).for_each(|(number, output)| *number = weight(output, k));
        }
        panels
    }

    /// How many panels there are.
    pub fn count(&self) -> usize {
        self.outputs.div_ceil(self.lanes())
    }

    /// How many output channels there are.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many factors each output has.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Output channels of a panel.
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.weights.len() * size_of::<Line>()
    }

    /// The instructions that multiply with them.
    pub(in crate::kernels) fn isa(&self) -> Isa {
        self.isa
    }

    /// The weights of some panels, which there must be.
    pub(in crate::kernels) fn weights(&self, panels: Range<usize>) -> &[f32] {
        let panel = self.depth * self.lanes();
        &numbers(&self.weights)[panels.start * panel..panels.end * panel]
    }

    /// Their biases.
    pub(in crate::kernels) fn biases(&self, panels: Range<usize>) -> &[f32] {
        &numbers(&self.biases)[panels.start * self.lanes()..panels.end * self.lanes()]
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
