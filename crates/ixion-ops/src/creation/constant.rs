//! Tensors that are stored in the model file.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, RuntimeAttribute, TensorMeta, Weight, exactly};
use ixion_tensor::{Limits, Tensor};
use std::ops::RangeInclusive;

crate::operator! {
    /// `pnnx.Attribute`: a tensor stored in the model file, such as a parameter that the model's own code uses.
    pub struct Attribute for "pnnx.Attribute" {
        /// The tensor.
        data: Weight,
    }
}

impl Attribute {
    fn stored(&self) -> Result<&RuntimeAttribute> {
        match &self.data {
            Weight::Attribute(attribute) => Ok(attribute),
            Weight::Input(_) => Err(LayerError::MissingWeight { key: "data".to_owned() }),
        }
    }
}

impl Layer for Attribute {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(0)
    }

    fn infer(&self, _: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let attribute = self.stored()?;
        Ok(vec![TensorMeta::new(attribute.dtype(), attribute.shape().iter().copied())])
    }

    fn constant(&self, _: &Limits) -> Result<Option<Tensor>> {
        Ok(Some(self.stored()?.decode()?.clone()))
    }
}

impl CpuLayer for Attribute {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Ok(io.outputs[0].copy_from(&self.stored()?.decode()?.view())?)
    }
}

operators! { Attribute; category Weighted }
