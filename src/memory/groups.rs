//! Buffers that become parts of each other.

use super::MemoryError;
use crate::graph::Device;

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
    pub(super) bytes: usize,
    /// The step that writes it first.
    pub(super) first: usize,
    /// The last step that reads it, or any part of it.
    pub(super) last: usize,
    /// Where it has to be; anywhere in the arena if absent.
    pub(super) pin: Option<Pin>,
    /// In whose memory it is.
    pub(super) device: Device,
    /// The steps that overwrite it.
    pub(super) overwrites: Vec<usize>,
    /// The buffer that it is a part of, from this byte on.
    parent: Option<(usize, usize)>,
}

impl Buffer {
    /// A buffer that one step writes and nobody reads yet.
    pub(super) fn new(bytes: usize, step: usize, pin: Option<Pin>, device: Device) -> Self {
        Self { bytes, first: step, last: step, pin, device, overwrites: Vec::new(), parent: None }
    }
}

/// All buffers, by index.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Buffer>);

impl Buffers {
    /// Adds a buffer and returns its index.
    pub(super) fn push(&mut self, buffer: Buffer) -> usize {
        self.0.push(buffer);
        self.0.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Buffer> {
        self.0.iter()
    }

    pub(super) fn get(&self, index: usize) -> Result<&Buffer, MemoryError> {
        self.0.get(index).ok_or_else(|| MemoryError::Problem(format!("there is no buffer {index}")))
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Result<&mut Buffer, MemoryError> {
        self.0.get_mut(index).ok_or_else(|| MemoryError::Problem(format!("there is no buffer {index}")))
    }

    /// The buffer that nobody else holds, and the byte of it at which this one begins.
    pub(super) fn root(&self, index: usize) -> (usize, usize) {
        let (mut root, mut offset) = (index, 0);
        while let Some((parent, start)) = self.0.get(root).and_then(|buffer| buffer.parent) {
            (root, offset) = (parent, offset + start);
        }
        (root, offset)
    }

    /// The buffers that need a place in the arena of their own.
    pub(super) fn in_arena(&self) -> impl Iterator<Item = (usize, &Buffer)> {
        self.0.iter().enumerate().filter(|(_, buffer)| buffer.parent.is_none() && buffer.pin.is_none())
    }

    /// Makes one root a part of another, which then lives as long as both.
    pub(super) fn join(&mut self, part: usize, whole: usize, offset: usize) -> Result<(), MemoryError> {
        let child = self.get_mut(part)?;
        child.parent = Some((whole, offset));
        let (first, last, overwrites) = (child.first, child.last, std::mem::take(&mut child.overwrites));
        let whole = self.get_mut(whole)?;
        whole.first = whole.first.min(first);
        whole.last = whole.last.max(last);
        whole.overwrites.extend(overwrites);
        Ok(())
    }
}
