//! Buffers that become parts of each other.

use super::MemoryError;
use super::aliases::{self, Part};
use super::packing::Request;
use crate::op::Device;

/// Where a buffer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pin {
    /// In the caller's tensor for this input.
    Input(usize),
    /// In the caller's buffer for this output.
    Output(usize),
    /// Where the constant that this operator makes is.
    Constant(usize),
}

/// Memory that one operator writes, or that comes from outside.
#[derive(Debug, Clone)]
pub(super) struct Buffer {
    /// Its bytes, from the step that writes it first to the last that reads it or any part of it.
    pub(super) request: Request,
    /// Where it has to be; anywhere in the arena if absent.
    pub(super) pin: Option<Pin>,
    /// In whose memory it is.
    pub(super) device: Device,
    /// The steps that overwrite it.
    pub(super) overwrites: Vec<usize>,
}

impl Buffer {
    /// A buffer that one step writes and nobody reads yet.
    pub(super) fn new(bytes: usize, step: usize, pin: Option<Pin>, device: Device) -> Self {
        let request = Request { bytes, first: step, last: step };
        Self { request, pin, device, overwrites: Vec::new() }
    }
}

/// All buffers, by index.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    all: Vec<Buffer>,
    /// What each is a part of.
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

    /// The buffer that nobody else holds, and the byte of it at which this one begins.
    pub(super) fn root(&self, index: usize) -> (usize, usize) {
        aliases::root(&self.parts, index)
    }

    /// The buffers that need a place in the arena of their own.
    pub(super) fn in_arena(&self) -> impl Iterator<Item = (usize, &Buffer)> {
        let alone = self.all.iter().zip(&self.parts).enumerate().filter(|(_, (_, part))| part.is_none());
        alone.map(|(index, (buffer, _))| (index, buffer)).filter(|(_, buffer)| buffer.pin.is_none())
    }

    /// Makes one root a part of another, which then lives as long as both.
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
