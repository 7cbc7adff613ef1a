//! Errors of passes and patterns.

use crate::LimitError;
use crate::pnnx::GraphError;

/// An error of a pass.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// No pass has this name.
    #[error("unknown pass `{name}`; known passes: {}", known.join(", "))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names of all passes.
        known: Vec<String>,
    },
    /// Another pass already has this name.
    #[error("there is already a pass called `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The pattern or the replacement of a pass is invalid. A bug in the pass.
    #[error("pass `{pass}`: {source}")]
    Pattern {
        /// The pass.
        pass: String,
        /// The problem.
        #[source]
        source: PatternError,
    },
    /// The graph rejected an edit. A bug in the pass.
    #[error("pass `{pass}` made an invalid edit: {source}")]
    Edit {
        /// The pass.
        pass: String,
        /// The graph's error.
        #[source]
        source: GraphError,
    },
    /// The graph can no longer run. A bug in the pass.
    #[error("pass `{pass}` left a graph that cannot run: {reason}")]
    Broken {
        /// The pass.
        pass: String,
        /// The problem with the graph.
        reason: String,
    },
    /// A pass fired more often than any graph can need. A bug in the pass.
    #[error(
        "pass `{pass}` does not terminate (fired {fired} times): its replacement contains its own pattern"
    )]
    Endless {
        /// The pass.
        pass: String,
        /// The number of times it fired.
        fired: usize,
    },
    /// A limit was exceeded while the model was built.
    #[error("the model was not built: pass `{pass}`: {source}")]
    Limit {
        /// The pass that was running.
        pass: String,
        /// The limit.
        #[source]
        source: LimitError,
    },
}

impl PassError {
    /// Wraps the error of a failed edit, with the name of the pass.
    pub(super) fn edit(pass: &str) -> impl Fn(GraphError) -> PassError + '_ {
        |source| Self::Edit { pass: pass.to_owned(), source }
    }

    /// Wraps the error of an exceeded limit, with the name of the pass.
    pub(super) fn limit(pass: &str) -> impl Fn(LimitError) -> PassError + '_ {
        |source| Self::Limit { pass: pass.to_owned(), source }
    }
}

/// An invalid pattern or replacement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the pattern: {problem}")]
pub struct PatternError {
    /// The line, counted from 1.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

impl PatternError {
    pub(super) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}
