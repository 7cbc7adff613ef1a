//! Convolution of sequences whose first axis is the time.

use super::blocked::Blocks;
use super::{Conv, Padding};
use crate::inserted::device_tactic::DeviceTactic;
use crate::layout::padding::PaddingMode;
use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::choices::PerAxis;
use crate::support::int8::{ByteState, Int8};
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::TensorView;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.conv_tbc`: convolution of a T×N×C input with kernel×C×O weights over the time, its first axis. Output:
    /// (T + 2·`pad` − kernel + 1)×N×O.
    pub struct ConvTimeFirst for "aten::conv_tbc" {
        /// Weights, kernel×C×O.
        weight: Weight,
        /// Bias of each output channel.
        bias: Weight,
        /// Number of zeros before the first and after the last step.
        pad: usize = 0,
    }
}

/// The axes N×C×T in T×N×C.
const TIME_LAST: [usize; 3] = [1, 2, 0];
/// The axes T×N×O in N×O×T.
const TIME_FIRST: [usize; 3] = [2, 0, 1];
/// The axes O×C×kernel in kernel×C×O.
const KERNEL_LAST: [usize; 3] = [2, 1, 0];

/// A shape with another order of its three axes.
fn reordered(what: &str, wanted: &str, meta: &TensorMeta, order: [usize; 3]) -> Result<TensorMeta> {
    match meta.dims() {
        dims @ [_, _, _] => Ok(meta.with_dims(order.map(|axis| dims[axis].clone()))),
        _ => Err(LayerError::shape(what, wanted, meta)),
    }
}

/// A tensor with another order of its axes.
fn permuted<'a>(view: &TensorView<'a>, order: [usize; 3]) -> Result<TensorView<'a>> {
    Ok(view.with_layout(view.layout().permute(&order)?)?)
}

impl ConvTimeFirst {
    /// The convolution over the last axis, whose inputs are the tensor, the weights and the bias.
    fn conv(&self) -> Conv {
        Conv {
            in_channels: None,
            out_channels: None,
            kernel_size: None,
            stride: PerAxis::all(1),
            padding: Padding::Places(PerAxis::all(self.pad)),
            dilation: PerAxis::all(1),
            groups: 1,
            padding_mode: PaddingMode::Zeros,
            weight: Weight::Input(1),
            bias: Some(Weight::Input(2)),
            epilogue: None,
            ready: ShapeCache::default(),
            blocks: Blocks::default(),
            int8: Int8::default(),
            int8_conv: ShapeCache::default(),
            bytes: ByteState::default(),
            on_device: DeviceTactic::default(),
        }
    }

    /// The inputs of that convolution.
    fn of_conv(&self, inputs: &[TensorMeta]) -> Result<[TensorMeta; 3]> {
        let (weight, bias) = (self.weight.meta(inputs)?, self.bias.meta(inputs)?);
        let input = reordered("the input", "T×N×C", &inputs[0], TIME_LAST)?;
        Ok([input, reordered("the weight", "kernel×C×O", &weight, KERNEL_LAST)?, bias])
    }
}

impl Layer for ConvTimeFirst {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let outputs = self.conv().infer(&self.of_conv(inputs)?)?;
        outputs.iter().map(|output| reordered("the output", "N×O×T", output, TIME_FIRST)).collect()
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        match self.of_conv(inputs) {
            Ok(inputs) => self.conv().cost(&inputs, outputs),
            Err(_) => Cost::of_moving(inputs, outputs),
        }
    }
}

impl CpuLayer for ConvTimeFirst {
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let output = outputs.first().map(|output| reordered("the output", "T×N×O", output, TIME_LAST));
        match (self.of_conv(inputs), output) {
            (Ok(inputs), Some(Ok(output))) => self.conv().workspace(&inputs, &[output]),
            _ => 0,
        }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (weight, bias) = (self.weight.view(io.inputs)?, self.bias.view(io.inputs)?);
        let inputs = [permuted(&io.inputs[0], TIME_LAST)?, permuted(&weight, KERNEL_LAST)?, bias];
        let layout = io.outputs[0].layout().permute(&TIME_LAST)?;
        let mut outputs = [io.outputs[0].reborrow().with_layout(layout)?];
        self.conv().forward(&mut Io::new(&inputs, &mut outputs, &mut io.context))
    }
}

operators! { ConvTimeFirst }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim};

    /// PyTorch's results.
    #[test]
    fn time_is_the_first_axis() {
        let (x, weight) = (counting(DType::F32, &[3, 2, 2]), counting(DType::F32, &[2, 2, 3]));
        let bias = tensor(&[3], &[0.5f32, -1.0, 0.0]);
        let conv = |pad| {
            let layer = operator("aten::conv_tbc", &[("pad", pad)]).with_names(&["input", "weight", "bias"]);
            layer.run_one(&[&x, &weight, &bias]).unwrap()
        };
        assert_close(&conv("0"), &[2, 2, 3], PLAIN);
        assert_close(&conv("1"), &[4, 2, 3], PADDED);
        let half = [&x, &weight, &bias].map(|tensor| tensor.cast(DType::F16).unwrap());
        let layer = operator("aten::conv_tbc", &[]).with_names(&["input", "weight", "bias"]);
        assert_close(&layer.run_one(&half.each_ref()).unwrap(), &[2, 2, 3], PLAIN);
    }

    #[test]
    fn odd_inputs() {
        let layer = operator("aten::conv_tbc", &[("pad", "1")]).with_names(&["input", "weight", "bias"]);
        let meta = |dims: [Dim; 3]| TensorMeta::new(DType::F32, dims);
        let (t, weight) = (Dim::symbol("t"), meta([3.into(), 4.into(), 5.into()]));
        let bias = TensorMeta::new(DType::F32, [5usize]);
        let infer = |dims| layer.infer(&[meta(dims), weight.clone(), bias.clone()]);
        assert_eq!(infer([t.clone(), 2.into(), 4.into()]).unwrap()[0].to_string(), "t×2×5 f32");
        let message = infer([t, 2.into(), 3.into()]).unwrap_err().to_string();
        assert!(message.contains("4 channels"), "{message}");
        let flat = layer.infer(&[TensorMeta::new(DType::F32, [2usize]), weight.clone(), bias.clone()]);
        assert!(flat.unwrap_err().to_string().contains("T×N×C"));
        layer.survives(3);
    }

    const PLAIN: &[f64] = &[72.5, 81.0, 92.0, 108.5, 125.0, 144.0, 144.5, 169.0, 196.0, 180.5, 213.0, 248.0];
    const PADDED: &[f64] = &[
        9.5, 9.0, 11.0, 39.5, 43.0, 49.0, 72.5, 81.0, 92.0, 108.5, 125.0, 144.0, 144.5, 169.0, 196.0, 180.5,
        213.0, 248.0, 27.5, 43.0, 61.0, 33.5, 53.0, 75.0,
    ];
}
