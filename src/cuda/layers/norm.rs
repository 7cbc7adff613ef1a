//! Normalisation: of rows by their own statistics, or of channels by stored statistics.

use super::elementwise::Map;
use super::prelude::*;
use super::rows::Rows;
use super::support::{
    Weights, along, computed_in, int, is_float, is_float_in_any_order, kernel_shape, stored, strides, typed,
};
use crate::ops::normalization::channels::{
    BatchNorm, ChannelNorm, GroupNorm, InstanceNorm, InstanceNormNd, Statistics,
};
use crate::ops::normalization::last_axes::{LayerNorm, LocalResponseNorm, RmsNorm};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<BatchNorm>::new(is_float_in_any_order, |layer, io| run(&layer.norm()?, io))
        .with_weights(|layer| weights_of(&layer.norm()?))
        .with_check(|layer, _| match layer.norm()?.statistics {
            Statistics::OfBatch => Err(statistics_of_the_batch()),
            _ => Ok(()),
        }),
    &Simple::<InstanceNorm>::new(is_float_in_any_order, |layer, io| run(&layer.norm()?, io))
        .with_weights(|layer| weights_of(&layer.norm()?)),
    &Simple::<InstanceNormNd>::new(is_float_in_any_order, |layer, io| run(&layer.norm()?, io))
        .with_weights(|layer| weights_of(&layer.norm()?)),
    &Simple::<GroupNorm>::new(is_float_in_any_order, |layer, io| run(&layer.norm()?, io))
        .with_weights(|layer| weights_of(&layer.norm()?)),
    &Simple::<LayerNorm>::new(is_float, |layer, io| {
        let norm = Norm { is_centred: true, eps: layer.eps };
        let weights = [layer.weight.as_ref(), layer.bias.as_ref()];
        norm.run_on_last_axes(layer.normalized_shape.len(), weights, io)
    })
    .with_weights(|layer| stored([layer.weight.as_ref(), layer.bias.as_ref()])),
    &Simple::<RmsNorm>::new(is_float, |layer, io| {
        let is_double = io.inputs[0].dtype() == DType::F64;
        let eps = layer.eps.unwrap_or(if is_double { f64::EPSILON } else { f32::EPSILON.into() });
        let norm = Norm { is_centred: false, eps };
        norm.run_on_last_axes(layer.normalized_shape.len(), [layer.weight.as_ref(), None], io)
    })
    .with_weights(|layer| stored([layer.weight.as_ref()])),
    &Simple::<LocalResponseNorm>::new(is_float_in_any_order, local_response),
];

/// The weight and the bias of the elements of rows.
struct Affine<'a> {
    weight: Option<DeviceTensor<'a>>,
    bias: Option<DeviceTensor<'a>>,
    /// The number of rows after which the weights repeat.
    period: usize,
    /// The number of weights for a row, and of elements for each weight.
    channels: usize,
    inner: usize,
}

impl Affine<'_> {
    /// Returns true if the weights of `chunk` adjacent elements of a row are contiguous and aligned to their size, or are one
    /// and the same.
    fn supports_chunk(&self, chunk: usize) -> bool {
        let is_aligned =
            |weight: &DeviceTensor<'_>| weight.is_aligned((chunk * weight.dtype().size()) as u64);
        match self.inner {
            0 | 1 => self.weight.iter().chain(&self.bias).all(is_aligned),
            inner => inner.is_multiple_of(chunk),
        }
    }
}

/// The normalisation of rows.
struct Norm {
    /// Whether the mean is subtracted.
    is_centred: bool,
    eps: f64,
}

