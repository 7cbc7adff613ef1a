//! What was measured, in memory and on disk.

use crate::pnnx::{PnnxError, replace, write_beside};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Times of layers on this machine, for builders that measure; see [`Builder::with_tuning`](super::super::Builder::with_tuning).
///
/// The file is JSON: for each version of Ixion and processor, by its name and features, or GPU, by its name, driver and compiler, the
/// nanoseconds of each layer with its parameters, shapes, formats and tactic. Any number of processes may use one file: it is locked while what is new is added, and replaced as a
/// whole. A file that is damaged, or cannot be written, costs time and nothing else: a warning says so.
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
/// Nanoseconds by what was measured.
pub type Timings = BTreeMap<String, f64>;

/// What was measured, by the device.
pub type Devices = BTreeMap<String, Timings>;

/// The file.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The version of keys and times.
    pub version: u32,
    /// What was measured.
    pub devices: Devices,
}

/// The version of keys and times: of others nothing is used.
pub const CACHE_VERSION: u32 = 1;
// ANCHOR_END: stored

// ANCHOR: usable
/// What the text of a cache holds, without times that nobody can have measured: negative ones, and those that are no numbers.
///
/// # Errors
/// A text that is no cache, or one of another [`CACHE_VERSION`], with the reason. Whoever asked measures anew.
pub fn usable(text: &[u8]) -> Result<Stored, String> {
    // ANCHOR: usable_todo -- task 4: parse the JSON, refuse another version, drop what cannot be a time
    let mut stored: Stored = serde_json::from_slice(text).map_err(|error| error.to_string())?;
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
/// The nanoseconds that are kept under this key for this device; else what `measure` finds, which is then kept. None is no time, and
/// nothing to keep. The cache isn't locked while something is measured.
///
/// # Errors
/// That of `measure`.
pub fn known_or<E>(
    cache: &Mutex<TimingCache>,
    device: &str,
    key: &str,
    measure: &mut dyn FnMut() -> Result<Option<f64>, E>,
) -> Result<Option<f64>, E> {
    // ANCHOR: known_or_todo -- task 4: look it up, let go of the lock, measure, and keep what was found
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
    /// One that forgets everything with the builder.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// One that is kept in this file, which need not exist yet.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let known = read(&path).devices;
        Self { path: Some(path), known, added: Devices::new() }
    }

    /// How many times are known, of all devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.values().chain(self.added.values()).map(Timings::len).sum()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nanoseconds that are kept under this key for this device.
    #[must_use]
    pub fn get(&self, device: &str, key: &str) -> Option<f64> {
        [&self.added, &self.known].into_iter().find_map(|devices| devices.get(device)?.get(key)).copied()
    }

    /// Keeps a time under this key for this device. What cannot be a time, such as NaN or less than 0, is not kept.
    pub fn insert(&mut self, device: &str, key: &str, nanoseconds: f64) {
        if !nanoseconds.is_finite() || nanoseconds < 0.0 {
            return; // JSON has no NaN: the file would be lost with all that others measured
        }
        self.added.entry(device.to_owned()).or_default().insert(key.to_owned(), nanoseconds);
    }

    /// Adds what is new to the file, whatever others added in the meantime.
    pub(super) fn store(&mut self) -> Result<(), PnnxError> {
        let Some(path) = self.path.as_deref().filter(|_| !self.added.is_empty()) else { return Ok(()) };
        let io = |action| move |source| PnnxError::io(path, action, source);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(io("make the folder of"))?;
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

/// What a file holds; nothing where there is none, or one that cannot be used.
fn read(path: &Path) -> Stored {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Stored::default(),
        Err(error) => return unusable(path, &error.to_string()),
    };
    usable(&text).unwrap_or_else(|reason| unusable(path, &reason))
}

fn unusable(path: &Path, reason: &str) -> Stored {
    log::warn!("{} holds no timings that can be used, all are measured anew: {reason}", path.display());
    Stored::default()
}

/// The processor: its name, where the system tells it, its features and which of them kernels use. Kernels change from one
/// version of Ixion to the next, so each has times of its own.
pub(super) fn cpu() -> String {
    cpu_of(env!("CARGO_PKG_VERSION"))
}

/// A GPU of this name. That of its kernels' compiler is a part of it.
pub(super) fn gpu(name: &str) -> String {
    format!("ixion {} gpu {name}", env!("CARGO_PKG_VERSION"))
}

fn cpu_of(version: &str) -> String {
    let (features, name) = (super::super::file::processor_features().join(","), model_name());
    let (arch, isa) = (std::env::consts::ARCH, crate::kernels::isa().name());
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
    fn what_several_add_is_there_for_all() {
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
    fn what_cannot_be_a_time_does_not_spoil_the_file() {
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
    fn times_of_other_processors_stay_and_are_not_used() {
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
    fn times_of_another_version_stay_and_are_not_used() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        assert!(cpu().contains(env!("CARGO_PKG_VERSION")));
        let stored = |version: &str, time: f64| (cpu_of(version), Timings::from([("a".to_owned(), time)]));
        let devices = [stored("0.0.1", 9.0), stored("99.0.0", 8.0)].into();
        let text = serde_json::to_vec(&Stored { version: CACHE_VERSION, devices }).unwrap();
        std::fs::write(&path, text).unwrap();
        let mut cache = TimingCache::open(&path);
        assert_eq!(cache.get(&cpu(), "a"), None);
        cache.insert(&cpu(), "a", 1.0);
        cache.store().unwrap();
        assert_eq!(TimingCache::open(&path).get(&cpu(), "a"), Some(1.0));
        assert_eq!(read(&path).devices.len(), 3);
    }

    #[test]
    fn what_nobody_can_have_measured_is_left_out() {
        let folder = folder();
        let path = folder.path().join("timings.json");
        let text = format!(r#"{{"version": 1, "devices": {{{:?}: {{"a": -1.0, "b": 2.0}}}}}}"#, cpu());
        std::fs::write(&path, text).unwrap();
        let cache = TimingCache::open(&path);
        assert_eq!((cache.get(&cpu(), "a"), cache.get(&cpu(), "b")), (None, Some(2.0)));
    }
}
