//! Products in half precision are computed in `f32`, some rows at a time, so that converted factors and sums stay in the
//! cache.

use std::cell::Cell;

/// The number of converted factors and sums at a time, and the minimum number of rows.
const AT_A_TIME: usize = 1 << 17;
const LEAST_ROWS: usize = 32;

/// The number of rows that are computed at a time, if each has this number of factors and sums.
pub(crate) fn rows_at_a_time(len: usize) -> usize {
    (AT_A_TIME / len.max(1)).max(LEAST_ROWS)
}

thread_local! {
    /// Memory for converted numbers, which a thread keeps, up to a size.
    static NUMBERS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Lends `work` two slices of these lengths, which contain arbitrary numbers.
pub(crate) fn lend<R>([first, second]: [usize; 2], work: impl FnOnce(&mut [f32], &mut [f32]) -> R) -> R {
    let mut numbers = NUMBERS.take();
    numbers.resize(numbers.len().max(first.saturating_add(second)), 0.0);
    let (left, rest) = numbers.split_at_mut(first);
    let result = work(left, &mut rest[..second]);
    // Very long rows need more once; a thread does not hold on to it.
    numbers.truncate(2 * AT_A_TIME);
    numbers.shrink_to(2 * AT_A_TIME);
    NUMBERS.set(numbers);
    result
}
