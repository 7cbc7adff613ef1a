//! What the machine has: its name, caches, and threads that begin at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs the same on so many threads at once, again and again, each with something that it prepared before.
///
/// Returns the shortest time from the first thread's start to the last one's end: what all of them do in it they do at once,
/// even where one had to wait for a core.
pub(crate) fn together<S>(
    threads: usize,
    repeats: usize,
    prepare: impl Fn() -> S + Sync,
    run: impl Fn(&mut S) + Sync,
) -> Duration {
    // Who sleeps at a barrier is woken later than others begin.
    let arrived = AtomicUsize::new(0);
    let times = |thread: usize| {
        pin(thread);
        let mut state = prepare();
        let once = |repeat: usize| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < (repeat + 1) * threads {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            run(&mut state);
            (start, Instant::now())
        };
        (0..repeats).map(once).collect::<Vec<_>>()
    };
    let all: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let times = &times;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || times(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("it does not panic")).collect()
    });
    let span = |repeat: usize| {
        let times = || all.iter().filter_map(|times| times.get(repeat));
        let (start, end) = (times().map(|time| time.0).min()?, times().map(|time| time.1).max()?);
        Some(end.duration_since(start))
    };
    (0..repeats).filter_map(span).min().unwrap_or_default()
}

/// Puts this thread on the core at a position among those that the process may use, for good. Where other work runs, too, two
/// threads may share a core otherwise, while the other cores seem no less busy.
#[cfg(target_os = "linux")]
fn pin(position: usize) {
    // SAFETY: a set is bits alone, and the calls are told its size; a core is below the number of its bits.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) != 0 {
            return;
        }
        let cores = (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &allowed));
        let Some(core) = cores.clone().cycle().nth(position) else { return };
        let mut own: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut own);
        // Without it measurements are only less exact.
        let _ = libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const own);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

/// The processor's name, where Linux tells it.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Bytes of the caches of data: first and second level, and the last one.
#[derive(Clone, Copy)]
pub(crate) struct Caches {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) last: usize,
}

impl Caches {
    /// Those of the first core, where Linux tells them, else common ones.
    pub(crate) fn read() -> Self {
        let mut sizes = [32 << 10, 256 << 10, 8 << 20];
        let mut deepest = 0;
        for index in 0..8 {
            let Some((level, bytes)) = cache(index) else { continue };
            if let Some(size) = sizes.get_mut(level - 1) {
                *size = bytes;
            }
            deepest = deepest.max(level);
        }
        let last = if deepest == 2 { sizes[1] } else { sizes[2] };
        Self { first: sizes[0], second: sizes[1], last }
    }
}

/// Level, counted from 1, and bytes of a cache that holds data.
fn cache(index: usize) -> Option<(usize, usize)> {
    let read = |name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    };
    if read("type")? == "Instruction" {
        return None;
    }
    let level = read("level")?.parse::<usize>().ok().filter(|level| *level > 0)?;
    Some((level, 1024 * read("size")?.strip_suffix('K')?.parse::<usize>().ok()?))
}
