//! Whether every byte of a plan is as it was written.

use super::error::PlanFileProblem;
use super::header::{Kind, PAGE};
use super::read::of_kind;
use super::{PlanFile, attributes};
use crate::engine::EngineError;
use crate::pnnx::archive::{PIECE, checksum};
use crate::pnnx::{ArchiveError, Entry};
use crc32fast::Hasher;

impl PlanFile {
    /// Reads the whole file and compares it with its checksums. What opening it checks is not checked again.
    ///
    /// # Errors
    /// [`EngineError::PlanFile`] names the part that is damaged; [`EngineError::Limit`] when time runs out.
    pub fn verify(&self) -> Result<(), EngineError> {
        self.check_gaps()?;
        let Some(section) = of_kind(&self.sections, Kind::Weights) else { return Ok(()) };
        let (mut hasher, mut position) = (Hasher::new(), section.offset);
        let mut buffer = vec![0; PIECE];
        while position < section.end() {
            self.limits.check_deadline()?;
            let length = usize::try_from(section.end() - position).unwrap_or(PIECE).min(PIECE);
            let piece = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_into(piece, position).map_err(|error| self.unread(error))?;
            hasher.update(piece);
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

    /// Between the sections there must be nothing.
    fn check_gaps(&self) -> Result<(), EngineError> {
        let mut buffer = [0; PAGE as usize];
        for pair in self.sections.windows(2) {
            let [before, after] = pair else { continue };
            let length = usize::try_from(after.offset.saturating_sub(before.end())).unwrap_or(buffer.len());
            let gap = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_into(gap, before.end()).map_err(|error| self.unread(error))?;
            if gap.iter().any(|&byte| byte != 0) {
                let reason = "something stands behind it";
                return Err(PlanFileProblem::corrupt(before.kind, reason).of(self.path()).into());
            }
        }
        Ok(())
    }

    /// The first weight that is not as it was written.
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
