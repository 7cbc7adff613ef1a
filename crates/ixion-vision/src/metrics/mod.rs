//! Evaluation of boxes and masks against ground truth.

mod boxes;
mod masks;

pub use boxes::{AveragePrecision, Truth};
pub use masks::Confusion;

// ANCHOR: mean
/// The mean of the values that are `Some`; `None` without any.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
// ANCHOR_END: mean
