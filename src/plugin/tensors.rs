//! Conversion of tensors and their descriptions to and from the C ABI.

use super::abi;
use super::host::Call;
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::tensor::{DType, Dim, Format, Layout, MAX_RANK, TensorView};
use std::ptr::null_mut;

/// Descriptions of tensors, for a plugin's functions that are called before the tensors exist.
#[derive(Debug, Default)]
pub(crate) struct Described {
    tensors: Vec<abi::Tensor>,
    /// The values of short integer tensors, to which the descriptions point.
    values: Vec<Vec<i64>>,
}

impl Described {
    pub(crate) fn of(metas: &[TensorMeta], call: &Call) -> Result<Self, LayerError> {
        let mut described = Self::default();
        for meta in metas {
            let mut tensor = of_meta(meta, call)?;
            let values: Option<Vec<i64>> =
                meta.values().and_then(|values| values.iter().map(Dim::fixed).collect());
            if let Some(mut values) = values.filter(|_| meta.is_fixed()) {
                // Moving a vector does not move its elements.
                (tensor.data, tensor.bytes) = (values.as_mut_ptr().cast(), size_of_val(values.as_slice()));
                described.values.push(values);
            }
            described.tensors.push(tensor);
        }
        Ok(described)
    }

    pub(crate) fn as_ptr(&self) -> *const abi::Tensor {
        self.tensors.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }
}

/// An empty description, for a plugin to fill in.
pub(crate) fn blank() -> abi::Tensor {
    abi::Tensor {
        data: null_mut(),
        bytes: 0,
        dtype: 0,
        rank: 0,
        dims: [0; MAX_RANK],
        strides: [0; MAX_RANK],
        blocked_axis: -1,
        block: 0,
        scale: 0.0,
        reserved: 0,
        later: [null_mut(); 2],
    }
}

fn of_meta(meta: &TensorMeta, call: &Call) -> Result<abi::Tensor, LayerError> {
    let mut tensor = formatted(meta.dtype(), meta.format());
    tensor.scale = meta.scale().unwrap_or_default();
    let Some(places) = tensor.dims.get_mut(..meta.rank()) else {
        return Err(LayerError::shape("a tensor for a plugin", format!("at most {MAX_RANK} axes"), meta));
    };
    tensor.rank = meta.rank() as i32;
    places.iter_mut().zip(meta.dims()).for_each(|(place, dim)| *place = call.encode(dim));
    if let Ok(layout) = meta.layout() {
        set_strides(&mut tensor, &layout);
    }
    Ok(tensor)
}

/// The description of an existing tensor, whose elements are at an address.
pub(crate) fn of_layout(dtype: DType, layout: &Layout, data: *mut u8, scale: f32) -> abi::Tensor {
    let mut tensor = abi::Tensor { data: data.cast(), scale, ..formatted(dtype, layout.format()) };
    tensor.rank = layout.shape().rank() as i32;
    tensor.dims.iter_mut().zip(layout.shape().iter()).for_each(|(place, &dim)| *place = dim as i64);
    let elements = if layout.shape().num_elements() == 0 { 0 } else { layout.span() - layout.offset() };
    tensor.bytes = elements * dtype.size();
    set_strides(&mut tensor, layout);
    tensor
}

/// Same as [`of_layout`], for a view.
pub(crate) fn of_view(view: &TensorView<'_>, scale: f32) -> abi::Tensor {
    of_layout(view.dtype(), view.layout(), view.address().cast_mut(), scale)
}

fn formatted(dtype: DType, format: Format) -> abi::Tensor {
    let (blocked_axis, block) = blocks(format);
    abi::Tensor { dtype: dtype.pnnx_code(), blocked_axis, block, ..blank() }
}

fn set_strides(tensor: &mut abi::Tensor, layout: &Layout) {
    tensor.strides.iter_mut().zip(layout.strides()).for_each(|(place, &stride)| *place = stride as i64);
}

fn blocks(format: Format) -> (i32, i32) {
    match format {
        Format::Plain | Format::ChannelsLast => (-1, 0),
        Format::Blocked { axis, block } => (axis.into(), block.into()),
    }
}

/// The format of a tensor in the C ABI.
pub(crate) fn of_format(format: &TensorFormat) -> abi::TensorFormat {
    let (blocked_axis, block) = blocks(format.format);
    let is_quantized = format.is_quantized.into();
    abi::TensorFormat { dtype: format.dtype.pnnx_code(), blocked_axis, block, is_quantized }
}

/// Converts and checks the description of an output that a plugin filled in.
pub(crate) fn output(tensor: &abi::Tensor, position: usize, call: &Call) -> Result<TensorMeta, LayerError> {
    let broken = |wanted: &str, found: String| {
        let wanted = format!("output {position}: {wanted}");
        LayerError::BrokenPromise { wanted, found }
    };
    let dtype = dtype(tensor.dtype)
        .ok_or_else(|| broken("an element type such as IXION_F32", tensor.dtype.to_string()))?;
    let dims = usize::try_from(tensor.rank).ok().and_then(|rank| tensor.dims.get(..rank));
    let dims = dims.ok_or_else(|| broken("0 to 8 axes", tensor.rank.to_string()))?;
    let length = |&length: &i64| {
        call.decode(length).filter(|dim| dim.fixed().is_none_or(|length| length >= 0)).ok_or_else(|| {
            let wanted = "lengths of at least 0, or symbols from the inputs or from `host->dim`";
            broken(wanted, length.to_string())
        })
    };
    let dims = dims.iter().map(length).collect::<Result<Vec<_>, _>>()?;
    Ok(TensorMeta::new(dtype, dims))
}

/// The element type with this code of the C ABI.
pub(crate) fn dtype(code: i32) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.pnnx_code() == code)
}
