//! Tensors of one number, and numbers in other formats.

use super::elementwise::Map;
use super::recipe::{Recipe, no_kernel, pointwise};
use super::support::{is_anything, is_real};
use crate::cuda::device::DeviceTensor;
use crate::cuda::layers::movement::copy_as;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, is_plain};
use crate::graph::{LayerError, TensorFormat, TensorMeta};
use crate::layers::creation::{
    Empty, EmptyLike, Fill, Full, FullLike, NewEmpty, NewFull, NewOnes, NewZeros, NumberArgument, Ones,
    OnesLike, Zeros, ZerosLike,
};
use crate::layers::reformat::Reformat;
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

/// Only between plain tensors of real numbers: blocked formats and whole numbers with a scale are the CPU's.
impl CudaLayer for Reformat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_same = formats.iter().all(|format| is_plain(format) && format.dtype == formats[0].dtype);
        (is_same && is_anything(position, formats)) || is_real(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let [from, to] = [inputs[0].dtype(), outputs[0].dtype()];
        if self.is_plain() && (from == to || Map::new(vec![(0, from)], to, "", "in0").is_some()) {
            return Ok(());
        }
        Err(no_kernel())
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        copy_as(&inputs[0], &outputs[0], context)
    }
}

fn register_others(layers: &mut CudaLayers) {
    layers.register::<Reformat>();
}
