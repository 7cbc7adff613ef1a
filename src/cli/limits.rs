//! The options that limit memory and time.

use clap::Args;
use ixion::{CancelToken, Limits};
use std::time::Duration;

/// `--limit-memory` and `--timeout`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LimitArgs {
    /// Reject models that need more memory than SIZE, such as 500M or 4G
    ///
    /// SIZE is a number of bytes; the suffixes K, M, G and T are powers of 1024. The limit covers weights and activations
    /// together. The default is 64G in total and 16G for a single tensor.
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size, help_heading = "Global options")]
    limit_memory: Option<u64>,
    /// Stop a run that takes longer than SECONDS, such as 0.5 or 30
    ///
    /// The deadline is checked between operators, and while a long one computes. For `verify`, it applies to each case.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = parse_seconds, help_heading = "Global options")]
    timeout: Option<Duration>,
    /// What ends the work early, if a program runs the command.
    #[arg(skip)]
    pub(crate) cancel: Option<CancelToken>,
}

impl LimitArgs {
    /// The limits, with a deadline counted from now.
    pub(crate) fn start(&self) -> Limits {
        let mut limits = Limits { cancel: self.cancel.clone(), ..Limits::default() };
        if let Some(bytes) = self.limit_memory {
            limits.max_total_bytes = bytes;
            limits.max_tensor_bytes = bytes;
        }
        match self.timeout {
            Some(timeout) => limits.with_timeout(timeout),
            None => limits,
        }
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let wanted = || "expected a number of bytes, such as 1000000, 500M or 1.5G".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase();
    let power = match suffix.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wanted()),
    };
    let number: f64 = digits.parse().map_err(|_| wanted())?;
    let bytes = number * f64::from(power).exp2();
    if bytes.is_finite() && bytes >= 1.0 { Ok(bytes as u64) } else { Err(wanted()) }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let wanted = || "expected seconds above 0, such as 30 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wanted())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_prefixes() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("4G"), Ok(4 << 30));
        assert_eq!(parse_size("1.5kib"), Ok(1536));
        assert_eq!(parse_size("2MB"), Ok(2 << 20));
        for bad in ["", "G", "-1", "4X", "1e400", "NaN", "0", "4 G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_above_zero() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "inf", "x", "1e300"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_become_limits() {
        let args = LimitArgs { limit_memory: Some(10), timeout: None, cancel: None };
        let limits = args.start();
        assert_eq!((limits.max_total_bytes, limits.max_tensor_bytes, limits.deadline), (10, 10, None));
        let timed = LimitArgs { limit_memory: None, timeout: Some(Duration::from_secs(60)), cancel: None };
        assert!(timed.start().deadline.is_some());
    }
}
