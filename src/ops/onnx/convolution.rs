//! Convolutions.

use super::fields::Optional;
use super::recipe::{Recipe, Source};
use super::translated::{Translate, entry};
use super::windows::{AutoPad, Given, NAMES, Windows, kernel_of, torch_axes, windows};
use crate::op::{LayerError, Weight};
use crate::ops::convolution::{Conv as TorchConv, DeformConv as DeformConv2d, Padding};
use crate::ops::layout::padding::PaddingMode;
use crate::ops::support::arguments::{InputCount, Operand};
use crate::ops::support::choices::PerAxis;
use crate::ops::support::ready::Ready;
use crate::tensor::{DType, Dim};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

windows! {
    /// `Conv` (since 1): cross-correlation of N×C×… with weights O×(C/group)×….
    Conv for "Conv" {
        /// Number of groups; each sees its own share of the channels.
        group: usize = 1,
        /// The weights.
        w as "W": Operand,
        /// One number for each output channel.
        b as "B": Optional = Optional(None),
    }

    /// `ConvInteger` (since 10): a convolution of integers, as i32.
    ConvInteger for "ConvInteger" {
        /// Number of groups; each sees its own share of the channels.
        group: usize = 1,
        /// The weights.
        w: Operand,
        /// What of the input stands for 0.
        x_zero_point: Optional = Optional(None),
        /// What of the weights stands for 0.
        w_zero_point: Optional = Optional(None),
    }

    /// `QLinearConv` (since 10): a convolution of numbers that integers stand for.
    QLinearConv for "QLinearConv" {
        /// Number of groups; each sees its own share of the channels.
        group: usize = 1,
        /// The step of the input.
        x_scale: Operand,
        /// What of the input stands for 0.
        x_zero_point: Operand,
        /// The weights.
        w: Operand,
        /// The step of the weights, for all or for each output channel.
        w_scale: Operand,
        /// What of the weights stands for 0.
        w_zero_point: Operand,
        /// The step of the output.
        y_scale: Operand,
        /// What of the output stands for 0.
        y_zero_point: Operand,
        /// One number for each output channel, in steps of input times weights.
        b as "B": Optional = Optional(None),
    }
}

crate::operator! {
    /// `DeformConv` (since 19): a convolution of N×C×H×W with weights O×(C/group)×h×w, every tap of which looks at a place
    /// of its own at every position, as `torchvision.ops.DeformConv2d`.
    pub struct DeformConv for "DeformConv" {
        /// Distance between the places that the taps look at without offsets; 1 where absent.
        dilations: Option<Vec<i64>> = None,
        /// Number of groups; each sees its own share of the channels.
        group: usize = 1,
        /// Lengths of the window; those of the weights where absent.
        kernel_shape: Option<Vec<i64>> = None,
        /// Number of groups of channels that look at the same places.
        offset_group: usize = 1,
        /// How many places go before each axis, then how many after each; none where absent.
        pads: Option<Vec<i64>> = None,
        /// Distance between one position of the window and the next; 1 where absent.
        strides: Option<Vec<i64>> = None,
        /// The weights.
        w as "W": Operand,
        /// How far each tap looks beside its usual place, down, then right. Behind it a bias and a mask may follow.
        offset: Operand,
        /// How many inputs there are.
        inputs: InputCount,
    }
}

impl DeformConv {
    /// The bias and the mask: absent ones are left out, so one input may be either.
    fn beside(&self, recipe: &Recipe) -> Result<[Option<Source>; 2], LayerError> {
        let mut beside = [None, None];
        for position in 3..self.inputs.0 {
            let source = Source::Input(position);
            let kind = match recipe.rank(source)? {
                1 => &mut beside[0],
                4 => &mut beside[1],
                _ => &mut Some(source),
            };
            if kind.is_some() {
                let wanted = "a bias of one axis or a mask of four, each once";
                return Err(LayerError::shape(format!("input {position}"), wanted, recipe.meta(source)?));
            }
            *kind = Some(source);
        }
        Ok(beside)
    }
}

