//! Borrowed tensors: what layers read from and write to.
//!
//! The bytes of a [`TensorView`] or [`TensorViewMut`] may belong to a [`Tensor`](super::Tensor), a caller's slice or a
//! slot of an arena. Typed access checks the element type and returns ndarray views or slices.

use super::{Bits, DType, Element, Format, Layout, Result, Shape, TensorError};
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};
use std::marker::PhantomData;

/// A tensor borrowed for reading.
///
/// Cheap to copy. The bytes stay borrowed for `'a`.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    dtype: DType,
    layout: Layout,
    data: *const u8,
    len: usize,
    lifetime: PhantomData<&'a u8>,
}

// SAFETY: a view only reads, like `&[T]` of element types that are all `Sync`.
unsafe impl Send for TensorView<'_> {}
// SAFETY: as above.
unsafe impl Sync for TensorView<'_> {}

impl<'a> TensorView<'a> {
    /// A view of a slice of elements.
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] when the layout reaches past the slice.
    pub fn from_slice<T: Element>(data: &'a [T], layout: Layout) -> Result<Self> {
        layout.check_within(data.len())?;
        // SAFETY: the slice holds `len` elements of T for 'a, and the layout was just checked.
        Ok(unsafe { Self::from_raw(T::DTYPE, layout, data.as_ptr().cast(), data.len()) })
    }

    /// A view of an ndarray with any non-negative strides.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for negative strides; an error if a [`Shape`] cannot hold the rank or size.
    pub fn from_array<T: Element, D: ndarray::Dimension>(
        array: ndarray::ArrayView<'a, T, D>,
    ) -> Result<Self> {
        let layout = array_layout(array.shape(), array.strides())?;
        // SAFETY: ndarray guarantees that every element reached by shape and strides is readable for 'a; without
        // negative strides they are within `span` elements from the first.
        Ok(unsafe { Self::from_raw(T::DTYPE, layout, array.as_ptr().cast(), layout.span()) })
    }

    /// A view of `len` elements at `data`.
    ///
    /// # Safety
    /// `data` must be aligned for `dtype` and point to `len` valid elements of it that stay readable and unwritten for
    /// `'a`; the layout must stay within them.
    pub unsafe fn from_raw(dtype: DType, layout: Layout, data: *const u8, len: usize) -> Self {
        Self { dtype, layout, data, len, lifetime: PhantomData }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The layout, in elements of the underlying storage.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape().num_elements()
    }

    /// The same bytes under another layout, such as the result of [`Layout::permute`].
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] if the layout exceeds the storage.
    pub fn with_layout(&self, layout: Layout) -> Result<Self> {
        layout.check_within(self.len)?;
        Ok(Self { layout, ..*self })
    }

    /// The elements as an ndarray view, without a copy.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] when the elements are not `T`; [`TensorError::Blocked`] for a blocked layout.
    pub fn array<T: Element>(&self) -> Result<ArrayViewD<'a, T>> {
        self.check_dtype::<T>()?;
        self.typed_array()
    }

    /// The elements as raw bits of their size, for copying them without regard to type.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if `B` cannot hold the elements; [`TensorError::Blocked`] for a blocked layout.
    pub fn bits<B: Bits>(&self) -> Result<ArrayViewD<'a, B>> {
        check_bits::<B>(self.dtype)?;
        self.typed_array()
    }

    /// As [`TensorView::bits`], as a slice in row-major order.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if `B` cannot hold the elements; [`TensorError::NotContiguous`] if they are not
    /// contiguous.
    pub fn bits_slice<B: Bits>(&self) -> Result<&'a [B]> {
        check_bits::<B>(self.dtype)?;
        check_contiguous(&self.layout)?;
        // SAFETY: as in `slice`; B has the size of the element type, and every element is a valid B.
        Ok(unsafe { std::slice::from_raw_parts(self.address().cast(), self.num_elements()) })
    }

    /// The elements as a slice in row-major order, without a copy.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] if the elements are not `T`; [`TensorError::NotContiguous`] if they are not contiguous.
    pub fn slice<T: Element>(&self) -> Result<&'a [T]> {
        self.check_dtype::<T>()?;
        check_contiguous(&self.layout)?;
        // SAFETY: type and contiguity were checked, and the layout is within the storage.
        Ok(unsafe {
            std::slice::from_raw_parts(self.data.cast::<T>().add(self.layout.offset()), self.num_elements())
        })
    }

    /// The bytes of a contiguous view in row-major order.
    ///
    /// # Errors
    /// [`TensorError::NotContiguous`] if the elements are not contiguous.
    pub fn bytes(&self) -> Result<&'a [u8]> {
        check_contiguous(&self.layout)?;
        let size = self.dtype.size();
        // SAFETY: as in `slice`; every element's bytes are initialised.
        Ok(unsafe {
            std::slice::from_raw_parts(self.data.add(self.layout.offset() * size), self.num_elements() * size)
        })
    }

    /// The address of the first element, for any strides.
    pub fn address(&self) -> *const u8 {
        address(&self.layout, self.dtype, self.data)
    }

    fn check_dtype<T: Element>(&self) -> Result<()> {
        check_dtype::<T>(self.dtype)
    }

    fn typed_array<T>(&self) -> Result<ArrayViewD<'a, T>> {
        let (shape, offset) = array_shape(&self.layout)?;
        // SAFETY: the caller checked that the elements may be read as T. The layout is within storage that is aligned and
        // readable for 'a, and strides are not negative.
        Ok(unsafe { ArrayViewD::from_shape_ptr(shape, self.data.cast::<T>().add(offset)) })
    }
}

