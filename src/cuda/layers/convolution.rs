//! Convolution and transposed convolution in one, two and three dimensions.

use super::convolution_library as library;
use super::epilogue::{Arguments, EpilogueCode};
use super::filter::{Filter, Order};
use super::pooling::are_channels_last;
use super::prelude::*;
use super::product_tactic::{ProductTactic, product_tactics};
use super::support::{
    Weights, computed_in, input, int, is_real_in_any_order, kernel_lengths, metas, on_cpu, row_major, stored,
    strides,
};
use super::tiles::{self, Tiles};
use crate::cuda::Uses;
use crate::kernels::naive::PadMode;
use crate::kernels::window::Window;
use crate::ops::convolution::{Conv, ConvTranspose};
use crate::tensor::{Dim, Format};
use smallvec::SmallVec;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Conv>::ENTRY, &Own::<ConvTranspose>::ENTRY];

/// The number of spatial axes in kernels; those that a convolution lacks have length 1.
pub(super) const AXES: usize = 3;

/// Groups with fewer output channels are computed element by element.
const MIN_GROUP_CHANNELS: usize = 8;

/// The maximum number of taps of a window for tensor cores, which look them up in a table.
const MAX_TAPS: usize = 128;

/// The parameters of a convolution.
pub(super) struct ConvParams<'a> {
    pub(super) windows: &'a [Window],
    pub(super) groups: usize,
    pub(super) mode: Option<PadMode>,
    pub(super) transposed: bool,
    pub(super) tactic: ProductTactic,
}

/// The tensors of a convolution, with three axes after the channels.
pub(super) struct Operands<'a> {
    pub(super) x: DeviceTensor<'a>,
    pub(super) y: DeviceTensor<'a>,
    pub(super) filter: Filter<'a>,
    pub(super) bias: Option<DeviceTensor<'a>>,
    /// For quantised convolutions: the scale of the sums for each channel, and the scale of the output.
    pub(super) int8_scales: Option<(DeviceTensor<'a>, f32)>,
}

/// N×C×… with three axes after the channels.
pub(super) fn with_three_axes<'a>(
    tensor: &DeviceTensor<'a>,
    axes: usize,
    leading: usize,
) -> Result<DeviceTensor<'a>> {
    let (mut dims, mut by) = (tensor.shape().dims().to_vec(), tensor.layout().strides().to_vec());
    while dims.len() < leading + axes {
        dims.insert(0, 1);
        by.insert(0, 0);
    }
    for _ in axes..AXES {
        dims.insert(leading, 1);
        by.insert(leading, 0);
    }
    Ok(tensor.with_axes(&dims, &by)?)
}

/// Values of the last axes in the form of kernels; the axes before have the value `default`.
pub(super) fn of_axes(values: impl ExactSizeIterator<Item = usize>, default: i32) -> Result<KernelShape> {
    let mut of_axes = KernelShape { rank: AXES as i32, dims: [default; 8] };
    let missing = AXES.saturating_sub(values.len());
    for (dim, value) in of_axes.dims.iter_mut().skip(missing).zip(values) {
        *dim = int(value)?;
    }
    Ok(of_axes)
}

/// The lengths of some axes of a tensor in the form of kernels.
pub(super) fn lengths(tensor: &DeviceTensor<'_>, axes: &[usize]) -> Result<KernelShape> {
    kernel_lengths(axes.iter().map(|&axis| tensor.shape().get(axis).copied().unwrap_or(1)))
}

/// The lengths of a convolution, and the amount of work.
pub(super) struct ConvSizes {
    pub(super) out: KernelShape,
    /// The number of output positions.
    pub(super) count: usize,
    /// The number of input and output channels of a group.
    pub(super) channels: usize,
    pub(super) out_channels: usize,
    /// The number of taps of a window.
    pub(super) taps: usize,
}