impl Translate for DeformConv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=5
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (w, offset) = (Source::Input(self.w.0), Source::Input(self.offset.0));
        let given = Given {
            auto_pad: AutoPad::NotSet,
            kernel_shape: self.kernel_shape.as_deref(),
            strides: self.strides.as_deref(),
            dilations: self.dilations.as_deref(),
            pads: self.pads.as_deref(),
        };
        let windows = given.windows(&kernel_of(recipe, w)?)?;
        let taps = windows.kernel.iter().fold(2usize, |taps, len| taps.saturating_mul(*len));
        let wanted = Dim::from(taps.saturating_mul(self.offset_group));
        if recipe.meta(offset)?.dims().get(1).is_none_or(|channels| channels.differs(&wanted)) {
            let wanted = format!("{wanted} channels, for `offset_group` is {}", self.offset_group);
            return Err(LayerError::shape("the offsets", wanted, recipe.meta(offset)?));
        }
        let [bias, mask] = self.beside(recipe)?;
        let x = windows.surrounded(recipe, X, false, 0.0)?;
        let sources: Vec<Source> =
            [Some(x), Some(w), Some(offset), bias, mask].into_iter().flatten().collect();
        let layer = DeformConv2d {
            offset: Operand(2),
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
        Ok(vec![recipe.then(layer, &sources)?])
    }
}

/// A convolution of these sources.
fn convolved(
    recipe: &mut Recipe,
    windows: &Windows,
    group: usize,
    [x, w]: [Source; 2],
    b: Option<Source>,
) -> Result<Source, LayerError> {
    let none = vec![(0, 0); windows.kernel.len()];
    let (x, pads) = match windows.auto_pad {
        AutoPad::NotSet => (x, windows.pads.clone()),
        _ => (windows.surrounded(recipe, x, false, 0.0)?, none),
    };
    // Two numbers for each axis, the last axis first.
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
        ready: Ready::default(),
        blocks: Default::default(),
        int8: Default::default(),
        whole: Default::default(),
        on_device: Default::default(),
    };
    recipe.then(layer, &[Some(x), Some(w), b].into_iter().flatten().collect::<Vec<_>>())
}

impl Translate for Conv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.b.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        Ok(vec![convolved(recipe, &windows, self.group, [X, w], self.b.source())?])
    }
}

/// Integers less the one that stands for 0, exactly. One for each output channel lies along the first axis of weights.
fn centred(recipe: &mut Recipe, x: Source, zero: Option<Source>) -> Result<Source, LayerError> {
    let wide = recipe.cast(x, DType::F64)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = super::quantization::along(recipe, zero, x, 0, 0)?;
    let zero = recipe.cast(zero, DType::F64)?;
    recipe.compute("sub(@0,@1)", &[wide, zero])
}

impl Translate for ConvInteger {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.x_zero_point.count() + self.w_zero_point.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        let x = centred(recipe, X, self.x_zero_point.source())?;
        let w = centred(recipe, w, self.w_zero_point.source())?;
        let sums = convolved(recipe, &windows, self.group, [x, w], None)?;
        Ok(vec![recipe.cast(sums, DType::I32)?])
    }
}

impl Translate for QLinearConv {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 8 + self.b.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let inputs =
            [self.w, self.x_zero_point, self.w_zero_point, self.y_zero_point].map(|at| Source::Input(at.0));
        let [w, x_zero, w_zero, y_zero] = inputs;
        let [x_scale, w_scale, y_scale] =
            [self.x_scale, self.w_scale, self.y_scale].map(|at| Source::Input(at.0));
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        let x = centred(recipe, X, Some(x_zero))?;
        let w = centred(recipe, w, Some(w_zero))?;
        let b = self.b.source().map(|b| recipe.cast(b, DType::F64)).transpose()?;
        let sums = convolved(recipe, &windows, self.group, [x, w], b)?;
        let w_scale = super::quantization::along(recipe, w_scale, sums, 1, 0)?;
        let scale = super::quantization::ratio(recipe, [x_scale, w_scale, y_scale])?;
        let scaled = recipe.compute("mul(@0,@1)", &[sums, scale])?;
        Ok(vec![super::quantization::rounded(recipe, scaled, y_zero)?])
    }
}

operators! { entry => Conv, ConvInteger, QLinearConv, DeformConv }
