//! Threads that wait for work without sleeping while a model runs.
//!
//! A model has hundreds of layers, and those of a small one take some microseconds each: less than it takes to wake a thread.
//! So helpers sleep between runs alone. While one lasts they look for work again and again, and give their core away in
//! between to whoever wants it.
//!
//! The caller computes as well. It opens a region of so many pieces, helpers enter it and take pieces until there are
//! none left, and the caller closes it and waits for those who are still inside. A helper that comes late finds it closed: nobody
//! waits for threads that the system has not woken yet.

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

/// What a region computes: pieces that follow each other.
type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// What a thread panicked with.
type Payload = Box<dyn Any + Send>;

/// So often a thread looks for work before it gives its core away for a moment.
const LOOKS: usize = 200;

/// So often a helper gives its core away, without finding work, before it sleeps.
const LINGERS: usize = 200;

/// The region is open. Below this bit are the helpers inside, above it the number of the region.
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;
const NUMBER: u64 = 1 << 32;

/// Threads that share the work of kernels which run [inside](Threads::install).
#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

/// What all threads see.
#[derive(Debug)]
struct Shared {
    count: usize,
    /// Number of the region, whether it is open, and how many helpers are inside.
    state: AtomicU64,
    /// What the open region computes, and its number of pieces. Its caller alone writes to it, before the region is open.
    work: UnsafeCell<Option<(*const Work<'static>, usize)>>,
    /// The first piece that nobody has taken.
    next: AtomicUsize,
    /// Whether there is a region, open or not: of several callers, one shares its work.
    is_taken: AtomicBool,
    /// What a helper panicked with.
    panic: Mutex<Option<Payload>>,
    /// How many callers are inside, and whether everything is over, as `Sleepers` has it.
    callers: AtomicUsize,
    is_over: AtomicBool,
    sleepers: Mutex<Sleepers>,
    /// A caller came, or everything ends.
    came: Condvar,
    /// A caller left.
    left: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    callers: usize,
    asleep: usize,
    is_over: bool,
}

// SAFETY: `work` is written by the thread that has set `is_taken`, while the region is closed and nobody is inside, and read
// by those who entered the region when it was open. What it points to may be called by all of them.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

thread_local! {
    /// The threads that this one shares its work with, outside of regions.
    static AROUND: Cell<*const Shared> = const { Cell::new(ptr::null()) };
    /// Whether it computes pieces of a region, in which there is no other.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Those around, which a caller has set before it called, and unsets when it returns.
fn shared() -> Option<&'static Shared> {
    if IS_INSIDE.get() {
        return None;
    }
    // SAFETY: `Threads::install` borrows them as long as it is set, and what is returned here is used before it returns.
    unsafe { AROUND.get().as_ref() }
}

/// Threads that share the work of a kernel which is called here.
pub(super) fn around() -> usize {
    shared().map_or(1, |shared| shared.count)
}

/// Computes so many pieces on the threads around, or here.
pub(super) fn share(pieces: usize, work: &Work<'_>) {
    match shared() {
        Some(shared) if pieces > 1 && shared.count > 1 => shared.run(pieces, work),
        _ => work(0..pieces),
    }
}

impl Threads {
    /// So many threads, the caller's among them.
    ///
    /// # Errors
    /// The system has no more threads.
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

    /// How many there are, the caller's among them.
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// Calls `body`, in which kernels share their work with these threads; helpers look for work until it returns. As many callers
    /// as there are threads may be inside at a time, others wait; each of them takes the place of a helper. A caller that comes
    /// back through others is counted once more, so these should not be called in a circle.
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
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.lock().is_over = true;
        self.shared.came.notify_all();
        for helper in self.helpers.drain(..) {
            // Its panics were those of callers.
            _ = helper.join();
        }
    }
}

