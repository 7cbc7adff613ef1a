//! Weights of quantised convolutions and linear layers, and what converts the sums of their products.

use crate::op::{LayerError, Result, RuntimeAttribute, Weight};
use crate::quantized::quantization;
use ixion_kernels::quantization::{Quantization, Requantization};
use ixion_kernels::quantized::{
    BytePanels, ByteWeights, ChannelFactors, PanelKind, Rows, ZeroPoint, centered,
};
use ixion_tensor::DType;
use std::sync::Arc;

/// Weights that are ready to be multiplied with inputs of a type.
#[derive(Debug)]
pub enum Prepared<W> {
    /// Weights that are multiplied as bytes, and the quantisation of the output.
    Bytes(ByteWeights, Quantization),
    /// Weights minus their zero points.
    Differences(W),
}

/// The weights of a file as numbers.
struct Decoded {
    values: Vec<i8>,
    /// The zero point of each output's weights.
    zero_points: Vec<i32>,
    /// Weights of an output.
    depth: usize,
    /// How the sums of each output are converted.
    outputs: Vec<Requantization>,
}

impl Decoded {
    /// The weights minus their zero points.
    fn rows(&self) -> Rows {
        let values = self.values.chunks_exact(self.depth.max(1)).zip(&self.zero_points);
        let weights: Vec<i16> = values.flat_map(|(values, &zero)| centered(values, zero)).collect();
        Rows::new(&weights, [self.outputs.len(), self.depth])
    }

    /// Packs the weights, if they and an input with this zero point can be multiplied as bytes. `position(k)` is where factor
    /// k of an output has its weight.
    fn pack(
        &self,
        kind: PanelKind,
        zero: ZeroPoint,
        position: impl Fn(usize) -> usize,
    ) -> Option<ByteWeights> {
        let fits = kind.outputs() == self.outputs.len() && kind.depth() == self.depth && self.depth > 0;
        let is_finite = |how: &Requantization| how.bias.is_finite() && how.multiplier.is_finite();
        // The results of other factors may be NaN, which kernels convert differently.
        if !fits || self.zero_points.iter().any(|&zero| zero != 0) || !self.outputs.iter().all(is_finite) {
            return None;
        }
        let weight = |output: usize, k: usize| {
            self.values.get(output * self.depth + position(k)).copied().unwrap_or(0)
        };
        let panels = Arc::new(BytePanels::new(kind, weight)?);
        let nothing = ChannelFactors { start: 0, offset: 0.0, multiplier: 0.0 };
        let factors = |output: usize| self.outputs.get(output).map_or(nothing, ChannelFactors::from);
        Some(ByteWeights::new(panels, zero, factors))
    }
}

/// The weights and quantisation of both operators.
pub(super) struct Factors<'a> {
    pub(super) weight: &'a Weight,
    pub(super) scales: &'a Weight,
    pub(super) zero_points: &'a Weight,
    pub(super) bias: Option<&'a Weight>,
    /// The scale and the zero point of the output.
    pub(super) output: (f64, i64),
    /// Those of the input.
    pub(super) input: (f64, i64),
    /// Whether ReLU follows.
    pub(super) relu: bool,
}

