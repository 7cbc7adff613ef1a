//! DLPack: tensors of other libraries as inputs and outputs, and outputs for other libraries.
//!
//! The structures are those of DLPack 1, whose first version lacks the flags: <https://dmlc.github.io/dlpack/latest/c_api.html>.

use super::label::Label;
use super::region::{Held, Region};
use ixion::tensor::{DType, Layout, MAX_RANK, Shape, TensorError};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};
use pyo3::{ffi, intern};
use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// The devices whose memory the processor reads: the CPU itself, and memory that is pinned for a GPU.
pub(super) const CPU: i32 = 1;
const CUDA_HOST: i32 = 3;
const ROCM_HOST: i32 = 11;

/// Flags of [`Versioned`].
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
pub(super) struct Unversioned {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

#[repr(C)]
pub(super) struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a capsule holds: one of the two structures above.
trait Header: Sized {
    /// The name of a capsule with it.
    const NAME: &'static CStr;
    /// The name after the tensor was taken.
    const USED: &'static CStr;

    fn new(tensor: Tensor, flags: u64) -> Self;
}

impl Header for Unversioned {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn new(tensor: Tensor, _flags: u64) -> Self {
        Self { tensor, context: null_mut(), deleter: Some(release::<Self>) }
    }
}

impl Header for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn new(tensor: Tensor, flags: u64) -> Self {
        Self { major: 1, minor: 0, context: null_mut(), deleter: Some(release::<Self>), flags, tensor }
    }
}

/// A tensor of another library, released when it is dropped.
pub(super) enum Managed {
    Unversioned(NonNull<Unversioned>),
    Versioned(NonNull<Versioned>),
}

impl Managed {
    /// Takes the tensor of a capsule.
    fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = capsule.cast::<PyCapsule>()?;
        if capsule.is_valid_checked(Some(Unversioned::NAME)) {
            let pointer = capsule.pointer_checked(Some(Unversioned::NAME))?.cast();
            rename(capsule, Unversioned::USED)?;
            return Ok(Self::Unversioned(pointer));
        }
        if !capsule.is_valid_checked(Some(Versioned::NAME)) {
            let problem = "its capsule holds no tensor, or one that was already taken";
            return Err(PyBufferError::new_err(problem));
        }
        let pointer: NonNull<Versioned> = capsule.pointer_checked(Some(Versioned::NAME))?.cast();
        // SAFETY: a capsule of this name holds this structure, which begins with the version in all versions.
        let major = unsafe { (*pointer.as_ptr()).major };
        if major != 1 {
            return Err(PyBufferError::new_err(format!("DLPack {major} is not supported, only DLPack 1")));
        }
        rename(capsule, Versioned::USED)?;
        Ok(Self::Versioned(pointer))
    }

    fn tensor(&self) -> &Tensor {
        // SAFETY: the structure is valid until its deleter is called, which `drop` does.
        unsafe {
            match self {
                Self::Unversioned(pointer) => &pointer.as_ref().tensor,
                Self::Versioned(pointer) => &pointer.as_ref().tensor,
            }
        }
    }

    /// The flags, which the older structure lacks.
    fn flags(&self) -> Option<u64> {
        match self {
            Self::Unversioned(_) => None,
            // SAFETY: as in `tensor`.
            Self::Versioned(pointer) => Some(unsafe { pointer.as_ref().flags }),
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: whoever takes the tensor of a capsule calls its deleter once, and this is the only owner.
        unsafe {
            match *self {
                Self::Unversioned(pointer) => {
                    if let Some(deleter) = pointer.as_ref().deleter {
                        deleter(pointer.as_ptr());
                    }
                }
                Self::Versioned(pointer) => {
                    if let Some(deleter) = pointer.as_ref().deleter {
                        deleter(pointer.as_ptr());
                    }
                }
            }
        }
    }
}

/// Marks the tensor of a capsule as taken.
fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the capsule is valid, and the name is static.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// The tensor of an object with `__dlpack__`, for reading.
pub(super) fn readable(value: &Bound<'_, PyAny>, label: &Label<'_>) -> PyResult<(Region, Managed)> {
    let managed = request(value, label)?;
    let region = region_of(managed.tensor(), label)?;
    Ok((region, managed))
}