/// A tensor borrowed for writing: no two of its elements overlap.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    dtype: DType,
    layout: Layout,
    data: *mut u8,
    len: usize,
    lifetime: PhantomData<&'a mut u8>,
}

// SAFETY: a mutable view is exclusive, like `&mut [T]` of element types that are all `Send`.
unsafe impl Send for TensorViewMut<'_> {}
// SAFETY: through `&TensorViewMut` elements can only be read.
unsafe impl Sync for TensorViewMut<'_> {}

impl<'a> TensorViewMut<'a> {
    /// A mutable view of a slice of elements.
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] when the layout reaches past the slice or maps two indices to one element.
    pub fn from_slice<T: Element>(data: &'a mut [T], layout: Layout) -> Result<Self> {
        check_writable(&layout, data.len())?;
        // SAFETY: the slice is exclusively ours for 'a, and the layout was just checked.
        Ok(unsafe { Self::from_raw(T::DTYPE, layout, data.as_mut_ptr().cast(), data.len()) })
    }

    /// A mutable view of `len` elements at `data`.
    ///
    /// # Safety
    /// As [`TensorView::from_raw`]; in addition, the elements must not be accessed in any other way for `'a`, and the
    /// layout must be injective.
    pub unsafe fn from_raw(dtype: DType, layout: Layout, data: *mut u8, len: usize) -> Self {
        Self { dtype, layout, data, len, lifetime: PhantomData }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The layout, in elements of the underlying storage.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape().num_elements()
    }

    /// The same elements for reading; this view is borrowed meanwhile.
    pub fn as_view(&self) -> TensorView<'_> {
        // SAFETY: the result borrows `self`, so nothing is written through it in the meantime.
        unsafe { TensorView::from_raw(self.dtype, self.layout, self.data, self.len) }
    }

    /// The same elements for writing; this view is borrowed meanwhile.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut { layout: self.layout, lifetime: PhantomData, ..*self }
    }

    /// The same bytes under another layout.
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] if the layout exceeds the storage or maps two indices to one element.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        check_writable(&layout, self.len)?;
        Ok(Self { layout, ..self })
    }

    /// The elements as a mutable ndarray view, without a copy.
    ///
    /// # Errors
    /// As [`TensorView::array`].
    pub fn array<T: Element>(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        check_dtype::<T>(self.dtype)?;
        self.typed_array()
    }

    /// The elements as raw bits of their size, for copying them without regard to type.
    ///
    /// # Errors
    /// As [`TensorView::bits`].
    pub fn bits<B: Bits>(&mut self) -> Result<ArrayViewMutD<'_, B>> {
        check_bits::<B>(self.dtype)?;
        self.typed_array()
    }

    /// As [`TensorViewMut::bits`], as a mutable slice in row-major order.
    ///
    /// # Errors
    /// As [`TensorView::bits_slice`].
    pub fn bits_slice<B: Bits>(&mut self) -> Result<&mut [B]> {
        check_bits::<B>(self.dtype)?;
        check_contiguous(&self.layout)?;
        // SAFETY: as in `slice`; B has the size of the element type, and every element is a valid B.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address_mut().cast(), self.num_elements()) })
    }

    /// The elements as a mutable slice in row-major order.
    ///
    /// # Errors
    /// As [`TensorView::slice`].
    pub fn slice<T: Element>(&mut self) -> Result<&mut [T]> {
        check_dtype::<T>(self.dtype)?;
        check_contiguous(&self.layout)?;
        // SAFETY: type and contiguity were checked, and `&mut self` makes the access exclusive.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(
                self.data.cast::<T>().add(self.layout.offset()),
                self.num_elements(),
            )
        })
    }

    /// The bytes of a contiguous view in row-major order, for filling them from a file.
    ///
    /// # Errors
    /// [`TensorError::NotContiguous`] if the elements are not contiguous; [`TensorError::WrongDType`] for bool, whose
    /// bytes may only be 0 or 1.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if self.dtype == DType::Bool {
            return Err(TensorError::WrongDType { wanted: DType::U8, found: DType::Bool });
        }
        check_contiguous(&self.layout)?;
        let size = self.dtype.size();
        // SAFETY: the elements are contiguous and exclusively ours, and every bit pattern is a value of their type.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(
                self.data.add(self.layout.offset() * size),
                self.num_elements() * size,
            )
        })
    }

    /// The address of the first element, for any strides. The caller must exclude concurrent access.
    pub fn address_mut(&mut self) -> *mut u8 {
        address(&self.layout, self.dtype, self.data).cast_mut()
    }

    /// Address and number of the bytes of a contiguous view. The caller must exclude concurrent access.
    ///
    /// # Errors
    /// [`TensorError::NotContiguous`] if the elements are not contiguous.
    pub fn raw_bytes(&mut self) -> Result<(*mut u8, usize)> {
        check_contiguous(&self.layout)?;
        let size = self.dtype.size();
        // An empty view may begin past its storage.
        let offset = if self.num_elements() == 0 { 0 } else { self.layout.offset() * size };
        Ok((self.data.wrapping_add(offset), self.num_elements() * size))
    }

    fn typed_array<T>(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        let (shape, offset) = array_shape(&self.layout)?;
        // SAFETY: the caller checked that the elements may be accessed as T. The layout is within the storage and
        // injective, and `&mut self` makes the access exclusive.
        Ok(unsafe { ArrayViewMutD::from_shape_ptr(shape, self.data.cast::<T>().add(offset)) })
    }
}

