//! Human-readable formatting of numbers.

use std::time::Duration;

/// A count with a decimal prefix and three significant digits: `1.82 G`.
pub fn count(value: u64) -> String {
    let (number, prefix) = scaled(value as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"]);
    if prefix.is_empty() { value.to_string() } else { format!("{number} {prefix}") }
}

/// A number of bytes with a decimal prefix and three significant digits: `344 kB`.
pub fn bytes(value: u64) -> String {
    let (number, unit) = scaled(value as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
    if unit == "B" { format!("{value} B") } else { format!("{number} {unit}") }
}

/// A time with three significant digits and a unit: `1.23 ms`.
pub fn time(value: Duration) -> String {
    let (number, unit) = scaled(value.as_secs_f64() * 1e9, 1000.0, &["ns", "µs", "ms", "s"]);
    if unit == "ns" { format!("{} ns", value.as_nanos()) } else { format!("{number} {unit}") }
}

/// A fraction as a percentage with one decimal: `12.3 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// A noun with its count: `1 case`, `2 cases`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A difference or a tolerance with two significant digits: `1.2e-5`, or `0`.
pub fn small(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.1e}") }
}

/// Scales `value` to the largest unit in which it is at least 1, with three significant digits.
fn scaled(mut value: f64, step: f64, units: &[&'static str]) -> (String, &'static str) {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // 999.5 would round to 1000.
    while value >= step - 0.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / step, next);
    }
    let number = match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    (number, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_prefix() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_814_073_344), "1.81 G");
        assert_eq!(count(999_999), "1.00 M");
        assert_eq!(count(u64::MAX), "18.4 E");
        assert_eq!((bytes(0), bytes(344_192)), ("0 B".into(), "344 kB".into()));
        assert_eq!(time(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(time(Duration::from_nanos(17)), "17 ns");
        assert_eq!(time(Duration::from_secs(4321)), "4321 s");
        assert_eq!(percent(0.99333), "99.3 %");
        assert_eq!((plural(1, "case"), plural(0, "case")), ("1 case".into(), "0 cases".into()));
        assert_eq!((small(0.0), small(0.000_012_3)), ("0".into(), "1.2e-5".into()));
    }
}