impl Factors<'_> {
    /// The attribute with the weights of a key.
    ///
    /// # Errors
    /// [`LayerError::MissingWeight`] if the graph computes them.
    pub(super) fn attribute<'w>(key: &str, weight: &'w Weight) -> Result<&'w RuntimeAttribute> {
        match weight {
            Weight::Attribute(attribute) => Ok(attribute),
            Weight::Input(_) => Err(LayerError::MissingWeight { key: key.to_owned() }),
        }
    }

    fn all(&self) -> Result<[Option<&RuntimeAttribute>; 4]> {
        Ok([
            Some(Self::attribute("weight", self.weight)?),
            Some(Self::attribute("weight.q_per_channel_scales", self.scales)?),
            Some(Self::attribute("weight.q_per_channel_zero_points", self.zero_points)?),
            self.bias.map(|bias| Self::attribute("bias", bias)).transpose()?,
        ])
    }

    /// Checks the shapes and types of the weights.
    pub(super) fn validate(&self) -> Result<()> {
        let [weight, scales, zero_points, bias] = self.all()?;
        let Some((weight, &outputs)) = weight.and_then(|weight| Some((weight, weight.shape().first()?)))
        else {
            return Err(LayerError::shape("the weight", "at least one axis", "a scalar"));
        };
        if weight.dtype() != DType::I8 {
            return Err(LayerError::dtype("the weight", DType::I8, weight.dtype()));
        }
        let others = [("the scales", scales), ("the zero points", zero_points), ("the bias", bias)];
        for (what, other) in others.into_iter().filter_map(|(what, other)| Some((what, other?))) {
            if other.dtype().is_complex() {
                return Err(LayerError::dtype(what, "real numbers", other.dtype()));
            }
            if other.shape() != [outputs] {
                return Err(LayerError::shape(
                    what,
                    format!("{outputs} numbers"),
                    format!("{:?}", other.shape()),
                ));
            }
        }
        Ok(())
    }

    /// The quantisations of input and output, which have the same type. After ReLU, the output's range has no negative numbers.
    pub(super) fn quantizations(&self, dtype: DType) -> Result<[Quantization; 2]> {
        let input = quantization(["input_scale", "input_zero_point"], self.input.0, self.input.1, dtype)?;
        let mut output = quantization(["scale", "zero_point"], self.output.0, self.output.1, dtype)?;
        if self.relu {
            output.range[0] = output.range[0].max(output.zero_point);
        }
        Ok([input, output])
    }

    /// The weights and the requantisation of the sums.
    fn decode(&self, dtype: DType) -> Result<Decoded> {
        let [input, output] = self.quantizations(dtype)?;
        let [weight, scales, zero_points, bias] = self.all()?;
        let numbers = |attribute: Option<&RuntimeAttribute>| -> Result<Vec<f64>> {
            attribute.map_or(Ok(Vec::new()), |found| Ok(found.decode()?.cast(DType::F64)?.to_vec()?))
        };
        let (scales, zeros, bias) = (numbers(scales)?, numbers(zero_points)?, numbers(bias)?);
        let values = match weight {
            Some(weight) => weight.decode()?.to_vec::<i8>()?,
            None => Vec::new(),
        };
        let depth = values.len() / scales.len().max(1);
        let (mut zero_points, mut outputs) =
            (Vec::with_capacity(zeros.len()), Vec::with_capacity(scales.len()));
        for (o, (&scale, &zero)) in scales.iter().zip(&zeros).enumerate() {
            let keys = ["weight.q_per_channel_scales", "weight.q_per_channel_zero_points"];
            let how = quantization(keys, scale, zero as i64, DType::I8)?;
            let step = input.scale * how.scale;
            let bias = bias.get(o).map_or(0.0, |&bias| bias as f32 / step);
            zero_points.push(how.zero_point);
            outputs.push(Requantization { multiplier: step / output.scale, bias, output });
        }
        Ok(Decoded { values, zero_points, depth, outputs })
    }

    /// Prepares the weights for products of a kind, if inputs can be multiplied as bytes, or `otherwise` in another way. Factor
    /// k of an output has its weight at `position(k)`.
    pub(super) fn prepare<W>(
        &self,
        dtype: DType,
        kind: PanelKind,
        position: impl Fn(usize) -> usize,
        otherwise: impl FnOnce(Rows, Vec<Requantization>) -> W,
    ) -> Result<Prepared<W>> {
        let ([input, output], decoded) = (self.quantizations(dtype)?, self.decode(dtype)?);
        let zero = match dtype {
            DType::I8 => i8::try_from(input.zero_point).ok().map(ZeroPoint::I8),
            DType::U8 => u8::try_from(input.zero_point).ok().map(ZeroPoint::U8),
            _ => None,
        };
        Ok(match zero.and_then(|zero| decoded.pack(kind, zero, position)) {
            Some(weights) => Prepared::Bytes(weights, output),
            None => Prepared::Differences(otherwise(decoded.rows(), decoded.outputs)),
        })
    }
}
