//! Quantised tensors: 8-bit integers that represent real numbers.
//!
//! A quantised tensor is a tensor of i8 or u8. Its scale and zero point, `x = scale · (q − zero_point)`, are parameters of
//! the operators around it: the file gives them to the operator that produces the tensor, and building the model copies
//! them to the operators that read it. They are part of neither the tensor nor its element type: they are constants, so
//! nothing needs to carry them while the model runs; the engine's arena, views, casts, files and plans handle quantised
//! tensors like any other bytes; and a pass that quantises a model writes the same operators with the same parameters.
//!
//! This module has the operators that compute with quantised values: convolution, linear maps and concatenation. Their sums
//! are exact, with 64 bits where 32 could overflow; the bias is added in `f32`, and the result is rounded half to even and
//! saturated. Other operators run in floats between a `torch.dequantize` and a `torch.quantize_per_tensor`, as PyTorch
//! defines them.

mod conversion;
mod factors;
mod fake;
mod join;
mod products;

use crate::op::{FromParameter, LayerError, Result, RuntimeParameter, TensorMeta};
pub use conversion::{DeQuantize, IntRepr, QuantizePerChannel, QuantizePerTensor};
pub use fake::{FakeQuantize, FakeQuantizePerChannel};
use ixion_kernels::quantization::Quantization;
use ixion_kernels::quantized::QuantizedElement;
use ixion_tensor::{DType, Element, Layout, TensorView, TensorViewMut};
pub use join::QuantizedCat;
pub use products::{FusedRelu, QuantizedConv, QuantizedLinear};

/// Evaluates an expression with `$Q` bound to the type of a quantised tensor's elements.
macro_rules! with_quantized {
    ($dtype:expr, $Q:ident => $body:expr) => {
        ixion_tensor::__with_type!(
            $dtype, $Q => $body;
            U8 => u8, I8 => i8, I32 => i32;
            else other => Err($crate::op::LayerError::dtype("a quantised tensor", "u8, i8 and i32", other))
        )
    };
}

use with_quantized;

/// The element type of a quantised tensor, given by PyTorch's name or number.
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

/// The range of a quantised type.
///
/// # Errors
/// [`LayerError::DType`] if quantised tensors do not have this type.
fn range(dtype: DType) -> Result<[i32; 2]> {
    with_quantized!(dtype, Q => Ok(Q::RANGE))
}

/// Checks a scale and a zero point for quantised values of a type.
///
/// # Errors
/// [`LayerError::InvalidParameter`] if the scale is not positive or the zero point is outside the type's range.
fn quantization(keys: [&'static str; 2], scale: f64, zero_point: i64, dtype: DType) -> Result<Quantization> {
    let (scale, range) = (scale as f32, range(dtype)?);
    if !(scale > 0.0 && scale.is_finite() && (1.0 / scale).is_finite()) {
        return Err(LayerError::invalid(
            keys[0],
            scale,
            "a scale must be positive, and both it and 1/scale finite",
        ));
    }
    let inside = i32::try_from(zero_point).ok().filter(|zero| (range[0]..=range[1]).contains(zero));
    let zero_point = inside.ok_or_else(|| {
        let reason = format!("a zero point of {dtype} must be between {} and {}", range[0], range[1]);
        LayerError::invalid(keys[1], zero_point, reason)
    })?;
    Ok(Quantization { scale, zero_point, range })
}

/// Checks that a tensor is i8 or u8.
///
/// # Errors
/// [`LayerError::DType`] if it is not.
fn check_bytes(what: &str, meta: &TensorMeta) -> Result<()> {
    if matches!(meta.dtype(), DType::U8 | DType::I8) {
        return Ok(());
    }
    Err(LayerError::dtype(what, "quantised u8 or i8", meta.dtype()))
}

/// Lets `fill` write all elements of an output in row-major order.
///
/// # Errors
/// Returns the errors of `fill`.
pub(super) fn write<Q: Element>(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [Q]) -> Result<()>,
) -> Result<()> {
    let mut fill = Some(fill);
    write_by(output, &mut |values| fill.take().map_or(Ok(()), |fill| fill(values)))
}

fn write_by<Q: Element>(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut [Q]) -> Result<()>,
) -> Result<()> {
    if output.layout().is_contiguous() {
        return fill(output.slice()?);
    }
    let mut values = vec![Q::default(); output.num_elements()];
    fill(&mut values)?;
    let layout = Layout::contiguous(*output.shape());
    Ok(output.copy_from(&TensorView::from_slice(&values, layout)?)?)
}

operators! { of conversion, fake, join, products }
