//! Convolution and transposed convolution in one, two and three dimensions.

use super::convolution_library as library;
use super::convolution_operands::{ConvParams, ConvSizes, Operands};
use super::depthwise::{self, is_depthwise};
use super::epilogue::{Arguments, EpilogueCode};
use super::filter::{Filter, Order};
use super::prelude::*;
use super::product_tactic::{ProductTactic, product_tactics};
use super::support::{
    Weights, computed_in, input, int, is_real_in_any_order, metas, on_cpu, row_major, stored, strides,
};
use super::tiles::{self, Tiles};
use super::windows::{are_channels_last, lengths, mode, of_axes, with_three_axes};
use crate::cuda::Uses;
use crate::ops::convolution::{Conv, ConvTranspose};
use crate::tensor::{Dim, Format};
use smallvec::SmallVec;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Conv>::ENTRY, &Own::<ConvTranspose>::ENTRY];

/// The maximum number of taps of a window for tensor cores, which look them up in a table.
const MAX_TAPS: usize = 128;

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
            && library::run(convolution, epilogue, io)?
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
        let is_preferred = is_supported
            && self.tactic != ProductTactic::Plain
            && !is_depthwise(sizes.out_channels, self.groups);
        is_compatible && sizes.taps <= MAX_TAPS && (int8_scales.is_some() || is_preferred)
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
        let &Operands { x, filter, bias, .. } = operands;
        let (unit, kernel, grid) = match is_depthwise(sizes.out_channels, self.groups) {
            true => {
                let (unit, grid) = depthwise::unit(self, operands, sizes, epilogue);
                (unit, "depthwise", grid)
            }
            false => {
                const TILE: usize = 64;
                let blocks =
                    [sizes.count.div_ceil(TILE), sizes.out_channels.div_ceil(TILE), self.groups.min(65535)];
                let grid = Grid { blocks: blocks.map(|count| count as u32), ..Grid::of(1, 256) };
                let unit = epilogue.unit("convolution.cu", include_str!("../kernels/convolution.cu"));
                (unit, "convolution", grid)
            }
        };
        let unit = self.define(unit, operands)?;
        let unit = unit.define("T", x.dtype().name()).define("W", filter.tensor.dtype().name());
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(strides(x.layout())),
            Argument::Read(filter.tensor),
            Argument::Strides(filter.strides),
            bias.map_or(Argument::None, Argument::Read),
        ]);
        arguments.extend(self.lengths(operands, sizes)?);
        arguments.push(Argument::Long(filter.group));
        context.run(&unit, kernel, grid, &arguments)
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

/// The efficiency of the kernels for a convolution with this many groups: tensor cores need whole chunks of adjacent channels.
/// If `may_be_library`, a library of the device computes it, if there is one; libraries pad channels themselves.
fn efficiency(
    (weight, groups, may_be_library): (&Weight, usize, bool),
    [inputs, outputs]: [&[TensorMeta]; 2],
    uses: Uses<'_>,
) -> f64 {
    /// The efficiency if elements are gathered one by one for tensor cores.
    const GATHERED: f64 = 0.1;
    /// The efficiency if a library pads the channels.
    const PADDED: f64 = 0.75;
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
    let has_library = may_be_library && !is_int8 && uses.info.libraries.convolutions.is_some();
    let is_padded = has_library && is_last(x) && is_last(y) && x.dtype() == y.dtype();
    let mixed = if x.format() == y.format() { 1.0 } else { MIXED };
    let of_channels = match (is_vectorized, is_padded) {
        (true, _) => 1.0,
        (false, true) => PADDED,
        (false, false) => GATHERED,
    };
    mixed * of_channels
}

/// The weights that are stored in the file, in the order in which kernels read them.
fn ordered(order: Order, weight: &Weight, bias: Option<&Weight>) -> Result<Vec<Tensor>> {
    let mut tensors = stored([Some(weight), bias])?;
    if let (Weight::Attribute(_), Some(weight)) = (weight, tensors.first_mut()) {
        *weight = order.arrange(weight)?;
    }
    Ok(tensors)
}

/// Convolutions and transposed convolutions.
trait Filtered {
    /// The number of groups, and whether the convolution is transposed.
    fn kind(&self) -> (usize, bool);

    fn weight(&self) -> &Weight;

    /// Whether values are quantised.
    fn is_int8(&self) -> bool {
        false
    }

    /// Returns true if the weights in the file are those of groups of few channels.
    fn has_small_groups(&self) -> bool {
        let (Weight::Attribute(weight), (groups, transposed)) = (self.weight(), self.kind()) else {
            return false;
        };
        let [first, second, ..] = weight.shape() else { return false };
        is_depthwise(if transposed { *second } else { first / groups.max(1) }, groups)
    }

    /// The order of the weights in the file, and for kernels: tensor cores multiply all quantised values.
    fn order(&self) -> Order {
        let (groups, transposed) = self.kind();
        Order { groups, transposed, is_by_tap: !self.is_int8() && self.has_small_groups() }
    }

    /// Returns true if tensor cores can compute it, provided that they support its types.
    fn may_be_tiled(&self) -> bool {
        let Weight::Attribute(weight) = self.weight() else { return false };
        let [_, _, taps @ ..] = weight.shape() else { return false };
        taps.iter().product::<usize>() <= MAX_TAPS && !self.has_small_groups()
    }
}

impl Filtered for Conv {
    fn kind(&self) -> (usize, bool) {
        (self.groups, false)
    }

    fn is_int8(&self) -> bool {
        self.int8.is_selected()
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
        let may_be_library = self.padding_mode.mirror().is_none();
        efficiency((&self.weight, self.groups, may_be_library), [inputs, outputs], uses)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        match self.int8.tensors(&self.weight, self.bias.as_ref())? {
            Some([weight, bias, scales]) => Ok(vec![self.order().arrange(&weight)?, bias, scales]),
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
    fn kind(&self) -> (usize, bool) {
        (self.groups, true)
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
        efficiency((&self.weight, self.groups, false), [inputs, outputs], uses)
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
