//! Convolution and transposed convolution in one, two and three dimensions.

use super::convolution_library as library;
use super::epilogue::{Arguments, EpilogueCode};
use super::filter::{Filter, Order};
use super::pooling::are_channels_last;
use super::product::{epilogue_code, metas};
use super::support::{
    Weights, computed_in, input, int, is_real, on_cpu, real, row_major, shape, stored, strides,
};
use super::tiles::{self, Tiles};
use super::ways::{Way, ways};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, Uses};
use crate::kernels::naive::PadMode;
use crate::kernels::window::Window;
use crate::op::{LayerError, TensorFormat, TensorMeta, Weight};
use crate::ops::convolution::{Conv, ConvTranspose};
use crate::tensor::{DType, Dim, Format, Layout, Tensor};
use smallvec::SmallVec;

/// The number of spatial axes in kernels; those that a convolution lacks have length 1.
pub(super) const AXES: usize = 3;

/// Groups with fewer output channels are computed element by element.
const MIN_GROUP_CHANNELS: usize = 8;

/// The maximum number of taps of a window for tensor cores, which look them up in a table.
const MAX_TAPS: usize = 128;

/// The parameters of a convolution.
pub(super) struct Sizes<'a> {
    pub(super) windows: &'a [Window],
    pub(super) groups: usize,
    pub(super) mode: Option<PadMode>,
    pub(super) transposed: bool,
    pub(super) way: Way,
}

/// The tensors of a convolution, with three axes after the channels.
pub(super) struct Operands<'a> {
    pub(super) x: DeviceTensor<'a>,
    pub(super) y: DeviceTensor<'a>,
    pub(super) filter: Filter<'a>,
    pub(super) bias: Option<DeviceTensor<'a>>,
    /// For quantised convolutions: the scale of the sums for each channel, and the scale of the output.
    pub(super) steps: Option<(DeviceTensor<'a>, f32)>,
}

/// N×C×… with three axes after the channels.
pub(super) fn with_three_axes<'a>(
    tensor: &DeviceTensor<'a>,
    axes: usize,
    leading: usize,
) -> Result<DeviceTensor<'a>, LayerError> {
    let (mut dims, mut by) = (tensor.shape().dims().to_vec(), tensor.layout().strides().to_vec());
    while dims.len() < leading + axes {
        dims.insert(0, 1);
        by.insert(0, 0);
    }
    for _ in axes..AXES {
        dims.insert(leading, 1);
        by.insert(leading, 0);
    }
    Ok(tensor.with_layout(Layout::strided(shape(&dims)?, &by, tensor.layout().offset())?)?)
}

/// Values of the last axes in the form of kernels; the axes before have the value `default`.
pub(super) fn of_axes(
    numbers: impl ExactSizeIterator<Item = usize>,
    default: i32,
) -> Result<KernelShape, LayerError> {
    let mut of_axes = KernelShape { rank: AXES as i32, dims: [default; 8] };
    let missing = AXES.saturating_sub(numbers.len());
    for (dim, number) in of_axes.dims.iter_mut().skip(missing).zip(numbers) {
        *dim = int(number)?;
    }
    Ok(of_axes)
}

/// The lengths of some axes of a tensor in the form of kernels.
pub(super) fn lengths(tensor: &DeviceTensor<'_>, axes: &[usize]) -> Result<KernelShape, LayerError> {
    let mut lengths = KernelShape { rank: int(axes.len())?, ..KernelShape::default() };
    for (dim, &axis) in lengths.dims.iter_mut().zip(axes) {
        *dim = int(tensor.shape().get(axis).copied().unwrap_or(1))?;
    }
    Ok(lengths)
}

/// The lengths of a convolution, and the amount of work.
pub(super) struct Work {
    pub(super) out: KernelShape,
    /// The number of output positions.
    pub(super) count: usize,
    /// The number of input and output channels of a group.
    pub(super) channels: usize,
    pub(super) out_channels: usize,
    /// The number of taps of a window.
    pub(super) taps: usize,
}

impl Work {
    fn of(sizes: &Sizes<'_>, operands: &Operands<'_>) -> Result<Self, LayerError> {
        let of_group = |tensor: &DeviceTensor<'_>| {
            tensor.shape().get(1).copied().unwrap_or(1).checked_div(sizes.groups).unwrap_or(0)
        };
        let out = lengths(&operands.y, &[0, 2, 3, 4])?;
        let count = out.dims.iter().take(4).map(|&len| len as usize).product();
        let (channels, out_channels) = (of_group(&operands.x), of_group(&operands.y));
        let taps = sizes.windows.iter().map(|window| window.kernel).product();
        Ok(Self { out, count, channels, out_channels, taps })
    }
}

