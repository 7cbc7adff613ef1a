//! Quantised tensors: whole numbers of 8 bits that stand for real ones.
//!
//! A quantised tensor is a tensor of i8 or u8. What its numbers stand for, `x = scale · (q − zero_point)`, are parameters
//! of the operators around it: of the one that makes it, where the file has them, and of those that read it, where
//! they are put when the model is built. They are not part of the tensor, nor of its element type: they are constants,
//! so nothing need carry them while the model runs; the engine's arena, views, casts, files and plans work on quantised
//! tensors as on any other bytes; and a pass that quantises a model writes the same operators with the same parameters.
//!
//! What computes with whole numbers is here: convolution, linear maps and joining. Their sums are exact, of 64 bits where
//! 32 could overflow; the bias is added in `f32` and the result rounded half to even, then saturated. Other operators
//! are computed in floats between a `torch.dequantize` and a `torch.quantize_per_tensor`, as PyTorch defines them.

mod conversion;
mod factors;
mod fake;
mod join;
mod products;

use crate::kernels::quantization::Quantization;
use crate::kernels::quantized::Whole;
use crate::op::{FromParameter, LayerError, RuntimeParameter, TensorMeta};
use crate::tensor::{DType, Element, Layout, TensorView, TensorViewMut};
pub use conversion::{DeQuantize, IntRepr, QuantizePerChannel, QuantizePerTensor};
pub use fake::{FakeQuantize, FakeQuantizePerChannel};
pub use join::QuantizedCat;
pub use products::{FusedRelu, QuantizedConv, QuantizedLinear};

/// Runs an expression with `$Q` bound to the type of a tensor's whole numbers.
macro_rules! with_whole {
    ($dtype:expr, $Q:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::U8 => {
                type $Q = u8;
                $body
            }
            $crate::tensor::DType::I8 => {
                type $Q = i8;
                $body
            }
            $crate::tensor::DType::I32 => {
                type $Q = i32;
                $body
            }
            other => Err($crate::op::LayerError::dtype("a quantised tensor", "u8, i8 and i32", other)),
        }
    };
}

use with_whole;

/// The element type of a quantised tensor, by PyTorch's names or numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizedType(pub DType);

impl FromParameter for QuantizedType {
    const KIND: &'static str = "one of torch.quint8 torch.qint8 torch.qint32";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        match parameter.raw() {
            "torch.quint8" | "13" => Some(Self(DType::U8)),
            "torch.qint8" | "12" => Some(Self(DType::I8)),
            "torch.qint32" | "14" => Some(Self(DType::I32)),
            _ => None,
        }
    }
}

/// The range of a type's whole numbers.
///
/// # Errors
/// [`LayerError::DType`] for another type than quantised tensors have.
fn range(dtype: DType) -> Result<[i32; 2], LayerError> {
    with_whole!(dtype, Q => Ok(Q::RANGE))
}

/// A scale and a zero point that can be computed with, for whole numbers of this type.
///
/// # Errors
/// [`LayerError::InvalidParameter`] for a scale that is not above zero, and a zero point that is no number of the type.
fn quantization(
    keys: [&'static str; 2],
    scale: f64,
    zero_point: i64,
    dtype: DType,
) -> Result<Quantization, LayerError> {
    let (scale, range) = (scale as f32, range(dtype)?);
    if !(scale > 0.0 && scale.is_finite() && (1.0 / scale).is_finite()) {
        return Err(LayerError::invalid(
            keys[0],
            scale,
            "a scale is above zero, and neither it nor 1/scale is infinite",
        ));
    }
    let inside = i32::try_from(zero_point).ok().filter(|zero| (range[0]..=range[1]).contains(zero));
    let zero_point = inside.ok_or_else(|| {
        let reason = format!("the zero point of {dtype} lies from {} to {}", range[0], range[1]);
        LayerError::invalid(keys[1], zero_point, reason)
    })?;
    Ok(Quantization { scale, zero_point, range })
}

/// Checks that a tensor is of whole numbers of 8 bits.
///
/// # Errors
/// [`LayerError::DType`] when it is not.
fn check_bytes(what: &str, meta: &TensorMeta) -> Result<(), LayerError> {
    if matches!(meta.dtype(), DType::U8 | DType::I8) {
        return Ok(());
    }
    Err(LayerError::dtype(what, "quantised u8 and i8", meta.dtype()))
}

/// Lets `fill` write all elements of an output in row-major order.
///
/// # Errors
/// Those of `fill`.
pub(super) fn write<Q: Element>(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [Q]) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    let mut fill = Some(fill);
    write_by(output, &mut |values| fill.take().map_or(Ok(()), |fill| fill(values)))
}

fn write_by<Q: Element>(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut [Q]) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    if output.layout().is_contiguous() {
        return fill(output.slice()?);
    }
    let mut values = vec![Q::default(); output.num_elements()];
    fill(&mut values)?;
    let layout = Layout::contiguous(*output.shape());
    Ok(output.copy_from(&TensorView::from_slice(&values, layout)?)?)
}

operators! { of conversion, fake, join, products }
