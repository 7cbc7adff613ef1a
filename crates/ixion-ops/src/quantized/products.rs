//! Convolutions and linear layers of quantised tensors.
//!
//! Inputs are multiplied as bytes, by [`ByteConv`] and [`multiply_bytes`], if the weights' zero points are 0, as those of
//! symmetric quantisation are, outputs have at most [`MAX_DEPTH`](ixion_kernels::quantized::MAX_DEPTH) products, and the factors
//! of all channels are finite. Otherwise, differences from the zero points are multiplied, by [`Int8Conv`] and [`product`].
//! Results are the same.

mod weights;

use super::{check_bytes, with_quantized, write};
use crate::layout::padding::PaddingMode;
use crate::op::{
    CpuLayer, FieldValue, Io, Layer, LayerError, NO_KEY, OperatorReader, Result, TensorMeta, Weight,
};
use crate::support::choices::{PerAxis, per_axis};
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::blocked::BlockedShape;
use ixion_kernels::conv::ConvShape;
use ixion_kernels::quantization::Quantization;
use ixion_kernels::quantized::{
    ByColumn, ByRow, ByteConv, ByteWeights, Bytes, Finish, Int8Conv, Outputs, PanelKind, QuantizedElement,
    Rows, Strips, centered, multiply_bytes, product,
};
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim, Element, Limits, TensorView, TensorViewMut};
use std::borrow::Cow;
use weights::{Factors, Prepared};

/// Whether ReLU follows the product. Derived from the operator's type; no key of a file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FusedRelu(pub bool);

impl FieldValue for FusedRelu {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        match reader.op_type() {
            "" => Err(LayerError::Unsupported("the reader was given no operator type".to_owned())),
            op_type => Ok(Some(Self(op_type.contains("ReLU")))),
        }
    }
}

crate::operator! {
    /// `torch.ao.nn.quantized.Conv2d`: cross-correlation of a quantised N×C×H×W input with quantised O×(C/groups)×h×w
    /// weights. The sum of products and the bias is multiplied by input scale · weight scale / output scale, rounded half
    /// to even, offset by the zero point and saturated. `torch.ao.nn.intrinsic.quantized.ConvReLU2d`: the same, followed by
    /// ReLU.
    pub struct QuantizedConv for "nn.quantized.Conv2d", "nn.intrinsic.quantized.ConvReLU2d" {
        /// Number of input channels; only checked against the weights.
        in_channels: Option<usize> = None,
        /// Number of output channels; only checked against the weights.
        out_channels: Option<usize> = None,
        /// Size of the kernel; only checked against the weights.
        kernel_size: Option<PerAxis> = None,
        /// Stride of the sliding window.
        stride: PerAxis = PerAxis::all(1),
        /// Padding added to both sides of each axis, filled with the input's zero point.
        padding: PerAxis = PerAxis::all(0),
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Number of groups of channels that are convolved separately.
        groups: usize = 1,
        /// How the padding is filled; only `zeros` is supported.
        padding_mode: PaddingMode = PaddingMode::Zeros,
        /// Weights of i8, O×….
        weight: Weight,
        /// The scale of the weights of each output channel.
        scales as "weight.q_per_channel_scales": Weight,
        /// The zero point of the weights of each output channel.
        zero_points as "weight.q_per_channel_zero_points": Weight,
        /// Float bias of each output channel.
        bias: Option<Weight> = None,
        /// The scale of the output.
        scale: f64,
        /// The zero point of the output.
        zero_point: i64,
        /// The scale of the input; set when a model is built.
        input_scale: f64,
        /// The zero point of the input; set when a model is built.
        input_zero_point: i64,
        /// Whether ReLU is applied to the result.
        relu: FusedRelu,
        /// The prepared weights for inputs of the type of the last run.
        ready: ShapeCache<(DType, Prepared<(Rows, ByRow)>)>,
    }
    validate |layer| { layer.factors().validate()?; layer.check() }
}