impl Sizes<'_> {
    fn run<'a>(
        &self,
        mut operands: Operands<'a>,
        finish: (&EpilogueCode, &[DeviceTensor<'a>]),
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (axes, whole) = (self.windows.len(), operands.y);
        operands.x = with_three_axes(&operands.x, axes, 2)?;
        operands.y = with_three_axes(&operands.y, axes, 2)?;
        let work = Work::of(self, &operands)?;
        let arguments = finish.0.arguments(finish.1, whole.shape())?;
        if self.way == Way::Any
            && let Some(convolved) = self.for_library(&operands, whole, &work, context)
            && library::convolution(convolved, finish.1, (finish.0, &arguments), context)?
        {
            return Ok(());
        }
        match self.suits_tiles(&operands, &work, context) {
            true => self.run_tiles(&operands, &work, (finish.0, arguments), context),
            false => self.run_plain(&operands, &work, (finish.0, arguments), context),
        }
    }

    /// Returns true if tensor cores compute it: quantised values, and products of many channels.
    fn suits_tiles(&self, operands: &Operands<'_>, work: &Work, context: &CudaContext<'_>) -> bool {
        let Operands { x, filter, steps, .. } = operands;
        let is_alike = filter.is_matrix && filter.tensor.dtype() == x.dtype();
        let is_suited = tiles::suit(x.dtype(), context.tf32().convolutions, context.device().info());
        let is_wanted = is_suited && self.way != Way::Plain && !self.is_depthwise(work);
        is_alike && work.taps <= MAX_TAPS && (steps.is_some() || is_wanted)
    }

    pub(super) fn is_depthwise(&self, work: &Work) -> bool {
        is_depthwise(work.out_channels, self.groups)
    }

    fn run_tiles<'a>(
        &self,
        operands: &Operands<'a>,
        work: &Work,
        (finish, mut arguments): (&EpilogueCode, Arguments<'a>),
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let &Operands { x, y, filter, bias, steps } = operands;
        let depth = work.channels * work.taps;
        let sizes = [work.out_channels, work.count, depth];
        let tiles = Tiles::of(self.groups, sizes, x.dtype(), (self.way, context));
        let chunk = tiles::chunk(x.dtype());
        let by = strides(x.layout());
        let others = [by.by[0], by.by[2], by.by[3], by.by[4]];
        let x_copied = tiles::is_copied(&x, &others, by.by[1]) && work.channels.is_multiple_of(chunk);
        let w_copied = tiles::is_copied(&filter.tensor, &[depth as i64], 1);
        let unit = finish.unit("convolution_tiles.cu", include_str!("../kernels/convolution_tiles.cu"));
        let unit = self.define(tiles.define(unit), operands)?;
        let sums = if steps.is_some() { DType::I32 } else { DType::F32 };
        let unit = unit
            .define("E", x.dtype().name())
            .define("S", sums.name())
            .define("T", y.dtype().name())
            .define("X_COPIED", u8::from(x_copied))
            .define("W_COPIED", u8::from(w_copied))
            .define("WHOLE_NUMBERS", u8::from(steps.is_some()));
        let kernel = context.kernel(&unit, "convolution")?;
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(by),
            Argument::Read(filter.tensor),
            bias.map_or(Argument::None, Argument::Read),
            steps.map_or(Argument::None, |(steps, _)| Argument::Read(steps)),
        ]);
        arguments.extend(self.lengths(operands, work)?);
        arguments.push(Argument::Float(steps.map_or(1.0, |(_, scale)| scale)));
        tiles.launch(&kernel, &arguments, sums, context)
    }

    fn run_plain<'a>(
        &self,
        operands: &Operands<'a>,
        work: &Work,
        (finish, mut arguments): (&EpilogueCode, Arguments<'a>),
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let &Operands { x, y, filter, bias, .. } = operands;
        let unit = finish.unit("convolution.cu", include_str!("../kernels/convolution.cu"));
        let unit = self.define(unit, operands)?;
        let unit = unit.define("T", x.dtype().name()).define("W", filter.tensor.dtype().name());
        let is_depthwise = self.is_depthwise(work);
        let kernel = context.kernel(&unit, if is_depthwise { "depthwise" } else { "convolution" })?;
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(strides(x.layout())),
            Argument::Read(filter.tensor),
            Argument::Strides(filter.strides),
            bias.map_or(Argument::None, Argument::Read),
        ]);
        arguments.extend(self.lengths(operands, work)?);
        arguments.push(Argument::Long(filter.group));
        let grid = match is_depthwise {
            true => Grid::over(y.num_elements()),
            false => {
                const TILE: usize = 64;
                let blocks =
                    [work.count.div_ceil(TILE), work.out_channels.div_ceil(TILE), self.groups.min(65535)];
                Grid { blocks: blocks.map(|count| count as u32), ..Grid::of(1, 256) }
            }
        };
        context.launch(&kernel, grid, &arguments)
    }

    /// Defines the types and the window mode, which all kernels need.
    fn define(&self, unit: Unit, operands: &Operands<'_>) -> Result<Unit, LayerError> {
        let bias = operands.bias.map_or(operands.filter.tensor.dtype(), |bias| bias.dtype());
        let number = if operands.steps.is_some() { "float" } else { computed_in(operands.x.dtype())? };
        Ok(unit
            .define("C", number)
            .define("V", bias.name())
            .define("MODE", mode(self.mode))
            .define("Y_BY_CHANNELS", u8::from(are_channels_last(operands.y.layout())))
            .define("TRANSPOSED", u8::from(self.transposed)))
    }

    /// The arguments from the output to the number of groups.
    fn lengths<'a>(&self, operands: &Operands<'a>, work: &Work) -> Result<[Argument<'a>; 12], LayerError> {
        let windows = self.windows.iter();
        let Operands { x, y, .. } = operands;
        Ok([
            Argument::Write(*y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(work.out),
            Argument::Shape(lengths(x, &[2, 3, 4])?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.kernel), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.stride), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.pad_before), 0)?),
            Argument::Shape(of_axes(windows.map(|window| window.dilation), 1)?),
            Argument::Long(work.count as i64),
            Argument::Int(int(work.channels)?),
            Argument::Int(int(work.out_channels)?),
            Argument::Int(int(self.groups)?),
        ])
    }
}

