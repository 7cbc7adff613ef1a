//! Convolutions.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Optional;
use super::lowering::Source;
use super::windows::{AutoPad, Given, NAMES, Windows, kernel_of, torch_axes, windows};
use crate::convolution::{Conv as TorchConv, DeformConv as DeformConv2d, Padding};
use crate::layout::padding::PaddingMode;
use crate::op::{LayerError, Result, Weight};
use crate::support::arguments::{InputCount, InputIndex};
use crate::support::choices::PerAxis;
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::{DType, Dim};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

windows! {
    /// `Conv` (since 1): cross-correlation of N×C×… with weights O×(C/group)×….
    Conv for "Conv" {
        /// Number of groups into which the channels are split.
        group: usize = 1,
        /// The weights.
        w as "W": InputIndex,
        /// The bias, one value per output channel.
        b as "B": Optional = Optional(None),
    }

    /// `ConvInteger` (since 10): a convolution of integers, with an i32 result.
    ConvInteger for "ConvInteger" {
        /// Number of groups into which the channels are split.
        group: usize = 1,
        /// The weights.
        w: InputIndex,
        /// Zero point of the input; 0 if absent.
        x_zero_point: Optional = Optional(None),
        /// Zero point of the weights, one for all or one per output channel; 0 if absent.
        w_zero_point: Optional = Optional(None),
    }

    /// `QLinearConv` (since 10): a convolution of quantised tensors, with a quantised result.
    QLinearConv for "QLinearConv" {
        /// Number of groups into which the channels are split.
        group: usize = 1,
        /// Scale of the input.
        x_scale: InputIndex,
        /// Zero point of the input.
        x_zero_point: InputIndex,
        /// The weights.
        w: InputIndex,
        /// Scale of the weights, one for all or one per output channel.
        w_scale: InputIndex,
        /// Zero point of the weights, one for all or one per output channel.
        w_zero_point: InputIndex,
        /// Scale of the output.
        y_scale: InputIndex,
        /// Zero point of the output.
        y_zero_point: InputIndex,
        /// The bias, one value per output channel, in units of `x_scale` · `w_scale`.
        b as "B": Optional = Optional(None),
    }
}

crate::operator! {
    /// `DeformConv` (since 19): deformable convolution of N×C×H×W with weights O×(C/group)×h×w, where every tap has an
    /// offset of its own at every position, as `torchvision.ops.DeformConv2d`.
    pub struct DeformConv for "DeformConv" {
        /// Distance between adjacent taps before offsets; 1 if absent.
        dilations: Option<Vec<i64>> = None,
        /// Number of groups into which the channels are split.
        group: usize = 1,
        /// Size of the window; that of the weights if absent.
        kernel_shape: Option<Vec<i64>> = None,
        /// Number of groups of channels that share offsets.
        offset_group: usize = 1,
        /// Padding at the start of each axis, then at the end of each; none if absent.
        pads: Option<Vec<i64>> = None,
        /// Stride of the window along each axis; 1 if absent.
        strides: Option<Vec<i64>> = None,
        /// The weights.
        w as "W": InputIndex,
        /// Offset of each tap from its regular position, vertical then horizontal. A bias and a mask may follow as
        /// inputs.
        offset: InputIndex,
        /// Number of inputs.
        inputs: InputCount,
    }
}

impl DeformConv {
    /// The bias and the mask. PNNX leaves out absent inputs, so that input 3 may be either: the rank tells them apart.
    fn optional_inputs(&self, decomposition: &Decomposition) -> Result<[Option<Source>; 2]> {
        let mut optional_inputs = [None, None];
        for position in 3..self.inputs.0 {
            let source = Source::Input(position);
            let kind = match decomposition.rank(source)? {
                1 => &mut optional_inputs[0],
                4 => &mut optional_inputs[1],
                _ => &mut Some(source),
            };
            if kind.is_some() {
                let wanted = "a bias of one axis or a mask of four axes, at most once each";
                return Err(LayerError::shape(
                    format!("input {position}"),
                    wanted,
                    decomposition.meta(source)?,
                ));
            }
            *kind = Some(source);
        }
        Ok(optional_inputs)
    }
}

