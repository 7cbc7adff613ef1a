//! Tensors of one number.

use super::recipe::{Recipe, pointwise};
use crate::cuda::CudaLayers;
use crate::ops::creation::filled::{
    Empty, EmptyLike, Fill, Full, FullLike, NewEmpty, NewFull, NewOnes, NewZeros, NumberArgument, Ones,
    OnesLike, Zeros, ZerosLike,
};
use crate::tensor::DType;

/// A number of the file, or the only element of an input. Halves are rounded from f32, as PyTorch does.
fn given(recipe: &mut Recipe<'_>, number: NumberArgument, dtype: DType) -> Option<String> {
    match number.factor() {
        Some(factor) => recipe.factor(factor, dtype),
        None => recipe.constant(0.0, dtype),
    }
}

pointwise! {
    Zeros |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    ZerosLike |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    NewZeros |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    Empty |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    EmptyLike |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    NewEmpty |_layer, recipe, dtype| recipe.constant(0.0, dtype)?;
    Ones |_layer, recipe, dtype| recipe.constant(1.0, dtype)?;
    OnesLike |_layer, recipe, dtype| recipe.constant(1.0, dtype)?;
    NewOnes |_layer, recipe, dtype| recipe.constant(1.0, dtype)?;
    Full |layer, recipe, dtype| given(recipe, layer.fill_value, dtype)?;
    FullLike |layer, recipe, dtype| given(recipe, layer.fill_value, dtype)?;
    NewFull |layer, recipe, dtype| given(recipe, layer.fill_value, dtype)?;
    Fill |layer, recipe, dtype| given(recipe, layer.value, dtype)?;
}

fn register_others(_: &mut CudaLayers) {}