/// Returns true if groups have so few output channels that each element is computed separately.
fn is_depthwise(out_channels: usize, groups: usize) -> bool {
    out_channels < MIN_GROUP_CHANNELS && groups > 1
}

/// Returns true if tensor cores can compute a convolution with weights in this order, provided that they support its types.
fn may_be_tiled(weight: &Weight, order: Order) -> bool {
    let Weight::Attribute(weight) = weight else { return false };
    let [first, second, taps @ ..] = weight.shape() else { return false };
    let out_channels = if order.transposed { *second } else { first / order.groups.max(1) };
    taps.iter().product::<usize>() <= MAX_TAPS && !is_depthwise(out_channels, order.groups)
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
    const SKIPPING: f64 = 0.5;
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
    let is_whole = x.scale().is_some();
    let is_suited = tiles::suit(x.dtype(), uses.tf32.convolutions, uses.info) && !is_depthwise;
    if !is_whole && !is_suited {
        let is_row_major = [x, y].iter().all(|meta| meta.format() == Format::Plain);
        return if is_row_major || is_depthwise { 1.0 } else { SKIPPING };
    }
    let is_copied = is_last(x) && of_group(x).is_multiple_of(tiles::chunk(x.dtype()));
    let mixed = if x.format() == y.format() { 1.0 } else { MIXED };
    mixed * if is_copied { 1.0 } else { GATHERED }
}

/// The weights that are stored in the file, in the order in which kernels read them.
fn ordered(order: Order, weight: &Weight, bias: Option<&Weight>) -> Result<Vec<Tensor>, LayerError> {
    let mut tensors = stored([Some(weight), bias])?;
    if let (Weight::Attribute(_), Some(weight)) = (weight, tensors.first_mut()) {
        *weight = order.matrix(weight)?;
    }
    Ok(tensors)
}

/// The layers whose weights are those of convolutions.
trait Filtered {
    fn order(&self) -> Order;

    fn may_be_tiled(&self) -> bool;
}

impl Filtered for Conv {
    fn order(&self) -> Order {
        Order { groups: self.groups, transposed: false }
    }

    fn may_be_tiled(&self) -> bool {
        may_be_tiled(&self.weight, self.order())
    }
}

