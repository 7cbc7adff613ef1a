//! Statistics of a run of passes.

use super::Refusal;
use std::fmt;
use std::time::Duration;

/// The statistics of all passes on one graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// One entry for each pass that ran, in the order of their first runs.
    pub passes: Vec<PassStatistics>,
    /// The number of rounds, including the last one, in which no pass fired.
    pub rounds: usize,
    /// The number of operators before the first pass.
    pub nodes_before: usize,
    /// The number of operators after the last pass.
    pub nodes_after: usize,
}

/// The statistics of one pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassStatistics {
    /// The name of the pass.
    pub name: String,
    /// The number of times it fired, in all rounds.
    pub fired: usize,
    /// The near matches that it left alone in the last round, and why.
    pub refused: Vec<Refusal>,
    /// The number of operators before its first run.
    pub nodes_before: usize,
    /// The number of operators that it removed, in all rounds. Negative if it added some.
    pub nodes_saved: i64,
    /// The time that it took, in all rounds.
    pub time: Duration,
}

impl PassStatistics {
    /// The number of operators that would be left if this had been the only pass.
    pub fn nodes_after(&self) -> i64 {
        i64::try_from(self.nodes_before).unwrap_or(i64::MAX).saturating_sub(self.nodes_saved)
    }
}

impl Statistics {
    /// The number of times that the pass of this name fired; 0 if it did not run.
    pub fn fired(&self, pass: &str) -> usize {
        self.pass(pass).map_or(0, |pass| pass.fired)
    }

    /// The statistics of the pass of this name, if it ran.
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
