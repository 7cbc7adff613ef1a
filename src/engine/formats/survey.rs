//! Asking an operator position by position in which formats it can run.

use crate::op::TensorFormat;
use smallvec::SmallVec;

/// The formats of all inputs and then all outputs of an operator.
pub type Combination = SmallVec<[TensorFormat; 4]>;

/// What a layer answered about one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Formats that it takes, with some choice for the positions before.
    pub taken: Vec<TensorFormat>,
    /// Formats that it was asked about and never takes.
    pub refused: Vec<TensorFormat>,
}

// ANCHOR: ask
/// The most combinations of one operator; those that follow are not looked at.
pub const MOST: usize = 64;

/// The most questions about one operator: one with many inputs that takes all of them in every way, but not its outputs, would
/// be asked for ever.
pub const MOST_QUESTIONS: usize = 10_000;

/// What came out of asking an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// How many questions there were.
    pub asked: usize,
    /// The combinations that it takes, in the order in which they were found.
    pub found: Vec<Combination>,
    /// What it answered, by position.
    pub answers: Vec<Answers>,
}

impl Survey {
    /// One in which nothing was asked yet, about as many positions as there are lists of options.
    pub fn of(options: &[Combination]) -> Self {
        Self { answers: vec![Answers::default(); options.len()], ..Self::default() }
    }
}

/// Asks about the position behind those that are decided, and about all that follow where the answer is yes.
///
/// `options` are the formats that each position may have, the most natural one first. `takes(p, formats)` is the layer's answer:
/// may position `p` have `formats[p]`, given those before it? `formats` never holds more than that. Where every position is decided,
/// the combination is noted. `decided` is in the end as it was.
pub fn ask(
    options: &[Combination],
    takes: &dyn Fn(usize, &[TensorFormat]) -> bool,
    decided: &mut Combination,
    survey: &mut Survey,
) {
    // ANCHOR: ask_todo -- task 1: each option of the next position in turn; beyond a yes ask on, beyond a no don't
    let position = decided.len();
    let Some(formats) = options.get(position) else {
        survey.found.push(decided.clone());
        return;
    };
    for &format in formats {
        if survey.found.len() >= MOST || survey.asked >= MOST_QUESTIONS {
            return;
        }
        survey.asked += 1;
        decided.push(format);
        let is_taken = takes(position, decided);
        if let Some(answers) = survey.answers.get_mut(position) {
            answers.note(format, is_taken);
        }
        if is_taken {
            ask(options, takes, decided, survey);
        }
        decided.truncate(position);
    }
    // ANCHOR_END: ask_todo
}
// ANCHOR_END: ask

impl Answers {
    /// Adds answers about other types.
    pub(super) fn add(&mut self, others: Self) {
        others.taken.into_iter().for_each(|format| self.note(format, true));
        others.refused.into_iter().for_each(|format| self.note(format, false));
    }

    /// Notes an answer. A format that is taken once is taken, whatever was or will be answered for other choices before it.
    pub fn note(&mut self, format: TensorFormat, is_taken: bool) {
        if is_taken && !self.taken.contains(&format) {
            self.refused.retain(|refused| *refused != format);
            self.taken.push(format);
        } else if !is_taken && !self.taken.contains(&format) && !self.refused.contains(&format) {
            self.refused.push(format);
        }
    }
}
