//! What a layer reads, writes and uses while it computes.

use super::{LayerError, Result};
use ixion_tensor::{Element, Limits, Scratch, TensorView, TensorViewMut};

/// What one call of [`CpuLayer::forward`](super::CpuLayer::forward) reads, writes and uses.
///
/// A layer that is built on another one passes its `io` on, or creates one for other tensors:
///
/// ```
/// use ixion_ops::op::{CpuLayer, Io, Result};
///
/// fn forward_first_input_only(layer: &mut dyn CpuLayer, io: &mut Io<'_, '_>) -> Result<()> {
///     layer.forward(&mut Io::new(&io.inputs[..1], io.outputs, &mut io.context))
/// }
/// ```
#[derive(Debug)]
pub struct Io<'a, 'o> {
    /// The inputs, as many as [`Layer::num_inputs`](super::Layer::num_inputs) allows.
    pub inputs: &'a [TensorView<'a>],
    /// The outputs to write, as many as [`Layer::num_outputs`](super::Layer::num_outputs).
    pub outputs: &'a mut [TensorViewMut<'o>],
    /// Scratch memory and limits.
    pub context: ForwardContext<'a>,
}

impl<'a, 'o> Io<'a, 'o> {
    /// A call with these inputs and outputs, for as long as the context is borrowed.
    pub fn new(
        inputs: &'a [TensorView<'a>],
        outputs: &'a mut [TensorViewMut<'o>],
        context: &'a mut ForwardContext<'_>,
    ) -> Self {
        Self { inputs, outputs, context: context.reborrow() }
    }
}

/// The resources of a layer while it computes.
#[derive(Debug)]
pub struct ForwardContext<'a> {
    scratch: Scratch<'a>,
    limits: &'a Limits,
}

impl<'a> ForwardContext<'a> {
    /// A context with scratch memory from a [`Workspace`](ixion_tensor::Workspace) or an arena, and with limits.
    pub fn new(scratch: impl Into<Scratch<'a>>, limits: &'a Limits) -> Self {
        Self { scratch: scratch.into(), limits }
    }

    /// The same context, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> ForwardContext<'_> {
        ForwardContext { scratch: self.scratch.reborrow(), limits: self.limits }
    }

    /// Scratch memory for `len` elements with arbitrary values. [`CpuLayer::workspace`](super::CpuLayer::workspace)
    /// must have requested it.
    ///
    /// # Errors
    /// [`LayerError::Workspace`] if it requested less.
    pub fn scratch<T: Element>(&mut self, len: usize) -> Result<&mut [T]> {
        Ok(self.scratch_and_limits(len)?.0)
    }

    /// As [`ForwardContext::scratch`], together with the limits.
    ///
    /// # Errors
    /// As [`ForwardContext::scratch`].
    pub fn scratch_and_limits<T: Element>(&mut self, len: usize) -> Result<(&mut [T], &'a Limits)> {
        let (wanted, found) = (len.saturating_mul(size_of::<T>()), self.scratch.len());
        if wanted > found {
            return Err(LayerError::Workspace { wanted, found });
        }
        Ok((self.scratch.slice(len)?, self.limits))
    }

    /// As much scratch memory as is available: at least `min` and at most `max` elements, with arbitrary values.
    ///
    /// # Errors
    /// As [`ForwardContext::scratch`], if fewer than `min` elements are available.
    pub fn scratch_between<T: Element>(&mut self, min: usize, max: usize) -> Result<&mut [T]> {
        let room = self.scratch.len() / size_of::<T>().max(1);
        self.scratch(room.min(max).max(min))
    }

    /// The size of the scratch memory in bytes.
    pub(crate) fn scratch_len(&self) -> usize {
        self.scratch.len()
    }

    /// The limits of this run. A layer that computes for a long time should check the deadline regularly.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }
}
