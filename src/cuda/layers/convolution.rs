//! Convolution and its transpose in one, two and three dimensions.

use super::epilogue::Finish;
use super::product::{finish_of, metas};
use super::support::{Weights, computed_in, int, is_real, shape, stored, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::graph::{LayerError, TensorFormat, TensorMeta};
use crate::kernels::naive::PadMode;
use crate::kernels::window::Window;
use crate::layers::convolution::{Conv, ConvTranspose};
use crate::tensor::{Layout, Tensor};

/// The axes that windows slide over, in kernels; those that a convolution lacks are of length 1.
const AXES: usize = 3;

/// Groups of fewer output channels are computed number by number.
const FEWEST: usize = 8;

/// A convolution whose sizes are known.
struct Sizes<'a> {
    windows: &'a [Window],
    groups: usize,
    mode: Option<PadMode>,
    transposed: bool,
}

/// N×C×… with three axes behind the channels.
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

/// Numbers of the last axes, as a kernel takes them; the axes before have `usual`.
pub(super) fn of_axes(
    numbers: impl ExactSizeIterator<Item = usize>,
    usual: i32,
) -> Result<KernelShape, LayerError> {
    let mut of_axes = KernelShape { rank: AXES as i32, dims: [usual; 8] };
    let missing = AXES.saturating_sub(numbers.len());
    for (dim, number) in of_axes.dims.iter_mut().skip(missing).zip(numbers) {
        *dim = int(number)?;
    }
    Ok(of_axes)
}

/// The lengths of some axes of a tensor, as a kernel takes them.
pub(super) fn lengths(tensor: &DeviceTensor<'_>, axes: &[usize]) -> Result<KernelShape, LayerError> {
    let mut lengths = KernelShape { rank: int(axes.len())?, ..KernelShape::default() };
    for (dim, &axis) in lengths.dims.iter_mut().zip(axes) {
        *dim = int(tensor.shape().get(axis).copied().unwrap_or(1))?;
    }
    Ok(lengths)
}

impl Sizes<'_> {
    fn run<'a>(
        &self,
        [x, w, y]: [DeviceTensor<'a>; 3],
        bias: Option<DeviceTensor<'a>>,
        finish: (&Finish, &[DeviceTensor<'a>]),
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let axes = self.windows.len();
        let whole = *y.shape();
        let (x, y) = (with_three_axes(&x, axes, 2)?, with_three_axes(&y, axes, 2)?);
        let w = with_three_axes(&w, axes, 2)?;
        let out_channels = y.shape().get(1).copied().unwrap_or(1) / self.groups.max(1);
        let channels = x.shape().get(1).copied().unwrap_or(1) / self.groups.max(1);
        let out = lengths(&y, &[0, 2, 3, 4])?;
        let count: usize = out.dims.iter().take(4).map(|&len| len as usize).product();
        let mut of_weights = strides(w.layout());
        if self.transposed {
            // Weights are C×O×….
            of_weights.by.swap(0, 1);
        }
        let unit = finish
            .0
            .unit("convolution.cu", include_str!("../kernels/convolution.cu"))
            .define("T", x.dtype().name())
            .define("C", computed_in(x.dtype())?)
            .define("W", w.dtype().name())
            .define("V", bias.map_or(w.dtype(), |bias| bias.dtype()).name())
            .define("MODE", mode(self.mode))
            .define("TRANSPOSED", self.transposed)
            .define("WEIGHT_AXIS", u8::from(self.transposed))
            .define("W_GROUP", if self.transposed { "channels" } else { "out_channels" });
        let is_depthwise = out_channels < FEWEST && self.groups > 1;
        let kernel = context.kernel(&unit, if is_depthwise { "depthwise" } else { "convolution" })?;
        let windows = self.windows.iter();
        let mut arguments = finish.0.arguments(finish.1, &whole)?;
        arguments.extend([
            Argument::Read(x),
            Argument::Strides(strides(x.layout())),
            Argument::Read(w),
            Argument::Strides(of_weights),
            bias.map_or(Argument::None, Argument::Read),
            Argument::Write(y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(out),
            Argument::Shape(lengths(&x, &[2, 3, 4])?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.kernel), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.stride), 1)?),
            Argument::Shape(of_axes(windows.clone().map(|window| window.pad_before), 0)?),
            Argument::Shape(of_axes(windows.map(|window| window.dilation), 1)?),
            Argument::Long(count as i64),
            Argument::Int(int(channels)?),
            Argument::Int(int(out_channels)?),
            Argument::Int(int(self.groups)?),
        ]);
        let grid = match is_depthwise {
            true => Grid::over(y.num_elements()),
            false => {
                const TILE: usize = 64;
                let blocks = [count.div_ceil(TILE), out_channels.div_ceil(TILE), self.groups.min(65535)];
                Grid { blocks: blocks.map(|count| count as u32), ..Grid::of(1, 256) }
            }
        };
        context.launch(&kernel, grid, &arguments)
    }
}

/// The word of kernels for what lies outside.
pub(super) fn mode(mode: Option<PadMode>) -> &'static str {
    match mode {
        Some(PadMode::Reflect) => "REFLECT",
        Some(PadMode::Replicate) => "REPLICATE",
        Some(PadMode::Circular) => "CIRCULAR",
        _ => "ZEROS",
    }
}

impl CudaLayer for Conv {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        stored([Some(&self.weight), self.bias.as_ref()])
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        finish_of(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let finish = finish_of(self.epilogue.as_ref(), &metas(inputs), &metas(outputs))?;
        let mut weights = Weights::default();
        let weight = weights.must(&self.weight, inputs, context)?;
        let bias = weights.next(self.bias.as_ref(), inputs, context)?;
        let (sizes, pads) = self.shape(inputs[0].shape(), weight.shape())?;
        let mut windows = sizes.windows;
        let skipped = pads.len().saturating_sub(windows.len());
        for (window, pad) in windows.iter_mut().zip(pads.iter().skip(skipped)) {
            (window.pad_before, window.pad_after) = *pad;
        }
        let sizes = Sizes {
            windows: &windows,
            groups: self.groups,
            mode: self.padding_mode.mirror(),
            transposed: false,
        };
        sizes.run([inputs[0], weight, outputs[0]], bias, (&finish, inputs), context)
    }
}

impl CudaLayer for ConvTranspose {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        stored([Some(&self.weight), self.bias.as_ref()])
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        finish_of(self.epilogue.as_ref(), inputs, outputs).map(drop)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let finish = finish_of(self.epilogue.as_ref(), &metas(inputs), &metas(outputs))?;
        let mut weights = Weights::default();
        let weight = weights.must(&self.weight, inputs, context)?;
        let bias = weights.next(self.bias.as_ref(), inputs, context)?;
        let kernel = weight.shape().get(2..).unwrap_or_default();
        let windows = self.windows(kernel)?;
        let sizes = Sizes { windows: &windows, groups: self.groups, mode: None, transposed: true };
        sizes.run([inputs[0], weight, outputs[0]], bias, (&finish, inputs), context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Conv>();
    layers.register::<ConvTranspose>();
}