impl ConvSizes {
    fn of(params: &ConvParams<'_>, operands: &Operands<'_>) -> Result<Self> {
        let of_group = |tensor: &DeviceTensor<'_>| {
            tensor.shape().get(1).copied().unwrap_or(1).checked_div(params.groups).unwrap_or(0)
        };
        let out = lengths(&operands.y, &[0, 2, 3, 4])?;
        let count = out.dims.iter().take(4).map(|&len| len as usize).product();
        let (channels, out_channels) = (of_group(&operands.x), of_group(&operands.y));
        let taps = params.windows.iter().map(|window| window.kernel).product();
        Ok(Self { out, count, channels, out_channels, taps })
    }
}

impl ConvParams<'_> {
    fn run<'a>(
        &self,
        mut operands: Operands<'a>,
        epilogue: &EpilogueCode,
        io: &mut CudaIo<'a, '_>,
    ) -> Result<()> {
        let (axes, output) = (self.windows.len(), operands.y);
        operands.x = with_three_axes(&operands.x, axes, 2)?;
        operands.y = with_three_axes(&operands.y, axes, 2)?;
        let sizes = ConvSizes::of(self, &operands)?;
        let arguments = epilogue.arguments(io.inputs, output.shape())?;
        if self.tactic == ProductTactic::Auto
            && let Some(convolution) = self.for_library(&operands, output, &sizes, io.context)
            && library::run(convolution, (epilogue, &arguments), io)?
        {
            return Ok(());
        }
        match self.uses_tiles(&operands, &sizes, io.context) {
            true => self.run_tiles(&operands, &sizes, (epilogue, arguments), io.context),
            false => self.run_plain(&operands, &sizes, (epilogue, arguments), io.context),
        }
    }

    /// Returns true if tensor cores compute it: quantised values, and products of many channels.
    fn uses_tiles(&self, operands: &Operands<'_>, sizes: &ConvSizes, context: &CudaContext<'_>) -> bool {
        let Operands { x, filter, int8_scales, .. } = operands;
        let is_compatible = filter.is_matrix && filter.tensor.dtype() == x.dtype();
        let is_supported = tiles::supports(x.dtype(), context.tf32().convolutions, context.device().info());
        let is_preferred = is_supported && self.tactic != ProductTactic::Plain && !self.is_depthwise(sizes);
        is_compatible && sizes.taps <= MAX_TAPS && (int8_scales.is_some() || is_preferred)
    }

    pub(super) fn is_depthwise(&self, sizes: &ConvSizes) -> bool {
        is_depthwise(sizes.out_channels, self.groups)
    }

    fn run_tiles<'a>(
        &self,
        operands: &Operands<'a>,
        sizes: &ConvSizes,
        (epilogue, mut arguments): (&EpilogueCode, Arguments<'a>),
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let &Operands { x, y, filter, bias, int8_scales } = operands;
        let depth = sizes.channels * sizes.taps;
        let product = [sizes.out_channels, sizes.count, depth];
        let tiles = Tiles::of(self.groups, product, x.dtype(), (self.tactic.tile_side(), context));
        let chunk = tiles::chunk(x.dtype());
        let by = strides(x.layout());
        let others = [by.by[0], by.by[2], by.by[3], by.by[4]];
        let x_vectorized =
            tiles::is_vectorized(&x, &others, by.by[1]) && sizes.channels.is_multiple_of(chunk);
        let w_vectorized = tiles::is_vectorized(&filter.tensor, &[depth as i64], 1);
        let unit = epilogue.unit("convolution_tiles.cu", include_str!("../kernels/convolution_tiles.cu"));
        let unit = self.define(tiles.define(unit), operands)?;
        let sums = if int8_scales.is_some() { DType::I32 } else { DType::F32 };
        let unit = unit
            .define("E", x.dtype().name())
            .define("S", sums.name())
            .define("T", y.dtype().name())
            .define("X_VECTORIZED", u8::from(x_vectorized))
            .define("W_VECTORIZED", u8::from(w_vectorized))
            .define("QUANTIZED", u8::from(int8_scales.is_some()));
        let kernel = context.kernel(&unit, "convolution")?;
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(by),
            Argument::Read(filter.tensor),
            bias.map_or(Argument::None, Argument::Read),
            int8_scales.map_or(Argument::None, |(sum_scales, _)| Argument::Read(sum_scales)),
        ]);
        arguments.extend(self.lengths(operands, sizes)?);
        arguments.push(Argument::Float(int8_scales.map_or(1.0, |(_, scale)| scale)));
        tiles.launch(&kernel, &arguments, sums, context)
    }

    fn run_plain<'a>(
        &self,
        operands: &Operands<'a>,
        sizes: &ConvSizes,
        (epilogue, mut arguments): (&EpilogueCode, Arguments<'a>),
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let &Operands { x, y, filter, bias, .. } = operands;
        let unit = epilogue.unit("convolution.cu", include_str!("../kernels/convolution.cu"));
        let unit = self.define(unit, operands)?;
        let unit = unit.define("T", x.dtype().name()).define("W", filter.tensor.dtype().name());
        let is_depthwise = self.is_depthwise(sizes);
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(strides(x.layout())),
            Argument::Read(filter.tensor),
            Argument::Strides(filter.strides),
            bias.map_or(Argument::None, Argument::Read),
        ]);
        arguments.extend(self.lengths(operands, sizes)?);
        arguments.push(Argument::Long(filter.group));
        let grid = match is_depthwise {
            true => Grid::over(y.num_elements()),
            false => {
                const TILE: usize = 64;
                let blocks =
                    [sizes.count.div_ceil(TILE), sizes.out_channels.div_ceil(TILE), self.groups.min(65535)];
                Grid { blocks: blocks.map(|count| count as u32), ..Grid::of(1, 256) }
            }
        };
        context.run(&unit, if is_depthwise { "depthwise" } else { "convolution" }, grid, &arguments)
    }

    /// Defines the types and the window mode, which all kernels need.
    fn define(&self, unit: Unit, operands: &Operands<'_>) -> Result<Unit> {
        let bias = operands.bias.map_or(operands.filter.tensor.dtype(), |bias| bias.dtype());
        let compute_type =
            if operands.int8_scales.is_some() { "float" } else { computed_in(operands.x.dtype())? };
        Ok(unit
            .define("C", compute_type)
            .define("V", bias.name())
            .define("MODE", mode(self.mode))
            .define("Y_CHANNELS_LAST", u8::from(are_channels_last(operands.y.layout())))
            .define("TRANSPOSED", u8::from(self.transposed)))
    }

    /// The arguments from the output to the number of groups.
    fn lengths<'a>(&self, operands: &Operands<'a>, sizes: &ConvSizes) -> Result<[Argument<'a>; 12]> {
        let windows = self.windows.iter();
        let Operands { x, y, .. } = operands;
        Ok([
            Argument::Write(*y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(sizes.out),
            Argument::Shape(lengths(x, &[2, 3, 4])?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.kernel), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.stride), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.pad_before), 0)?),
            Argument::Shape(of_axes(windows.map(|window| window.dilation), 1)?),
            Argument::Long(sizes.count as i64),
            Argument::Int(int(sizes.channels)?),
            Argument::Int(int(sizes.out_channels)?),
            Argument::Int(int(self.groups)?),
        ])
    }
}