/// A caller that is inside.
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
            is_over: AtomicBool::new(false),
            sleepers: Mutex::default(),
            came: Condvar::new(),
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
            self.came.notify_all();
        }
    }

    fn leave(&self) {
        let mut sleepers = self.lock();
        sleepers.callers -= 1;
        self.callers.store(sleepers.callers, Ordering::Relaxed);
        // One place less is taken by a caller.
        let is_needed = sleepers.asleep > 0 && sleepers.callers > 0;
        drop(sleepers);
        self.left.notify_one();
        if is_needed {
            self.came.notify_all();
        }
    }

    /// Opens a region, computes pieces of it, and waits for those that others compute. Inside of a region there is no other:
    /// the caller alone computes it then.
    fn run(&self, pieces: usize, work: &Work<'_>) {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return work(0..pieces);
        }
        // SAFETY: only the lifetime changes. The region is closed and empty before this call returns, and nobody outside of a
        // region uses it.
        let lasting = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: this thread has set `is_taken`, and the last region was empty when its caller unset it.
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

    /// Computes pieces until there are none left: many at first, then fewer and fewer, so that all threads end together.
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

    /// The life of a helper.
    fn help(&self, number: usize) {
        let (mut seen, mut looks) = (0, 0usize);
        if self.sleep(number) {
            return;
        }
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let region = state / NUMBER;
            if state & OPEN != 0 && region != seen {
                if self.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    (seen, looks) = (region, 0);
                    self.help_inside();
                }
                continue;
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            thread::yield_now();
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            if self.is_needed(number, self.callers.load(Ordering::Relaxed)) {
                looks = 0;
            } else if looks >= LOOKS * LINGERS {
                looks = 0;
                if self.sleep(number) {
                    return;
                }
            }
        }
    }

    /// Takes part in the region that it has entered.
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

    /// Whether a helper is to look for work: callers take the places of the last ones.
    fn is_needed(&self, number: usize, callers: usize) -> bool {
        callers > 0 && number + callers <= self.count
    }

    /// Sleeps until it is needed; tells whether everything is over.
    fn sleep(&self, number: usize) -> bool {
        let mut sleepers = self.lock();
        sleepers.asleep += 1;
        while !sleepers.is_over && !self.is_needed(number, sleepers.callers) {
            sleepers = self.came.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        sleepers.asleep -= 1;
        sleepers.is_over
    }
}

/// The region that this thread has opened. In the end it is closed, and empty.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    /// After a panic of this thread: nobody needs the rest, nor another panic.
    fn drop(&mut self) {
        self.0.next.store(usize::MAX, Ordering::Relaxed);
        drop(self.end());
    }
}

impl Region<'_> {
    /// What a helper panicked with.
    fn close(self) -> Option<Payload> {
        ManuallyDrop::new(self).end()
    }

    fn end(&self) -> Option<Payload> {
        let Self(shared) = self;
        IS_INSIDE.set(false);
        let mut looks = 0usize;
        let mut state = shared.state.fetch_and(!OPEN, Ordering::Acquire);
        while state & INSIDE != 0 {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                thread::yield_now();
            }
            std::hint::spin_loop();
            state = shared.state.load(Ordering::Acquire);
        }
        // The next region may begin as soon as it is free to.
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        shared.is_taken.store(false, Ordering::Release);
        panic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// How often each piece was computed.
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
        // Only three threads at once get past it.
        threads.install(|| share(3, &|_| _ = barrier.wait()));
        assert_eq!(threads.count(), 3);
    }

    #[test]
    fn a_region_inside_of_a_region_is_computed_where_it_is_met() {
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
    fn a_panic_of_any_thread_is_one_of_the_caller() {
        let threads = Threads::new(2).unwrap();
        for bad in 0..20 {
            let work = |range: Range<usize>| assert!(!range.contains(&bad), "no more");
            let panicked = catch_unwind(AssertUnwindSafe(|| threads.install(|| share(20, &work))));
            assert!(panicked.is_err());
            assert_eq!((visits(&threads, 9), around()), (vec![1; 9], 1));
        }
    }

    #[test]
    fn many_panics_are_one_and_gone_afterwards() {
        let threads = Threads::new(3).unwrap();
        for _ in 0..50 {
            let work = |_: Range<usize>| panic!("always");
            let panicked = catch_unwind(AssertUnwindSafe(|| threads.install(|| share(20, &work))));
            assert!(panicked.is_err());
            assert_eq!(visits(&threads, 20), vec![1; 20]);
        }
    }

    #[test]
    fn threads_that_slept_wake_up() {
        let threads = Threads::new(2).unwrap();
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(30));
            let barrier = Barrier::new(2);
            threads.install(|| share(2, &|_| _ = barrier.wait()));
        }
    }
}
