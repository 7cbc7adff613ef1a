//! Lending the tensors of one operator out of the arena and the caller's tensors.
//!
//! A plan states where tensors are, but is not trusted: [`Memory::borrow`] checks that every tensor is within its memory
//! and that nothing that is written aliases anything else, so that a wrong plan ends in an error.

use super::{Arena, MemoryError, Place, Root};
use crate::tensor::{ALIGNMENT, DType, Scratch, Tensor, TensorView, TensorViewMut, with_element};
use smallvec::SmallVec;
use std::ops::Range;

/// The caller's tensor for an input of the model. It is contiguous.
#[derive(Debug)]
pub(crate) enum InputBinding<'a> {
    /// A tensor that is only read.
    Shared(TensorView<'a>),
    /// A tensor that the caller donated, so that it may be overwritten.
    Donated(TensorViewMut<'a>),
}

impl InputBinding<'_> {
    /// A view of the tensor.
    pub(crate) fn view(&self) -> TensorView<'_> {
        match self {
            InputBinding::Shared(view) => *view,
            InputBinding::Donated(view) => view.as_view(),
        }
    }

    /// A binding with a shorter lifetime; this one cannot be used meanwhile.
    pub(crate) fn reborrow(&mut self) -> InputBinding<'_> {
        match self {
            InputBinding::Shared(view) => InputBinding::Shared(*view),
            InputBinding::Donated(view) => InputBinding::Donated(view.reborrow()),
        }
    }
}

/// All memory that a plan refers to.
#[derive(Debug)]
pub(crate) struct Memory<'m, 't> {
    /// The arena, at least [`MemoryPlan::arena_bytes`](super::MemoryPlan::arena_bytes) long.
    pub(crate) arena: &'m mut Arena,
    /// The inputs, by position.
    pub(crate) inputs: &'m mut [InputBinding<'t>],
    /// The output buffers, by position: contiguous for outputs whose root is [`Root::Output`], unused for the others.
    pub(crate) outputs: &'m mut [TensorViewMut<'t>],
    /// The constants, by position of the operator: contiguous tensors for those whose root is [`Root::Constant`].
    pub(crate) constants: &'m [Option<Tensor>],
}

/// The tensors that one operator reads and writes.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    /// The tensors to read, in the order of the requested places.
    pub(crate) inputs: SmallVec<[TensorView<'a>; 4]>,
    /// The tensors to write, in the order of the requested places. They hold whatever was there before.
    pub(crate) outputs: SmallVec<[TensorViewMut<'a>; 4]>,
    /// The scratch memory.
    pub(crate) scratch: Scratch<'a>,
}

/// A tensor's bytes, from its first element to its last.
struct Region<'p> {
    start: *mut u8,
    bytes: usize,
    place: &'p Place,
    /// The element type that the bytes are known to hold; `None` for the arena.
    holds: Option<DType>,
}

type Regions<'p> = SmallVec<[Region<'p>; 4]>;

