//! Deformable convolution: the graph computes an offset for each kernel element.

use super::common::{Parameters, Sizes, per_axis};
use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::InputIndex;
use crate::support::choices::PerAxis;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_kernels::deformable::{DeformInputs, DeformShape, deform_conv};
use ixion_kernels::naive::Deforming;
use ixion_kernels::window::Window;
use ixion_tensor::{Dim, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torchvision.ops.DeformConv2d`: convolution of an N×C×H×W input with O×(C/groups)×h×w weights, in which every kernel
    /// element samples the input at its own offset for every output position. The offsets are
    /// N×2·G·h·w×H'×W' (down, then right) for G offset groups of channels; a mask N×G·h·w×H'×W' multiplies the samples
    /// (version 2). Samples between elements are interpolated bilinearly; outside the input they are 0.
    pub struct DeformConv for "torchvision.ops.DeformConv2d" {
        /// Offset of each kernel element from its regular position.
        offset: InputIndex,
        /// Factor of each sample.
        mask: Option<Weight> = None,
        /// Number of input channels; only checked against the weights.
        in_channels: Option<usize> = None,
        /// Number of output channels; only checked against the weights.
        out_channels: Option<usize> = None,
        /// Size of the kernel; only checked against the weights.
        kernel_size: Option<PerAxis> = None,
        /// Stride of the sliding window.
        stride: PerAxis = PerAxis::all(1),
        /// Zero padding added to both sides of each axis.
        padding: PerAxis = PerAxis::all(0),
        /// Spacing between kernel elements without offsets.
        dilation: PerAxis = PerAxis::all(1),
        /// Number of groups of channels that are convolved separately.
        groups: usize = 1,
        /// Weights, O×(C/groups)×h×w.
        weight: Weight,
        /// Bias of each output channel.
        bias: Option<Weight> = None,
    }
    validate |layer| { layer.deform().parameters().validate() }
}

crate::operator! {
    /// `torchvision.ops.deform_conv2d`, the functional form of `torchvision.ops.DeformConv2d` as PNNX writes it. Mask and bias
    /// are always given: an unused mask, and a bias of zeros, if the call has none.
    pub struct DeformConvFunction for "pnnx.custom_op.torchvision.deform_conv2d", "torchvision::deform_conv2d" {
        /// Weights, O×(C/groups)×h×w.
        weight as "arg_1": Weight,
        /// Offset of each kernel element from its regular position.
        offset as "arg_2": InputIndex,
        /// Factor of each sample.
        mask as "arg_3": Weight,
        /// Bias of each output channel.
        bias as "arg_4": Weight,
        /// Vertical stride.
        stride_rows as "arg_5": usize,
        /// Horizontal stride.
        stride_columns as "arg_6": usize,
        /// Rows of zeros added above and below the input.
        padding_rows as "arg_7": usize,
        /// Columns of zeros added to the left and right of the input.
        padding_columns as "arg_8": usize,
        /// Vertical spacing between kernel elements without offsets.
        dilation_rows as "arg_9": usize,
        /// Horizontal spacing between kernel elements without offsets.
        dilation_columns as "arg_10": usize,
        /// Number of groups of channels that are convolved separately.
        groups as "arg_11": usize,
        /// Number of offset groups: the channels of a group share their offsets.
        offset_groups as "arg_12": usize,
        /// Whether the mask is used.
        use_mask as "arg_13": bool,
    }
    validate |layer| { layer.deform().parameters().validate() }
}

/// The parameters of both forms of the operator.
struct Deform<'a> {
    stride: PerAxis,
    padding: PerAxis,
    dilation: PerAxis,
    /// The input and output channels that the file specifies.
    channels: [Option<usize>; 2],
    kernel_size: Option<&'a PerAxis>,
    groups: usize,
    /// The number of offset groups that the file specifies.
    offset_groups: Option<usize>,
    weight: &'a Weight,
    bias: Option<&'a Weight>,
    offset: usize,
    mask: Option<&'a Weight>,
}

impl DeformConv {
    fn deform(&self) -> Deform<'_> {
        Deform {
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            channels: [self.in_channels, self.out_channels],
            kernel_size: self.kernel_size.as_ref(),
            groups: self.groups,
            offset_groups: None,
            weight: &self.weight,
            bias: self.bias.as_ref(),
            offset: self.offset.0,
            mask: self.mask.as_ref(),
        }
    }
}

impl DeformConvFunction {
    fn deform(&self) -> Deform<'_> {
        Deform {
            stride: PerAxis::of([self.stride_rows, self.stride_columns]),
            padding: PerAxis::of([self.padding_rows, self.padding_columns]),
            dilation: PerAxis::of([self.dilation_rows, self.dilation_columns]),
            channels: [None; 2],
            kernel_size: None,
            groups: self.groups,
            offset_groups: Some(self.offset_groups),
            weight: &self.weight,
            bias: Some(&self.bias),
            offset: self.offset.0,
            mask: Some(&self.mask).filter(|_| self.use_mask),
        }
    }
}

impl Deform<'_> {
    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            in_channels: self.channels[0],
            out_channels: self.channels[1],
            kernel_size: self.kernel_size,
            stride: &self.stride,
            dilation: &self.dilation,
            groups: self.groups,
            weight: self.weight,
            bias: self.bias,
            transposed: false,
        }
    }

    fn windows(&self, kernel: &[usize]) -> Result<[Window; 2]> {
        let wrong = || LayerError::shape("the weight's rank", 4, kernel.len() + 2);
        let padding = per_axis("padding", &self.padding, kernel)?.into_iter().map(|pad| (pad, pad));
        self.parameters().windows(kernel, padding)?.try_into().map_err(|_| wrong())
    }

    /// The sizes of one sample that follow from the shapes of weights and offsets and the input's channels.
    fn deforming(&self, kernel: &[usize], channels: usize, offsets: usize) -> Result<Deforming> {
        let windows = self.windows(kernel)?;
        let places = 2 * windows.iter().map(|window| window.kernel).product::<usize>();
        let offset_groups = offsets / places;
        let agrees = self.offset_groups.is_none_or(|given| given == offset_groups);
        if offset_groups == 0
            || !offsets.is_multiple_of(places)
            || !channels.is_multiple_of(offset_groups)
            || !agrees
        {
            let wanted = match self.offset_groups {
                Some(given) => format!(
                    "{} channels, two for each of {given} offset groups and each kernel element",
                    given.saturating_mul(places)
                ),
                None => {
                    format!(
                        "{places} channels per offset group, and a number of groups that divides {channels}"
                    )
                }
            };
            return Err(LayerError::shape("the offsets", wanted, format!("{offsets} channels")));
        }
        Ok(Deforming { windows, groups: self.groups, offset_groups })
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Sizes { out_channels, kernel, leading } = self.parameters().sizes(inputs)?;
        let input = &inputs[0];
        float::check("the input", input)?;
        let [samples, _, lens @ ..] = input.dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", input));
        };
        if leading != 2 || lens.len() != 2 {
            return Err(LayerError::shape("the input", "N×C×H×W", input));
        }
        check_plane(lens.iter().map(|len| len.fixed().unwrap_or(1)))?;
        let windows = self.windows(&kernel)?;
        let outputs = [0, 1].map(|axis| positions(&windows[axis], &lens[axis]));
        if outputs.iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
            return Err(LayerError::shape("the input", "rows and columns that fit the window", input));
        }
        let offset = inputs.get(self.offset).cloned();
        let offset = offset.ok_or_else(|| LayerError::missing_input(self.offset, inputs.len()))?;
        let offset = companion("the offsets", offset, input, (samples, &outputs))?;
        let mask = self.mask.map(|mask| mask.meta(inputs)).transpose()?;
        let mask = mask.map(|mask| companion("the mask", mask, input, (samples, &outputs))).transpose()?;
        let fixed = |dim: &Dim| dim.fixed().and_then(|len| usize::try_from(len).ok());
        if let (Some(channels), Some(offsets)) = (fixed(&input.dims()[1]), fixed(&offset)) {
            let how = self.deforming(&kernel, channels, offsets)?;
            let wanted = how.offset_groups.saturating_mul(how.taps());
            if let Some(mask) = mask.filter(|mask| mask.differs(&Dim::from(wanted))) {
                let wanted = format!("{wanted} channels, half as many as there are offsets");
                return Err(LayerError::shape("the mask", wanted, mask));
            }
        }
        let [rows, columns] = outputs;
        Ok(vec![input.with_dims([samples.clone(), Dim::from(out_channels), rows, columns])])
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let dims = *inputs[0].shape();
        check_plane(dims[2..].iter().map(|&len| i64::try_from(len).unwrap_or(i64::MAX)))?;
        let weight = self.weight.view(inputs)?;
        let kernel = weight.shape().get(2..).unwrap_or_default().to_vec();
        let offsets = inputs[self.offset].shape()[1];
        let shape = DeformShape {
            how: self.deforming(&kernel, dims[1], offsets)?,
            channels: dims[1],
            out_channels: weight.shape()[0],
            lens: [dims[2], dims[3]],
        };
        limits.check_tensor("the columns of a deformable convolution", shape.held_bytes(size_of::<T>()))?;
        let [input, offset] = [&inputs[0], &inputs[self.offset]].map(float::read::<T>);
        let (input, offset, weight) = (input?, offset?, float::read::<T>(&weight)?);
        let optional = |weight: Option<&Weight>| -> Result<Option<Vec<T>>> {
            weight.map(|weight| Ok(float::read::<T>(&weight.view(inputs)?)?.into_owned())).transpose()
        };
        let (bias, mask) = (optional(self.bias)?, optional(self.mask)?);
        let samples = dims[0].max(1);
        let [size, moved, masked] =
            [input.len(), offset.len(), mask.as_ref().map_or(0, Vec::len)].map(|len| len / samples);
        float::write::<T>(output, |output| {
            let each = output.len() / samples;
            for (sample, output) in output.chunks_exact_mut(each.max(1)).enumerate() {
                let of = DeformInputs {
                    input: &input[sample * size..][..size],
                    offset: &offset[sample * moved..][..moved],
                    mask: mask.as_ref().map(|mask| &mask[sample * masked..][..masked]),
                    weight: &weight,
                    bias: bias.as_deref(),
                };
                deform_conv(&shape, &of, output, limits)?;
            }
            Ok(())
        })
    }
}

/// Checks that 32 bits can index the positions of a plane and one more for those outside it, as the kernel stores them.
fn check_plane(lens: impl Iterator<Item = i64>) -> Result<()> {
    let places = lens.fold(1i64, i64::saturating_mul);
    if places < i64::from(u32::MAX) {
        return Ok(());
    }
    Err(LayerError::shape("the input", format!("rows times columns below {}", u32::MAX), places))
}

/// The channels of a tensor that has a value for each output position.
fn companion(
    what: &str,
    found: TensorMeta,
    input: &TensorMeta,
    (samples, outputs): (&Dim, &[Dim; 2]),
) -> Result<Dim> {
    if found.dtype() != input.dtype() {
        return Err(LayerError::dtype(what, input.dtype(), found.dtype()));
    }
    match found.dims() {
        [n, channels, rows, columns]
            if !n.differs(samples) && !rows.differs(&outputs[0]) && !columns.differs(&outputs[1]) =>
        {
            Ok(channels.clone())
        }
        _ => {
            let wanted = format!("{samples}×…×{}×{}", outputs[0], outputs[1]);
            Err(LayerError::shape(what, wanted, found))
        }
    }
}

/// The number of window positions along an axis; below 1 if the window does not fit.
fn positions(window: &Window, len: &Dim) -> Dim {
    let reach = window.dilation * (window.kernel - 1) + 1;
    (len.clone() + (window.pad_before + window.pad_after) - reach).floor_div(window.stride) + 1
}

impl Layer for DeformConv {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.deform().infer(inputs)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let count = |output| self.deform().parameters().cost(inputs, outputs, output);
        outputs.first().map_or(Cost::default(), count)
    }
}

impl CpuLayer for DeformConv {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let deform = self.deform();
        with_float!(io.inputs[0].dtype(), T => deform.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

impl Layer for DeformConvFunction {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(5)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.deform().infer(inputs)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let count = |output| self.deform().parameters().cost(inputs, outputs, output);
        outputs.first().map_or(Cost::default(), count)
    }
}

impl CpuLayer for DeformConvFunction {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let deform = self.deform();
        with_float!(io.inputs[0].dtype(), T => deform.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{Operator, assert_close, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    const FUNCTION: &str = "pnnx.custom_op.torchvision.deform_conv2d";
    const ARGUMENTS: [(&str, &str); 9] = [
        ("arg_5", "1"),
        ("arg_6", "1"),
        ("arg_7", "0"),
        ("arg_8", "0"),
        ("arg_9", "1"),
        ("arg_10", "1"),
        ("arg_11", "1"),
        ("arg_12", "1"),
        ("arg_13", "True"),
    ];

    fn pointwise<'a>() -> Operator<'a> {
        operator("torchvision.ops.DeformConv2d", &[]).with_attr("weight", tensor(&[1, 1, 1, 1], &[2.0f32]))
    }

    #[test]
    fn taps_are_sampled_at_their_offsets() {
        let picture = tensor(&[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
        // Down by 1 at the first position, left by 1 at the second, to the centre at the third, outside at the last.
        let offset = tensor(&[1, 2, 2, 2], &[1.0f32, 0.0, -0.5, 1.0, 0.0, -1.0, 0.5, 0.0]);
        let mask = tensor(&[1, 1, 2, 2], &[1.0f32, 0.5, 2.0, 1.0]);
        let seen = pointwise().run_one(&[&picture, &offset]).unwrap();
        assert_close(&seen, &[1, 1, 2, 2], &[6.0, 2.0, 5.0, 0.0]);
        let weighed = pointwise().run_one(&[&picture, &offset, &mask]).unwrap();
        assert_close(&weighed, &[1, 1, 2, 2], &[6.0, 1.0, 10.0, 0.0]);
        let names = ["arg_0", "arg_1", "arg_2", "arg_3", "arg_4"];
        let function = operator(FUNCTION, &ARGUMENTS).with_names(&names);
        let (weight, bias) = (tensor(&[1, 1, 1, 1], &[2.0f32]), tensor(&[1], &[0.25f32]));
        let found = function.run_one(&[&picture, &weight, &offset, &mask, &bias]).unwrap();
        assert_close(&found, &[1, 1, 2, 2], &[6.25, 1.25, 10.25, 0.25]);
    }

    #[test]
    fn symbols_and_mismatches() {
        let meta = |dims: &[&str]| {
            let dim = |dim: &&str| dim.parse::<i64>().map_or_else(|_| Dim::symbol(*dim), Dim::Fixed);
            TensorMeta::new(DType::F32, dims.iter().map(dim).collect::<Vec<_>>())
        };
        let layer = operator("torchvision.ops.DeformConv2d", &[("padding", "1"), ("stride", "2")])
            .with_attr("weight", tensor(&[6, 4, 3, 3], &[0.5f32; 216]));
        let picture = meta(&["n", "4", "h", "w"]);
        let output = layer.infer(&[picture.clone(), meta(&["n", "36", "a", "b"])]).unwrap();
        assert_eq!(output[0].to_string(), "n×6×((h + 1) / 2)×((w + 1) / 2) f32");
        let wrong = |inputs: &[TensorMeta]| layer.infer(inputs).unwrap_err().to_string();
        let fixed = meta(&["1", "4", "5", "5"]);
        let offsets = meta(&["1", "18", "3", "3"]);
        assert!(layer.infer(&[fixed.clone(), offsets.clone(), meta(&["1", "9", "3", "3"])]).is_ok());
        assert!(
            wrong(&[fixed.clone(), meta(&["1", "18", "5", "5"])])
                .starts_with("the offsets: expected 1×…×3×3")
        );
        assert!(wrong(&[fixed.clone(), meta(&["1", "17", "3", "3"])]).contains("18 channels"));
        assert!(
            wrong(&[fixed.clone(), offsets.clone(), meta(&["1", "18", "3", "3"])]).starts_with("the mask")
        );
        assert!(
            wrong(&[fixed.clone(), offsets.with_dtype(DType::F64)])
                .starts_with("the offsets: expected f32, got f64")
        );
        assert!(wrong(&[fixed.with_dtype(DType::I64), offsets.with_dtype(DType::I64)]).contains("i64"));
        assert!(wrong(&[meta(&["4", "5", "5"]), offsets]).contains("N×C×H×W"));
        let vast = [meta(&["1", "1", "65536", "65536"]), meta(&["1", "2", "65536", "65536"])];
        assert!(pointwise().infer(&vast).unwrap_err().to_string().contains("rows times columns"));
        assert!(operator("torchvision.ops.DeformConv2d", &[("stride", "0")]).create(2).is_err());
        pointwise().survives(2);
        pointwise().survives(3);
    }

    #[test]
    fn no_pictures_give_no_pictures() {
        let none = |dims: &[usize]| Tensor::zeros(DType::F32, dims).unwrap();
        let output = pointwise().run_one(&[&none(&[0, 1, 2, 2]), &none(&[0, 2, 2, 2])]).unwrap();
        assert_eq!(output.shape().dims(), [0, 1, 2, 2]);
    }
}
