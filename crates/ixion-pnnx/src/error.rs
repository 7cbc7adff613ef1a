//! Errors in model files, and their positions.

use super::archive::ArchiveError;
use super::attribute::WeightError;
use super::graph::GraphError;
use super::problem::SyntaxProblem;
use ixion_tensor::LimitError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A position in a `.param` text, printed as `model.param:12:34`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The file as the caller named it, or `<text>` for a text in memory.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters (not bytes), counted from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An error from reading, checking, editing or writing a PNNX model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PnnxError {
    /// The operating system failed to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action, such as `open the .param file`.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder was given where a file is expected.
    #[error("{}: this is a folder; give the {wanted} file in it", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The expected kind of file, such as `.param`.
        wanted: &'static str,
    },
    /// The `.param` text is invalid at a known position.
    #[error("{at}: {problem}")]
    Syntax {
        /// The position.
        at: Box<Position>,
        /// What is wrong there.
        problem: Box<SyntaxProblem>,
    },
    /// The `.bin` file is not an archive that PNNX could have written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The bytes of an attribute are missing, have the wrong size or are damaged.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// An edit would break the graph, or the graph cannot be written as it is.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The model exceeds the caller's limits.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl PnnxError {
    /// Wraps an I/O error with the path and the attempted action.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    /// The position in the `.param` text, or `None` for errors that have no position.
    pub fn position(&self) -> Option<&Position> {
        match self {
            Self::Syntax { at, .. } => Some(at),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_starts_with_its_position() {
        let at = Position { file: "model.param".into(), line: 12, column: 34 };
        let error = PnnxError::Syntax { at: Box::new(at), problem: Box::new(SyntaxProblem::Empty) };
        assert!(error.to_string().starts_with("model.param:12:34: the file is empty"), "{error}");
        assert_eq!(error.position().map(|at| at.line), Some(12));
    }

    #[test]
    fn errors_are_small_enough_to_return_everywhere() {
        assert!(std::mem::size_of::<PnnxError>() <= 128);
    }
}
