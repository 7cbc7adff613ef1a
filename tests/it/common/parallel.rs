//! Runs many cases in parallel.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Applies a function to each case, on as many threads as there are cores. Results are in the order of the cases. A panic
/// doesn't stop the other cases: all failures are reported at the end.
pub(crate) fn each_of<T: Send>(cases: &[PathBuf], run: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return results };
            results.push((at, catch_unwind(AssertUnwindSafe(|| run(case)))));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(cases.len())).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    let (mut fine, mut failed) = (Vec::new(), Vec::new());
    for ((_, result), case) in results.into_iter().zip(cases) {
        match result {
            Ok(result) => fine.push(result),
            Err(panic) => failed.push(format!("{}: {}", case.display(), message(&*panic))),
        }
    }
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
    fine
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

#[test]
fn results_are_in_order() {
    let cases: Vec<PathBuf> = (0..100).map(|case| PathBuf::from(case.to_string())).collect();
    assert_eq!(each_of(&cases, Path::to_path_buf), cases);
}

#[test]
fn every_failing_case_is_reported() {
    let cases = ["a", "b", "c", "d"].map(PathBuf::from);
    let run = |case: &Path| assert!(case.ends_with("b") || case.ends_with("d"), "{} is odd", case.display());
    let panic = catch_unwind(|| each_of(&cases, run)).unwrap_err();
    assert_eq!(message(&*panic), "2 of 4 cases fail:\na: a is odd\nc: c is odd");
}
