//! The normalisations of TorchScript that return their statistics as well: native_layer_norm, native_group_norm,
//! native_batch_norm.
//!
//! Each has three outputs: the normalised input, the means, and the factors 1 / √(variance + eps).

use super::channels::{BatchNorm, GroupNorm, Running};
use super::last_axes::LayerNorm;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, Layout, Shape, Tensor, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.native_layer_norm`: `torch.nn.functional.layer_norm`, with the mean and 1 / √(variance + eps) of the elements that
    /// are normalised together. In these outputs, the normalised axes have length 1.
    pub struct NativeLayerNorm for "aten::native_layer_norm" {
        /// Lengths of the last axes, which are normalised together.
        normalized_shape: Vec<i64>,
        /// Factor of each element.
        weight: Option<Weight> = None,
        /// Bias of each element.
        bias: Option<Weight> = None,
        /// Added to the variance for numerical stability.
        eps: f64,
    }
    validate |layer| { layer.norm().validate() }
}

crate::operator! {
    /// `torch.native_group_norm`: `torch.nn.functional.group_norm` of an input that is seen as N×C×HxW, with the mean and
    /// 1 / √(variance + eps) of each group of each sample, both N×`group`.
    pub struct NativeGroupNorm for "aten::native_group_norm" {
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
        /// Number of samples.
        samples as "N": ParamOrInput<i64>,
        /// Number of channels.
        channels as "C": ParamOrInput<i64>,
        /// Number of elements of a channel.
        inner as "HxW": ParamOrInput<i64>,
        /// Number of groups; must divide the number of channels.
        group: usize,
        /// Added to the variance for numerical stability.
        eps: f64,
    }
    validate |layer| {
        match layer.group {
            0 => Err(LayerError::invalid("group", 0, "it must be at least 1")),
            _ => Ok(()),
        }
    }
}

crate::operator! {
    /// `torch.native_batch_norm`: `torch.nn.functional.batch_norm`, with the mean and 1 / √(variance + eps) of each channel of
    /// the batch; both are empty if the input is normalised by running statistics.
    pub struct NativeBatchNorm for "aten::native_batch_norm" {
        /// Factor of each channel.
        weight: Option<Weight> = None,
        /// Bias of each channel.
        bias: Option<Weight> = None,
        /// Running mean of each channel; `None` for the mean of the batch.
        running_mean: Running,
        /// Running variance of each channel; `None` for the variance of the batch.
        running_var: Running,
        /// Whether the statistics are those of the batch; `True` is supported without running statistics only.
        training: bool,
        /// Accepted for compatibility; it only matters in training.
        momentum: Option<f64> = None,
        /// Added to the variance for numerical stability.
        eps: f64,
    }
    validate |layer| {
        layer.norm().validate()?;
        if layer.training || layer.running_mean.0.is_some() {
            return Ok(());
        }
        let reason = "running statistics must be given, unless `training` is True";
        Err(LayerError::invalid("running_mean", "None", reason))
    }
}

/// The element type of the statistics: that of the input, or f32 if a weight is f32 and the input of half precision.
fn statistics_type<'w>(
    inputs: &[TensorMeta],
    weights: impl IntoIterator<Item = &'w Option<Weight>>,
) -> Result<DType> {
    let mut dtype = inputs[0].dtype();
    for weight in weights.into_iter().flatten() {
        if weight.meta(inputs)?.dtype() == DType::F32 {
            dtype = if dtype == DType::F64 { dtype } else { DType::F32 };
        }
    }
    Ok(dtype)
}

/// Writes the means of rows, and 1 / √(variance + `eps`) of each, to the last two of three outputs. The elements of a row follow
/// each other in the row-major order of `rows`.
fn write_statistics(rows: &TensorView<'_>, eps: f64, outputs: &mut [TensorViewMut<'_>]) -> Result<()> {
    let [_, means, factors] = outputs else { return Ok(()) };
    let count = means.num_elements();
    if count == 0 {
        return Ok(());
    }
    let statistics: Vec<(f64, f64)> =
        with_float!(rows.dtype(), T => Ok(of_rows::<T>(&float::read::<T>(rows)?, count, eps)))?;
    let (of_means, of_factors): (Vec<f64>, Vec<f64>) = statistics.into_iter().unzip();
    for (output, numbers) in [(means, of_means), (factors, of_factors)] {
        let numbers = Tensor::from_vec(numbers, output.shape())?.cast(output.dtype())?;
        output.copy_from(&numbers.view())?;
    }
    Ok(())
}

/// The mean and 1 / √(variance + `eps`) of each of `count` rows. As in PyTorch, the mean of no elements is 0.
fn of_rows<T: Float>(values: &[T], count: usize, eps: f64) -> Vec<(f64, f64)> {
    let len = values.len() / count.max(1);
    let of_row = |row: &[T]| {
        let wide = || row.iter().map(|x| x.to_f64().unwrap_or(f64::NAN));
        let mean = wide().sum::<f64>() / len.max(1) as f64;
        let variance = wide().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len as f64;
        (mean, 1.0 / (variance + eps).sqrt())
    };
    (0..count).map(|row| of_row(values.get(row * len..(row + 1) * len).unwrap_or_default())).collect()
}

impl NativeLayerNorm {
    fn norm(&self) -> LayerNorm {
        let Self { normalized_shape, weight, bias, eps } = self.clone();
        LayerNorm { normalized_shape, eps, elementwise_affine: false, weight, bias }
    }
}

impl Layer for NativeLayerNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut outputs = self.norm().infer(inputs)?;
        let first = inputs[0].rank().saturating_sub(self.normalized_shape.len());
        let dims = inputs[0].dims().iter().enumerate();
        let dims = dims.map(|(axis, dim)| if axis < first { dim.clone() } else { Dim::Fixed(1) });
        let dtype = statistics_type(inputs, [&self.weight, &self.bias])?;
        let statistics = TensorMeta::new(dtype, dims);
        outputs.extend([statistics.clone(), statistics]);
        Ok(outputs)
    }
}

impl CpuLayer for NativeLayerNorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.norm().forward(&mut Io::new(io.inputs, &mut io.outputs[..1], &mut io.context))?;
        write_statistics(&io.inputs[0], self.eps, io.outputs)
    }
}

impl NativeGroupNorm {
    fn norm(&self) -> GroupNorm {
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        let (num_groups, eps) = (self.group, self.eps);
        GroupNorm { num_groups, num_channels: None, eps, affine: false, weight, bias }
    }

    /// The dimensions N, C and H·W.
    fn dims(&self, inputs: &[TensorMeta]) -> Result<[Dim; 3]> {
        let dims = [self.samples.dim(inputs)?, self.channels.dim(inputs)?, self.inner.dim(inputs)?];
        for (key, dim) in ["N", "C", "HxW"].into_iter().zip(&dims) {
            if let Some(len @ ..0) = dim.fixed() {
                return Err(LayerError::invalid(key, len, "it must be at least 0"));
            }
        }
        let [samples, channels, inner] = dims.clone();
        if inputs[0].num_elements().differs(&(samples * channels * inner)) {
            let [samples, channels, inner] = &dims;
            let wanted = format!("as many elements as {samples}×{channels}×{inner} has");
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        Ok(dims)
    }
}

impl Layer for NativeGroupNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dims = self.dims(inputs)?;
        let mut seen = inputs.to_vec();
        seen[0] = inputs[0].with_dims(dims.clone());
        self.norm().infer(&seen)?;
        let [samples, ..] = dims;
        let dtype = statistics_type(inputs, [&self.weight, &self.bias])?;
        let statistics = TensorMeta::new(dtype, [samples, Dim::from(self.group)]);
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec()), statistics.clone(), statistics])
    }
}

impl CpuLayer for NativeGroupNorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dims = self.dims(&TensorMeta::of_all(io.inputs))?;
        let shape: Shape = TensorMeta::new(DType::Bool, dims).shape()?;
        let plain = Plain::of(&io.inputs[0])?;
        let mut views = io.inputs.to_vec();
        let seen = Layout::contiguous(shape).with_offset(plain.view().layout().offset());
        views[0] = plain.view().with_layout(seen)?;
        let (mut norm, context) = (self.norm(), &mut io.context);
        write_plain(&mut io.outputs[0], &mut |output| {
            let seen = Layout::contiguous(shape).with_offset(output.layout().offset());
            let mut outputs = [output.reborrow().with_layout(seen)?];
            norm.forward(&mut Io::new(&views, &mut outputs, context))
        })?;
        write_statistics(&views[0], self.eps, io.outputs)
    }
}

impl NativeBatchNorm {
    fn norm(&self) -> BatchNorm {
        let Self { weight, bias, running_mean, running_var, training, momentum, eps } = self.clone();
        let (num_features, affine) = (None, false);
        BatchNorm { num_features, eps, affine, training, momentum, running_mean, running_var, weight, bias }
    }
}

impl Layer for NativeBatchNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut outputs = self.norm().infer(inputs)?;
        let running = [&self.running_mean.0, &self.running_var.0];
        let dtype = statistics_type(inputs, [&self.weight, &self.bias].into_iter().chain(running))?;
        let channels = match (self.training, inputs[0].dims()) {
            (true, [_, channels, ..]) => channels.clone(),
            _ => Dim::Fixed(0),
        };
        let statistics = TensorMeta::new(dtype, [channels]);
        outputs.extend([statistics.clone(), statistics]);
        Ok(outputs)
    }
}

impl CpuLayer for NativeBatchNorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.norm().forward(&mut Io::new(io.inputs, &mut io.outputs[..1], &mut io.context))?;
        if !self.training {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..io.inputs[0].shape().rank()).collect();
        order.swap(0, 1);
        let by_channel = io.inputs[0].with_layout(io.inputs[0].layout().permute(&order)?)?;
        write_statistics(&by_channel, self.eps, io.outputs)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.norm().workspace(inputs, outputs)
    }
}

operators! { NativeLayerNorm, NativeGroupNorm, NativeBatchNorm }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{Operator, assert_close, operator, tensor};

    /// PyTorch's results.
    #[test]
    fn statistics_of_last_axes() {
        let x = tensor(&[2, 3], &[1f32, 2.0, 4.0, 3.0, 3.0, 3.0]);
        let params = [("normalized_shape", "(3)"), ("eps", "1e-5"), ("weight", "None"), ("bias", "None")];
        let outputs = operator("aten::native_layer_norm", &params).run(&[&x]).unwrap();
        assert_close(&outputs[0], &[2, 3], &[-1.069_041_4, -0.267_260_3, 1.336_301_8, 0.0, 0.0, 0.0]);
        assert_close(&outputs[1], &[2, 1], &[2.333_333_3, 3.0]);
        assert_close(&outputs[2], &[2, 1], &[0.801_781_06, 316.227_78]);
        let wide = [("normalized_shape", "(2,3)"), ("eps", "1e-5")];
        let outputs = operator("aten::native_layer_norm", &wide).run(&[&x]).unwrap();
        assert_eq!(outputs[1].shape().dims(), [1, 1]);
        let half = x.cast(DType::F16).unwrap();
        let of = |layer: Operator<'_>, inputs: &[&Tensor]| layer.run(inputs).unwrap()[2].dtype();
        assert_eq!(of(operator("aten::native_layer_norm", &params), &[&half]), DType::F16);
        let layer = operator("aten::native_layer_norm", &params[..2]).with_names(&["input", "weight"]);
        assert_eq!(of(layer, &[&half, &tensor(&[3], &[1f32; 3])]), DType::F32);
        let empty = operator("aten::native_layer_norm", &[("normalized_shape", "(0)"), ("eps", "1e-5")]);
        let outputs = empty.run(&[&Tensor::zeros(DType::F32, &[1, 0]).unwrap()]).unwrap();
        assert_close(&outputs[1], &[1, 1], &[0.0]);
        assert_close(&outputs[2], &[1, 1], &[f64::NAN]);
        operator("aten::native_layer_norm", &params).survives(1);
    }

    /// PyTorch's results.
    #[test]
    fn statistics_of_groups() {
        let x = tensor(&[2, 4], &[1f32, 2.0, 4.0, 3.0, 3.0, 5.0, -1.0, 1.0]);
        let params = |samples, channels| {
            [("N", samples), ("C", channels), ("HxW", "1"), ("group", "2"), ("eps", "1e-5")]
        };
        let outputs = operator("aten::native_group_norm", &params("2", "4")).run(&[&x]).unwrap();
        let want = [-0.999_98, 0.999_98, 0.999_98, -0.999_98, -0.999_995, 0.999_995, -0.999_995, 0.999_995];
        assert_close(&outputs[0], &[2, 4], &want);
        assert_close(&outputs[1], &[2, 2], &[1.5, 3.5, 4.0, 0.0]);
        assert_close(&outputs[2], &[2, 2], &[1.999_96, 1.999_96, 0.999_995, 0.999_995]);
        let outputs = operator("aten::native_group_norm", &params("1", "8")).run(&[&x]).unwrap();
        assert_close(&outputs[1], &[1, 2], &[2.5, 2.0]);
        let error = operator("aten::native_group_norm", &params("3", "4")).run(&[&x]).unwrap_err();
        assert_eq!(error.to_string(), "the input: expected as many elements as 3×4×1 has, got 2×4 f32");
        assert!(operator("aten::native_group_norm", &params("8", "1")).run(&[&x]).is_err());
        operator("aten::native_group_norm", &params("1", "6")).survives(1);
    }

    /// PyTorch's results.
    #[test]
    fn statistics_of_channels() {
        let x = tensor(&[3, 2], &[1f32, 2.0, 3.0, 5.0, -1.0, 1.0]);
        let params = |training| {
            let none = ["weight", "bias", "running_mean", "running_var"].map(|key| (key, "None"));
            [none.to_vec(), vec![("training", training), ("momentum", "0.1"), ("eps", "1e-5")]].concat()
        };
        let outputs = operator("aten::native_batch_norm", &params("True")).run(&[&x]).unwrap();
        let want = [0.0, -0.392_231_6, 1.224_742_5, 1.372_810_6, -1.224_742_5, -0.980_579];
        assert_close(&outputs[0], &[3, 2], &want);
        assert_close(&outputs[1], &[2], &[1.0, 2.666_666_7]);
        assert_close(&outputs[2], &[2], &[0.612_371_27, 0.588_347_4]);
        let error = operator("aten::native_batch_norm", &params("False")).create(1).unwrap_err().to_string();
        assert!(error.contains("running statistics must be given"), "{error}");
        let running = |training| {
            let params = [("training", training), ("eps", "0.0")];
            let layer = operator("aten::native_batch_norm", &params);
            let statistics = tensor(&[2], &[1f32, 4.0]);
            let layer = layer.with_names(&["input", "running_mean", "running_var"]);
            layer.run(&[&x, &statistics, &statistics])
        };
        let outputs = running("False").unwrap();
        assert_close(&outputs[0], &[3, 2], &[0.0, -1.0, 2.0, 0.5, -2.0, -1.5]);
        assert_close(&outputs[1], &[0], &[]);
        assert!(running("True").unwrap_err().to_string().contains("model.eval()"));
        operator("aten::native_batch_norm", &params("True")).survives(1);
    }
}
