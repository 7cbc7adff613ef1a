//! Stored tensors as attributes.

use crate::OnnxError;
use crate::files::Files;
use crate::lower::Constant;
use crate::schema::{SparseTensorProto, StringStringEntryProto, TensorProto};
use ixion_pnnx::archive::ArchiveFile;
use ixion_pnnx::{Attribute, element_count};
use ixion_tensor::DType;
use std::sync::Arc;

/// How the elements of a type are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    /// One of Ixion's types.
    Plain(DType),
    /// Four bits, two to a byte, the first one in the lower half; signed or not. Read as bytes.
    HalfByte { is_signed: bool },
}

impl ElementType {
    /// The element type with this number.
    ///
    /// # Errors
    /// The type's name, if Ixion does not have it.
    pub(crate) fn of(number: i32) -> Result<Self, String> {
        let unknown = |name: &str| Err(format!("elements of type {name} are not supported"));
        Ok(Self::Plain(match number {
            1 => DType::F32,
            2 => DType::U8,
            3 => DType::I8,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::Bool,
            10 => DType::F16,
            11 => DType::F64,
            14 => DType::C64,
            15 => DType::C128,
            16 => DType::Bf16,
            21 => return Ok(Self::HalfByte { is_signed: false }),
            22 => return Ok(Self::HalfByte { is_signed: true }),
            4 => return unknown("uint16"),
            8 => return unknown("string"),
            12 => return unknown("uint32"),
            13 => return unknown("uint64"),
            17..=20 | 24 => return unknown("float8"),
            23 => return unknown("float4"),
            25 | 26 => return unknown("int2"),
            27 | 28 => return unknown("float6"),
            _ => return unknown(&format!("number {number}")),
        }))
    }

    /// The type of the elements once they are read.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::Plain(dtype) => dtype,
            Self::HalfByte { is_signed: true } => DType::I8,
            Self::HalfByte { is_signed: false } => DType::U8,
        }
    }

    /// The number of bytes in which `elements` elements are stored.
    fn stored_len(self, elements: usize) -> usize {
        match self {
            Self::Plain(dtype) => elements.saturating_mul(dtype.size()),
            Self::HalfByte { .. } => elements.div_ceil(2),
        }
    }

    /// The elements in Ixion's form.
    fn unpacked(self, bytes: Vec<u8>, elements: usize) -> Vec<u8> {
        let Self::HalfByte { is_signed } = self else {
            return bytes;
        };
        let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).take(elements);
        halves.map(|half| if is_signed && half > 7 { half | 0xf0 } else { half }).collect()
    }
}

/// The attribute with the elements of a tensor. Large ones stay in their file.
///
/// # Errors
/// [`OnnxError::Tensor`] if the type is not supported, or the data do not fit the shape.
pub(crate) fn attribute(tensor: &TensorProto, files: &Files) -> Result<Attribute, OnnxError> {
    let name = tensor.name.as_deref().unwrap_or_default();
    let problem =
        |problem: String| OnnxError::Tensor { file: files.name(), tensor: name.to_owned(), problem };
    let kind = ElementType::of(tensor.data_type.unwrap_or_default()).map_err(problem)?;
    let (shape, elements) = sized(name, kind.dtype(), &tensor.dims, files)?;
    let wanted = kind.stored_len(elements) as u64;
    let place = place_of(tensor, files).map_err(|error| error.at(files, name))?;
    let Some((file, offset, found)) = place else {
        let bytes = inline(tensor, kind, elements).map_err(problem)?;
        return Ok(Attribute::new(kind.dtype(), shape, bytes)?);
    };
    if found.is_some_and(|found| found != wanted) {
        let found = found.unwrap_or_default();
        return Err(problem(format!("expected {wanted} bytes for its shape {shape:?}, found {found}")));
    }
    match kind {
        ElementType::Plain(dtype) => Ok(Attribute::in_file(name, file, offset, dtype, shape)?),
        ElementType::HalfByte { .. } => {
            let bytes = file.read(offset, wanted, format_args!("tensor `{name}`"))?;
            Ok(Attribute::new(kind.dtype(), shape, kind.unpacked(bytes, elements))?)
        }
    }
}