impl Memory<'_, '_> {
    /// Lends tensors for reading and writing, and the scratch memory of a step. For in-place operators, the data is listed in
    /// `writes` only. Does not allocate for up to four tensors of each kind.
    ///
    /// # Errors
    /// [`MemoryError::Plan`] if a place is outside of its memory or not aligned, if a tensor to write or the scratch memory
    /// overlaps another tensor, or if a tensor to write is a constant or an input that is not donated;
    /// [`MemoryError::Tensor`] if a tensor of the caller is not contiguous.
    pub(crate) fn borrow(
        &mut self,
        reads: &[Place],
        writes: &[Place],
        workspace: Range<usize>,
    ) -> Result<Borrowed<'_>, MemoryError> {
        let (mut read, mut written) = (Regions::new(), Regions::new());
        // Plain loops: this runs for every operator of every run, and collecting results is slower.
        for place in reads {
            read.push(self.region(place, false)?);
        }
        for place in writes {
            written.push(self.region(place, true)?);
        }
        let (scratch, scratch_bytes) = self.scratch(&workspace)?;
        let scratch_ends = ends(scratch, scratch_bytes);
        for (position, write) in written.iter().enumerate() {
            let later = written.iter().skip(position + 1);
            let others = read.iter().chain(later).map(Region::ends).chain([scratch_ends.clone()]);
            if let Some(other) = others.into_iter().find(|other| overlap(other, &write.ends())) {
                return Err(MemoryError::Plan(format!(
                    "output {position} is at bytes {:#x?}, but {other:#x?} are used at the same time",
                    write.ends()
                )));
            }
        }
        if let Some(other) = read.iter().map(Region::ends).find(|other| overlap(other, &scratch_ends)) {
            return Err(MemoryError::Plan(format!(
                "scratch memory is at bytes {scratch_ends:#x?}, but {other:#x?} are read at the same time"
            )));
        }
        // SAFETY: all regions are within memory that `self` borrows exclusively (or shares, if it is only read). The checks
        // above show that the written regions and the scratch memory overlap with nothing else.
        unsafe {
            let scratch = Scratch::from_raw(scratch, scratch_bytes);
            let mut lent = Borrowed { inputs: SmallVec::new(), outputs: SmallVec::new(), scratch };
            for region in &read {
                lent.inputs.push(region.for_reading()?);
            }
            for region in &written {
                lent.outputs.push(region.for_writing()?);
            }
            Ok(lent)
        }
    }

    /// Copies an operand to the start of the caller's buffer for an output or of a donated input.
    ///
    /// # Errors
    /// As [`Memory::borrow`].
    pub(crate) fn copy(&mut self, from: &Place, to: Root) -> Result<(), MemoryError> {
        let to = Place::contiguous(to, from.dtype, *from.layout.shape());
        let mut borrowed = self.borrow(&[*from], &[to], 0..0)?;
        if let ([from], [to]) = (borrowed.inputs.as_slice(), borrowed.outputs.as_mut_slice()) {
            to.copy_from(from)?;
        }
        Ok(())
    }

    /// The bytes of a place; an error if they are not within its root or not aligned, or if writing would repeat elements.
    fn region<'p>(&mut self, place: &'p Place, is_written: bool) -> Result<Region<'p>, MemoryError> {
        let (start, room, holds) = self.root(place.root, is_written)?;
        let size = place.dtype.size();
        let refuse =
            |what: &str| MemoryError::Plan(format!("{} {} {what}", place.layout.shape(), place.dtype));
        if is_written && !place.layout.is_dense() && !place.layout.is_injective() {
            return Err(refuse("must be written, but its layout repeats elements"));
        }
        let empty = place.layout.shape().num_elements() == 0;
        let first = if empty { 0 } else { place.layout.offset() };
        let end = if empty { 0 } else { place.layout.span() };
        if end.checked_mul(size).is_none_or(|end| end > room) {
            return Err(refuse(&format!("ends at element {end}, but its memory has {room} bytes")));
        }
        let start = start.wrapping_add(first * size);
        if !(start as usize).is_multiple_of(with_element!(place.dtype, T => align_of::<T>())) {
            return Err(refuse("does not start at a multiple of its alignment"));
        }
        Ok(Region { start, bytes: (end - first) * size, place, holds })
    }

    /// The start and length of a root in bytes, and the element type that they hold.
    fn root(&mut self, root: Root, is_written: bool) -> Result<(*mut u8, usize, Option<DType>), MemoryError> {
        let missing = |what: &str| MemoryError::Plan(format!("there is no {what}"));
        match root {
            Root::Arena { offset, bytes } => {
                let there = self.arena.len();
                if offset.checked_add(bytes).is_none_or(|end| end > there) {
                    return Err(missing(&format!("byte {offset} + {bytes} in an arena of {there} bytes")));
                }
                Ok((self.arena.as_mut_ptr().wrapping_add(offset), bytes, None))
            }
            Root::Device { .. } => Err(missing("CPU memory for a place on a device")),
            Root::Output(position) => {
                let output = self.outputs.get_mut(position);
                let output = output.ok_or_else(|| missing(&format!("output {position}")))?;
                let (start, bytes) = output.raw_bytes()?;
                Ok((start, bytes, Some(output.dtype())))
            }
            Root::Input(position) => match self.inputs.get_mut(position) {
                Some(InputBinding::Donated(input)) => {
                    let (start, bytes) = input.raw_bytes()?;
                    Ok((start, bytes, Some(input.dtype())))
                }
                Some(InputBinding::Shared(input)) if !is_written => readable(input),
                Some(InputBinding::Shared(_)) => Err(missing(&format!("donated input {position}"))),
                None => Err(missing(&format!("input {position}"))),
            },
            Root::Constant(position) => match self.constants.get(position) {
                Some(Some(constant)) if !is_written => readable(&constant.view()),
                _ => Err(missing(&format!("constant {position}, or one that may be written"))),
            },
        }
    }

    fn scratch(&mut self, range: &Range<usize>) -> Result<(*mut u8, usize), MemoryError> {
        let there = self.arena.len();
        let bytes = range.end.saturating_sub(range.start);
        if range.end > there || (bytes > 0 && !range.start.is_multiple_of(ALIGNMENT)) {
            return Err(MemoryError::Plan(format!(
                "scratch memory {range:?} is not aligned, or outside the arena of {there} bytes"
            )));
        }
        let start = if bytes == 0 { 0 } else { range.start };
        Ok((self.arena.as_mut_ptr().wrapping_add(start), bytes))
    }
}

