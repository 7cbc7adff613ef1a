//! Runs many small tasks in parallel.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each item, on as many threads as there are cores. Results are in the order of the items.
pub fn map<T: Sync, R: Send + Default>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let results: Vec<Mutex<R>> = items.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let take = || items.iter().zip(&results).nth(next.fetch_add(1, Ordering::Relaxed));
    let worker = || {
        while let Some((item, slot)) = take() {
            let result = work(item);
            if let Ok(mut slot) = slot.lock() {
                *slot = result;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(items.len()) {
            scope.spawn(worker);
        }
    });
    results.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(
            super::map(&items, |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
    }
}
