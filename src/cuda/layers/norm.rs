//! Normalisation: of rows by their own statistics, or of channels by stored statistics.

use super::elementwise::Map;
use super::epilogue::kernel_shape;
use super::rows::Rows;
use super::support::{Weights, along, computed_in, int, is_float, row_major, shape, stored, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, Weight};
use crate::ops::normalization::channels::{
    BatchNorm, ChannelNorm, GroupNorm, InstanceNorm, InstanceNormNd, Statistics,
};
use crate::ops::normalization::last_axes::{LayerNorm, LocalResponseNorm, RmsNorm};
use crate::tensor::{DType, Layout, Tensor};

/// The weight and the bias of the elements of rows.
#[derive(Default)]
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

fn typed(unit: Unit, dtype: DType) -> Result<Unit, LayerError> {
    Ok(unit.define("T", dtype.name()).define("C", computed_in(dtype)?))
}

impl Norm {
    fn run(
        &self,
        axes: &[usize],
        [x, y]: [&DeviceTensor<'_>; 2],
        affine: &Affine<'_>,
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let name = |weight: Option<DeviceTensor<'_>>| weight.map_or(x.dtype(), |it| it.dtype()).name();
        let unit = typed(Unit::new("norm.cu", include_str!("../kernels/norm.cu")), x.dtype())?
            .define("W", name(affine.weight))
            .define("V", name(affine.bias))
            .define("CENTRED", u8::from(self.is_centred));
        let rows = Rows::along(axes, &[*x.layout(), *y.layout()])?;
        let schedule = rows.schedule(&[x, y], |chunk| affine.supports_chunk(chunk));
        let kernel = context.kernel(&schedule.define(unit), "normalize")?;
        let mut arguments = rows.arguments(x, y);
        arguments.extend([
            affine.weight.map_or(Argument::None, Argument::Read),
            affine.bias.map_or(Argument::None, Argument::Read),
            Argument::Long(affine.period.max(1) as i64),
            Argument::Long(affine.channels as i64),
            Argument::Long(affine.inner.max(1) as i64),
            Argument::Double(self.eps),
        ]);
        context.launch(&kernel, schedule.grid, &arguments)
    }
}

/// Checks that weights are contiguous, as the kernels require.
fn check_contiguous(weight: Option<DeviceTensor<'_>>) -> Result<Option<DeviceTensor<'_>>, LayerError> {
    match weight {
        Some(weight) if !weight.is_contiguous() => {
            Err(LayerError::Unsupported("weights must be contiguous".to_owned()))
        }
        weight => Ok(weight),
    }
}

macro_rules! of_last_axes {
    ($layer:ident |$this:ident, $dtype:ident| $centred:literal, $eps:expr, [$($weight:ident),*]) => {
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_float(position, formats)
            }

            fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
                stored([$(self.$weight.as_ref()),*])
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let ($this, $dtype) = (&*self, inputs[0].dtype());
                let mut weights = Weights::default();
                let rank = inputs[0].shape().rank();
                let axes: Vec<usize> = (rank.saturating_sub(self.normalized_shape.len())..rank).collect();
                let mut affine = Affine { period: 1, inner: 1, ..Affine::default() };
                $(affine.$weight = check_contiguous(weights.next(self.$weight.as_ref(), inputs, context)?)?;)*
                let norm = Norm { is_centred: $centred, eps: $eps };
                norm.run(&axes, [&inputs[0], &outputs[0]], &affine, context)
            }
        }
    };
}

of_last_axes!(LayerNorm | layer, _dtype | true, layer.eps, [weight, bias]);
of_last_axes!(
    RmsNorm | layer,
    dtype | false,
    layer.eps.unwrap_or(if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() }),
    [weight]
);

impl CudaLayer for LocalResponseNorm {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_float(position, &row_major(formats))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, y) = (&inputs[0], &outputs[0]);
        let unit = Unit::new("local_response.cu", include_str!("../kernels/local_response.cu"));
        let kernel = context.kernel(&typed(unit, x.dtype())?, "local_response")?;
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
            Argument::Int(int(self.size)?),
            Argument::Double(self.alpha),
            Argument::Double(self.beta),
            Argument::Double(self.k),
        ];
        context.launch(&kernel, Grid::over(x.num_elements()), &arguments)
    }
}

/// Normalises channels by stored statistics, element by element.
fn normalize_by_stored(
    norm: &ChannelNorm<'_>,
    statistics: [DeviceTensor<'_>; 2],
    affine: [Option<DeviceTensor<'_>>; 2],
    [x, y]: [&DeviceTensor<'_>; 2],
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
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

fn run(
    norm: &ChannelNorm<'_>,
    inputs: &[DeviceTensor<'_>],
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let x = &inputs[0];
    let rank = x.shape().rank();
    let axis = norm.axis(rank).unwrap_or(0);
    let channels = x.shape().get(axis).copied().unwrap_or(1);
    let mut weights = Weights::default();
    let groups = match norm.statistics {
        Statistics::Stored(mean, variance) => {
            let statistics = [weights.must(mean, inputs, context)?, weights.must(variance, inputs, context)?];
            let affine =
                [weights.next(norm.weight, inputs, context)?, weights.next(norm.bias, inputs, context)?];
            return normalize_by_stored(norm, statistics, affine, [x, y], context);
        }
        Statistics::OfChannels => channels,
        Statistics::OfGroups(groups) => groups,
    };
    let inner: usize = x.shape().iter().skip(axis + 1).product();
    let affine = Affine {
        weight: check_contiguous(weights.next(norm.weight, inputs, context)?)?,
        bias: check_contiguous(weights.next(norm.bias, inputs, context)?)?,
        period: groups,
        channels: channels / groups.max(1),
        inner,
    };
    let [x, y] = [grouped(x, axis, groups)?, grouped(y, axis, groups)?];
    let axes: Vec<usize> = (axis + 1..rank + 1).collect();
    Norm { is_centred: true, eps: norm.eps }.run(&axes, [&x, &y], &affine, context)
}

/// Splits the channel axis into groups and the channels of each group.
fn grouped<'a>(x: &DeviceTensor<'a>, axis: usize, groups: usize) -> Result<DeviceTensor<'a>, LayerError> {
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
    Ok(x.with_layout(Layout::strided(shape(&dims)?, &strides, x.layout().offset())?)?)
}

/// The weights in the order in which they are requested.
fn weights_of(norm: &ChannelNorm<'_>) -> Result<Vec<Tensor>, LayerError> {
    let statistics: [Option<&Weight>; 2] = match norm.statistics {
        Statistics::Stored(mean, variance) => [Some(mean), Some(variance)],
        _ => [None, None],
    };
    stored(statistics.into_iter().chain([norm.weight, norm.bias]))
}

macro_rules! of_channels {
    ($($layer:ty),* $(,)?) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_float(position, &row_major(formats))
            }

            fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
                weights_of(&self.norm()?)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                run(&self.norm()?, inputs, &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
            layers.register::<LayerNorm>();
            layers.register::<RmsNorm>();
            layers.register::<LocalResponseNorm>();
        }
    };
}

of_channels!(BatchNorm, InstanceNorm, InstanceNormNd, GroupNorm);
