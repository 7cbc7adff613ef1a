//! Loading files into a [`Graph`].

mod link;
mod loader;
mod place;

pub use link::{Unlinked, link};

use super::archive::Archive;
use super::attribute::{Origin, Place, entry_name};
use super::error::PnnxError;
use super::graph::Graph;
use super::problem::SyntaxProblem;
use ixion_tensor::Limits;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Loading.
impl Graph {
    /// Loads a model from its `.param` and, if given, its `.bin`.
    ///
    /// Weights are read from the `.bin` on demand. Without a `.bin`, or if it lacks an entry, attributes have
    /// no bytes; [`Graph::check_weights`] lists them. Entries that no attribute uses are logged as warnings.
    ///
    /// # Errors
    /// [`PnnxError`] if a file cannot be read, the text is invalid (with line and column), the archive is
    /// damaged, or the model exceeds `limits`.
    pub fn load(param: impl AsRef<Path>, bin: Option<&Path>, limits: &Limits) -> Result<Self, PnnxError> {
        let param = param.as_ref();
        let bytes = read_text(param)?;
        let mut graph = parse_bytes(&bytes, &param.display().to_string(), limits)?;
        if let Some(bin) = bin {
            graph.attach(Archive::open(bin, limits)?);
        }
        Ok(graph)
    }

    /// Parses a `.param` text, which error messages call `<text>`.
    ///
    /// # Errors
    /// Same as [`Graph::load`].
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, PnnxError> {
        loader::load("<text>", text, limits)
    }

    /// Loads a model from memory. Error messages call the text `<text>` and the archive `<bytes>`.
    ///
    /// # Errors
    /// Same as [`Graph::load`].
    pub fn from_bytes(param: &[u8], bin: Option<Vec<u8>>, limits: &Limits) -> Result<Self, PnnxError> {
        let mut graph = parse_bytes(param, "<text>", limits)?;
        if let Some(bin) = bin {
            graph.attach(Archive::from_bytes(bin, limits)?);
        }
        Ok(graph)
    }

    /// Parses a `.param` text, which error messages call `file`.
    ///
    /// # Errors
    /// Same as [`Graph::load`].
    pub fn parse_named(file: &str, text: &[u8], limits: &Limits) -> Result<Self, PnnxError> {
        parse_bytes(text, file, limits)
    }

    /// Looks up the bytes of all attributes in an archive. They are read on demand.
    pub fn attach(&mut self, archive: Archive) {
        let archive = Arc::new(archive);
        let counts = self.counts_by_entry();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for id in self.operator_ids().to_vec() {
            let Ok(operator) = self.operator_mut(id) else {
                continue;
            };
            for (key, attribute) in &mut operator.attrs {
                let origin = Origin::new(&operator.name, operator.written_name.as_deref(), key);
                let count = counts.get(origin.entry_name()).copied().unwrap_or(1);
                let mut place = Place { number: 0, count };
                if count > 1 {
                    let next = numbers.entry(origin.entry_name().to_owned()).or_default();
                    place.number = *next;
                    *next += 1;
                }
                attribute.attach(&archive, origin, place);
            }
        }
        let path = archive.path().display().to_string();
        self.archive = Some(archive);
        for entry in self.unused_entries() {
            log::warn!("{path}: no attribute uses the entry `{entry}`");
        }
    }

    /// The number of attributes for each name of an entry.
    fn counts_by_entry(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for (operator, key, _) in self.attributes() {
            *counts.entry(entry_name(operator.written_name(), key)).or_default() += 1;
        }
        counts
    }
}

/// The number of bytes that are inspected before the rest of a file is read.
const SAMPLE: u64 = 4096;

/// Reads a text file. A file that is clearly not text is not read to its end, because it may be large or endless.
fn read_text(path: &Path) -> Result<Vec<u8>, PnnxError> {
    let io = |action| move |source| PnnxError::io(path, action, source);
    if path.is_dir() {
        return Err(PnnxError::Folder { path: path.to_owned(), wanted: ".param" });
    }
    let mut file = File::open(path).map_err(io("open the .param file"))?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(SAMPLE).read_to_end(&mut bytes).map_err(io("read the .param file"))?;
    if detect_non_text(&bytes).is_none() {
        file.read_to_end(&mut bytes).map_err(io("read the .param file"))?;
    }
    Ok(bytes)
}

/// The kind of file, if the bytes are clearly not text; `None` if they could be text.
fn detect_non_text(bytes: &[u8]) -> Option<&'static str> {
    let sample = bytes.get(..SAMPLE as usize).unwrap_or(bytes);
    match sample {
        [b'P', b'K', 3..=7, ..] => Some("a zip archive (a .bin or .pt file)"),
        [0x89, b'P', b'N', b'G', ..] => Some("a PNG image"),
        [0xff, 0xd8, 0xff, ..] => Some("a JPEG image"),
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] => Some("UTF-16 text"),
        _ if sample.contains(&0) => Some("binary data"),
        _ => None,
    }
}

fn parse_bytes(bytes: &[u8], file: &str, limits: &Limits) -> Result<Graph, PnnxError> {
    if let Some(found) = detect_non_text(bytes) {
        return Err(place::error_at(file, 1, 1, SyntaxProblem::NotText { found }));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => loader::load(file, text, limits),
        Err(error) => {
            let (good, _) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
            let good = String::from_utf8_lossy(good);
            let last_line = good.rsplit('\n').next().unwrap_or_default();
            let (line, column) = (good.matches('\n').count() + 1, last_line.chars().count() + 1);
            let found = "bytes that are not UTF-8";
            Err(place::error_at(file, line, column, SyntaxProblem::NotText { found }))
        }
    }
}

#[cfg(test)]
mod tests;