impl Norm {
    fn run(
        &self,
        axes: &[usize],
        [x, y]: [&DeviceTensor<'_>; 2],
        affine: &Affine<'_>,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let name = |weight: Option<DeviceTensor<'_>>| weight.map_or(x.dtype(), |it| it.dtype()).name();
        let unit = typed(Unit::new("norm.cu", include_str!("../kernels/norm.cu")), x.dtype())?
            .define("W", name(affine.weight))
            .define("V", name(affine.bias))
            .define("CENTRED", u8::from(self.is_centred));
        let rows = Rows::along(axes, &[*x.layout(), *y.layout()])?;
        let schedule = rows.schedule(&[x, y], |chunk| affine.supports_chunk(chunk));
        let mut arguments = rows.arguments(x, y);
        arguments.extend([
            affine.weight.map_or(Argument::None, Argument::Read),
            affine.bias.map_or(Argument::None, Argument::Read),
            Argument::Long(affine.period.max(1) as i64),
            Argument::Long(affine.channels as i64),
            Argument::Long(affine.inner.max(1) as i64),
            Argument::Double(self.eps),
        ]);
        context.run(&schedule.define(unit), "normalize", schedule.grid, &arguments)
    }

    /// Normalises rows along the last axes.
    fn run_on_last_axes(
        &self,
        axes: usize,
        [weight, bias]: [Option<&Weight>; 2],
        io: &mut CudaIo<'_, '_>,
    ) -> Result<()> {
        let mut weights = Weights::default();
        let affine = Affine {
            weight: check_contiguous(weights.next(weight, io)?)?,
            bias: check_contiguous(weights.next(bias, io)?)?,
            period: 1,
            channels: 0,
            inner: 1,
        };
        let rank = io.inputs[0].shape().rank();
        let axes: Vec<usize> = (rank.saturating_sub(axes)..rank).collect();
        self.run(&axes, [&io.inputs[0], &io.outputs[0]], &affine, io.context)
    }
}

/// Checks that weights are contiguous, as the kernels require.
fn check_contiguous(weight: Option<DeviceTensor<'_>>) -> Result<Option<DeviceTensor<'_>>> {
    match weight {
        Some(weight) if !weight.is_contiguous() => {
            Err(LayerError::Unsupported("weights must be contiguous".to_owned()))
        }
        weight => Ok(weight),
    }
}

fn local_response(layer: &LocalResponseNorm, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let unit = Unit::new("local_response.cu", include_str!("../kernels/local_response.cu"));
    let inner: usize = x.shape().iter().skip(2).product();
    let arguments = [
        Argument::Read(*x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(x.shape())),
        Argument::Long(x.num_elements() as i64),
        Argument::Long(inner.max(1) as i64),
        // Also for a window of more channels than there are, the divisor is the window's length.
        Argument::Int(int(layer.size)?),
        Argument::Double(layer.alpha),
        Argument::Double(layer.beta),
        Argument::Double(layer.k),
    ];
    io.context.run(&typed(unit, x.dtype())?, "local_response", Grid::over(x.num_elements()), &arguments)
}

/// Normalises channels by stored statistics, element by element.
fn normalize_by_stored(
    norm: &ChannelNorm<'_>,
    statistics: [DeviceTensor<'_>; 2],
    affine: [Option<DeviceTensor<'_>>; 2],
    [x, y]: [&DeviceTensor<'_>; 2],
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let rank = x.shape().rank();
    let axis = norm.axis(rank).unwrap_or(0);
    let mut tensors = vec![*x];
    for tensor in statistics.into_iter().chain(affine.into_iter().flatten()) {
        tensors.push(along(&tensor, axis, rank)?);
    }
    let compute_type = computed_in(x.dtype())?;
    let eps = super::codegen::literal(norm.eps, "double");
    let [has_weight, has_bias] = affine.map(|weight| weight.is_some());
    let weight = if has_weight { "(double)in3" } else { "1.0" };
    let bias = match (has_weight, has_bias) {
        (_, false) => "0.0",
        (true, true) => "(double)in4",
        (false, true) => "(double)in3",
    };
    let body = format!(
        "        double factor = {weight} / sqrt((double)in2 + {eps});\n        double summand = {bias} - (double)in1 * factor;\n"
    );
    let value = format!("in0 * ({compute_type})factor + ({compute_type})summand");
    let inputs = tensors.iter().enumerate().map(|(position, tensor)| (position, tensor.dtype())).collect();
    let unsupported = || LayerError::Unsupported("this element type has no kernel".to_owned());
    let map = Map::new(inputs, y.dtype(), &body, &value).ok_or_else(unsupported)?;
    map.run(&tensors, y, context)
}

fn run(norm: &ChannelNorm<'_>, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let rank = x.shape().rank();
    let axis = norm.axis(rank).unwrap_or(0);
    let channels = x.shape().get(axis).copied().unwrap_or(1);
    let mut weights = Weights::default();
    let groups = match norm.statistics {
        Statistics::Stored(mean, variance) => {
            let statistics = [weights.must(mean, io)?, weights.must(variance, io)?];
            let affine = [weights.next(norm.weight, io)?, weights.next(norm.bias, io)?];
            return normalize_by_stored(norm, statistics, affine, [x, y], io.context);
        }
        Statistics::OfBatch => return Err(statistics_of_the_batch()),
        Statistics::OfChannels => channels,
        Statistics::OfGroups(groups) => groups,
    };
    let inner: usize = x.shape().iter().skip(axis + 1).product();
    let affine = Affine {
        weight: check_contiguous(weights.next(norm.weight, io)?)?,
        bias: check_contiguous(weights.next(norm.bias, io)?)?,
        period: groups,
        channels: channels / groups.max(1),
        inner,
    };
    let [x, y] = [grouped(x, axis, groups)?, grouped(y, axis, groups)?];
    let axes: Vec<usize> = (axis + 1..rank + 1).collect();
    Norm { is_centred: true, eps: norm.eps }.run(&axes, [&x, &y], &affine, io.context)
}

/// The error for a normalisation by the statistics of a batch.
fn statistics_of_the_batch() -> LayerError {
    LayerError::Unsupported("there is no kernel for the statistics of a batch".to_owned())
}

/// Splits the channel axis into groups and the channels of each group.
fn grouped<'a>(x: &DeviceTensor<'a>, axis: usize, groups: usize) -> Result<DeviceTensor<'a>> {
    let mut dims = x.shape().dims().to_vec();
    let mut strides = x.layout().strides().to_vec();
    let (len, stride) =
        (dims.get(axis).copied().unwrap_or(1), strides.get(axis).copied().unwrap_or_default());
    let group_len = len / groups.max(1);
    if let (Some(dim), Some(by)) = (dims.get_mut(axis), strides.get_mut(axis)) {
        (*dim, *by) = (groups, stride * group_len);
    }
    dims.insert((axis + 1).min(dims.len()), group_len);
    strides.insert((axis + 1).min(strides.len()), stride);
    Ok(x.with_axes(&dims, &strides)?)
}

/// The weights in the order in which they are requested.
fn weights_of(norm: &ChannelNorm<'_>) -> Result<Vec<Tensor>> {
    let statistics: [Option<&Weight>; 2] = match norm.statistics {
        Statistics::Stored(mean, variance) => [Some(mean), Some(variance)],
        _ => [None, None],
    };
    stored(statistics.into_iter().chain([norm.weight, norm.bias]))
}