/// Returns true if groups have so few output channels that each element is computed separately.
fn is_depthwise(out_channels: usize, groups: usize) -> bool {
    out_channels < MIN_GROUP_CHANNELS && groups > 1
}

/// The kernels' macro for the padding mode.
pub(super) fn mode(mode: Option<PadMode>) -> &'static str {
    match mode {
        Some(PadMode::Reflect) => "REFLECT",
        Some(PadMode::Replicate) => "REPLICATE",
        Some(PadMode::Circular) => "CIRCULAR",
        _ => "ZEROS",
    }
}

/// The efficiency of the kernels for a convolution with this many groups: tensor cores need whole chunks of adjacent channels.
fn efficiency(
    (weight, groups): (&Weight, usize),
    [inputs, outputs]: [&[TensorMeta]; 2],
    uses: Uses<'_>,
) -> f64 {
    /// The efficiency if elements are gathered one by one for tensor cores.
    const GATHERED: f64 = 0.35;
    /// The efficiency if threads access memory with large strides.
    const STRIDED: f64 = 0.5;
    /// The factor for different orders of input and output: changing the order costs almost nothing, but should not be done
    /// without a reason.
    const MIXED: f64 = 0.95;
    let (Some(x), Some(y)) = (inputs.first(), outputs.first()) else { return 1.0 };
    let Weight::Attribute(stored) = weight else { return 1.0 };
    let of_group = |meta: &TensorMeta| {
        let channels = meta.dims().get(1).and_then(Dim::fixed).and_then(|len| usize::try_from(len).ok());
        channels.unwrap_or(1) / groups.max(1)
    };
    // Without a batch, another axis is innermost.
    let is_last =
        |meta: &TensorMeta| meta.format() == Format::ChannelsLast && meta.rank() == stored.shape().len();
    let is_depthwise = is_depthwise(of_group(y), groups);
    let is_int8 = x.scale().is_some();
    let is_supported = tiles::supports(x.dtype(), uses.tf32.convolutions, uses.info) && !is_depthwise;
    if !is_int8 && !is_supported {
        let is_row_major = [x, y].iter().all(|meta| meta.format() == Format::Plain);
        return if is_row_major || is_depthwise { 1.0 } else { STRIDED };
    }
    let is_vectorized = is_last(x) && of_group(x).is_multiple_of(tiles::chunk(x.dtype()));
    let mixed = if x.format() == y.format() { 1.0 } else { MIXED };
    mixed * if is_vectorized { 1.0 } else { GATHERED }
}

