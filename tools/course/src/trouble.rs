//! Errors with advice on what to do about them.

use std::fmt;
use std::path::Path;

/// An error for the user: what went wrong, and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What went wrong: one sentence, or one line per problem.
    pub what: String,
    /// What to do about it.
    pub next: Option<String>,
}

/// A result with a [`Trouble`] as its error.
pub type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    /// An error without advice.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: None }
    }

    /// An error about a file.
    pub fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(format!("{}: {error}", path.display()))
    }

    /// Adds advice on what to do.
    #[must_use]
    pub fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        self.next.as_ref().map_or(Ok(()), |next| write!(f, "\n{next}"))
    }
}

impl std::error::Error for Trouble {}
