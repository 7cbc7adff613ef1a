//! Resource limits for untrusted files.
//!
//! A model file declares the sizes of its tensors and the number of its operators. Every size is checked against
//! [`Limits`] before anything is allocated, so that a broken or malicious file results in an error instead of
//! exhausting the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Upper bounds on the resources used to load and run a model.
///
/// The defaults are generous: no model that fits a large server is rejected.
///
/// ```
/// use ixion_tensor::Limits;
/// let limits = Limits { max_total_bytes: 1 << 30, ..Limits::default() };
/// assert!(limits.check_total("activations", 2 << 30).is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Largest single tensor (weight, activation or workspace), in bytes.
    pub max_tensor_bytes: u64,
    /// Largest total size of everything held at the same time (weights and activations), in bytes.
    pub max_total_bytes: u64,
    /// Largest number of operators and, separately, of operands in a graph.
    pub max_ops: usize,
    /// Largest number of axes of a tensor. Never above [`MAX_RANK`](crate::MAX_RANK).
    pub max_rank: usize,
    /// Point in time after which a run stops with [`LimitError::DeadlineExceeded`].
    pub deadline: Option<Instant>,
    /// Token that cancels the run from outside.
    pub cancel: Option<CancelToken>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tensor_bytes: 16 << 30,
            max_total_bytes: 64 << 30,
            max_ops: 1_000_000,
            max_rank: crate::MAX_RANK,
            deadline: None,
            cancel: None,
        }
    }
}

impl Limits {
    /// The same limits with a deadline `timeout` from now.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.deadline = Instant::now().checked_add(timeout);
        self
    }

    /// Checks the size in bytes of one tensor, called `what` in the error.
    ///
    /// # Errors
    /// [`LimitError::TooLarge`] when `bytes` is above [`Limits::max_tensor_bytes`].
    pub fn check_tensor(&self, what: &str, bytes: u64) -> Result<(), LimitError> {
        within(what, "max_tensor_bytes", bytes, self.max_tensor_bytes)
    }

    /// Checks the size in bytes of everything held at the same time.
    ///
    /// # Errors
    /// [`LimitError::TooLarge`] when `bytes` is above [`Limits::max_total_bytes`].
    pub fn check_total(&self, what: &str, bytes: u64) -> Result<(), LimitError> {
        within(what, "max_total_bytes", bytes, self.max_total_bytes)
    }

    /// Checks the number of operators or operands of a graph.
    ///
    /// # Errors
    /// [`LimitError::TooLarge`] when `count` is above [`Limits::max_ops`].
    pub fn check_ops(&self, what: &str, count: usize) -> Result<(), LimitError> {
        within(what, "max_ops", count as u64, self.max_ops as u64)
    }

    /// Checks the number of axes of a tensor.
    ///
    /// # Errors
    /// [`LimitError::TooLarge`] when `rank` is above [`Limits::max_rank`].
    pub fn check_rank(&self, what: &str, rank: usize) -> Result<(), LimitError> {
        let max = self.max_rank.min(crate::MAX_RANK);
        within(what, "max_rank", rank as u64, max as u64)
    }

    /// Checks that the run has not been cancelled and that the deadline, if any, has not passed.
    ///
    /// # Errors
    /// [`LimitError::Cancelled`] or [`LimitError::DeadlineExceeded`].
    pub fn check_deadline(&self) -> Result<(), LimitError> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(LimitError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(LimitError::DeadlineExceeded),
            _ => Ok(()),
        }
    }
}

fn within(what: &str, limit: &'static str, found: u64, max: u64) -> Result<(), LimitError> {
    if found <= max {
        return Ok(());
    }
    Err(LimitError::TooLarge { what: what.to_owned(), limit, found, max })
}

/// A limit of [`Limits`] that was exceeded, or a cancelled run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Something is larger than a limit allows.
    #[error("{what}: {found} exceeds the limit {limit} of {max}; raise the limit if you trust the file")]
    TooLarge {
        /// The thing that was measured.
        what: String,
        /// Name of the field of [`Limits`].
        limit: &'static str,
        /// The requested amount.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// Building or running did not end before [`Limits::deadline`].
    #[error("the time limit was reached; allow more time")]
    DeadlineExceeded,
    /// The run was cancelled with [`CancelToken::cancel`].
    #[error("the run was cancelled")]
    Cancelled,
}

/// Cancels runs from another thread. All clones share the same state.
///
/// ```
/// use ixion_tensor::{CancelToken, LimitError, Limits};
/// let token = CancelToken::default();
/// let limits = Limits { cancel: Some(token.clone()), ..Limits::default() };
/// token.cancel();
/// assert_eq!(limits.check_deadline(), Err(LimitError::Cancelled));
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Cancels all runs with this token; each ends the next time it checks the token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Clears the cancellation, so that new runs are possible.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns true if the token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tokens are equal if they share state.
impl PartialEq for CancelToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_named() {
        let limits = Limits { max_ops: 3, ..Limits::default() };
        assert_eq!(limits.check_ops("operators", 3), Ok(()));
        let error = limits.check_ops("operators", 4).unwrap_err().to_string();
        assert!(error.contains("operators: 4 exceeds") && error.contains("max_ops of 3"), "{error}");
    }

    #[test]
    fn a_passed_deadline_is_an_error() {
        assert_eq!(Limits::default().check_deadline(), Ok(()));
        let late = Limits::default().with_timeout(Duration::ZERO);
        assert_eq!(late.check_deadline(), Err(LimitError::DeadlineExceeded));
    }

    #[test]
    fn rank_never_exceeds_the_maximum_of_a_layout() {
        let limits = Limits { max_rank: 100, ..Limits::default() };
        assert!(limits.check_rank("x", crate::MAX_RANK).is_ok());
        assert!(limits.check_rank("x", crate::MAX_RANK + 1).is_err());
    }
}