/// The address of a view's first element. The offset of an empty view may exceed its storage and is ignored.
fn address(layout: &Layout, dtype: DType, data: *const u8) -> *const u8 {
    let offset = if layout.shape().num_elements() == 0 { 0 } else { layout.offset() * dtype.size() };
    data.wrapping_add(offset)
}

pub(super) fn check_dtype<T: Element>(found: DType) -> Result<()> {
    if found == T::DTYPE { Ok(()) } else { Err(TensorError::WrongDType { wanted: T::DTYPE, found }) }
}

fn check_bits<B: Bits>(dtype: DType) -> Result<()> {
    if B::stands_for(dtype) {
        return Ok(());
    }
    let name = std::any::type_name::<B>();
    Err(TensorError::InvalidArgument(format!("elements of {dtype} cannot be moved as {name}")))
}

fn check_contiguous(layout: &Layout) -> Result<()> {
    if layout.is_contiguous() {
        return Ok(());
    }
    Err(TensorError::NotContiguous { shape: layout.shape().to_vec() })
}

pub(super) fn check_writable(layout: &Layout, len: usize) -> Result<()> {
    layout.check_within(len)?;
    if layout.is_injective() {
        return Ok(());
    }
    Err(TensorError::BadLayout {
        shape: layout.shape().to_vec(),
        strides: layout.strides().to_vec(),
        offset: layout.offset(),
        len,
    })
}