crate::operator! {
    /// `torch.ao.nn.quantized.Linear`: the affine map of a quantised …×I input with quantised O×I weights, rounded like
    /// `nn.quantized.Conv2d`. Output: …×O. `torch.ao.nn.intrinsic.quantized.LinearReLU`: the same, followed by ReLU.
    pub struct QuantizedLinear for "nn.quantized.Linear", "nn.intrinsic.quantized.LinearReLU" {
        /// Number of input features I; only checked against the weights.
        in_features: Option<usize> = None,
        /// Number of output features O; only checked against the weights.
        out_features: Option<usize> = None,
        /// Weights of i8, O×….
        weight: Weight,
        /// The scale of the weights of each output channel.
        scales as "weight.q_per_channel_scales": Weight,
        /// The zero point of the weights of each output channel.
        zero_points as "weight.q_per_channel_zero_points": Weight,
        /// Float bias of each output channel.
        bias: Option<Weight> = None,
        /// The scale of the output.
        scale: f64,
        /// The zero point of the output.
        zero_point: i64,
        /// The scale of the input; set when a model is built.
        input_scale: f64,
        /// The zero point of the input; set when a model is built.
        input_zero_point: i64,
        /// Whether ReLU is applied to the result.
        relu: FusedRelu,
        /// The prepared weights for inputs of the type of the last run.
        ready: ShapeCache<(DType, Prepared<(Strips, ByColumn)>)>,
    }
    validate |layer| { layer.factors().validate()?; layer.check() }
}

/// Lets `run` multiply the elements of a quantised tensor in row-major order, and write those of an output of the same type.
///
/// # Errors
/// The errors of `run`; an error if a tensor has another type.
fn with_bytes(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    run: impl FnOnce(Bytes<'_>, Outputs<'_>) -> Result<()>,
) -> Result<()> {
    match input.dtype() {
        DType::I8 => {
            let values = elements::<i8>(input)?;
            write::<i8>(output, |output| run(Bytes::from(&*values), Outputs::I8(output)))
        }
        _ => {
            let values = elements::<u8>(input)?;
            write::<u8>(output, |output| run(Bytes::from(&*values), Outputs::U8(output)))
        }
    }
}

/// The elements of a tensor in row-major order; copied if they are stored in another one.
fn elements<'a, Q: Element>(tensor: &TensorView<'a>) -> Result<Cow<'a, [Q]>> {
    Ok(match tensor.layout().is_contiguous() {
        true => Cow::Borrowed(tensor.slice::<Q>()?),
        false => Cow::Owned(tensor.to_vec::<Q>()?),
    })
}

/// How sums are converted to outputs of this quantisation: their factors result in numbers of steps.
fn finish(output: &Quantization) -> Finish<'static> {
    Finish { zero_point: output.zero_point, range: output.range, ..Finish::NONE }
}

impl QuantizedConv {
    fn factors(&self) -> Factors<'_> {
        Factors {
            weight: &self.weight,
            scales: &self.scales,
            zero_points: &self.zero_points,
            bias: self.bias.as_ref(),
            output: (self.scale, self.zero_point),
            input: (self.input_scale, self.input_zero_point),
            relu: self.relu.0,
        }
    }

    fn convolution(&self) -> Convolution<'_> {
        Convolution {
            weight: &self.weight,
            given: [self.in_channels, self.out_channels],
            kernel_size: self.kernel_size.as_ref(),
            distances: [&self.stride, &self.padding, &self.dilation],
            groups: self.groups,
        }
    }

    fn check(&self) -> Result<()> {
        if self.padding_mode != PaddingMode::Zeros {
            let reason = "quantised tensors can only be padded with zeros";
            return Err(LayerError::invalid("padding_mode", format!("{:?}", self.padding_mode), reason));
        }
        self.convolution().windows().map(drop)
    }

    fn shapes(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>> {
        self.convolution().infer(input)
    }

    fn prepare(&self, dtype: DType) -> Result<Prepared<(Rows, ByRow)>> {
        let shape = self.convolution().shape([1, 1])?;
        let channels = (shape.channels / shape.groups.max(1)).max(1);
        let places: usize = shape.windows.iter().map(|window| window.kernel).product();
        // Files have the window innermost, panels the channels.
        let position = |k: usize| k % channels * places + k / channels;
        let differences = |rows, outputs| (rows, ByRow(outputs));
        self.factors().prepare(dtype, PanelKind::of(&shape), position, differences)
    }

    fn run(
        &self,
        input: &TensorView<'_>,
        weights: &Prepared<(Rows, ByRow)>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (convolution, zero_point) = (self.convolution(), self.input_zero_point as i32);
        match weights {
            Prepared::Bytes(weights, how) => convolution.run_bytes(input, (weights, how), output, limits),
            Prepared::Differences(weights) => with_quantized!(
                input.dtype(), Q => convolution.run::<Q>(input, zero_point, weights, output, limits)
            ),
        }
    }
}

impl Layer for QuantizedConv {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_bytes("the input", &inputs[0])?;
        self.factors().quantizations(inputs[0].dtype())?;
        self.shapes(&inputs[0])
    }
}

