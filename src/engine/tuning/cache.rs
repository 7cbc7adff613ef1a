//! The timing cache, in memory and on disk.

use crate::pnnx::{PnnxError, replace, write_beside};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Measured times of layers on this machine; see [`Builder::with_tuning`](super::super::Builder::with_tuning).
///
/// The file is JSON. For each version of Ixion and each processor (by its name and features) or GPU (by its name, driver and
/// compiler), it holds the nanoseconds of each layer with its parameters, shapes, formats and tactic. Any number of processes
/// may share one file: it is locked while new times are added, and replaced as a whole. A file that is damaged or cannot be
/// written costs only time, and is reported by a warning.
///
/// ```
/// use ixion::engine::{Builder, TimingCache};
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let plan = Builder::new(model).with_tuning(TimingCache::in_memory()).build()?;
/// # Ok::<(), ixion::engine::EngineError>(())
/// ```
#[derive(Debug, Default)]
pub struct TimingCache {
    path: Option<PathBuf>,
    known: Devices,
    added: Devices,
}

// ANCHOR: stored
/// Nanoseconds, by the key of what was measured.
pub type Timings = BTreeMap<String, f64>;

/// The timings of each device, by its name.
pub type Devices = BTreeMap<String, Timings>;

/// The contents of the file.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingsFile {
    /// The version of keys and times.
    pub version: u32,
    /// The timings.
    pub devices: Devices,
}

/// The version of keys and times. Files with another version are ignored.
pub const CACHE_VERSION: u32 = 1;
// ANCHOR_END: stored

// ANCHOR: usable
/// Parses the text of a cache, and drops times that are negative, infinite or NaN.
///
/// # Errors
/// Returns the reason if the text is not a cache or has another [`CACHE_VERSION`]. The caller then measures everything again.
pub fn usable(text: &[u8]) -> Result<TimingsFile, String> {
    // ANCHOR: usable_todo -- task 4: parse the JSON, refuse another version, drop what cannot be a time
    let mut stored: TimingsFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if stored.version != CACHE_VERSION {
        return Err(format!("it has version {}, not {CACHE_VERSION}", stored.version));
    }
    for timings in stored.devices.values_mut() {
        timings.retain(|_, time| time.is_finite() && *time >= 0.0);
    }
    Ok(stored)
    // ANCHOR_END: usable_todo
}
// ANCHOR_END: usable

// ANCHOR: known_or
/// Returns the cached nanoseconds of a key on a device, or else the result of `measure`, which is then cached unless it is
/// `None`. The cache is not locked while `measure` runs.
///
/// # Errors
/// Returns the error of `measure`.
pub fn known_or<E>(
    cache: &Mutex<TimingCache>,
    device: &str,
    key: &str,
    measure: &mut dyn FnMut() -> Result<Option<f64>, E>,
) -> Result<Option<f64>, E> {
    // ANCHOR: known_or_todo -- task 4: look it up, release the lock, measure, and cache the result
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(device, key) {
        return Ok(Some(known));
    }
    let found = measure()?;
    if let Some(nanoseconds) = found {
        lock().insert(device, key, nanoseconds);
    }
    Ok(found)
    // ANCHOR_END: known_or_todo
}
// ANCHOR_END: known_or

impl TimingCache {
    /// Creates a cache that is dropped with the builder.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens a cache that is kept in this file, which need not exist yet.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let known = read(&path).devices;
        Self { path: Some(path), known, added: Devices::new() }
    }

    /// The number of cached times, over all devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.values().chain(self.added.values()).map(Timings::len).sum()
    }

    /// Returns true if the cache holds no times.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cached nanoseconds of a key on a device.
    #[must_use]
    pub fn get(&self, device: &str, key: &str) -> Option<f64> {
        [&self.added, &self.known].into_iter().find_map(|devices| devices.get(device)?.get(key)).copied()
    }

    /// Caches the time of a key on a device. Negative, infinite and NaN times are ignored.
    pub fn insert(&mut self, device: &str, key: &str, nanoseconds: f64) {
        if !nanoseconds.is_finite() || nanoseconds < 0.0 {
            return; // JSON has no NaN: the whole file would become unreadable
        }
        self.added.entry(device.to_owned()).or_default().insert(key.to_owned(), nanoseconds);
    }

    /// Adds the new times to the file, and keeps those that other processes added in the meantime.
    pub(super) fn store(&mut self) -> Result<(), PnnxError> {
        let Some(path) = self.path.as_deref().filter(|_| !self.added.is_empty()) else { return Ok(()) };
        let io = |action| move |source| PnnxError::io(path, action, source);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(io("create the folder of"))?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = File::create(&beside).map_err(io("lock"))?;
        lock.lock().map_err(io("lock"))?;
        let mut stored = read(path);
        stored.version = CACHE_VERSION;
        extend(&mut stored.devices, self.added.clone());
        let file = write_beside(path, |file| -> Result<(), PnnxError> {
            let text = serde_json::to_vec_pretty(&stored).map_err(io::Error::from);
            text.and_then(|text| file.write_all(&text)).map_err(io("write"))
        })?;
        replace(file, path)?;
        extend(&mut self.known, std::mem::take(&mut self.added));
        Ok(())
    }
}