/// The tensor of an object with `__dlpack__`, for writing. `is_writable` says that all tensors of the library are, although
/// the older structure does not tell.
pub(super) fn writable(
    value: &Bound<'_, PyAny>,
    label: &Label<'_>,
    is_writable: bool,
) -> PyResult<(Region, Managed)> {
    let managed = request(value, label)?;
    match managed.flags() {
        Some(flags) if flags & READ_ONLY != 0 => {
            return Err(label.error("is read-only; give a writable array"));
        }
        Some(flags) if flags & COPIED != 0 => {
            return Err(
                label.error("would be written to a copy, which its library exports; give a NumPy array")
            );
        }
        None if !is_writable => {
            return Err(label.error("does not tell whether it is writable; give a NumPy array"));
        }
        _ => {}
    }
    let region = region_of(managed.tensor(), label)?;
    Ok((region, managed))
}

/// Calls `__dlpack__`, after checking the device.
fn request(value: &Bound<'_, PyAny>, label: &Label<'_>) -> PyResult<Managed> {
    let py = value.py();
    let explained = |error| label.explained(py, error);
    let device = value.call_method0(intern!(py, "__dlpack_device__")).map_err(explained)?;
    let (kind, index) = device.extract::<(i32, i32)>().map_err(explained)?;
    check_device(Device { kind, index }, label)?;
    let newest = PyDict::new(py);
    newest.set_item("max_version", (1, 0))?;
    let capsule = match value.call_method("__dlpack__", (), Some(&newest)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => value.call_method0("__dlpack__"),
        other => other,
    };
    Managed::take(&capsule.map_err(explained)?).map_err(explained)
}

fn check_device(device: Device, label: &Label<'_>) -> PyResult<()> {
    let name = match device.kind {
        CPU | CUDA_HOST | ROCM_HOST => return Ok(()),
        2 | 13 => "a CUDA GPU",
        4 | 14 => "an OpenCL or SYCL device",
        7 => "a Vulkan device",
        8 => "a Metal GPU",
        10 => "a ROCm GPU",
        _ => "a device that is not the CPU",
    };
    Err(label.error(format!("is on {name} ({}:{}); copy it to the CPU first", device.kind, device.index)))
}

/// The type, layout and address of a tensor, checked.
fn region_of(tensor: &Tensor, label: &Label<'_>) -> PyResult<Region> {
    check_device(tensor.device, label)?;
    let of = DType::ALL.into_iter().find(|&dtype| type_of(dtype) == tensor.dtype);
    let Some(dtype) = of else {
        let Type { code, bits, lanes } = tensor.dtype;
        let problem = "has an element type that no model takes; convert it first";
        return Err(label.error(format!("{problem} (DLPack's code {code}, {bits} bits, {lanes} lanes)")));
    };
    let layout = layout_of(tensor, label)?;
    let offset = usize::try_from(tensor.byte_offset).ok();
    let offset = offset.filter(|&offset| tensor.data.addr().checked_add(offset).is_some());
    let offset = offset.ok_or_else(|| label.error("is larger than the address space"))?;
    // With an offset, a null pointer would not be one.
    let data = if tensor.data.is_null() { null_mut() } else { tensor.data.cast::<u8>().wrapping_add(offset) };
    let region = Region::new(dtype, layout, data, label)?;
    region.ok_or_else(|| label.error("is misaligned; give a copy of it"))
}

fn layout_of(tensor: &Tensor, label: &Label<'_>) -> PyResult<Layout> {
    let rank = usize::try_from(tensor.rank).unwrap_or(usize::MAX);
    if rank > MAX_RANK {
        return Err(label.error(format!("has {} axes; tensors have at most {MAX_RANK}", tensor.rank)));
    }
    if rank > 0 && tensor.shape.is_null() {
        return Err(label.error("has no shape"));
    }
    let invalid = |error: TensorError| label.error(format!("is invalid: {error}"));
    // SAFETY: a tensor has a length for each of its axes.
    let dims = unsigned(unsafe { values_of(tensor.shape, rank) });
    let dims = dims.ok_or_else(|| label.error("has axes of negative length"))?;
    let shape = Shape::new(dims.get(..rank).unwrap_or_default()).map_err(invalid)?;
    if tensor.strides.is_null() || shape.num_elements() <= 1 {
        return Ok(Layout::contiguous(shape));
    }
    // SAFETY: a tensor that has strides has one for each of its axes.
    let mut strides = unsafe { values_of(tensor.strides, rank) };
    // Strides of axes of length 1 have no meaning.
    strides.iter_mut().zip(&dims).filter(|(_, dim)| **dim == 1).for_each(|(stride, _)| *stride = 0);
    let strides = unsigned(strides).ok_or_else(|| label.error("has negative strides; give a copy of it"))?;
    let layout = Layout::strided(shape, strides.get(..rank).unwrap_or_default(), 0).map_err(invalid)?;
    Ok(if layout.is_contiguous() { Layout::contiguous(shape) } else { layout })
}

