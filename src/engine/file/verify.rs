//! Verifies the bytes of a plan that opening it does not check.

use super::PlanFile;
use super::error::PlanFileProblem;
use super::layout::{Kind, PAGE};
use super::read::of_kind;
use super::weights::attributes;
use crate::engine::EngineError;
use crate::pnnx::archive::{PIECE, checksum};
use crate::pnnx::{ArchiveError, Entry};
use crc32fast::Hasher;

impl PlanFile {
    /// Verifies the rest of the file: the checksums of the weights, and the gaps between sections. Everything else is already
    /// checked when the file is opened.
    ///
    /// # Errors
    /// [`EngineError::PlanFile`], which names the damaged part; [`EngineError::Limit`] if the deadline has passed.
    pub fn verify(&self) -> Result<(), EngineError> {
        self.check_gaps()?;
        let Some(section) = of_kind(&self.sections, Kind::Weights) else { return Ok(()) };
        let (mut hasher, mut position) = (Hasher::new(), section.offset);
        let mut buffer = vec![0; PIECE];
        while position < section.end() {
            self.limits.check_deadline()?;
            let length = usize::try_from(section.end() - position).unwrap_or(PIECE).min(PIECE);
            let chunk = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_into(chunk, position).map_err(|error| self.unread(error))?;
            hasher.update(chunk);
            position += length as u64;
        }
        match hasher.finalize() {
            found if found == section.crc32 => Ok(()),
            found => {
                let what = self.damaged_weight()?.unwrap_or_else(|| Kind::Weights.to_string());
                let problem = PlanFileProblem::Checksum { what, wanted: section.crc32, found };
                Err(problem.of(self.path()).into())
            }
        }
    }

    /// Checks that the gaps between sections contain only zeros.
    fn check_gaps(&self) -> Result<(), EngineError> {
        let mut buffer = [0; PAGE as usize];
        for pair in self.sections.windows(2) {
            let [before, after] = pair else { continue };
            let length = usize::try_from(after.offset.saturating_sub(before.end())).unwrap_or(buffer.len());
            let gap = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_into(gap, before.end()).map_err(|error| self.unread(error))?;
            if gap.iter().any(|&byte| byte != 0) {
                let reason = "unexpected data after it";
                return Err(PlanFileProblem::corrupt(before.kind, reason).of(self.path()).into());
            }
        }
        Ok(())
    }

    /// The first weight whose checksum does not match.
    fn damaged_weight(&self) -> Result<Option<String>, EngineError> {
        let start = of_kind(&self.sections, Kind::Weights).map_or(0, |section| section.offset);
        let graph = self.graph()?;
        for ((operator, key, _), place) in attributes(&graph).zip(&self.places) {
            self.limits.check_deadline()?;
            let offset = start.saturating_add(place.offset);
            let entry = Entry::new(String::new(), offset, place.length, place.crc32);
            let found = checksum(&self.file, &entry).map_err(|error| self.unread(error))?;
            if found != place.crc32 {
                return Ok(Some(format!("the weight `{key}` of operator `{operator}`")));
            }
        }
        Ok(None)
    }

    fn unread(&self, error: ArchiveError) -> EngineError {
        PlanFileProblem::from(error).of(self.path()).into()
    }
}
