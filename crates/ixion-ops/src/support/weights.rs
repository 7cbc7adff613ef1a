//! Code shared by layers with a weight and a bias for each channel or element.

use super::float;
use crate::op::{LayerError, Result, TensorMeta, Weight};
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, TensorView};
use std::borrow::Cow;

/// Checks that a weight, if there is one, has these dimensions and the input's element type, or f32 for an input of half
/// precision.
///
/// # Errors
/// [`LayerError::Shape`] or [`LayerError::DType`], with `what` as the tensor's name.
pub(crate) fn check(
    what: &str,
    weight: Option<&Weight>,
    inputs: &[TensorMeta],
    wanted: &[Dim],
) -> Result<()> {
    let Some(weight) = weight else { return Ok(()) };
    let weight = weight.meta(inputs)?;
    let input = inputs[0].dtype();
    let is_half = matches!(input, DType::F16 | DType::Bf16);
    if weight.dtype() != input && !(is_half && weight.dtype() == DType::F32) {
        return Err(LayerError::dtype(what, input, weight.dtype()));
    }
    let differs = |(wanted, found): (&Dim, &Dim)| match (wanted.fixed(), found.fixed()) {
        (Some(wanted), Some(found)) => wanted != found,
        _ => false,
    };
    if weight.rank() == wanted.len() && !wanted.iter().zip(weight.dims()).any(differs) {
        return Ok(());
    }
    let wanted = TensorMeta::new(weight.dtype(), wanted.iter().cloned());
    Err(LayerError::shape(what, wanted, weight))
}

/// The elements of a weight, if there is one.
///
/// # Errors
/// Returns an error if the weight cannot be read, or is not computed in `T`.
pub(crate) fn read<'a, T: Float>(
    weight: Option<&'a Weight>,
    inputs: &[TensorView<'a>],
) -> Result<Option<Cow<'a, [T]>>> {
    weight.map(|weight| float::read::<T>(&weight.view(inputs)?)).transpose()
}

/// Checks that a module has a weight if its flag promises one.
///
/// # Errors
/// [`LayerError::MissingWeight`] if `flag` is true and there is no weight.
pub(crate) fn check_promised(flag: bool, weight: Option<&Weight>) -> Result<()> {
    if flag && weight.is_none() {
        return Err(LayerError::MissingWeight { key: "weight".to_owned() });
    }
    Ok(())
}