/// The lengths or strides of as many axes; 0 for others.
///
/// # Safety
/// There must be as many values.
unsafe fn values_of(values: *const i64, rank: usize) -> [i64; MAX_RANK] {
    let mut found = [0; MAX_RANK];
    for (axis, value) in found.iter_mut().enumerate().take(rank) {
        // SAFETY: as promised.
        *value = unsafe { values.add(axis).read() };
    }
    found
}

/// The same numbers; `None` if one is negative.
fn unsigned(values: [i64; MAX_RANK]) -> Option<[usize; MAX_RANK]> {
    let mut found = [0; MAX_RANK];
    for (number, value) in found.iter_mut().zip(values) {
        *number = usize::try_from(value).ok()?;
    }
    Some(found)
}

/// DLPack's code of an element type.
fn type_of(dtype: DType) -> Type {
    let code = match dtype {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => 0,
        DType::U8 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        DType::C32 | DType::C64 | DType::C128 => 5,
        DType::Bool => 6,
    };
    Type { code, bits: dtype.size() as u8 * 8, lanes: 1 }
}

/// A structure for another library, with what it points to.
#[repr(C)]
struct Export<H> {
    header: H,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _held: Arc<Held>,
}

/// A capsule over the memory of an output, which it keeps alive. `is_copy` says that nothing else has the memory.
pub(super) fn export<'py>(
    py: Python<'py>,
    held: &Arc<Held>,
    is_versioned: bool,
    is_copy: bool,
) -> PyResult<Bound<'py, PyCapsule>> {
    let flags = if is_copy { COPIED } else { 0 };
    match is_versioned {
        true => capsule::<Versioned>(py, held, flags),
        false => capsule::<Unversioned>(py, held, flags),
    }
}

fn capsule<'py, H: Header>(py: Python<'py>, held: &Arc<Held>, flags: u64) -> PyResult<Bound<'py, PyCapsule>> {
    let region = &held.region;
    let (mut shape, mut strides) = ([0i64; MAX_RANK], [0i64; MAX_RANK]);
    for (axis, (&dim, &stride)) in region.layout.shape().iter().zip(region.layout.strides()).enumerate() {
        shape[axis] = dim as i64;
        strides[axis] = stride as i64;
    }
    let memory = Box::into_raw(Box::<Export<H>>::new_uninit()).cast::<Export<H>>();
    let tensor = Tensor {
        data: region.data.as_ptr().cast(),
        device: Device { kind: CPU, index: 0 },
        rank: region.layout.shape().rank() as i32,
        dtype: type_of(region.dtype),
        // SAFETY: the fields are within the allocation.
        shape: unsafe { &raw mut (*memory).shape }.cast(),
        // SAFETY: as above.
        strides: unsafe { &raw mut (*memory).strides }.cast(),
        byte_offset: 0,
    };
    // SAFETY: the memory was allocated for this type.
    unsafe {
        memory.write(Export { header: H::new(tensor, flags), shape, strides, _held: Arc::clone(held) })
    };
    // SAFETY: a box is never null.
    let pointer = unsafe { NonNull::new_unchecked(memory) }.cast();
    // SAFETY: the destructor releases the memory unless a consumer has taken it. Any thread may call it.
    let capsule =
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, H::NAME, Some(discard::<H>)) };
    capsule.inspect_err(|_| {
        // SAFETY: no capsule was created, so the memory has no other owner.
        unsafe { release::<H>(memory.cast()) }
    })
}

/// Releases an export; the deleter of its header.
///
/// # Safety
/// The header must be that of an [`Export`], and must not be used again.
unsafe extern "C" fn release<H: Header>(header: *mut H) {
    // SAFETY: the header is the first field, and the pointer that of the box.
    drop(unsafe { Box::from_raw(header.cast::<Export<H>>()) });
}

/// Releases the export of a capsule that was not consumed.
///
/// # Safety
/// The capsule must be one of [`capsule`].
unsafe extern "C" fn discard<H: Header>(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is being destroyed. If it has its first name, its tensor was not taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, H::NAME.as_ptr()) != 0 {
            release::<H>(ffi::PyCapsule_GetPointer(capsule, H::NAME.as_ptr()).cast());
        }
    }
}
