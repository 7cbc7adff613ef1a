//! A cache of compiled kernels on disk.

use super::{CudaError, Driver, Module, Result, Unit};
use crate::pnnx::{PnnxError, replace, write_beside};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of compiled kernels, with one file for each combination of source, definitions, architecture, compiler and driver.
///
/// Any number of processes may share a folder: files are written under another name and then renamed. A damaged file is
/// replaced. If the folder cannot be written, kernels are compiled again every time, and a warning is logged.
#[derive(Debug, Clone, Default)]
pub struct KernelCache {
    folder: Option<PathBuf>,
}

/// The first bytes of a file. The version changes with the format of the rest: the length of the key, the checksum of the
/// image, the key and the image.
const MAGIC: [u8; 8] = *b"ixionk01";

impl KernelCache {
    /// No cache: compiled kernels are dropped with the device.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A cache in this folder, which need not exist yet.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// The names (file names without extension) and sources of the cached kernels, sorted by name.
    ///
    /// # Errors
    /// [`CudaError::File`] if the folder cannot be read.
    pub fn sources(&self) -> Result<Vec<(String, String)>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let fault = |error: std::io::Error| CudaError::File {
            action: "read",
            path: folder.display().to_string(),
            reason: error.to_string(),
        };
        let mut sources = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let bytes = std::fs::read(&path).map_err(fault)?;
            let key = parse(&bytes).and_then(|(key, _)| std::str::from_utf8(key).ok());
            if let Some((_, source)) = key.and_then(|key| key.split_once('\n')) {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                sources.push((name.into_owned(), source.to_owned()));
            }
        }
        sources.sort();
        Ok(sources)
    }

    /// Loads the kernels of a source from the folder, or compiles and stores them.
    pub(super) fn load(&self, driver: &dyn Driver, unit: &Unit) -> Result<Box<dyn Module>> {
        let key = format!("{}\n{}", driver.info().target, unit.source());
        let path = self.folder.as_ref().map(|folder| folder.join(file_name(unit, &key)));
        if let Some(path) = &path
            && let Some(image) = read(path, &key)
        {
            match driver.load(unit, &image) {
                Ok(module) => return Ok(module),
                Err(error) => log::warn!("{}: compiling the kernels again: {error}", path.display()),
            }
        }
        log::debug!("compiling {}", unit.name());
        let image = driver.compile(unit)?;
        if let Some(path) = &path
            && let Err(error) = write(path, &key, &image)
        {
            log::warn!("{error}; the kernels will be compiled again next time");
        }
        driver.load(unit, &image)
    }
}

fn file_name(unit: &Unit, key: &str) -> String {
    // A hash collision only costs time: the file holds the whole key.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let stem = unit.file().trim_end_matches(".cu");
    format!("{stem}-{:016x}.kernels", hasher.finish())
}

/// The image in a file, if it was stored for this key and is intact.
fn read(path: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{}: {error}; compiling the kernels", path.display());
            }
            return None;
        }
    };
    let parsed = parse(&bytes);
    if parsed.is_none() {
        log::warn!("{}: damaged; compiling the kernels again", path.display());
    }
    parsed.filter(|(stored, _)| *stored == key.as_bytes()).map(|(_, image)| image.to_vec())
}

fn parse(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (key, image) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    (crc32fast::hash(image) == u32::from_le_bytes(*checksum)).then_some((key, image))
}

fn write(path: &Path, key: &str, image: &[u8]) -> Result<()> {
    let fault = |action: &'static str, reason: &dyn std::fmt::Display| CudaError::File {
        action,
        path: path.display().to_string(),
        reason: reason.to_string(),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| fault("create the folder of", &error))?;
    }
    let len = u32::try_from(key.len()).map_err(|error| fault("write", &error))?;
    let write_all = |file: &mut std::fs::File| -> Result<(), PnnxError> {
        let parts =
            [&MAGIC[..], &len.to_le_bytes(), &crc32fast::hash(image).to_le_bytes(), key.as_bytes(), image];
        parts
            .into_iter()
            .try_for_each(|part| file.write_all(part))
            .map_err(|e| PnnxError::io(path, "write", e))
    };
    let file = write_beside(path, write_all).map_err(|error| fault("write", &error))?;
    replace(file, path).map_err(|error| fault("write", &error))
}
