//! What went wrong, and what to do about it.

use std::fmt;
use std::path::Path;

/// An error as a person wants it: what is the matter, and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is the matter: one sentence, or one line for each thing that is wrong.
    pub what: String,
    /// What to do now.
    pub next: Option<String>,
}

/// A result whose error says what to do.
pub type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    /// Trouble without an obvious way out.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: None }
    }

    /// Trouble while doing something with a file.
    pub fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(format!("{}: {error}", path.display()))
    }

    /// The same trouble with what to do about it.
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
