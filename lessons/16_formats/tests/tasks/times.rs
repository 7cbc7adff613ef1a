//! Task 4: times, and their cache.

use super::super::subject::{Budget, fastest, known_or, usable};
use ixion::engine::TimingCache;
use std::sync::Mutex;
use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The result of `fastest` for runs that take these milliseconds, and the number of runs.
fn timed(budget: Budget, times: &[u64]) -> (Duration, usize) {
    let mut runs = 0;
    let found = fastest(&budget, &mut || {
        runs += 1;
        let time = times.get(runs - 1).or(times.last()).copied().unwrap_or_default();
        Ok::<Duration, String>(ms(time))
    });
    (found.unwrap(), runs)
}

const BUDGET: Budget = Budget { enough: ms(8), least: 2, most: 5 };

#[test]
fn task4_the_fastest_run_counts() {
    let (found, runs) = timed(Budget { enough: ms(100), ..BUDGET }, &[9, 4, 3, 5, 6]);
    assert_eq!(
        (found, runs),
        (ms(3), 5),
        "neither the first, nor the last, nor the mean: the least disturbed one"
    );
}

#[test]
fn task4_the_budget_ends_it() {
    assert_eq!(timed(BUDGET, &[4, 4, 1, 1, 1]), (ms(1), 3), "8 ms are not more than `enough`, 9 are");
    assert_eq!(timed(BUDGET, &[0]), (ms(0), 5), "a very fast candidate runs `most` times");
}

#[test]
fn task4_a_slow_candidate_runs_twice() {
    let hint = "the first run warms up the caches, however long it takes";
    assert_eq!(timed(BUDGET, &[50, 20, 1]), (ms(20), 2), "{hint}");
}

#[test]
fn task4_an_error_ends_it() {
    let mut runs = 0;
    let found = fastest(&BUDGET, &mut || {
        runs += 1;
        if runs == 2 { Err("no") } else { Ok(ms(1)) }
    });
    assert_eq!((found, runs), (Err("no"), 2), "a candidate that fails has no time");
}

#[test]
fn task4_what_is_known_is_not_measured() {
    let cache = Mutex::new(TimingCache::in_memory());
    let mut count = 0;
    for _ in 0..3 {
        let found = known_or(&cache, "cpu", "conv 3×3", &mut || {
            count += 1;
            Ok::<_, String>(Some(120.0))
        });
        assert_eq!(found, Ok(Some(120.0)), "the measured time, in every call");
    }
    assert_eq!(count, 1, "it is measured once, and then cached");
    assert_eq!(cache.lock().unwrap().get("cpu", "conv 3×3"), Some(120.0), "stored under device and key");
}

#[test]
fn task4_device_and_key_tell_times_apart() {
    let cache = Mutex::new(TimingCache::in_memory());
    let time = |device, key, nanoseconds| {
        known_or(&cache, device, key, &mut || Ok::<_, String>(Some(nanoseconds))).unwrap()
    };
    assert_eq!(time("cpu", "a", 1.0), Some(1.0), "nothing is known");
    assert_eq!(time("gpu", "a", 2.0), Some(2.0), "another device: the CPU's time is meaningless for it");
    assert_eq!(time("cpu", "b", 3.0), Some(3.0), "another key: another operator, shape or type");
    assert_eq!(time("cpu", "a", 9.0), Some(1.0), "known");
}

#[test]
fn task4_only_times_are_cached() {
    let cache = Mutex::new(TimingCache::in_memory());
    assert_eq!(
        known_or(&cache, "cpu", "a", &mut || Ok::<_, String>(None)),
        Ok(None),
        "it cannot be measured"
    );
    assert_eq!(
        known_or(&cache, "cpu", "a", &mut || Err("broken")),
        Err("broken"),
        "an error is returned to the caller"
    );
    assert!(cache.lock().unwrap().is_empty(), "neither is a time: nothing must be cached");
}

#[test]
fn task4_the_cache_is_not_locked_while_measuring() {
    let cache = Mutex::new(TimingCache::in_memory());
    let found = known_or(&cache, "cpu", "a", &mut || {
        let hint = "the cache is locked during the measurement: is the guard of the look-up still alive?";
        assert!(cache.try_lock().is_ok(), "{hint}");
        Ok::<_, String>(Some(1.0))
    });
    assert_eq!(found, Ok(Some(1.0)));
}

#[test]
fn task4_a_poisoned_lock_is_no_reason_to_stop() {
    let cache = Mutex::new(TimingCache::in_memory());
    let before = known_or(&cache, "cpu", "b", &mut || Ok::<_, String>(Some(2.0)));
    assert_eq!(before, Ok(Some(2.0)), "there was no panic yet");
    let panics = std::panic::AssertUnwindSafe(|| {
        let _held = cache.lock().unwrap();
        panic!("a mistake in another thread");
    });
    assert!(std::panic::catch_unwind(panics).is_err() && cache.is_poisoned());
    let asked =
        std::panic::AssertUnwindSafe(|| known_or(&cache, "cpu", "a", &mut || Ok::<_, String>(Some(1.0))));
    let found = std::panic::catch_unwind(asked);
    let hint = "A lock that a panic left poisoned still guards valid times: `PoisonError::into_inner` returns the guard.";
    assert!(matches!(found, Ok(Ok(Some(1.0)))), "{hint}");
}

#[test]
fn task4_a_cache_is_read() {
    let stored = usable(br#"{"version": 1, "devices": {"cpu": {"a": 1.5, "b": 0}}}"#).unwrap();
    let time = |key: &str| stored.devices["cpu"].get(key).copied();
    assert_eq!(
        (time("a"), time("b")),
        (Some(1.5), Some(0.0)),
        "two times of one device: 0 ns can be measured"
    );
    let stored = usable(br#"{"version": 1, "devices": {"cpu": {"a": -2, "b": 3}}}"#).unwrap();
    assert_eq!(stored.devices["cpu"].len(), 1, "-2 ns cannot have been measured: drop it, and keep the rest");
}

#[test]
fn task4_an_unusable_cache_has_a_reason() {
    let hint = "keys of another version may mean something else: measure again";
    for version in [0, 2, 99] {
        let text = format!("{{\"version\": {version}, \"devices\": {{\"cpu\": {{\"a\": 1}}}}}}");
        let error = usable(text.as_bytes()).expect_err(hint);
        assert!(error.contains(&version.to_string()), "the error must name the version: `{error}`");
    }
    for text in ["", "{", "[]", "{\"version\": 1}", "times"] {
        assert!(usable(text.as_bytes()).is_err(), "`{text}` is not a cache");
    }
}
