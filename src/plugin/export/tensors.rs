//! Conversion of the host's tensors and descriptions for layers in Rust.

use crate::op::{LayerError, Result, TensorFormat, TensorMeta};
use crate::plugin::abi::{self, Host};
use crate::plugin::tensors::dtype as dtype_of;
use crate::tensor::dim::{Leaf, Operation};
use crate::tensor::{DType, Dim, Format, Layout, Shape, TensorView, TensorViewMut};

/// The prefix of the names of the host's symbols.
const PREFIX: &str = "ixion:";

/// A list from the host; empty if the pointer is null.
///
/// # Safety
/// There must be `count` elements at a pointer that is not null, for as long as the result is used.
pub(super) unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn dtype(code: i32) -> Result<DType> {
    dtype_of(code).ok_or_else(|| LayerError::Plugin(format!("unknown element type {code}")))
}

fn format(axis: i32, block: i32) -> Format {
    match (u8::try_from(axis), u8::try_from(block)) {
        (Ok(axis), Ok(block)) => Format::Blocked { axis, block },
        _ => Format::Plain,
    }
}

fn dims(tensor: &abi::Tensor) -> &[i64] {
    usize::try_from(tensor.rank).ok().and_then(|rank| tensor.dims.get(..rank)).unwrap_or_default()
}

/// The description of a tensor. Lengths that the host does not know become symbols that [`fill`] converts back.
///
/// # Safety
/// The values of a tensor with known integer values must be readable.
pub(super) unsafe fn meta(tensor: &abi::Tensor) -> Result<TensorMeta> {
    let dim = |&length: &i64| match length {
        0.. => Dim::Fixed(length),
        symbol => Dim::symbol(format!("{PREFIX}{symbol}")),
    };
    let scale = Some(tensor.scale).filter(|scale| *scale != 0.0);
    let meta = TensorMeta::new(dtype(tensor.dtype)?, dims(tensor).iter().map(dim))
        .with_format(format(tensor.blocked_axis, tensor.block))
        .with_scale(scale);
    if tensor.data.is_null() || meta.dtype() != DType::I64 {
        return Ok(meta);
    }
    // SAFETY: by contract.
    let values = unsafe { list(tensor.data.cast::<i64>(), tensor.bytes / size_of::<i64>()) };
    Ok(meta.with_values(values.iter().copied().map(Dim::Fixed).collect()))
}

/// Fills in the description of an output. Expressions are computed again, by the host.
pub(super) fn fill(tensor: &mut abi::Tensor, meta: &TensorMeta, host: *const Host) -> Result<()> {
    let Some(places) = tensor.dims.get_mut(..meta.rank()) else {
        return Err(LayerError::shape("an output", "at most 8 axes", meta));
    };
    let leaf = |leaf: Leaf<'_>| match leaf {
        Leaf::Number(number) => number,
        Leaf::Symbol(name) => {
            name.strip_prefix(PREFIX).and_then(|symbol| symbol.parse().ok()).unwrap_or(abi::UNKNOWN)
        }
    };
    let operate = |operation, a, b| {
        let operation = match operation {
            Operation::Add => abi::ADD,
            Operation::Mul => abi::MUL,
            Operation::FloorDiv => abi::FLOOR_DIV,
            Operation::CeilDiv => abi::CEIL_DIV,
            Operation::Max => abi::MAX,
            Operation::Min => abi::MIN,
        };
        // SAFETY: the host is the one of the current call.
        let dim = unsafe { host.as_ref() }.and_then(|host| host.dim);
        // SAFETY: as above.
        dim.map_or(abi::UNKNOWN, |dim| unsafe { dim(host, operation, a, b) })
    };
    places.iter_mut().zip(meta.dims()).for_each(|(place, dim)| *place = dim.rebuild(&leaf, &operate));
    (tensor.dtype, tensor.rank) = (meta.dtype().pnnx_code(), meta.rank() as i32);
    Ok(())
}

/// The format that the host passes, or `None` if its element type is unknown.
pub(super) fn tensor_format(asked: &abi::TensorFormat) -> Option<TensorFormat> {
    let format = format(asked.blocked_axis, asked.block);
    let plain = TensorFormat::plain(dtype_of(asked.dtype)?);
    Some(TensorFormat { format, is_quantized: asked.is_quantized != 0, ..plain })
}

fn layout(tensor: &abi::Tensor) -> Result<Layout> {
    let numbers = |numbers: &[i64]| -> Vec<usize> {
        numbers.iter().map(|&number| usize::try_from(number).unwrap_or(usize::MAX)).collect()
    };
    let shape = Shape::new(&numbers(dims(tensor)))?;
    Ok(match format(tensor.blocked_axis, tensor.block) {
        Format::Blocked { axis, block } => Layout::blocked(shape, axis.into(), block.into())?,
        Format::Plain | Format::ChannelsLast => {
            let strides = tensor.strides.get(..shape.rank()).unwrap_or_default();
            Layout::strided(shape, &numbers(strides), 0)?
        }
    })
}

/// A view of a tensor for reading.
///
/// # Safety
/// The elements must be readable, and unchanged as long as the result is used.
pub(super) unsafe fn view<'a>(tensor: &abi::Tensor) -> Result<TensorView<'a>> {
    let (dtype, layout) = (dtype(tensor.dtype)?, layout(tensor)?);
    let len = tensor.bytes / dtype.size();
    layout.check_within(len)?;
    // SAFETY: by contract; the layout is within the elements.
    Ok(unsafe { TensorView::from_raw(dtype, layout, tensor.data.cast_const().cast(), len) })
}

/// A view of a tensor for writing.
///
/// # Safety
/// Access to the elements must be exclusive as long as the result is used.
pub(super) unsafe fn view_mut<'a>(tensor: &abi::Tensor) -> Result<TensorViewMut<'a>> {
    let (dtype, layout) = (dtype(tensor.dtype)?, layout(tensor)?);
    let len = tensor.bytes / dtype.size();
    layout.check_within(len)?;
    if !layout.is_injective() {
        return Err(LayerError::Plugin("the elements of an output overlap".to_owned()));
    }
    // SAFETY: by contract; the layout is within the elements and repeats none.
    Ok(unsafe { TensorViewMut::from_raw(dtype, layout, tensor.data.cast(), len) })
}