fn extend(known: &mut Devices, added: Devices) {
    for (device, timings) in added {
        known.entry(device).or_default().extend(timings);
    }
}

/// The maximum size of a file.
const MAX_BYTES: u64 = 100 << 20;

/// Reads a file; the result is empty if it does not exist or cannot be used.
fn read(path: &Path) -> TimingsFile {
    let mut text = Vec::new();
    // A device may have no end.
    let read = |file: File| file.take(MAX_BYTES + 1).read_to_end(&mut text);
    match File::open(path).and_then(read) {
        Ok(_) if text.len() as u64 > MAX_BYTES => return unusable(path, "it is larger than 100 MiB"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return TimingsFile::default(),
        Err(error) => return unusable(path, &error.to_string()),
    }
    usable(&text).unwrap_or_else(|reason| unusable(path, &reason))
}

fn unusable(path: &Path, reason: &str) -> TimingsFile {
    log::warn!("{}: ignoring the timings, all are measured again: {reason}", path.display());
    TimingsFile::default()
}

/// The processor's key: its name, if the system reports it, its features, and the instruction set that kernels use. Kernels
/// change between versions of Ixion, so each version has its own times.
pub(super) fn cpu() -> String {
    cpu_of(env!("CARGO_PKG_VERSION"))
}

/// The key of a GPU. Its `name` includes the compiler of its kernels.
pub(super) fn gpu(name: &str) -> String {
    format!("ixion {} gpu {name}", env!("CARGO_PKG_VERSION"))
}

fn cpu_of(version: &str) -> String {
    let (features, name) = (crate::tensor::processor_features().join(","), model_name());
    let (arch, isa) = (std::env::consts::ARCH, crate::kernels::isa_name());
    format!("ixion {version} cpu {arch} {} {features} by {isa}", name.unwrap_or_default())
}

fn model_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn concurrent_stores_are_merged() {
        let folder = folder();
        let path = folder.path().join("deep/timings.json");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let mut cache = TimingCache::open(path);
                    for item in 0..5 {
                        cache.insert("a", &format!("{thread}.{item}"), f64::from(item));
                        cache.store().unwrap();
                    }
                });
            }
        });
        let cache = TimingCache::open(&path);
        assert_eq!(cache.len(), 40);
        assert_eq!(cache.get("a", "7.4"), Some(4.0));
    }

    #[test]
    fn invalid_times_do_not_spoil_the_file() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        let mut cache = TimingCache::open(&path);
        for (key, time) in [("nan", f64::NAN), ("infinite", f64::INFINITY), ("negative", -1.0), ("zero", 0.0)]
        {
            cache.insert("a", key, time);
        }
        cache.store().unwrap();
        let cache = TimingCache::open(&path);
        assert_eq!((cache.len(), cache.get("a", "zero")), (1, Some(0.0)));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_replaced() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        for damaged in ["", "{", "{\"version\": 99, \"devices\": {}}", "{\"version\": 1}", "[1]"] {
            std::fs::write(&path, damaged).unwrap();
            let mut cache = TimingCache::open(&path);
            assert!(cache.is_empty(), "{damaged}");
            cache.insert(&cpu(), "a", 1.5);
            cache.store().unwrap();
            assert_eq!(TimingCache::open(&path).get(&cpu(), "a"), Some(1.5));
        }
    }

    #[test]
    fn times_of_other_processors_are_kept_but_not_used() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        std::fs::write(&path, r#"{"version": 1, "devices": {"abacus": {"a": 9.0}}}"#).unwrap();
        let mut cache = TimingCache::open(&path);
        assert_eq!(cache.get(&cpu(), "a"), None);
        cache.insert(&cpu(), "a", 1.0);
        cache.store().unwrap();
        assert_eq!(TimingCache::open(&path).get(&cpu(), "a"), Some(1.0));
        assert!(std::fs::read_to_string(&path).unwrap().contains("abacus"));
    }

    #[test]
    fn times_of_another_version_are_kept_but_not_used() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        assert!(cpu().contains(env!("CARGO_PKG_VERSION")));
        let stored = |version: &str, time: f64| (cpu_of(version), Timings::from([("a".to_owned(), time)]));
        let devices = [stored("0.0.1", 9.0), stored("99.0.0", 8.0)].into();
        let text = serde_json::to_vec(&TimingsFile { version: CACHE_VERSION, devices }).unwrap();
        std::fs::write(&path, text).unwrap();
        let mut cache = TimingCache::open(&path);
        assert_eq!(cache.get(&cpu(), "a"), None);
        cache.insert(&cpu(), "a", 1.0);
        cache.store().unwrap();
        assert_eq!(TimingCache::open(&path).get(&cpu(), "a"), Some(1.0));
        assert_eq!(read(&path).devices.len(), 3);
    }

    #[test]
    fn negative_times_in_a_file_are_dropped() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        let text = format!(r#"{{"version": 1, "devices": {{{:?}: {{"a": -1.0, "b": 2.0}}}}}}"#, cpu());
        std::fs::write(&path, text).unwrap();
        let cache = TimingCache::open(&path);
        assert_eq!((cache.get(&cpu(), "a"), cache.get(&cpu(), "b")), (None, Some(2.0)));
    }
}