/// The shape and the number of elements of a tensor, which counts as one more of the model's.
fn sized(name: &str, dtype: DType, dims: &[i64], files: &Files) -> Result<(Vec<usize>, usize), OnnxError> {
    let problem =
        |problem: String| OnnxError::Tensor { file: files.name(), tensor: name.to_owned(), problem };
    let shape: Option<Vec<usize>> = dims.iter().map(|len| usize::try_from(*len).ok()).collect();
    let shape = shape.ok_or_else(|| problem(format!("its shape {dims:?} has a negative length")))?;
    let elements = element_count(dtype, &shape);
    let elements = elements.ok_or_else(|| problem(format!("the size of its shape {shape:?} overflows")))?;
    let (limits, bytes) = (files.limits(), (elements * dtype.size()) as u64);
    let check = limits.check_rank("a tensor", shape.len());
    let check = check.and_then(|()| limits.check_tensor(&format!("the tensor `{name}`"), bytes));
    check.map_err(|source| OnnxError::Limit { file: files.name(), source })?;
    files.count(bytes)?;
    Ok((shape, elements))
}

/// An error about the place of a tensor's data.
enum PlaceError {
    Problem(String),
    Other(OnnxError),
}

impl PlaceError {
    fn at(self, files: &Files, tensor: &str) -> OnnxError {
        match self {
            Self::Problem(problem) => {
                OnnxError::Tensor { file: files.name(), tensor: tensor.to_owned(), problem }
            }
            Self::Other(error) => error,
        }
    }
}

/// A file, a position in it, and the number of bytes there, if it is stated.
type FilePlace = (Arc<ArchiveFile>, u64, Option<u64>);

/// Where the data of a tensor are, if they are not in the message.
fn place_of(tensor: &TensorProto, files: &Files) -> Result<Option<FilePlace>, PlaceError> {
    const EXTERNAL: i32 = 1;
    if tensor.data_location != Some(EXTERNAL) {
        if tensor.place.is_some() && tensor.raw_data.is_some() {
            return Err(PlaceError::Problem("it has `raw_data` twice".to_owned()));
        }
        return Ok(tensor.place.map(|place| (Arc::clone(files.main()), place.offset, Some(place.length))));
    }
    let number = |key: &str| match entry(&tensor.external_data, key) {
        None => Ok(None),
        Some(text) => {
            let number = text.parse::<u64>().ok();
            number.map(Some).ok_or_else(|| {
                PlaceError::Problem(format!(
                    "`{key}` of its external data is `{text}`, not a number of bytes"
                ))
            })
        }
    };
    let location = entry(&tensor.external_data, "location").unwrap_or_default();
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    let name = tensor.name.as_deref().unwrap_or_default();
    let file = files.external(name, location).map_err(PlaceError::Other)?;
    Ok(Some((file, offset, length)))
}

fn entry<'a>(entries: &'a [StringStringEntryProto], key: &str) -> Option<&'a str> {
    let found = entries.iter().find(|entry| entry.key.as_deref() == Some(key))?;
    found.value.as_deref()
}

