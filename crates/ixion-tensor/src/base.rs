//! Owned tensors: construction, sharing, views, and conversion from and to ndarray.

use super::bits::reverse_words;
use super::storage::Storage;
use super::view::{array_layout, check_dtype};
use super::{DType, Element, Format, Layout, Result, Shape, TensorError, TensorView, TensorViewMut};
use super::{resolve_axes, with_element};
use ndarray::{Array, ArrayD, ArrayViewD, Dimension, IxDyn, ShapeBuilder};
use std::sync::Arc;

/// An N-d tensor: element type, layout and shared storage.
///
/// Cloning shares the storage, and so do all views (`permute`, `narrow`, `reshape` where possible, …). Writing to
/// a tensor with shared storage copies it first, so clones are not affected.
///
/// ```
/// use ixion_tensor::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// let turned = x.permute(&[1, 0])?;
/// assert_eq!(turned.shape().dims(), &[3, 2]);
/// assert_eq!(turned.array::<f32>()?[[2, 1]], 6.0);
/// # Ok::<(), ixion_tensor::TensorError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: DType,
    layout: Layout,
    storage: Arc<Storage>,
}

impl Tensor {
    /// A contiguous tensor of zeros (`false` for bool).
    ///
    /// # Errors
    /// [`TensorError::RankTooLarge`], [`TensorError::SizeOverflow`] or [`TensorError::OutOfMemory`].
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        Self::zeros_with_layout(dtype, Layout::contiguous(Shape::new(shape)?))
    }

    /// A contiguous tensor of arbitrary elements (`false` for bool), for a result that is written as a whole: `torch.empty`.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn empty(dtype: DType, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(Shape::new(shape)?);
        // Only zeros and ones are bools.
        let allocate = if dtype == DType::Bool { Storage::zeroed } else { Storage::arbitrary };
        Self::allocated(dtype, layout, allocate)
    }

    /// A tensor of zeros in a given layout.
    ///
    /// # Errors
    /// [`TensorError::SizeOverflow`] or [`TensorError::OutOfMemory`].
    pub fn zeros_with_layout(dtype: DType, layout: Layout) -> Result<Self> {
        Self::allocated(dtype, layout, Storage::zeroed)
    }

    fn allocated(dtype: DType, layout: Layout, allocate: fn(usize) -> Result<Storage>) -> Result<Self> {
        let bytes = layout.span().checked_mul(dtype.size());
        let bytes = bytes.ok_or_else(|| TensorError::SizeOverflow { shape: layout.shape().to_vec() })?;
        Ok(Self { dtype, layout, storage: Arc::new(allocate(bytes)?) })
    }

    /// Takes over a vector of elements in row-major order.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] if the number of elements does not match `shape`.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[usize]) -> Result<Self> {
        let shape = Shape::new(shape)?;
        if data.len() != shape.num_elements() {
            return Err(TensorError::ShapeMismatch {
                operation: "from_vec",
                wanted: shape.to_vec(),
                found: vec![data.len()],
            });
        }
        Ok(Self {
            dtype: T::DTYPE,
            layout: Layout::contiguous(shape),
            storage: Arc::new(Storage::from_vec(data)),
        })
    }

    /// A scalar: a tensor with no axes and one element.
    pub fn scalar<T: Element>(value: T) -> Self {
        let storage = Arc::new(Storage::from_vec(vec![value]));
        Self { dtype: T::DTYPE, layout: Layout::contiguous(Shape::SCALAR), storage }
    }

    /// A tensor from the little-endian bytes of its elements in row-major order, as stored in model files.
    ///
    /// Any non-zero byte of a bool becomes `true`.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if the number of bytes does not match the shape.
    pub fn from_le_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        let mut tensor = Self::zeros(dtype, shape)?;
        let wanted = tensor.num_elements() * dtype.size();
        if bytes.len() != wanted {
            let found = bytes.len();
            return Err(TensorError::InvalidArgument(format!(
                "expected {wanted} bytes for shape {shape:?} of {dtype}, got {found}"
            )));
        }
        let mut view = tensor.view_mut()?;
        if dtype == DType::Bool {
            view.slice::<bool>()?.iter_mut().zip(bytes).for_each(|(to, &byte)| *to = byte != 0);
            return Ok(tensor);
        }
        let target = view.bytes_mut()?;
        target.copy_from_slice(bytes);
        if cfg!(target_endian = "big") {
            reverse_words(target, dtype);
        }
        Ok(tensor)
    }

    /// The little-endian bytes of the elements in row-major order.
    ///
    /// # Errors
    /// [`TensorError::Blocked`].
    pub fn to_le_bytes(&self) -> Result<Vec<u8>> {
        self.view().to_le_bytes()
    }

    /// Takes over an ndarray. Nothing is copied unless an axis is reversed or the array is a slice of its buffer.
    ///
    /// # Errors
    /// Returns an error if a [`Shape`] cannot hold the rank or size.
    pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>) -> Result<Self> {
        let array = array.into_dyn();
        let Ok(layout) = array_layout(array.shape(), array.strides()) else {
            return Self::from_vec(array.iter().copied().collect(), array.shape());
        };
        let (data, offset) = array.into_raw_vec_and_offset();
        if offset.unwrap_or(0) != 0 || layout.span() > data.len() {
            let view = data.get(offset.unwrap_or(0)..).unwrap_or_default();
            return TensorView::from_slice(view, layout)?.to_tensor();
        }
        Ok(Self { dtype: T::DTYPE, layout, storage: Arc::new(Storage::from_vec(data)) })
    }

    /// The elements as an owned ndarray. Nothing is copied if the tensor came from an ndarray or a `Vec` and is its sole
    /// owner; a buffer that Ixion allocated has an alignment that a `Vec` cannot have, and is copied once.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] or [`TensorError::Blocked`].
    pub fn into_array<T: Element>(self) -> Result<ArrayD<T>> {
        check_dtype::<T>(self.dtype)?;
        let layout = self.layout;
        if layout.offset() != 0 || layout.format() != Format::Plain || !layout.is_injective() {
            return Ok(self.array::<T>()?.to_owned());
        }
        let shape = IxDyn(layout.shape()).strides(IxDyn(layout.strides()));
        let storage = match Arc::try_unwrap(self.storage).map(Storage::into_vec::<T>) {
            Ok(Ok(vec)) => return Array::from_shape_vec(shape, vec).map_err(array_error),
            Ok(Err(storage)) => Arc::new(storage),
            Err(shared) => shared,
        };
        Ok(Self { storage, ..self }.array::<T>()?.to_owned())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The layout, in elements of the storage.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape().num_elements()
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.num_elements() == 0
    }

    /// The size of the elements in bytes when stored contiguously.
    pub fn byte_len(&self) -> usize {
        self.num_elements() * self.dtype.size()
    }

    /// The size in bytes of the storage that this tensor keeps alive, shared or not.
    pub fn storage_bytes(&self) -> usize {
        self.storage.len()
    }

    /// The address of the storage: equal for tensors that share it. For bookkeeping, not for access.
    pub fn storage_id(&self) -> usize {
        self.storage.as_ptr() as usize
    }

    /// True when both tensors are views of one storage.
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage)
    }

    /// A view for reading.
    pub fn view(&self) -> TensorView<'_> {
        // SAFETY: the storage lives as long as the borrow and is not written meanwhile; construction and every change
        // of layout check that the layout is within it, and its elements were written as `dtype`.
        unsafe { TensorView::from_raw(self.dtype, self.layout, self.storage.as_ptr(), self.storage_len()) }
    }

    /// A contiguous tensor over storage that holds its elements.
    ///
    /// # Safety
    /// The storage must be as long as the shape needs, aligned for the element type, and hold valid elements of it.
    #[doc(hidden)]
    pub unsafe fn from_storage(dtype: DType, shape: Shape, storage: Storage) -> Self {
        Self { dtype, layout: Layout::contiguous(shape), storage: Arc::new(storage) }
    }

    /// A view for writing. The tensor is copied first if its storage is shared or mapped, or its layout repeats elements.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] or [`TensorError::Blocked`] if the copy fails.
    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_>> {
        let is_own = Arc::get_mut(&mut self.storage).is_some_and(|storage| storage.is_writable());
        if !is_own || !self.layout.is_injective() {
            *self = self.deep_copy()?;
        }
        let len = self.storage_len();
        match Arc::get_mut(&mut self.storage).filter(|storage| storage.is_writable()) {
            Some(storage) => {
                let data = storage.as_mut_ptr();
                // SAFETY: `get_mut` proves that the storage has no other owner, and it is not a mapped file; the layout
                // is within it and injective.
                Ok(unsafe { TensorViewMut::from_raw(self.dtype, self.layout, data, len) })
            }
            None => Err(TensorError::InvalidArgument("the storage is shared".into())),
        }
    }

    /// The elements as an ndarray view, without a copy.
    ///
    /// # Errors
    /// As [`TensorView::array`].
    pub fn array<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        self.view().array()
    }

    /// The elements as a slice in row-major order, without a copy.
    ///
    /// # Errors
    /// As [`TensorView::slice`].
    pub fn slice<T: Element>(&self) -> Result<&[T]> {
        self.view().slice()
    }

    /// All elements in row-major order, copied.
    ///
    /// # Errors
    /// As [`TensorView::array`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }

    /// The element of a tensor that has exactly one (`torch.Tensor.item`).
    ///
    /// # Errors
    /// [`TensorError::WrongDType`], or [`TensorError::ShapeMismatch`] for any other number of elements.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec::<T>()?.as_slice() {
            [value] => Ok(*value),
            _ => Err(TensorError::ShapeMismatch {
                operation: "item",
                wanted: vec![1],
                found: self.shape().to_vec(),
            }),
        }
    }

    /// The same storage under another layout.
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] if the layout exceeds the storage.
    pub fn with_layout(&self, layout: Layout) -> Result<Self> {
        layout.check_within(self.storage_len())?;
        Ok(Self { dtype: self.dtype, layout, storage: Arc::clone(&self.storage) })
    }

    /// The same storage under another layout, with complex elements read as pairs of their real type or the reverse. The
    /// layout is in elements of the new type.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] unless one type is the real type of the other; otherwise as [`Tensor::with_layout`].
    pub fn as_parts(&self, dtype: DType, layout: Layout) -> Result<Self> {
        let is_related = |complex: DType, real: DType| complex.is_complex() && complex.real() == real;
        if dtype != self.dtype && !is_related(dtype, self.dtype) && !is_related(self.dtype, dtype) {
            return Err(TensorError::WrongDType { wanted: dtype, found: self.dtype });
        }
        // A complex number is stored as its two parts and has their alignment.
        Self { dtype, layout: Layout::contiguous(Shape::SCALAR), storage: Arc::clone(&self.storage) }
            .with_layout(layout)
    }

    /// The axes in another order, without a copy (`torch.permute`); negative axes count from the end.
    ///
    /// # Errors
    /// Returns an error if `order` is not a permutation of the axes.
    pub fn permute(&self, order: &[i64]) -> Result<Self> {
        self.with_layout(self.layout.permute(&resolve_axes(order, self.rank())?)?)
    }

    /// `len` elements from `start` along an axis, without a copy (`torch.narrow`).
    ///
    /// # Errors
    /// Returns an error if the axis or the range is out of bounds.
    pub fn narrow(&self, axis: i64, start: usize, len: usize) -> Result<Self> {
        self.with_layout(self.layout.narrow(self.shape().axis(axis)?, start, len)?)
    }

    /// Selects one index of an axis and drops the axis, without a copy (`torch.select`).
    ///
    /// # Errors
    /// Returns an error if the axis or the index is out of range.
    pub fn select(&self, axis: i64, index: usize) -> Result<Self> {
        self.with_layout(self.layout.select(self.shape().axis(axis)?, index)?)
    }

    /// Repeats axes of length 1 without a copy (`torch.expand`).
    ///
    /// # Errors
    /// [`TensorError::NotBroadcastable`].
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        self.with_layout(self.layout.expand(shape)?)
    }

    /// This tensor if it is contiguous, else a contiguous copy.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] or [`TensorError::Blocked`].
    pub fn contiguous(&self) -> Result<Self> {
        if self.layout.is_contiguous() { Ok(self.clone()) } else { self.deep_copy() }
    }

    /// A contiguous copy with its own storage.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] or [`TensorError::Blocked`].
    pub fn deep_copy(&self) -> Result<Self> {
        self.view().to_tensor()
    }

    fn storage_len(&self) -> usize {
        self.storage.len() / self.dtype.size()
    }
}

