//! A thread pool whose threads poll for work, instead of sleeping, while a model runs.
//!
//! A model has hundreds of layers, and those of a small one take a few microseconds each: less than it takes to wake a
//! thread. Helpers therefore only sleep between runs. During a run they poll for work, and yield their core from time to
//! time.
//!
//! The caller computes as well. It opens a region of pieces; helpers enter it and take pieces until none are left; then
//! the caller closes it and waits for the helpers that are still inside. A helper that arrives late finds the region
//! closed, so the caller never waits for threads that the system has not woken yet.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The work of a region, called with ranges of pieces.
type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// The payload of a panic.
type Payload = Box<dyn Any + Send>;

/// The number of times that a thread polls for work before it yields its core.
const POLLS: usize = 200;

/// The number of times that a helper yields its core without finding work before it sleeps.
const YIELDS: usize = 200;

/// Set while the region is open. The bits below this one hold the number of helpers inside, the bits above it the number
/// of the region.
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;
const NUMBER: u64 = 1 << 32;

/// A pool of threads that share the work of kernels which run [inside](Threads::install).
#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

/// The state that all threads share.
#[derive(Debug)]
struct Shared {
    count: usize,
    /// The number of the region, whether it is open, and the number of helpers inside.
    state: AtomicU64,
    /// The work of the open region, and its number of pieces. Only the caller of the region writes it, before the region
    /// is open.
    work: UnsafeCell<Option<(*const Work<'static>, usize)>>,
    /// The first piece that has not been taken.
    next: AtomicUsize,
    /// Whether there is a region, open or not: of several callers, one shares its work.
    is_taken: AtomicBool,
    /// The payload of a helper's panic.
    panic: Mutex<Option<Payload>>,
    /// The number of callers inside, and whether the pool is shutting down, as in `Sleepers`.
    callers: AtomicUsize,
    is_shut_down: AtomicBool,
    sleepers: Mutex<Sleepers>,
    /// Notified when a caller enters or the pool shuts down.
    entered: Condvar,
    /// Notified when a caller leaves.
    left: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    callers: usize,
    asleep: usize,
    is_shut_down: bool,
}

// SAFETY: `work` is written by the thread that has set `is_taken`, while the region is closed and empty, and read by
// threads that entered the region while it was open. What it points to is `Sync`, so all of them may call it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

thread_local! {
    /// The current pool of this thread, outside of regions.
    static AROUND: Cell<*const Shared> = const { Cell::new(ptr::null()) };
    /// Whether this thread computes pieces of a region, in which no other region is opened.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The current pool, which `Threads::install` sets before it calls its body, and resets when it returns.
fn shared() -> Option<&'static Shared> {
    if IS_INSIDE.get() {
        return None;
    }
    // SAFETY: `Threads::install` borrows the pool as long as it is set, and what is returned here is used before that
    // call returns.
    unsafe { AROUND.get().as_ref() }
}

/// The number of threads of the current pool, or 1.
pub(super) fn around() -> usize {
    shared().map_or(1, |shared| shared.count)
}

/// Computes `pieces` pieces on the current pool, or on this thread alone if there is none.
pub(super) fn share(pieces: usize, work: &Work<'_>) {
    match shared() {
        Some(shared) if pieces > 1 && shared.count > 1 => shared.run(pieces, work),
        _ => work(0..pieces),
    }
}

impl Threads {
    /// A pool of `count` threads, including the caller's.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub fn new(count: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(count.max(1)));
        let mut threads = Self { shared, helpers: Vec::new() };
        for number in 1..count {
            let shared = Arc::clone(&threads.shared);
            let builder = thread::Builder::new().name(format!("ixion-{number}"));
            threads.helpers.push(builder.spawn(move || shared.help(number))?);
        }
        Ok(threads)
    }

    /// The number of threads, including the caller's.
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// Calls `body`, in which kernels share their work with these threads. Helpers poll for work until it returns. At
    /// most as many callers as there are threads can be inside at a time; others wait. Each of them takes the place of a
    /// helper. A caller that enters this pool again from within another pool is counted a second time, so pools should
    /// not be nested in a cycle.
    pub fn install<R>(&self, body: impl FnOnce() -> R) -> R {
        if ptr::eq(AROUND.get(), &raw const *self.shared) {
            return body();
        }
        self.shared.enter();
        let _inside = Inside { shared: &self.shared, before: AROUND.replace(&raw const *self.shared) };
        body()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.is_shut_down.store(true, Ordering::Relaxed);
        self.shared.lock().is_shut_down = true;
        self.shared.entered.notify_all();
        for helper in self.helpers.drain(..) {
            // Panics of helpers were passed on to callers.
            _ = helper.join();
        }
    }
}

