//! The elements of arrays and tensors by their address.

use super::claims::Extent;
use super::label::Label;
use crate::error::OrRaise;
use ixion::tensor::{DType, Format, Layout, Shape, Tensor, TensorView};
use pyo3::prelude::*;
use std::ptr::NonNull;

/// The elements of an array: their type, their layout, and the address of the first.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    pub(super) data: NonNull<u8>,
}

impl Region {
    /// The elements from an address on; `None` if it is misaligned.
    ///
    /// # Errors
    /// `InputError` if there is no memory, or more than there are addresses.
    pub(super) fn new(
        dtype: DType,
        layout: Layout,
        data: *mut u8,
        label: &Label<'_>,
    ) -> PyResult<Option<Self>> {
        if layout.shape().num_elements() == 0 {
            return Ok(Some(Self::empty(dtype, *layout.shape())));
        }
        let data = NonNull::new(data).ok_or_else(|| label.error("has no memory"))?;
        let start = data.addr().get();
        let bytes = layout.span().checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok());
        if bytes.and_then(|bytes| start.checked_add(bytes)).is_none() {
            return Err(label.error("is larger than the address space"));
        }
        // Complex numbers have the alignment of their parts.
        let is_aligned = start.is_multiple_of(dtype.real().size());
        Ok(is_aligned.then_some(Self { dtype, layout, data }))
    }

    /// An array without elements.
    pub(super) fn empty(dtype: DType, shape: Shape) -> Self {
        #[repr(align(64))]
        struct Aligned;
        Self { dtype, layout: Layout::contiguous(shape), data: NonNull::<Aligned>::dangling().cast() }
    }

    /// The elements of a tensor, which becomes the only owner of its memory.
    pub(super) fn of_tensor(tensor: &mut Tensor) -> PyResult<Self> {
        let (dtype, shape) = (tensor.dtype(), *tensor.shape());
        if shape.num_elements() == 0 {
            return Ok(Self::empty(dtype, shape));
        }
        let mut view = tensor.view_mut().or_raise()?;
        let layout = (*view.layout()).with_offset(0);
        match NonNull::new(view.address_mut()) {
            Some(data) => Ok(Self { dtype, layout, data }),
            None => Ok(Self::empty(dtype, shape)),
        }
    }

    pub(super) fn extent(&self) -> Extent {
        Extent { start: self.data.addr().get(), layout: self.layout, size: self.dtype.size() }
    }

    /// The elements of an array of bools as bytes, in any order. An array that repeats elements may have far more of them than
    /// there is memory: then, the bytes of the memory.
    ///
    /// # Safety
    /// Nothing writes to the memory while the result is used.
    pub(super) unsafe fn bytes(&self) -> TensorView<'_> {
        let span = self.layout.span();
        let layout = match Shape::new(&[span]) {
            Ok(shape) if self.layout.shape().num_elements() > span => Layout::contiguous(shape),
            _ => self.layout,
        };
        // SAFETY: every byte is a valid `u8`. Both layouts are within the span; elements that overlap are in one allocation,
        // so what is between them is readable, too.
        unsafe { TensorView::from_raw(DType::U8, layout, self.data.as_ptr(), span) }
    }
}

/// A tensor that others read and write by its address.
pub(super) struct Held {
    pub(super) region: Region,
    pub(super) tensor: Tensor,
}

impl Held {
    /// Takes over a tensor. Its elements are copied if it shares them with another one, or has a blocked layout.
    pub(super) fn new(mut tensor: Tensor) -> PyResult<Self> {
        if matches!(tensor.layout().format(), Format::Blocked { .. }) {
            tensor = tensor.to_plain().or_raise()?;
        }
        let region = Region::of_tensor(&mut tensor)?;
        Ok(Self { region, tensor })
    }
}

// SAFETY: the tensor is kept, copied and dropped, which any thread may do; who accesses its memory by the address is Python's
// affair, as for every array.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}