/// The bytes of a tensor's elements that are in the message, little-endian.
fn inline(tensor: &TensorProto, kind: ElementType, elements: usize) -> Result<Vec<u8>, String> {
    let wanted = |found: usize, what: &str| match found == elements {
        true => Ok(()),
        false => Err(format!(
            "expected {elements} elements for its shape {:?}, found {found} in {what}",
            tensor.dims
        )),
    };
    if let Some(raw) = &tensor.raw_data {
        let bytes = kind.stored_len(elements);
        if raw.len() != bytes {
            let found = raw.len();
            return Err(format!("expected {bytes} bytes for its shape {:?}, found {found}", tensor.dims));
        }
        return Ok(kind.unpacked(raw.clone(), elements));
    }
    let narrow = tensor.int32_data.as_slice();
    Ok(match kind {
        ElementType::Plain(DType::F32 | DType::C64) => {
            let parts = if kind.dtype() == DType::C64 { 2 } else { 1 };
            wanted(tensor.float_data.len() / parts, "float_data")?;
            tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Plain(DType::F64 | DType::C128) => {
            let parts = if kind.dtype() == DType::C128 { 2 } else { 1 };
            wanted(tensor.double_data.len() / parts, "double_data")?;
            tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Plain(DType::I64) => {
            wanted(tensor.int64_data.len(), "int64_data")?;
            tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Plain(DType::I32) => {
            wanted(narrow.len(), "int32_data")?;
            narrow.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Plain(DType::I16 | DType::F16 | DType::Bf16) => {
            wanted(narrow.len(), "int32_data")?;
            narrow.iter().flat_map(|value| low_bytes::<2>(*value)).collect()
        }
        ElementType::Plain(_) => {
            wanted(narrow.len(), "int32_data")?;
            narrow.iter().flat_map(|value| low_bytes::<1>(*value)).collect()
        }
        ElementType::HalfByte { .. } => {
            let halves = narrow.len().saturating_mul(2);
            wanted(if halves == elements.next_multiple_of(2) { elements } else { halves }, "int32_data")?;
            kind.unpacked(narrow.iter().flat_map(|value| low_bytes::<1>(*value)).collect(), elements)
        }
    })
}

/// The lowest bytes of a number.
fn low_bytes<const N: usize>(value: i32) -> [u8; N] {
    let bytes = value.to_le_bytes();
    std::array::from_fn(|index| bytes.get(index).copied().unwrap_or_default())
}

/// The attribute with all elements of a sparse tensor.
///
/// # Errors
/// [`OnnxError::Tensor`] if indices are missing, out of range, or not as many as the values.
pub(crate) fn dense(tensor: &SparseTensorProto, files: &Files) -> Result<Attribute, OnnxError> {
    let values = tensor.values.clone().unwrap_or_default();
    let name = values.name.clone().unwrap_or_default();
    let problem = |problem: &str| OnnxError::Tensor {
        file: files.name(),
        tensor: name.clone(),
        problem: problem.to_owned(),
    };
    let values = attribute(&values, files)?;
    let indices = attribute(&tensor.indices.clone().unwrap_or_default(), files)?;
    let indices = Constant::new(&name, indices);
    let places = indices.i64s()?.ok_or_else(|| problem("the indices of its elements are not integers"))?;
    let (shape, elements) = sized(&name, values.dtype(), &tensor.dims, files)?;
    let size = values.dtype().size();
    let bytes = elements * size;
    // Each element has one index into the flattened tensor, or one for each axis.
    let width = if indices.shape().len() > 1 { shape.len() } else { 1 };
    if places.len() != values.elem_count().saturating_mul(width) || (width == 0 && values.elem_count() > 0) {
        return Err(problem("expected as many indices as elements"));
    }
    let mut filled = Vec::new();
    // A small file may ask for any amount of memory.
    filled
        .try_reserve_exact(bytes)
        .map_err(|_| problem("there is not enough memory for all of its elements"))?;
    filled.resize(bytes, 0u8);
    let stored = values.bytes()?;
    for (place, element) in places.chunks(width.max(1)).zip(stored.chunks_exact(size)) {
        let position = if width == 1 { place.first().copied() } else { flat(place, &shape) };
        let position = position.and_then(|at| usize::try_from(at).ok()?.checked_mul(size));
        let target = position.and_then(|start| filled.get_mut(start..start.checked_add(size)?));
        target.ok_or_else(|| problem("an index is out of range"))?.copy_from_slice(element);
    }
    Ok(Attribute::new(values.dtype(), shape, filled)?)
}

/// The position of an element in a flattened tensor.
fn flat(place: &[i64], shape: &[usize]) -> Option<i64> {
    place.iter().zip(shape).try_fold(0i64, |position, (index, len)| {
        let len = i64::try_from(*len).ok()?;
        let index = (0..len).contains(index).then_some(*index)?;
        position.checked_mul(len)?.checked_add(index)
    })
}