impl Decompose for DeformConv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        Some(3..=5)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (w, offset) = (Source::Input(self.w.0), Source::Input(self.offset.0));
        let given = Given {
            auto_pad: AutoPad::NotSet,
            kernel_shape: self.kernel_shape.as_deref(),
            strides: self.strides.as_deref(),
            dilations: self.dilations.as_deref(),
            pads: self.pads.as_deref(),
        };
        let windows = given.windows(&kernel_of(decomposition, w)?)?;
        let taps = windows.kernel.iter().fold(2usize, |taps, len| taps.saturating_mul(*len));
        let wanted = Dim::from(taps.saturating_mul(self.offset_group));
        if decomposition.meta(offset)?.dims().get(1).is_none_or(|channels| channels.differs(&wanted)) {
            let wanted = format!("{wanted} channels (`offset_group` is {})", self.offset_group);
            return Err(LayerError::shape("the offsets", wanted, decomposition.meta(offset)?));
        }
        let [bias, mask] = self.optional_inputs(decomposition)?;
        let x = windows.padded(decomposition, X, false, 0.0)?;
        let sources: Vec<Source> =
            [Some(x), Some(w), Some(offset), bias, mask].into_iter().flatten().collect();
        let layer = DeformConv2d {
            offset: InputIndex(2),
            mask: mask.map(|_| Weight::Input(sources.len() - 1)),
            in_channels: None,
            out_channels: None,
            kernel_size: None,
            stride: torch_axes(&windows.strides),
            padding: PerAxis::all(0),
            dilation: torch_axes(&windows.dilations),
            groups: self.group,
            weight: Weight::Input(1),
            bias: bias.map(|_| Weight::Input(3)),
        };
        Ok(vec![decomposition.then(layer, &sources)?])
    }
}

/// Adds a convolution of these sources.
pub(super) fn convolved(
    decomposition: &mut Decomposition,
    windows: &Windows,
    group: usize,
    [x, w]: [Source; 2],
    b: Option<Source>,
) -> Result<Source> {
    let none = vec![(0, 0); windows.kernel.len()];
    let (x, pads) = match windows.auto_pad {
        AutoPad::NotSet => (x, windows.pads.clone()),
        _ => (windows.padded(decomposition, x, false, 0.0)?, none),
    };
    // Two values per axis, the last axis first.
    let pads: Vec<usize> = pads.iter().rev().flat_map(|pair| [pair.0, pair.1]).collect();
    let layer = TorchConv {
        in_channels: None,
        out_channels: None,
        kernel_size: None,
        stride: torch_axes(&windows.strides),
        padding: Padding::Places(PerAxis::of(pads)),
        dilation: torch_axes(&windows.dilations),
        groups: group,
        padding_mode: PaddingMode::Zeros,
        weight: Weight::Input(1),
        bias: b.map(|_| Weight::Input(2)),
        epilogue: None,
        ready: ShapeCache::default(),
        blocks: Default::default(),
        int8: Default::default(),
        int8_conv: Default::default(),
        bytes: Default::default(),
        on_device: Default::default(),
    };
    let sources: Vec<Source> = [Some(x), Some(w), b].into_iter().flatten().collect();
    decomposition.then_as(format!("F.conv{}d", windows.kernel.len()), layer, &sources)
}

impl Decompose for Conv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(decomposition, w)?)?;
        Ok(vec![convolved(decomposition, &windows, self.group, [X, w], self.b.source())?])
    }
}

/// Integers minus their zero point, exactly, in f64. Zero points per output channel run along the first axis of the
/// weights.
fn centred(decomposition: &mut Decomposition, x: Source, zero: Option<Source>) -> Result<Source> {
    let wide = decomposition.cast(x, DType::F64)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = super::quantization::along(decomposition, zero, x, 0, 0)?;
    let zero = decomposition.cast(zero, DType::F64)?;
    decomposition.compute("sub(@0,@1)", &[wide, zero])
}

impl Decompose for ConvInteger {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(decomposition, w)?)?;
        let x = centred(decomposition, X, self.x_zero_point.source())?;
        let w = centred(decomposition, w, self.w_zero_point.source())?;
        let sums = convolved(decomposition, &windows, self.group, [x, w], None)?;
        Ok(vec![decomposition.cast(sums, DType::I32)?])
    }
}

impl Decompose for QLinearConv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let inputs =
            [self.w, self.x_zero_point, self.w_zero_point, self.y_zero_point].map(|at| Source::Input(at.0));
        let [w, x_zero, w_zero, y_zero] = inputs;
        let [x_scale, w_scale, y_scale] =
            [self.x_scale, self.w_scale, self.y_scale].map(|at| Source::Input(at.0));
        let windows = self.windows(&kernel_of(decomposition, w)?)?;
        let x = centred(decomposition, X, Some(x_zero))?;
        let w = centred(decomposition, w, Some(w_zero))?;
        let b = self.b.source().map(|b| decomposition.cast(b, DType::F64)).transpose()?;
        let sums = convolved(decomposition, &windows, self.group, [x, w], b)?;
        let w_scale = super::quantization::along(decomposition, w_scale, sums, 1, 0)?;
        let scale = super::quantization::ratio(decomposition, [x_scale, w_scale, y_scale])?;
        let scaled = decomposition.compute("mul(@0,@1)", &[sums, scale])?;
        Ok(vec![super::quantization::rounded(decomposition, scaled, y_zero)?])
    }
}

operators! { entry => Conv, ConvInteger, QLinearConv, DeformConv; category Weighted }
