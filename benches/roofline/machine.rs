//! What the machine has: its name, caches, and threads that begin at the same time.

use std::sync::Barrier;
use std::time::Duration;

/// Runs the same on so many threads, which wait for each other first; returns the longest time.
pub(crate) fn together(threads: usize, measure: impl Fn() -> Duration + Sync) -> Duration {
    if threads == 1 {
        return measure();
    }
    let barrier = Barrier::new(threads);
    let run = || {
        barrier.wait();
        measure()
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let times = handles.into_iter().map(|handle| handle.join().expect("it does not panic"));
        times.max().unwrap_or_default()
    })
}

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