impl CpuLayer for QuantizedConv {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut ready = self.ready.take();
        let weights = ready.of(io.inputs[0].dtype(), |&dtype| self.prepare(dtype));
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        let result = weights.and_then(|weights| self.run(input, weights, output, io.context.limits()));
        self.ready = ready;
        result
    }
}

/// A two-dimensional convolution.
struct Convolution<'a> {
    weight: &'a Weight,
    /// The input and output channels that the file specifies.
    given: [Option<usize>; 2],
    kernel_size: Option<&'a PerAxis>,
    /// Stride, padding and dilation.
    distances: [&'a PerAxis; 3],
    groups: usize,
}

impl Convolution<'_> {
    /// The numbers of output channels and of input channels per group, and the windows.
    fn windows(&self) -> Result<(usize, usize, [Window; 2])> {
        let shape = Factors::attribute("weight", self.weight)?.shape();
        let &[out_channels, channels, rows, columns] = shape else {
            return Err(LayerError::shape("the weight", "O×C×h×w", format!("{shape:?}")));
        };
        if self.groups == 0 || out_channels % self.groups != 0 {
            let reason = format!("it must divide the {out_channels} channels");
            return Err(LayerError::invalid("groups", self.groups, reason));
        }
        let all = channels.saturating_mul(self.groups);
        for (key, given, is) in
            [("in_channels", self.given[0], all), ("out_channels", self.given[1], out_channels)]
        {
            if let Some(given) = given.filter(|&given| given != is) {
                return Err(LayerError::invalid(key, given, format!("the weights have {is}")));
            }
        }
        if let Some(given) =
            self.kernel_size.filter(|given| given.get(2).as_deref() != Some(&[rows, columns]))
        {
            return Err(LayerError::invalid(
                "kernel_size",
                format!("{:?}", given.values()),
                format!("the weights have [{rows}, {columns}]"),
            ));
        }
        let [stride, padding, dilation] = self.distances;
        let [stride, padding, dilation] = [
            per_axis("stride", stride.values(), 2)?,
            per_axis("padding", padding.values(), 2)?,
            per_axis("dilation", dilation.values(), 2)?,
        ];
        let window = |axis: usize, kernel| Window {
            kernel,
            stride: stride[axis],
            dilation: dilation[axis],
            pad_before: padding[axis],
            pad_after: padding[axis],
        };
        let windows = [window(0, rows), window(1, columns)];
        if !windows.iter().all(|window| window.is_sane() && window.dilation > 0) {
            let reason = "the window is empty or too large, or one of its distances is 0";
            return Err(LayerError::invalid("kernel_size", format!("{rows}×{columns}"), reason));
        }
        Ok((out_channels, channels, windows))
    }

    /// The sizes of the convolution of an input of these lengths.
    fn shape(&self, lens: [usize; 2]) -> Result<BlockedShape> {
        let (out_channels, channels, windows) = self.windows()?;
        let (channels, groups) = (channels.saturating_mul(self.groups), self.groups);
        Ok(BlockedShape { channels, out_channels, groups, lens, windows })
    }

    fn infer(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>> {
        let (out_channels, channels, windows) = self.windows()?;
        let channels = channels.saturating_mul(self.groups);
        let [samples, found, lens @ ..] = input.dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", input));
        };
        if lens.len() != 2 || found.differs(&Dim::from(channels)) {
            return Err(LayerError::shape("the input", format!("N×{channels}×H×W"), input));
        }
        let mut dims = vec![samples.clone(), Dim::from(out_channels)];
        for (window, len) in windows.iter().zip(lens) {
            let reach = window.dilation * (window.kernel - 1) + 1;
            let room = len.clone() + (window.pad_before + window.pad_after) - reach;
            if room.fixed().is_some_and(|room| room < 0) {
                return Err(LayerError::shape("the input", "rows and columns that fit the window", input));
            }
            dims.push(room.floor_div(window.stride) + 1);
        }
        Ok(vec![input.with_dims(dims)])
    }

    /// Convolves the tensors with their channels last.
    fn run_bytes(
        &self,
        input: &TensorView<'_>,
        (weights, how): (&ByteWeights, &Quantization),
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let dims = *input.shape();
        let conv = ByteConv::new(self.shape([dims[2], dims[3]])?);
        let last = [0, 2, 3, 1];
        let input = input.with_layout(input.layout().permute(&last)?)?;
        let layout = output.layout().permute(&last)?;
        let mut output = output.reborrow().with_layout(layout)?;
        with_bytes(&input, &mut output, |input, output| {
            Ok(conv.run(input, weights, &finish(how), output, limits)?)
        })
    }

    /// Convolves differences from zero points.
    fn run<Q: QuantizedElement>(
        &self,
        input: &TensorView<'_>,
        zero_point: i32,
        weights: &(Rows, ByRow),
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let dims = *input.shape();
        let BlockedShape { channels, out_channels, groups, lens, windows } =
            self.shape([dims[2], dims[3]])?;
        let (lens, windows) = (lens.to_vec(), windows.to_vec());
        let conv = Int8Conv::new(ConvShape { channels, out_channels, groups, lens, windows });
        limits.check_tensor("the rows of a quantised convolution", conv.held_bytes())?;
        let (values, samples) = (centered(&input.to_vec::<Q>()?, zero_point), dims[0].max(1));
        let size = values.len() / samples;
        write::<Q>(output, |output| {
            let each = output.len() / samples;
            for (sample, output) in output.chunks_exact_mut(each.max(1)).enumerate() {
                conv.run(&values[sample * size..][..size], &weights.0, &weights.1, output, limits)?;
            }
            Ok(())
        })
    }
}