/// A guard for a caller that is inside.
struct Inside<'a> {
    shared: &'a Shared,
    before: *const Shared,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        AROUND.set(self.before);
        self.shared.leave();
    }
}

impl Shared {
    fn new(count: usize) -> Self {
        Self {
            count,
            state: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
            panic: Mutex::new(None),
            callers: AtomicUsize::new(0),
            is_shut_down: AtomicBool::new(false),
            sleepers: Mutex::default(),
            entered: Condvar::new(),
            left: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) {
        let mut sleepers = self.lock();
        while sleepers.callers >= self.count {
            sleepers = self.left.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        sleepers.callers += 1;
        self.callers.store(sleepers.callers, Ordering::Relaxed);
        let is_asleep = sleepers.asleep > 0;
        drop(sleepers);
        if is_asleep {
            self.entered.notify_all();
        }
    }

    fn leave(&self) {
        let mut sleepers = self.lock();
        sleepers.callers -= 1;
        self.callers.store(sleepers.callers, Ordering::Relaxed);
        // Callers take the place of one helper less.
        let is_needed = sleepers.asleep > 0 && sleepers.callers > 0;
        drop(sleepers);
        self.left.notify_one();
        if is_needed {
            self.entered.notify_all();
        }
    }

    /// Opens a region, computes pieces of it, and waits for those that helpers compute. If there is a region already, the
    /// caller computes all pieces alone.
    fn run(&self, pieces: usize, work: &Work<'_>) {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return work(0..pieces);
        }
        // SAFETY: only the lifetime changes. The region is closed and empty before this call returns, and the work is not
        // used outside of the region.
        let lasting = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: this thread has set `is_taken`, and the last region was empty when its caller reset it.
        unsafe { *self.work.get() = Some((lasting, pieces)) };
        self.next.store(0, Ordering::Relaxed);
        let number = self.state.load(Ordering::Relaxed) / NUMBER;
        self.state.store(number.wrapping_add(1) << 32 | OPEN, Ordering::Release);
        let region = Region(self);
        self.compute(pieces, work);
        if let Some(payload) = region.close() {
            resume_unwind(payload);
        }
    }

    /// Takes and computes pieces until none are left: many at a time at first, then gradually fewer, so that all threads
    /// finish together.
    fn compute(&self, pieces: usize, work: &Work<'_>) {
        IS_INSIDE.set(true);
        let mut next = self.next.load(Ordering::Relaxed);
        while next < pieces {
            let end = next + ((pieces - next) / (2 * self.count)).max(1);
            match self.next.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    work(next..end);
                    next = self.next.load(Ordering::Relaxed);
                }
                Err(found) => next = found,
            }
        }
    }

    /// The main loop of a helper.
    fn help(&self, number: usize) {
        let (mut seen, mut polls) = (0, 0usize);
        if self.sleep(number) {
            return;
        }
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let region = state / NUMBER;
            if state & OPEN != 0 && region != seen {
                if self.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    (seen, polls) = (region, 0);
                    self.help_inside();
                }
                continue;
            }
            polls += 1;
            if !polls.is_multiple_of(POLLS) {
                std::hint::spin_loop();
                continue;
            }
            thread::yield_now();
            if self.is_shut_down.load(Ordering::Relaxed) {
                return;
            }
            if self.is_needed(number, self.callers.load(Ordering::Relaxed)) {
                polls = 0;
            } else if polls >= POLLS * YIELDS {
                polls = 0;
                if self.sleep(number) {
                    return;
                }
            }
        }
    }

    /// Computes pieces of the region that the helper has entered.
    fn help_inside(&self) {
        // SAFETY: the caller wrote it before it opened the region, and waits until this helper has left.
        if let Some((work, pieces)) = unsafe { *self.work.get() } {
            // SAFETY: as above.
            let work = unsafe { &*work };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.compute(pieces, work))) {
                self.next.store(pieces, Ordering::Relaxed);
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
            }
        }
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Returns true if a helper should poll for work: callers take the places of the last helpers.
    fn is_needed(&self, number: usize, callers: usize) -> bool {
        callers > 0 && number + callers <= self.count
    }

    /// Sleeps until the helper is needed. Returns true if the pool is shutting down.
    fn sleep(&self, number: usize) -> bool {
        let mut sleepers = self.lock();
        sleepers.asleep += 1;
        while !sleepers.is_shut_down && !self.is_needed(number, sleepers.callers) {
            sleepers = self.entered.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        sleepers.asleep -= 1;
        sleepers.is_shut_down
    }
}