impl TensorView<'_> {
    /// All elements in row-major order, copied.
    ///
    /// # Errors
    /// As [`TensorView::array`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        match self.slice() {
            Ok(slice) => Ok(slice.to_vec()),
            // Faster than an iterator over permuted axes: the copy follows the memory order of both.
            Err(_) => {
                check_dtype::<T>(self.dtype())?;
                Ok(self.to_tensor()?.slice::<T>()?.to_vec())
            }
        }
    }

    /// An owned, contiguous copy.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`], or [`TensorError::Blocked`] for a blocked layout.
    pub fn to_tensor(&self) -> Result<Tensor> {
        let mut tensor = Tensor::empty(self.dtype(), self.shape())?;
        tensor.view_mut()?.copy_from(self)?;
        Ok(tensor)
    }

    /// The little-endian bytes of the elements in row-major order.
    ///
    /// # Errors
    /// [`TensorError::Blocked`].
    pub fn to_le_bytes(&self) -> Result<Vec<u8>> {
        if !self.layout().is_contiguous() {
            return self.to_tensor()?.view().to_le_bytes();
        }
        let mut bytes = self.bytes()?.to_vec();
        if cfg!(target_endian = "big") {
            reverse_words(&mut bytes, self.dtype());
        }
        Ok(bytes)
    }
}