/// The bytes of a read-only tensor.
fn readable(view: &TensorView<'_>) -> Result<(*mut u8, usize, Option<DType>), MemoryError> {
    let bytes = view.bytes()?;
    Ok((bytes.as_ptr().cast_mut(), bytes.len(), Some(view.dtype())))
}

fn ends(start: *mut u8, bytes: usize) -> Range<usize> {
    start as usize..(start as usize).saturating_add(bytes)
}

fn overlap(left: &Range<usize>, right: &Range<usize>) -> bool {
    !left.is_empty() && !right.is_empty() && left.start < right.end && right.start < left.end
}

impl Region<'_> {
    fn ends(&self) -> Range<usize> {
        ends(self.start, self.bytes)
    }

    /// True if the bytes may be left over from another tensor.
    fn is_unknown(&self) -> bool {
        self.holds != Some(self.place.dtype)
    }

    /// A view of the region. The bytes of bools must be 0 or 1, as anything else would be undefined behaviour.
    ///
    /// # Safety
    /// The region must be readable and not be written for `'a`.
    unsafe fn for_reading<'a>(&self) -> Result<TensorView<'a>, MemoryError> {
        let (dtype, layout) = (self.place.dtype, self.place.layout.with_offset(0));
        if dtype == DType::Bool && self.is_unknown() {
            // SAFETY: by contract; every byte of our memory is initialised.
            let bytes = unsafe { std::slice::from_raw_parts(self.start, self.bytes) };
            if bytes.iter().any(|&byte| byte > 1) {
                return Err(MemoryError::Plan("a bool tensor is read from bytes other than 0 and 1".into()));
            }
        }
        // SAFETY: by contract; alignment and size were checked when the region was made.
        Ok(unsafe { TensorView::from_raw(dtype, layout, self.start, self.bytes / dtype.size()) })
    }

    /// # Safety
    /// The region must be writable and not be accessed otherwise for `'a`.
    unsafe fn for_writing<'a>(&self) -> Result<TensorViewMut<'a>, MemoryError> {
        let (dtype, layout) = (self.place.dtype, self.place.layout.with_offset(0));
        let is_bool = dtype == DType::Bool || self.holds == Some(DType::Bool);
        if is_bool && self.holds.is_some_and(|holds| holds != dtype) {
            return Err(MemoryError::Plan(
                "bool memory cannot be written as another type or vice versa".into(),
            ));
        }
        if is_bool && self.is_unknown() {
            // SAFETY: by contract; every byte of our memory is initialised.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) };
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        // SAFETY: by contract; alignment and size were checked when the region was made, and the layout is injective.
        Ok(unsafe { TensorViewMut::from_raw(dtype, layout, self.start, self.bytes / dtype.size()) })
    }
}
