//! How layers read and write floating-point tensors.
//!
//! Kernels compute in `f32` or `f64` on contiguous slices. A tensor that is already that way is used in place; one of
//! another layout is copied, one of half precision is converted. So no kernel exists four times.

use crate::graph::{LayerError, TensorMeta};
use crate::kernels::Float;
use crate::tensor::{DType, Tensor, TensorView, TensorViewMut, bf16, f16};
use std::borrow::Cow;

/// Runs an expression with `$T` bound to the type that tensors of a [`DType`] are computed in: `f32` for f16, bf16 and
/// f32, `f64` for f64. The expression is usually a call of a function that is generic over
/// [`Float`](crate::kernels::Float), and must be a `Result`: other types are an error.
#[macro_export]
#[doc(hidden)]
macro_rules! __with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::tensor::DType::F32 | $crate::tensor::DType::F16 | $crate::tensor::DType::Bf16 => {
                type $T = f32;
                $body
            }
            $crate::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            other => Err($crate::layers::float::not_a_float("the input", other)),
        }
    };
}

#[doc(inline)]
pub use __with_float as with_float;

/// The error for a tensor that should be a float and is not.
pub fn not_a_float(what: &str, found: DType) -> LayerError {
    LayerError::DType { what: what.to_owned(), wanted: "f32, f64, f16 and bf16".to_owned(), found }
}

/// Checks that a tensor is of a floating-point type.
///
/// # Errors
/// [`LayerError::DType`] when it is not.
pub fn check(what: &str, meta: &TensorMeta) -> Result<(), LayerError> {
    if meta.dtype().is_float() { Ok(()) } else { Err(not_a_float(what, meta.dtype())) }
}

/// The shape rule of element-wise operators on floats: one output like the first input.
///
/// # Errors
/// [`LayerError::DType`] for another type than a float.
pub fn same_as_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
    let [input, ..] = inputs else { return Err(LayerError::InputCount { wanted: "1".into(), found: 0 }) };
    check("the input", input)?;
    Ok(vec![input.with_dims(input.dims().to_vec())])
}

/// The elements in row-major order as `T`: borrowed where they are that already.
///
/// # Errors
/// [`LayerError::DType`] when the tensor is not computed in `T`.
pub fn read<'a, T: Float>(view: &TensorView<'a>) -> Result<Cow<'a, [T]>, LayerError> {
    if view.dtype() == T::DTYPE {
        return match view.slice() {
            Ok(slice) => Ok(Cow::Borrowed(slice)),
            Err(_) => Ok(Cow::Owned(view.to_vec()?)),
        };
    }
    if !(T::DTYPE == DType::F32 && matches!(view.dtype(), DType::F16 | DType::Bf16)) {
        let what = format!("a tensor that is computed with others of {}", T::DTYPE);
        return Err(LayerError::DType { what, wanted: T::DTYPE.to_string(), found: view.dtype() });
    }
    Ok(Cow::Owned(view.to_tensor()?.cast(T::DTYPE)?.to_vec()?))
}

/// Lets `fill` write all elements of an output in row-major order.
///
/// # Errors
/// Those of `fill`; [`LayerError::DType`] when the output is not computed in `T`.
pub fn write<T: Float>(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [T]) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    if output.dtype() == T::DTYPE && output.layout().is_contiguous() {
        return fill(output.slice()?);
    }
    let mut values = vec![T::zero(); output.num_elements()];
    fill(&mut values)?;
    let shape = *output.shape();
    Ok(output.copy_from(&Tensor::from_vec(values, &shape)?.cast(output.dtype())?.view())?)
}

/// Applies a function to every element; `single` serves f32 and the half types, `double` f64.
///
/// # Errors
/// [`LayerError::DType`] for another type than a float.
pub fn map(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<(), LayerError> {
    match input.dtype() {
        DType::F64 => map_as(input, output, double),
        _ => map_as(input, output, single),
    }
}

fn map_as<T: Float>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    function: impl Fn(T) -> T,
) -> Result<(), LayerError> {
    let input = read::<T>(input)?;
    write::<T>(output, |output| {
        output.iter_mut().zip(input.iter()).for_each(|(to, &from)| *to = function(from));
        Ok(())
    })
}

/// Applies a function to every element in place; as [`map`].
///
/// # Errors
/// [`LayerError::DType`] for another type than a float.
pub fn map_in_place(
    data: &mut TensorViewMut<'_>,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<(), LayerError> {
    match data.dtype() {
        DType::F64 => data.array::<f64>()?.mapv_inplace(double),
        DType::F32 => data.array::<f32>()?.mapv_inplace(single),
        DType::F16 => data.array::<f16>()?.mapv_inplace(|x| f16::from_f32(single(x.to_f32()))),
        DType::Bf16 => data.array::<bf16>()?.mapv_inplace(|x| bf16::from_f32(single(x.to_f32()))),
        other => return Err(not_a_float("the input", other)),
    }
    Ok(())
}
