//! Convolutions and linear layers of quantised tensors.
//!
//! Inputs of 8 bits are multiplied as bytes if the weights' zero points are 0, as those of symmetric quantisation are. Other
//! inputs and weights are multiplied as differences from their zero points. Results are the same.

use super::{check_bytes, quantization, with_quantized, write};
use crate::layout::padding::PaddingMode;
use crate::op::{
    CpuLayer, FieldValue, Io, Layer, LayerError, NO_KEY, OperatorReader, Result, RuntimeAttribute,
    TensorMeta, Weight,
};
use crate::support::choices::{PerAxis, per_axis};
use crate::support::shape_cache::ShapeCache;
use ixion_kernels::blocked::BlockedShape;
use ixion_kernels::conv::ConvShape;
use ixion_kernels::quantization::{Quantization, Requantization};
use ixion_kernels::quantized::{
    ByColumn, ByRow, ByteConv, BytePanels, ByteWeights, Bytes, ChannelFactors, Finish, Int8Conv, Outputs,
    PanelKind, QuantizedElement, Rows, Strips, ZeroPoint, centered, multiply_bytes, product,
};
use ixion_kernels::window::Window;
use ixion_tensor::{DType, Dim, Element, Limits, TensorView, TensorViewMut};
use std::borrow::Cow;
use std::sync::Arc;

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

/// The weights and quantisation of both operators.
struct Factors<'a> {
    weight: &'a Weight,
    scales: &'a Weight,
    zero_points: &'a Weight,
    bias: Option<&'a Weight>,
    output: (f64, i64),
    input: (f64, i64),
    relu: bool,
}

impl Factors<'_> {
    fn attribute<'w>(key: &str, weight: &'w Weight) -> Result<&'w RuntimeAttribute> {
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
    fn validate(&self) -> Result<()> {
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
    fn quantizations(&self, dtype: DType) -> Result<[Quantization; 2]> {
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
    fn prepare<W>(
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