/// The weights that are stored in the file, in the order in which kernels read them.
fn ordered(order: Order, weight: &Weight, bias: Option<&Weight>) -> Result<Vec<Tensor>> {
    let mut tensors = stored([Some(weight), bias])?;
    if let (Weight::Attribute(_), Some(weight)) = (weight, tensors.first_mut()) {
        *weight = order.matrix(weight)?;
    }
    Ok(tensors)
}

/// Convolutions and transposed convolutions.
trait Filtered {
    /// The order of the weights in the file.
    fn order(&self) -> Order;

    fn weight(&self) -> &Weight;

    /// Returns true if tensor cores can compute it, provided that they support its types.
    fn may_be_tiled(&self) -> bool {
        let (Weight::Attribute(weight), order) = (self.weight(), self.order()) else { return false };
        let [first, second, taps @ ..] = weight.shape() else { return false };
        let out_channels = if order.transposed { *second } else { first / order.groups.max(1) };
        taps.iter().product::<usize>() <= MAX_TAPS && !is_depthwise(out_channels, order.groups)
    }
}

impl Filtered for Conv {
    fn order(&self) -> Order {
        Order { groups: self.groups, transposed: false }
    }

    fn weight(&self) -> &Weight {
        &self.weight
    }
}

/// Weights and bias, and the scales of quantised values, for windows over `axes` axes.
fn operands<'a>(layer: &Conv, axes: usize, io: &CudaIo<'a, '_>) -> Result<Operands<'a>> {
    let (x, y, mut weights) = (io.inputs[0], io.outputs[0], Weights::default());
    let filter = Filter::of(&layer.weight, (layer.order(), axes), &mut weights, io)?;
    if x.dtype() == DType::I8 && layer.int8.is_selected() {
        let int8_scales = Some((io.context.weight(2)?, layer.int8.output_scale().unwrap_or(1.0)));
        return Ok(Operands { x, y, filter, bias: Some(io.context.weight(1)?), int8_scales });
    }
    let bias = weights.next(layer.bias.as_ref(), io)?;
    Ok(Operands { x, y, filter, bias, int8_scales: None })
}

