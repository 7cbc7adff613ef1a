//! What can go wrong in a pass, or with a pattern.

use crate::LimitError;
use crate::pnnx::GraphError;

/// An error of a pass.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// There is no such pass.
    #[error("there is no pass `{name}`; there are {}", known.join(", "))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Two passes cannot have the same name.
    #[error("there is already a pass called `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The pattern or the replacement of a pass cannot be read. A fault of the pass.
    #[error("pass `{pass}`: {source}")]
    Pattern {
        /// The pass.
        pass: String,
        /// What is wrong.
        #[source]
        source: PatternError,
    },
    /// An edit that the graph refused. A fault of the pass.
    #[error("pass `{pass}` made an edit that the graph refuses: {source}")]
    Edit {
        /// The pass.
        pass: String,
        /// Why.
        #[source]
        source: GraphError,
    },
    /// The graph cannot be executed any more. A fault of the pass.
    #[error("pass `{pass}` left a graph that cannot run: {reason}")]
    Broken {
        /// The pass.
        pass: String,
        /// What is wrong with the graph.
        reason: String,
    },
    /// A pass fired more often than any graph can need. A fault of the pass.
    #[error("pass `{pass}` fired {fired} times and would go on: its replacement holds its own pattern")]
    Endless {
        /// The pass.
        pass: String,
        /// How often it fired.
        fired: usize,
    },
    /// A limit that was met while the model was built.
    #[error("the model was not built: pass `{pass}`: {source}")]
    Limit {
        /// The pass that was at work.
        pass: String,
        /// The limit.
        #[source]
        source: LimitError,
    },
}

impl PassError {
    /// Names the pass whose edit failed.
    pub(super) fn edit(pass: &str) -> impl Fn(GraphError) -> PassError + '_ {
        |source| Self::Edit { pass: pass.to_owned(), source }
    }

    /// Names the pass that met a limit.
    pub(super) fn limit(pass: &str) -> impl Fn(LimitError) -> PassError + '_ {
        |source| Self::Limit { pass: pass.to_owned(), source }
    }
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the pattern: {problem}")]
pub struct PatternError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

impl PatternError {
    pub(super) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}
