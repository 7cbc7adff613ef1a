//! Buffers and the joining of buffers into larger ones.

use super::MemoryError;
use super::aliases::{self, Part};
use super::packing::Request;
use crate::op::Device;

/// The required location of a buffer outside of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pin {
    /// In the caller's tensor for this input.
    Input(usize),
    /// In the caller's buffer for this output.
    Output(usize),
    /// In the constant that this operator produces.
    Constant(usize),
}

/// Memory that one operator writes, or that the caller provides.
#[derive(Debug, Clone)]
pub(super) struct Buffer {
    /// Its size, and its lifetime from the first step that writes it to the last that reads it or a part of it.
    pub(super) request: Request,
    /// The required location; `None` for anywhere in the arena.
    pub(super) pin: Option<Pin>,
    /// The device whose memory holds it.
    pub(super) device: Device,
    /// The steps that overwrite it.
    pub(super) overwrites: Vec<usize>,
}

impl Buffer {
    /// A buffer that one step writes and that has no readers yet.
    pub(super) fn new(bytes: usize, step: usize, pin: Option<Pin>, device: Device) -> Self {
        let request = Request { bytes, first: step, last: step };
        Self { request, pin, device, overwrites: Vec::new() }
    }
}

/// All buffers, by index.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    all: Vec<Buffer>,
    /// The position of each within another buffer, if it is a part.
    parts: Vec<Option<Part>>,
}

impl Buffers {
    /// Adds a buffer and returns its index.
    pub(super) fn push(&mut self, buffer: Buffer) -> usize {
        self.all.push(buffer);
        self.parts.push(None);
        self.all.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Buffer> {
        self.all.iter()
    }

    pub(super) fn get(&self, index: usize) -> Result<&Buffer, MemoryError> {
        self.all.get(index).ok_or_else(|| MemoryError::Problem(format!("there is no buffer {index}")))
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Result<&mut Buffer, MemoryError> {
        self.all.get_mut(index).ok_or_else(|| MemoryError::Problem(format!("there is no buffer {index}")))
    }

    /// The root of a buffer, and its byte offset in the root.
    pub(super) fn root(&self, index: usize) -> (usize, usize) {
        aliases::root(&self.parts, index)
    }

    /// The buffers that need their own place in an arena.
    pub(super) fn in_arena(&self) -> impl Iterator<Item = (usize, &Buffer)> {
        let alone = self.all.iter().zip(&self.parts).enumerate().filter(|(_, (_, part))| part.is_none());
        alone.map(|(index, (buffer, _))| (index, buffer)).filter(|(_, buffer)| buffer.pin.is_none())
    }

    /// Makes a root part of another root, whose lifetime then covers both.
    pub(super) fn join(&mut self, part: usize, whole: usize, offset: usize) -> Result<(), MemoryError> {
        let child = self.get_mut(part)?;
        let (request, overwrites) = (child.request, std::mem::take(&mut child.overwrites));
        let parent = self.get_mut(whole)?;
        parent.request = aliases::joined(&request, &parent.request);
        parent.overwrites.extend(overwrites);
        if let Some(place) = self.parts.get_mut(part) {
            *place = Some(Part { whole, offset });
        }
        Ok(())
    }
}
