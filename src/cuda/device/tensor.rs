//! Tensors on a device.

use super::CudaError;
use crate::tensor::{DType, Layout, Shape, TensorError};
use std::marker::PhantomData;

/// A tensor in the memory of a device: an address, an element type, and a layout.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTensor<'a> {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    /// The address that the layout's offset is relative to.
    pub(super) address: u64,
    /// The bytes of memory from there on.
    pub(super) bytes: usize,
    pub(super) memory: PhantomData<&'a ()>,
}

impl DeviceTensor<'_> {
    /// A tensor without elements, which needs no memory.
    pub(in crate::cuda) fn nothing(dtype: DType, shape: Shape) -> Self {
        Self { dtype, layout: Layout::contiguous(shape), address: 0, bytes: 0, memory: PhantomData }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The layout of the elements in memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.layout.shape().num_elements()
    }

    /// Returns true if the elements are contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Returns true if the address of the first element is a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        self.start().is_multiple_of(bytes)
    }

    /// The same elements, or some of them, under another layout.
    ///
    /// # Errors
    /// Returns a [`TensorError`] if the layout exceeds the memory.
    pub fn with_layout(&self, layout: Layout) -> Result<Self, TensorError> {
        layout.check_within(self.bytes / self.dtype.size())?;
        Ok(Self { layout, ..*self })
    }

    /// The elements from `start` on along an axis.
    pub(in crate::cuda) fn narrow(&self, axis: usize, start: usize, len: usize) -> Result<Self, TensorError> {
        self.with_layout(self.layout.narrow(axis, start, len)?)
    }

    /// The elements at an index of an axis, without that axis.
    pub(in crate::cuda) fn select(&self, axis: usize, index: usize) -> Result<Self, TensorError> {
        self.with_layout(self.layout.select(axis, index)?)
    }

    /// The elements with an additional axis of length 1.
    pub(in crate::cuda) fn unsqueeze(&self, axis: usize) -> Result<Self, TensorError> {
        self.with_layout(self.layout.unsqueeze(axis)?)
    }

    /// The elements, broadcast to these lengths.
    pub(in crate::cuda) fn expand(&self, dims: &[usize]) -> Result<Self, TensorError> {
        self.with_layout(self.layout.expand(dims)?)
    }

    /// The elements on axes with these lengths and strides, from the same first element.
    pub(in crate::cuda) fn with_axes(&self, dims: &[usize], strides: &[usize]) -> Result<Self, TensorError> {
        self.with_layout(Layout::strided(Shape::new(dims)?, strides, self.layout.offset())?)
    }

    /// A tensor of another type within this tensor of bytes, from byte `first` on.
    ///
    /// # Errors
    /// [`CudaError::OutOfBounds`] if there are fewer than `bytes` bytes, or the layout needs more.
    pub(in crate::cuda) fn reinterpreted(
        &self,
        dtype: DType,
        layout: Layout,
        first: usize,
        bytes: usize,
    ) -> Result<Self, CudaError> {
        let end = first.saturating_add(bytes);
        if end > self.span() || layout.check_within(bytes / dtype.size()).is_err() {
            return Err(CudaError::OutOfBounds { first, end, room: self.span() });
        }
        Ok(Self { dtype, layout, address: self.start() + first as u64, bytes, memory: PhantomData })
    }

    /// The address of the first element.
    pub(super) fn start(&self) -> u64 {
        self.address + (self.layout.offset() * self.dtype.size()) as u64
    }

    /// The number of bytes from the first element to the last.
    pub(super) fn span(&self) -> usize {
        let elements = self.layout.span().saturating_sub(self.layout.offset());
        if self.num_elements() == 0 { 0 } else { elements * self.dtype.size() }
    }
}
