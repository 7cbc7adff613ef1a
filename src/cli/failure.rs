//! Exit codes, and the errors that the command reports.

use super::caller::tell;
use ixion::engine::{EngineError, PlanFileError, ScalesError};
use ixion::graph::GraphError;
use ixion::op::{LayerError, RegistryError};
use ixion::passes::PassError;
use ixion::plugin::PluginError;
use ixion::pnnx::{PnnxError, WeightError};
use ixion::shape::ShapeError;
use ixion::tensor::{LimitError, TensorError};
use ixion::vision::VisionError;
use std::error::Error;
use std::io;
use std::path::Path;

/// The exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success: exit code 0.
    Fine,
    /// The command ran, but the result is negative or the work failed: exit code 1.
    Failed,
    /// The arguments could not be used: exit code 2.
    Unusable,
}

impl Exit {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Unusable => 2,
        }
    }
}

/// An error that ends the command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    advice: Option<String>,
}

impl Failure {
    /// The arguments could not be used: exit code 2.
    pub(crate) fn unusable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit: Exit::Unusable, error: error.into(), advice: None }
    }

    /// The work failed: exit code 1.
    pub(crate) fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit: Exit::Failed, error: error.into(), advice: None }
    }

    /// Adds a hint about what to do.
    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// The exit status.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints the message to stderr. Prints nothing if the failure is only a closed pipe.
    pub(crate) fn report(&self) {
        if self.exit != Exit::Fine {
            tell("error", self.message());
        }
    }

    /// The error with its causes and the hint, as printed.
    pub(crate) fn message(&self) -> String {
        let mut message = full_message(&*self.error);
        if let Some(advice) = &self.advice {
            message.push_str("\n  hint: ");
            message.push_str(advice);
        }
        message
    }

    /// The error of the library; `None` if the command itself found the problem.
    pub(crate) fn into_error(self) -> Option<ixion::Error> {
        macro_rules! first_of {
            ($error:ident: $($kind:ty),+) => {{
                $(let $error = match $error.downcast::<$kind>() {
                    Ok(found) => return Some((*found).into()),
                    Err(other) => other,
                };)+
                drop($error);
                None
            }};
        }
        let error = self.error;
        first_of!(
            error: EngineError, GraphError, PnnxError, PlanFileError, ScalesError, ShapeError, LayerError, PluginError,
            RegistryError, PassError, WeightError, TensorError, LimitError, VisionError
        )
    }
}

/// An error with all causes that its own text does not already contain.
pub(crate) fn full_message(error: &dyn Error) -> String {
    let mut message = error.to_string().trim_start().to_owned();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str("\n  because: ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

/// An error in a TOML file, with file and line.
pub(crate) fn toml_message(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| format!(":{}", before.matches('\n').count() + 1)).unwrap_or_default();
    format!("{}{line}: {}", path.display(), error.message().trim_end())
}

/// An error of writing to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::Fine, error: error.into(), advice: None };
        }
        Self::failed(format!("cannot write to the standard output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("middle: {0}")]
    struct Middle(#[source] io::Error);

    #[test]
    fn a_message_has_every_cause_once() {
        let failure = Failure::unusable(Outer(Middle(io::Error::other("inner")))).advise("try again");
        assert_eq!(failure.message(), "outer\n  because: middle: inner\n  hint: try again");
        assert_eq!(failure.exit(), Exit::Unusable);
    }

    #[test]
    fn errors_of_the_library_are_found_again() {
        let late = Failure::failed(LimitError::DeadlineExceeded).advise("allow more time");
        assert!(matches!(late.into_error(), Some(ixion::Error::Limit(LimitError::DeadlineExceeded))));
        assert!(Failure::unusable("text").into_error().is_none());
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let gone = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(gone.exit(), Exit::Fine);
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.exit(), Exit::Failed);
    }
}
