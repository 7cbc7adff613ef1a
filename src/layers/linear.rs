//! Products with a matrix of weights.

use super::float::{self, with_real};
use crate::graph::{
    Cost, CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, Weight,
};
use crate::kernels::Float;
use crate::kernels::gemm::gemm;
use crate::tensor::{Dim, TensorView, TensorViewMut};
use ndarray::{ArrayView2, ArrayViewMut2};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.Linear` and `torch.nn.functional.linear`: …×I times the transpose of O×I weights, plus a bias. Output:
    /// …×O.
    pub struct Linear for "nn.Linear", "F.linear" {
        /// I; only compared with the weights.
        in_features: Option<usize> = None,
        /// O; only compared with the weights.
        out_features: Option<usize> = None,
        /// O×I weights; a functional form may have a single row without its axis.
        weight: Weight,
        /// O numbers, added at the end.
        bias: Option<Weight> = None,
    }
    validate |linear| {
        let Weight::Attribute(weight) = &linear.weight else { return Ok(()) };
        let says = [("out_features", linear.out_features, 0), ("in_features", linear.in_features, 1)];
        for (key, said, axis) in says {
            if let (Some(said), Some(&is)) = (said, weight.shape().get(axis))
                && said != is
            {
                let reason = format!("the weights have {is}");
                return Err(LayerError::InvalidParameter { key, found: said.to_string(), reason });
            }
        }
        Ok(())
    }
}

impl Linear {
    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        let weight_view = self.weight.view(inputs)?;
        let bias = self.bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias = bias.map(|bias| float::read::<T>(&bias)).transpose()?;
        let (input, weight) = (float::read::<T>(&inputs[0])?, float::read::<T>(&weight_view)?);
        let features = inputs[0].shape().last().copied().unwrap_or(1);
        let outputs = if weight_view.shape().rank() == 2 { weight_view.shape()[0] } else { 1 };
        float::write::<T>(output, |output| {
            match &bias {
                Some(bias) => {
                    output.chunks_exact_mut(outputs.max(1)).for_each(|row| row.copy_from_slice(bias))
                }
                None => output.fill(T::zero()),
            }
            let rows = output.len() / outputs.max(1);
            let input = ArrayView2::from_shape((rows, features), &input)?;
            let weight = ArrayView2::from_shape((outputs, features), &weight)?;
            gemm(input, weight.t(), ArrayViewMut2::from_shape((rows, outputs), output)?, true);
            Ok(())
        })
    }
}

impl Layer for Linear {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.weight.num_inputs() + self.bias.as_ref().map_or(0, Weight::num_inputs);
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (input, weight) = (&inputs[0], self.weight.meta(inputs)?);
        float::check_real("the input", input)?;
        let bias = self.bias.as_ref().map(|bias| bias.meta(inputs)).transpose()?;
        if let Some(other) =
            [Some(&weight), bias.as_ref()].into_iter().flatten().find(|w| w.dtype() != input.dtype())
        {
            let what = "weight or bias".to_owned();
            return Err(LayerError::DType { what, wanted: input.dtype().to_string(), found: other.dtype() });
        }
        let (outputs, features) = match weight.dims() {
            [features] => (None, features),
            [outputs, features] => (Some(outputs), features),
            _ => return Err(LayerError::shape("the weight", "out_features×in_features", &weight)),
        };
        let Some((last, rest)) = input.dims().split_last() else {
            return Err(LayerError::shape("the input", "at least one axis", input));
        };
        if last.differs(features) {
            return Err(LayerError::shape("the last axis of the input", features, input));
        }
        let wanted = outputs.cloned().unwrap_or(Dim::Fixed(1));
        if let Some(bias) = bias.filter(|bias| bias.num_elements().differs(&wanted)) {
            return Err(LayerError::shape("the bias", format!("{wanted} elements"), bias));
        }
        Ok(vec![input.with_dims(rest.iter().chain(outputs).cloned())])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let features = inputs.first().and_then(|input| input.dims().last().cloned());
        let macs =
            features.zip(outputs.first()).and_then(|(features, o)| (o.num_elements() * features).fixed());
        Cost::of_moving(inputs, outputs)
            .with_macs(macs.and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0))
    }
}

impl CpuLayer for Linear {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        with_real!(inputs[0].dtype(), T => self.run::<T>(inputs, &mut outputs[0]))
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Linear>()
}