/// Weights and bias, and the scales of quantised values, for windows over `axes` axes.
fn operands<'a>(
    layer: &Conv,
    axes: usize,
    inputs: &[DeviceTensor<'a>],
    y: DeviceTensor<'a>,
    context: &CudaContext<'a>,
) -> Result<Operands<'a>, LayerError> {
    let (x, mut weights) = (inputs[0], Weights::default());
    let filter = Filter::of(&layer.weight, (layer.order(), axes), &mut weights, inputs, context)?;
    if x.dtype() == DType::I8 && layer.int8.is_selected() {
        let steps = Some((context.weight(2)?, layer.int8.output_scale().unwrap_or(1.0)));
        return Ok(Operands { x, y, filter, bias: Some(context.weight(1)?), steps });
    }
    let bias = weights.next(layer.bias.as_ref(), inputs, context)?;
    Ok(Operands { x, y, filter, bias, steps: None })
}

impl CudaLayer for Conv {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized => self.supports_int8(position, &row_major(&on_cpu(formats))),
            _ => is_real(position, &row_major(formats)),
        }
    }

    fn changes_order(&self) -> bool {
        self.groups == 1
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        efficiency((&self.weight, self.groups), [inputs, outputs], uses)
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        match self.int8.tensors(&self.weight, self.bias.as_ref())? {
            Some([weight, bias, steps]) => Ok(vec![self.order().matrix(&weight)?, bias, steps]),
            None => ordered(self.order(), &self.weight, self.bias.as_ref()),
        }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        self.int8.configure(inputs, outputs);
        let is_whole = self.int8.is_selected();
        epilogue_code(self.epilogue.as_ref(), &real(inputs, is_whole), &real(outputs, is_whole)).map(drop)
    }

    ways!(convolutions, may_be_tiled);

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let real = |tensors: &[DeviceTensor<'_>]| real(&metas(tensors), self.int8.is_selected());
        let finish = epilogue_code(self.epilogue.as_ref(), &real(inputs), &real(outputs))?;
        let weight = dims_of(&self.weight, inputs)?;
        let (sizes, pads) = self.shape(inputs[0].shape(), &weight)?;
        let mut windows = sizes.windows;
        let skipped = pads.len().saturating_sub(windows.len());
        for (window, pad) in windows.iter_mut().zip(pads.iter().skip(skipped)) {
            (window.pad_before, window.pad_after) = *pad;
        }
        let operands = operands(self, windows.len(), inputs, outputs[0], context)?;
        let sizes = Sizes {
            windows: &windows,
            groups: self.groups,
            mode: self.padding_mode.mirror(),
            transposed: false,
            way: Way::of(self.on_device),
        };
        sizes.run(operands, (&finish, inputs), context)
    }
}

/// The dimensions of weights in the order of the file.
fn dims_of(weight: &Weight, inputs: &[DeviceTensor<'_>]) -> Result<SmallVec<[usize; 8]>, LayerError> {
    Ok(match weight {
        Weight::Attribute(attribute) => SmallVec::from_slice(attribute.shape()),
        Weight::Input(position) => SmallVec::from_slice(input(inputs, *position)?.shape().dims()),
    })
}

impl Filtered for ConvTranspose {
    fn order(&self) -> Order {
        Order { groups: self.groups, transposed: true }
    }

    fn may_be_tiled(&self) -> bool {
        may_be_tiled(&self.weight, self.order())
    }
}

impl CudaLayer for ConvTranspose {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, &row_major(formats))
    }

    fn changes_order(&self) -> bool {
        self.groups == 1
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        efficiency((&self.weight, self.groups), [inputs, outputs], uses)
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        ordered(self.order(), &self.weight, self.bias.as_ref())
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        epilogue_code(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    ways!(convolutions, may_be_tiled);

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let finish = epilogue_code(self.epilogue.as_ref(), &metas(inputs), &metas(outputs))?;
        let weight = dims_of(&self.weight, inputs)?;
        let windows = self.windows(weight.get(2..).unwrap_or_default())?;
        let (order, mut weights) = (self.order(), Weights::default());
        let filter = Filter::of(&self.weight, (order, windows.len()), &mut weights, inputs, context)?;
        let bias = weights.next(self.bias.as_ref(), inputs, context)?;
        let operands = Operands { x: inputs[0], y: outputs[0], filter, bias, steps: None };
        let way = Way::of(self.on_device);
        let sizes = Sizes { windows: &windows, groups: self.groups, mode: None, transposed: true, way };
        sizes.run(operands, (&finish, inputs), context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Conv>();
    layers.register::<ConvTranspose>();
}