/// The layout of an ndarray's elements, counted from its first.
pub(super) fn array_layout(shape: &[usize], strides: &[isize]) -> Result<Layout> {
    let shape = Shape::new(shape)?;
    if shape.num_elements() == 0 {
        return Ok(Layout::contiguous(shape));
    }
    let strides: Option<Vec<usize>> = strides.iter().map(|&stride| usize::try_from(stride).ok()).collect();
    let strides = strides.ok_or_else(|| {
        TensorError::InvalidArgument(
            "negative strides are not supported; copy the array with `to_owned` first".into(),
        )
    })?;
    Layout::strided(shape, &strides, 0)
}

type StridedIx = ndarray::StrideShape<IxDyn>;

fn array_shape(layout: &Layout) -> Result<(StridedIx, usize)> {
    if let Format::Blocked { axis, block } = layout.format() {
        return Err(TensorError::Blocked { axis: axis.into(), block: block.into() });
    }
    let (shape, strides) = (IxDyn(layout.shape()), IxDyn(layout.strides()));
    // The offset of an empty view may exceed its storage, a pointer must not.
    let offset = if layout.shape().num_elements() == 0 { 0 } else { layout.offset() };
    Ok((shape.strides(strides), offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    #[test]
    fn a_slice_is_read_in_place() {
        let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let view = TensorView::from_slice(&data, plain(&[2, 3])).unwrap();
        let array = view.array::<f32>().unwrap();
        assert_eq!((array.as_ptr(), array[[1, 2]]), (data.as_ptr(), 6.0));
        let turned = view.with_layout(view.layout().permute(&[1, 0]).unwrap()).unwrap();
        assert_eq!(turned.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(matches!(turned.slice::<f32>(), Err(TensorError::NotContiguous { .. })));
    }

    #[test]
    fn types_are_checked() {
        let data = [1u8, 2];
        let view = TensorView::from_slice(&data, plain(&[2])).unwrap();
        assert!(matches!(view.array::<bool>(), Err(TensorError::WrongDType { .. })));
        assert!(view.bits::<bool>().is_err() && view.bits::<u16>().is_err());
        assert!(view.bits::<u8>().is_ok());
    }

    #[test]
    fn layouts_outside_the_storage_are_rejected() {
        let mut data = [0i32; 6];
        assert!(TensorView::from_slice(&data, plain(&[7])).is_err());
        let repeated = plain(&[1]).expand(&[4]).unwrap();
        assert!(TensorView::from_slice(&data, repeated).is_ok());
        assert!(TensorViewMut::from_slice(&mut data, repeated).is_err());
    }

    #[test]
    fn copying_moves_between_layouts() {
        let source = [1i16, 2, 3, 4, 5, 6];
        let mut target = [0i16; 6];
        let from = TensorView::from_slice(&source, plain(&[2, 3])).unwrap();
        let layout = plain(&[3, 2]).permute(&[1, 0]).unwrap();
        TensorViewMut::from_slice(&mut target, layout).unwrap().copy_from(&from).unwrap();
        assert_eq!(target, [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn bytes_are_written_in_place_except_for_bool() {
        let mut data = [0u8; 4];
        TensorViewMut::from_slice(&mut data, plain(&[4]))
            .unwrap()
            .bytes_mut()
            .unwrap()
            .copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(data, [1, 2, 3, 4]);
        assert!(TensorViewMut::from_slice(&mut [false], plain(&[1])).unwrap().bytes_mut().is_err());
    }

    #[test]
    fn ndarray_views_of_any_order() {
        let array = ndarray::arr2(&[[1.0f64, 2.0], [3.0, 4.0]]);
        let view = TensorView::from_array(array.t()).unwrap();
        assert_eq!(view.to_vec::<f64>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
        let reversed = array.slice(ndarray::s![..;-1, ..]);
        assert!(TensorView::from_array(reversed).is_err());
    }

    #[test]
    fn empty_views_at_the_end_are_fine() {
        let data = [1.0f32; 4];
        let view = TensorView::from_slice(&data, plain(&[4]).narrow(0, 4, 0).unwrap()).unwrap();
        assert!(view.to_vec::<f32>().unwrap().is_empty());
        assert!(view.array::<f32>().unwrap().is_empty());
    }
}