impl QuantizedLinear {
    fn factors(&self) -> Factors<'_> {
        Factors {
            weight: &self.weight,
            scales: &self.scales,
            zero_points: &self.zero_points,
            bias: self.bias.as_ref(),
            output: (self.scale, self.zero_point),
            input: (self.input_scale, self.input_zero_point),
            relu: self.relu.0,
        }
    }

    fn check(&self) -> Result<()> {
        let [outputs, features] = matrix(&self.weight)?;
        let checks =
            [("out_features", self.out_features, outputs), ("in_features", self.in_features, features)];
        for (key, given, is) in checks {
            if let Some(given) = given.filter(|&given| given != is) {
                return Err(LayerError::invalid(key, given, format!("the weights have {is}")));
            }
        }
        Ok(())
    }

    fn shapes(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>> {
        let [outputs, features] = matrix(&self.weight)?;
        match input.dims().split_last() {
            Some((last, rest)) if !last.differs(&Dim::from(features)) => {
                Ok(vec![input.with_dims(rest.iter().cloned().chain([Dim::from(outputs)]))])
            }
            _ => Err(LayerError::shape("the last axis of the input", features, input)),
        }
    }

    fn prepare(&self, dtype: DType) -> Result<Prepared<(Strips, ByColumn)>> {
        let [outputs, depth] = matrix(&self.weight)?;
        let differences = |rows, outputs| (Strips::of_rows(&rows), ByColumn(outputs));
        self.factors().prepare(dtype, PanelKind::Product { groups: 1, outputs, depth }, |k| k, differences)
    }

    fn run(
        &self,
        input: &TensorView<'_>,
        weights: &Prepared<(Strips, ByColumn)>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let [_, features] = matrix(&self.weight)?;
        let dims = input.shape().dims();
        let count: usize = dims[..dims.len().saturating_sub(1)].iter().product();
        match weights {
            Prepared::Bytes(weights, how) => with_bytes(input, output, |input, output| {
                Ok(multiply_bytes(count, input, weights, &finish(how), output, limits)?)
            }),
            Prepared::Differences((strips, outcome)) => with_quantized!(input.dtype(), Q => {
                let values = centered(&input.to_vec::<Q>()?, self.input_zero_point as i32);
                let rows = Rows::new(&values, [count, features]);
                write::<Q>(output, |output| Ok(product(&rows, strips, outcome, output, limits)?))
            }),
        }
    }
}

impl Layer for QuantizedLinear {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_bytes("the input", &inputs[0])?;
        self.factors().quantizations(inputs[0].dtype())?;
        self.shapes(&inputs[0])
    }
}

impl CpuLayer for QuantizedLinear {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut ready = self.ready.take();
        let weights = ready.of(io.inputs[0].dtype(), |&dtype| self.prepare(dtype));
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        let result = weights.and_then(|weights| self.run(input, weights, output, io.context.limits()));
        self.ready = ready;
        result
    }
}

fn matrix(weight: &Weight) -> Result<[usize; 2]> {
    let shape = Factors::attribute("weight", weight)?.shape();
    let wrong = || LayerError::shape("the weight", "out_features×in_features", format!("{shape:?}"));
    shape.try_into().map_err(|_| wrong())
}

operators! {
    QuantizedConv: when_quantized(Computes), QuantizedLinear: when_quantized(Computes); category Weighted
}

#[cfg(test)]
mod tests;
