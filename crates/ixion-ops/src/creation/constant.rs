//! Tensors that are stored in the model file.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, RuntimeAttribute, TensorMeta, Weight};
use ixion_tensor::{Limits, Tensor, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `pnnx.Attribute`: a tensor stored in the model file, such as a parameter that the model's own code uses.
    pub struct Attribute for "pnnx.Attribute" {
        /// The tensor.
        data: Weight,
    }
}

impl Attribute {
    fn stored(&self) -> Result<&RuntimeAttribute, LayerError> {
        match &self.data {
            Weight::Attribute(attribute) => Ok(attribute),
            Weight::Input(_) => Err(LayerError::MissingWeight { key: "data".to_owned() }),
        }
    }
}

impl Layer for Attribute {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn infer(&self, _: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let attribute = self.stored()?;
        Ok(vec![TensorMeta::new(attribute.dtype(), attribute.shape().iter().copied())])
    }

    fn constant(&self, _: &Limits) -> Result<Option<Tensor>, LayerError> {
        Ok(Some(self.stored()?.decode()?.clone()))
    }
}

impl CpuLayer for Attribute {
    fn forward(
        &mut self,
        _: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        Ok(outputs[0].copy_from(&self.stored()?.decode()?.view())?)
    }
}

operators! { Attribute }