impl CudaLayer for Conv {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized => self.supports_int8(position, &row_major(&on_cpu(formats))),
            _ => is_real_in_any_order(position, formats),
        }
    }

    fn changes_order(&self) -> bool {
        self.groups == 1
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        efficiency((&self.weight, self.groups), [inputs, outputs], uses)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        match self.int8.tensors(&self.weight, self.bias.as_ref())? {
            Some([weight, bias, scales]) => Ok(vec![self.order().matrix(&weight)?, bias, scales]),
            None => ordered(self.order(), &self.weight, self.bias.as_ref()),
        }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.int8.configure(inputs, outputs);
        let is_int8 = self.int8.is_selected();
        EpilogueCode::of_int8(self.epilogue.as_ref(), inputs, outputs, is_int8).map(drop)
    }

    product_tactics!(convolutions, may_be_tiled);

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (inputs, outputs, is_int8) = (metas(io.inputs), metas(io.outputs), self.int8.is_selected());
        let epilogue = EpilogueCode::of_int8(self.epilogue.as_ref(), &inputs, &outputs, is_int8)?;
        let weight = dims_of(&self.weight, io.inputs)?;
        let (sizes, pads) = self.shape(io.inputs[0].shape(), &weight)?;
        let mut windows = sizes.windows;
        let skipped = pads.len().saturating_sub(windows.len());
        for (window, pad) in windows.iter_mut().zip(pads.iter().skip(skipped)) {
            (window.pad_before, window.pad_after) = *pad;
        }
        let operands = operands(self, windows.len(), io)?;
        let params = ConvParams {
            windows: &windows,
            groups: self.groups,
            mode: self.padding_mode.mirror(),
            transposed: false,
            tactic: ProductTactic::of(self.on_device),
        };
        params.run(operands, &epilogue, io)
    }
}

/// The dimensions of weights in the order of the file.
fn dims_of(weight: &Weight, inputs: &[DeviceTensor<'_>]) -> Result<SmallVec<[usize; 8]>> {
    Ok(match weight {
        Weight::Attribute(attribute) => SmallVec::from_slice(attribute.shape()),
        Weight::Input(position) => SmallVec::from_slice(input(inputs, *position)?.shape().dims()),
    })
}

impl Filtered for ConvTranspose {
    fn order(&self) -> Order {
        Order { groups: self.groups, transposed: true }
    }

    fn weight(&self) -> &Weight {
        &self.weight
    }
}

impl CudaLayer for ConvTranspose {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn changes_order(&self) -> bool {
        self.groups == 1
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        efficiency((&self.weight, self.groups), [inputs, outputs], uses)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        ordered(self.order(), &self.weight, self.bias.as_ref())
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        EpilogueCode::of(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    product_tactics!(convolutions, may_be_tiled);

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let epilogue = EpilogueCode::of(self.epilogue.as_ref(), &metas(io.inputs), &metas(io.outputs))?;
        let weight = dims_of(&self.weight, io.inputs)?;
        let windows = self.windows(weight.get(2..).unwrap_or_default())?;
        let (order, mut weights) = (self.order(), Weights::default());
        let filter = Filter::of(&self.weight, (order, windows.len()), &mut weights, io)?;
        let bias = weights.next(self.bias.as_ref(), io)?;
        let operands = Operands { x: io.inputs[0], y: io.outputs[0], filter, bias, int8_scales: None };
        let tactic = ProductTactic::of(self.on_device);
        let params =
            ConvParams { windows: &windows, groups: self.groups, mode: None, transposed: true, tactic };
        params.run(operands, &epilogue, io)
    }
}
