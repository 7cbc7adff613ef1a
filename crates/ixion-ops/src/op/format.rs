//! How a tensor of a layer is stored, and on which device.

use ixion_tensor::{DType, Format};
use std::fmt;

/// The device on which a layer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A CUDA GPU, or a substitute for one.
    Cuda,
}

impl Device {
    /// The name in formats and plans: `cpu` or `cuda`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// Element type and memory format of one tensor of a layer, as passed to [`CpuLayer::supports`](super::CpuLayer::supports).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorFormat {
    /// The element type.
    pub dtype: DType,
    /// The memory format: plain, blocked or channels-last.
    pub format: Format,
    /// Whether the elements are quantised, with the [step](super::Step) that is passed to
    /// [`CpuLayer::configure`](super::CpuLayer::configure).
    pub is_quantized: bool,
    /// The device whose memory holds the tensor.
    pub device: Device,
}

impl TensorFormat {
    /// Elements of this type in row-major order, in CPU memory.
    pub fn plain(dtype: DType) -> Self {
        Self { dtype, format: Format::Plain, is_quantized: false, device: Device::Cpu }
    }

    /// Quantised int8 values in row-major order, in CPU memory.
    pub fn quantized() -> Self {
        Self { is_quantized: true, ..Self::plain(DType::I8) }
    }

    /// The same format in the memory of a device.
    #[must_use]
    pub fn on(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// The same element type and device, with one axis split into blocks that are stored innermost.
    #[must_use]
    pub fn blocked(self, axis: u8, block: u8) -> Self {
        Self { format: Format::Blocked { axis, block }, ..self }
    }

    /// The same element type and device, in row-major order.
    #[must_use]
    pub fn row_major(self) -> Self {
        Self { format: Format::Plain, ..self }
    }

    /// The same element type and device, with axis 1 innermost: [`Format::ChannelsLast`].
    #[must_use]
    pub fn channels_last(self) -> Self {
        Self { format: Format::ChannelsLast, ..self }
    }
}

/// Writes the element type and everything that differs from the default: `f32`, `i8 quantized`, `f32 16c` (channels in blocks
/// of 16), `f32 8@2` (axis 2 in blocks of 8), `f16 nhwc cuda` (channels-last, in the memory of a GPU).
impl fmt::Display for TensorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantized = if self.is_quantized { " quantized" } else { "" };
        let device = if self.device == Device::Cuda { " cuda" } else { "" };
        f.pad(&match self.format {
            Format::Plain => format!("{}{quantized}{device}", self.dtype),
            Format::ChannelsLast => format!("{}{quantized} nhwc{device}", self.dtype),
            Format::Blocked { axis: 1, block } => format!("{}{quantized} {block}c{device}", self.dtype),
            Format::Blocked { axis, block } => format!("{}{quantized} {block}@{axis}{device}", self.dtype),
        })
    }
}