/// Equal if element type, shape and all elements are equal; the layouts may differ. NaN is not equal to itself.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        if self.dtype != other.dtype || self.shape() != other.shape() {
            return false;
        }
        match (self.contiguous(), other.contiguous()) {
            (Ok(left), Ok(right)) => with_element!(self.dtype, T => {
                matches!((left.slice::<T>(), right.slice::<T>()), (Ok(left), Ok(right)) if left == right)
            }),
            _ => self.layout == other.layout && self.storage.len() == other.storage.len(),
        }
    }
}

fn array_error(error: ndarray::ShapeError) -> TensorError {
    TensorError::InvalidArgument(format!("ndarray rejected the layout: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;
    use ndarray::arr2;

    fn counting(dims: &[usize]) -> Tensor {
        let len = dims.iter().product::<usize>();
        Tensor::from_vec((0..len).map(|i| i as f32).collect(), dims).unwrap()
    }

    #[test]
    fn every_dtype_round_trips_through_bytes() {
        for dtype in DType::ALL {
            let bytes: Vec<u8> = (0..6 * dtype.size())
                .map(|i| if dtype == DType::Bool { i as u8 % 2 } else { i as u8 })
                .collect();
            let tensor = Tensor::from_le_bytes(dtype, &[2, 3], &bytes).unwrap();
            assert_eq!((tensor.dtype(), tensor.shape().dims()), (dtype, &[2, 3][..]));
            assert_eq!(tensor.to_le_bytes().unwrap(), bytes);
            assert_eq!(tensor.permute(&[1, 0]).unwrap().permute(&[1, 0]).unwrap(), tensor);
            assert!(Tensor::from_le_bytes(dtype, &[7], &bytes).is_err());
        }
    }

    #[test]
    fn every_rust_type_is_held() {
        fn check<T: Element>(value: T) {
            let tensor = Tensor::from_vec(vec![value; 4], &[2, 2]).unwrap();
            assert_eq!(tensor.array::<T>().unwrap()[[1, 1]], value);
            assert_eq!(Tensor::scalar(value).item::<T>().unwrap(), value);
            assert_eq!(tensor.clone().into_array::<T>().unwrap().len(), 4);
        }
        check(1.5f32);
        check(1.5f64);
        check(crate::f16::from_f32(1.5));
        check(crate::bf16::from_f32(1.5));
        check(-1i64);
        check(-1i32);
        check(-1i16);
        check(-1i8);
        check(200u8);
        check(true);
        check(Complex::new(crate::f16::ONE, crate::f16::ZERO));
        check(Complex::new(1f32, 2.0));
        check(Complex::new(1f64, 2.0));
    }

    #[test]
    fn foreign_bytes_of_bool_become_valid() {
        let tensor = Tensor::from_le_bytes(DType::Bool, &[3], &[0, 7, 255]).unwrap();
        assert_eq!(tensor.to_vec::<bool>().unwrap(), [false, true, true]);
    }

    #[test]
    fn ndarray_round_trips_without_a_copy() {
        let array = arr2(&[[1.0f32, 2.0], [3.0, 4.0]]);
        let address = array.as_ptr();
        let tensor = Tensor::from_array(array).unwrap();
        assert_eq!(tensor.array::<f32>().unwrap().as_ptr(), address);
        let back = tensor.into_array::<f32>().unwrap();
        assert_eq!(back.as_ptr(), address);
    }

    #[test]
    fn transposed_sliced_and_reversed_arrays_keep_their_elements() {
        let array = arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        let turned = Tensor::from_array(array.clone().reversed_axes()).unwrap();
        assert_eq!(turned.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let inner = Tensor::from_array(array.clone().slice_move(ndarray::s![1.., 1..])).unwrap();
        assert_eq!(inner.to_vec::<f32>().unwrap(), [5.0, 6.0]);
        let flipped = Tensor::from_array(array.slice_move(ndarray::s![..;-1, ..])).unwrap();
        assert_eq!(flipped.to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn writing_to_a_shared_tensor_leaves_the_other_alone() {
        let mut x = counting(&[4]);
        let other = x.clone();
        assert!(x.shares_storage(&other));
        x.view_mut().unwrap().slice::<f32>().unwrap()[0] = 9.0;
        assert_eq!((x.to_vec::<f32>().unwrap()[0], other.to_vec::<f32>().unwrap()[0]), (9.0, 0.0));
    }

    #[test]
    fn writing_to_an_expanded_tensor_writes_every_element_separately() {
        let mut x = counting(&[1]).expand(&[3]).unwrap();
        x.view_mut().unwrap().slice::<f32>().unwrap()[1] = 5.0;
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 5.0, 0.0]);
    }

    #[test]
    fn an_impossible_tensor_is_an_error() {
        assert!(Tensor::zeros(DType::F32, &[1 << 40, 1 << 40]).is_err());
        assert!(Tensor::zeros(DType::C128, &[1 << 58]).is_err());
        assert!(Tensor::from_vec(vec![1.0f32], &[2]).is_err());
    }
}