/// A guard for the region that this thread has opened, which closes it and waits until it is empty.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    /// Discards the remaining pieces and the panics of helpers, after a panic of this thread.
    fn drop(&mut self) {
        self.0.next.store(usize::MAX, Ordering::Relaxed);
        drop(self.end());
    }
}

impl Region<'_> {
    /// Closes the region, and returns the payload of a helper's panic.
    fn close(self) -> Option<Payload> {
        ManuallyDrop::new(self).end()
    }

    fn end(&self) -> Option<Payload> {
        let Self(shared) = self;
        IS_INSIDE.set(false);
        let mut polls = 0usize;
        let mut state = shared.state.fetch_and(!OPEN, Ordering::Acquire);
        while state & INSIDE != 0 {
            polls += 1;
            if polls.is_multiple_of(POLLS) {
                thread::yield_now();
            }
            std::hint::spin_loop();
            state = shared.state.load(Ordering::Acquire);
        }
        // The next region may begin as soon as `is_taken` is reset.
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        shared.is_taken.store(false, Ordering::Release);
        panic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// The number of times that each piece was computed.
    fn visits(threads: &Threads, pieces: usize) -> Vec<usize> {
        let visits: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        threads.install(|| {
            share(pieces, &|range| {
                for piece in range {
                    visits[piece].fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        visits.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_piece_is_computed_once() {
        for count in [1, 2, 3, 5] {
            let threads = Threads::new(count).unwrap();
            for pieces in (0..40).chain([1000]).cycle().take(2000) {
                assert_eq!(visits(&threads, pieces), vec![1; pieces]);
            }
        }
    }

    #[test]
    fn helpers_take_part() {
        let threads = Threads::new(3).unwrap();
        let barrier = Barrier::new(3);
        // Only three threads together get past it.
        threads.install(|| share(3, &|_| _ = barrier.wait()));
        assert_eq!(threads.count(), 3);
    }

    #[test]
    fn nested_regions_are_computed_by_the_thread_that_opens_them() {
        let (threads, visits) = (Threads::new(2).unwrap(), AtomicUsize::new(0));
        threads.install(|| {
            share(4, &|range| {
                let here = thread::current().id();
                let inner = |range: Range<usize>| {
                    assert_eq!((here, around()), (thread::current().id(), 1));
                    visits.fetch_add(range.len(), Ordering::Relaxed);
                };
                range.for_each(|_| share(5, &inner));
            });
        });
        assert_eq!(visits.into_inner(), 20);
    }

    #[test]
    fn as_many_callers_as_threads_are_inside() {
        let (threads, inside) = (Threads::new(2).unwrap(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        threads.install(|| {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                            threads.install(|| assert_eq!(around(), 2));
                            share(7, &|_| ());
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(around(), 1);
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller() {
        let threads = Threads::new(2).unwrap();
        for bad in 0..20 {
            let work = |range: Range<usize>| assert!(!range.contains(&bad), "no more");
            let panicked = catch_unwind(AssertUnwindSafe(|| threads.install(|| share(20, &work))));
            assert!(panicked.is_err());
            assert_eq!((visits(&threads, 9), around()), (vec![1; 9], 1));
        }
    }

    #[test]
    fn several_panics_reach_the_caller_as_one() {
        let threads = Threads::new(3).unwrap();
        for _ in 0..50 {
            let work = |_: Range<usize>| panic!("always");
            let panicked = catch_unwind(AssertUnwindSafe(|| threads.install(|| share(20, &work))));
            assert!(panicked.is_err());
            assert_eq!(visits(&threads, 20), vec![1; 20]);
        }
    }

    #[test]
    fn sleeping_threads_wake_up() {
        let threads = Threads::new(2).unwrap();
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(30));
            let barrier = Barrier::new(2);
            threads.install(|| share(2, &|_| _ = barrier.wait()));
        }
    }
}
