//! What passes did.

use super::Refusal;
use std::fmt;
use std::time::Duration;

/// What all passes did to one graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// One entry for each pass that ran, in the order in which they ran first.
    pub passes: Vec<PassStatistics>,
    /// How often all passes ran one after the other, the last time without firing.
    pub rounds: usize,
    /// Operators before the first pass.
    pub nodes_before: usize,
    /// Operators after the last pass.
    pub nodes_after: usize,
}

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassStatistics {
    /// Its name.
    pub name: String,
    /// How often it fired, in all rounds.
    pub fired: usize,
    /// What it left alone in the end, and why.
    pub refused: Vec<Refusal>,
    /// Operators before it ran first.
    pub nodes_before: usize,
    /// By how many operators it made the graph smaller, in all rounds; larger where negative.
    pub nodes_saved: i64,
    /// The time it took, in all rounds.
    pub time: Duration,
}

impl PassStatistics {
    /// Operators that would be left if it had been the only pass.
    pub fn nodes_after(&self) -> i64 {
        i64::try_from(self.nodes_before).unwrap_or(i64::MAX).saturating_sub(self.nodes_saved)
    }
}

impl Statistics {
    /// How often the pass of this name fired; never, if it did not run.
    pub fn fired(&self, pass: &str) -> usize {
        self.pass(pass).map_or(0, |pass| pass.fired)
    }

    /// What the pass of this name did.
    pub fn pass(&self, name: &str) -> Option<&PassStatistics> {
        self.passes.iter().find(|pass| pass.name == name)
    }

    /// The time that all passes took.
    pub fn time(&self) -> Duration {
        self.passes.iter().map(|pass| pass.time).sum()
    }
}

/// One line for each pass that fired or refused, without times.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, nodes_before, nodes_after, .. } = self;
        writeln!(f, "{nodes_before} operators, {nodes_after} after {rounds} rounds of passes")?;
        for pass in &self.passes {
            if pass.fired > 0 || !pass.refused.is_empty() {
                writeln!(f, "{}: fired {}, operators {:+}", pass.name, pass.fired, -pass.nodes_saved)?;
            }
            pass.refused.iter().try_for_each(|refusal| writeln!(f, "  not {refusal}"))?;
        }
        Ok(())
    }
}
