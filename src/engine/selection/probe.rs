//! Probes an operator, position by position, for the formats in which it can run.

use crate::op::TensorFormat;
use smallvec::SmallVec;

/// The formats of all inputs and then all outputs of an operator.
pub type Combination = SmallVec<[TensorFormat; 4]>;

/// The formats that a layer supports at one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SupportedFormats {
    /// Formats that it takes, with some choice at the positions before.
    pub taken: Vec<TensorFormat>,
    /// Formats that it was probed for and never takes.
    pub refused: Vec<TensorFormat>,
}

// ANCHOR: ask
/// The maximum number of combinations of one operator; further ones are not tried.
pub const MAX_COMBINATIONS: usize = 64;

/// The maximum number of questions about one operator: for one with many inputs that takes these in all formats, but no output,
/// probing would practically never end.
pub const MAX_QUESTIONS: usize = 10_000;

/// The result of probing an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// The number of questions.
    pub asked: usize,
    /// The combinations that it takes, in the order in which they were found.
    pub found: Vec<Combination>,
    /// The formats that it supports, by position.
    pub answers: Vec<SupportedFormats>,
}

impl Probe {
    /// An empty result, with one position for each list of options.
    pub fn of(options: &[Combination]) -> Self {
        Self { answers: vec![SupportedFormats::default(); options.len()], ..Self::default() }
    }
}

/// Asks about the first position that is not decided, and about all after it if the answer is yes.
///
/// `options` are the formats that each position may have, the most natural one first. `takes(p, formats)` is the layer's
/// answer: may position `p` have `formats[p]`, given those before it? `formats` holds no positions after `p`. Once every
/// position is decided, the combination is recorded. `decided` is unchanged on return.
pub fn ask(
    options: &[Combination],
    takes: &dyn Fn(usize, &[TensorFormat]) -> bool,
    decided: &mut Combination,
    probe: &mut Probe,
) {
    // ANCHOR: ask_todo -- task 1: try each option of the next position in turn; after a yes recurse, after a no don't
    let position = decided.len();
    let Some(formats) = options.get(position) else {
        probe.found.push(decided.clone());
        return;
    };
    for &format in formats {
        if probe.found.len() >= MAX_COMBINATIONS || probe.asked >= MAX_QUESTIONS {
            return;
        }
        probe.asked += 1;
        decided.push(format);
        let is_taken = takes(position, decided);
        if let Some(answers) = probe.answers.get_mut(position) {
            answers.note(format, is_taken);
        }
        if is_taken {
            ask(options, takes, decided, probe);
        }
        decided.truncate(position);
    }
    // ANCHOR_END: ask_todo
}
// ANCHOR_END: ask

impl SupportedFormats {
    /// Adds the answers of a variant in other types.
    pub(super) fn add(&mut self, others: Self) {
        others.taken.into_iter().for_each(|format| self.note(format, true));
        others.refused.into_iter().for_each(|format| self.note(format, false));
    }

    /// Records an answer. A format that is taken once counts as taken, whatever the answers for other choices before it.
    pub fn note(&mut self, format: TensorFormat, is_taken: bool) {
        if is_taken && !self.taken.contains(&format) {
            self.refused.retain(|refused| *refused != format);
            self.taken.push(format);
        } else if !is_taken && !self.taken.contains(&format) && !self.refused.contains(&format) {
            self.refused.push(format);
        }
    }
}
