//! The machine: its name, its caches, and threads that start at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs the same work on several threads at the same time, repeatedly, each with data that it prepared before.
///
/// Returns the shortest time from the start of the first thread to the end of the last one, so that it includes any time that a
/// thread waited for a core.
pub(crate) fn together<S>(
    threads: usize,
    repeats: usize,
    prepare: impl Fn() -> S + Sync,
    run: impl Fn(&mut S) + Sync,
) -> Duration {
    // A spinning barrier: threads that sleep at a barrier would start late.
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

/// Pins this thread to one of the cores that the process may use. Otherwise, on a busy machine, two threads may share a core.
#[cfg(target_os = "linux")]
fn pin(position: usize) {
    // SAFETY: the set is plain bits, the calls receive its size, and a core is less than the number of bits.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) != 0 {
            return;
        }
        let cores = (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &allowed));
        let Some(core) = cores.clone().cycle().nth(position) else { return };
        let mut own: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut own);
        // If pinning fails, measurements are only less exact.
        let _ = libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const own);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

/// The processor's name, as reported by Linux.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The sizes of the data caches, in bytes: first level, second level and last level.
#[derive(Clone, Copy)]
pub(crate) struct Caches {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) last: usize,
}

impl Caches {
    /// Reads the caches of the first core from Linux, or returns common sizes.
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

/// The level, counted from 1, and the size in bytes of a data cache.
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
