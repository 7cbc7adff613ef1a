//! Convolutions and poolings, with ONNX's ways to say what is added around the input.

use super::fields::{Flag, List, Optional, numbers};
use super::recipe::{Recipe, Source};
use super::steps::{Fit, PadSame};
use super::translated::{Translate, register as add};
use crate::graph::{LayerError, Registry, RegistryError, Weight};
use crate::layers::arguments::{Argument, Operand};
use crate::layers::choices::{PerAxis, choices};
use crate::layers::convolution::{Conv as TorchConv, ConvTranspose as TorchConvTranspose, Padding};
use crate::layers::creation::OnesLike;
use crate::layers::folding::Fold;
use crate::layers::padding::{Pad, PaddingMode};
use crate::layers::pooling::{AvgPool1d, AvgPool2d, AvgPool3d};
use crate::layers::ready::Ready;
use crate::layers::unpooling::{MaxUnpool1d, MaxUnpool2d, MaxUnpool3d};
use crate::tensor::{DType, Dim};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

choices! {
    /// How many places are added around the input.
    pub enum AutoPad {
        /// As many as `pads` says.
        NotSet = "NOTSET",
        /// As many as make the output as long as the input over the stride, rounded up; the odd one at the end.
        SameUpper = "SAME_UPPER",
        /// The same with the odd one at the beginning.
        SameLower = "SAME_LOWER",
        /// None.
        Valid = "VALID",
    }
}

macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal { $($fields:tt)* })*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// What is added around the input.
                auto_pad: AutoPad = AutoPad::NotSet,
                /// Lengths of the window; those of the weights where absent.
                kernel_shape: Option<Vec<i64>> = None,
                /// Distance between one position of the window and the next; 1 where absent.
                strides: Option<Vec<i64>> = None,
                /// Distance between the places that the window looks at; 1 where absent.
                dilations: Option<Vec<i64>> = None,
                /// How many places go before each axis, then how many after each; none where absent.
                pads: Option<Vec<i64>> = None,
                $($fields)*
            }
        }

        impl $name {
            /// The window along all axes, for a kernel of these lengths.
            fn windows(&self, kernel: &[usize]) -> Result<Windows, LayerError> {
                let axes = kernel.len();
                let given = per_axis("kernel_shape", self.kernel_shape.as_deref(), kernel)?;
                if given != kernel {
                    let reason = format!("the weights are of {kernel:?}");
                    return Err(LayerError::invalid("kernel_shape", format!("{given:?}"), reason));
                }
                let ones = vec![1; axes];
                Ok(Windows {
                    auto_pad: self.auto_pad,
                    kernel: kernel.to_vec(),
                    strides: per_axis("strides", self.strides.as_deref(), &ones)?,
                    dilations: per_axis("dilations", self.dilations.as_deref(), &ones)?,
                    pads: pads(self.pads.as_deref(), axes)?,
                })
            }
        }
    )*};
}

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

    /// `ConvTranspose` (since 1): the transpose of a convolution, N×C×… with weights C×(O/group)×….
    ConvTranspose for "ConvTranspose" {
        /// Number of groups; each makes its own share of the channels.
        group: usize = 1,
        /// Places added at the end of each axis of the output; none where absent.
        output_padding: Option<Vec<i64>> = None,
        /// Lengths of the output's axes after the channels; what `pads` leaves where absent.
        output_shape: Option<Vec<i64>> = None,
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

    /// `LpPool` (since 1): (Σ|x|ᵖ)^(1/p) of each window.
    LpPool for "LpPool" {
        /// The order of the norm.
        p: i64 = 2,
        /// Whether a last position that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
    }

    /// `AveragePool` (since 1): the mean of each window.
    AveragePool for "AveragePool" {
        /// Whether a last position that is only partly inside counts.
        ceil_mode: Flag = Flag::of(0),
        /// Whether what is added around the input counts.
        count_include_pad: Flag = Flag::of(0),
    }

    /// `MaxUnpool` (since 9): elements put back to where a `MaxPool` found them, and zeros elsewhere.
    MaxUnpool for "MaxUnpool" {
        /// Where each element stood, among all elements of the pooled tensor.
        i as "I": Operand,
        /// The shape of the output; the smallest that the window allows where absent.
        output_shape: List = None,
    }
}

crate::operator! {
    /// `Col2Im` (since 18): blocks N×(C·k₁·k₂)×L laid over each other and added, N×C×H×W.
    pub struct Col2Im for "Col2Im" {
        /// Distance between the places of a block; 1 where absent.
        dilations: Option<Vec<i64>> = None,
        /// How many places of the output are cut off before each axis, then after each; none where absent.
        pads: Option<Vec<i64>> = None,
        /// Distance between one block and the next; 1 where absent.
        strides: Option<Vec<i64>> = None,
        /// H and W.
        image_shape: Argument<Vec<i64>>,
        /// k₁ and k₂.
        block_shape: Argument<Vec<i64>>,
    }
}

/// A window along all axes that it slides over.
struct Windows {
    auto_pad: AutoPad,
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads: Vec<(usize, usize)>,
}

/// One number for each axis; `usual` where there are none.
fn per_axis(key: &'static str, found: Option<&[i64]>, usual: &[usize]) -> Result<Vec<usize>, LayerError> {
    let Some(found) = found else { return Ok(usual.to_vec()) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers
        .filter(|numbers| numbers.len() == usual.len() && numbers.iter().all(|n| (1..1 << 40).contains(n)))
    {
        Some(numbers) => Ok(numbers),
        None => {
            let reason = format!("a number of at least 1 is needed for each of {} axes", usual.len());
            Err(LayerError::invalid(key, format!("{found:?}"), reason))
        }
    }
}

/// The places before and after each axis.
fn pads(found: Option<&[i64]>, axes: usize) -> Result<Vec<(usize, usize)>, LayerError> {
    let Some(found) = found else { return Ok(vec![(0, 0); axes]) };
    let numbers: Option<Vec<usize>> = found.iter().map(|number| usize::try_from(*number).ok()).collect();
    match numbers.filter(|numbers| numbers.len() == 2 * axes && numbers.iter().all(|n| *n < 1 << 40)) {
        Some(numbers) => {
            let (before, after) = numbers.split_at(axes);
            Ok(before.iter().copied().zip(after.iter().copied()).collect())
        }
        None => {
            let reason = format!("two numbers of at least 0 are needed for each of {axes} axes");
            Err(LayerError::invalid("pads", format!("{found:?}"), reason))
        }
    }
}

/// PyTorch's numbers for all axes.
fn torch_axes(numbers: &[usize]) -> PerAxis {
    PerAxis::of(numbers.to_vec())
}

/// Lengths of the window, from weights whose first two axes are channels.
fn kernel_of(recipe: &Recipe, weight: Source) -> Result<Vec<usize>, LayerError> {
    let meta = recipe.meta(weight)?;
    let lens = meta.dims().iter().skip(2).map(|dim| dim.fixed().and_then(|len| usize::try_from(len).ok()));
    match lens.collect::<Option<Vec<usize>>>().filter(|lens| (1..=3).contains(&lens.len())) {
        Some(lens) => Ok(lens),
        None => Err(LayerError::shape("the weights", "3, 4 or 5 axes, the last of known lengths", meta)),
    }
}

impl Windows {
    /// The input with what is added around it, and the places that are left for the layer to add.
    fn padded(&self, recipe: &mut Recipe, x: Source) -> Result<(Source, Vec<(usize, usize)>), LayerError> {
        let none = vec![(0, 0); self.kernel.len()];
        let at_end = match self.auto_pad {
            AutoPad::NotSet => return Ok((x, self.pads.clone())),
            AutoPad::Valid => return Ok((x, none)),
            AutoPad::SameUpper => true,
            AutoPad::SameLower => false,
        };
        let reach = self.kernel.iter().zip(&self.dilations).map(|(len, step)| (len - 1) * step + 1);
        let axes = reach.zip(self.strides.iter().copied()).collect();
        Ok((recipe.step(PadSame { axes, at_end }, &[x])?, none))
    }

    /// A convolution of these sources.
    fn conv(
        &self,
        recipe: &mut Recipe,
        group: usize,
        x: Source,
        w: Source,
        b: Option<Source>,
    ) -> Result<Source, LayerError> {
        let (x, pads) = self.padded(recipe, x)?;
        // Two numbers for each axis, the last axis first.
        let pads: Vec<usize> = pads.iter().rev().flat_map(|pair| [pair.0, pair.1]).collect();
        let layer = TorchConv {
            in_channels: None,
            out_channels: None,
            kernel_size: None,
            stride: torch_axes(&self.strides),
            padding: Padding::Places(PerAxis::of(pads)),
            dilation: torch_axes(&self.dilations),
            groups: group,
            padding_mode: PaddingMode::Zeros,
            weight: Weight::Input(1),
            bias: b.map(|_| Weight::Input(2)),
            epilogue: None,
            ready: Ready::default(),
        };
        recipe.then(layer, &[Some(x), Some(w), b].into_iter().flatten().collect::<Vec<_>>())
    }
}

/// What ONNX calls the parameters of convolutions and poolings.
const NAMES: &[(&str, &str)] = &[
    ("stride", "strides"),
    ("dilation", "dilations"),
    ("padding", "pads"),
    ("groups", "group"),
    ("kernel_size", "kernel_shape"),
];

impl Translate for Conv {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.b.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        Ok(vec![windows.conv(recipe, self.group, X, w, self.b.source())?])
    }
}

impl ConvTranspose {
    /// The places cut off before and after each axis of the whole output; less than none are added.
    fn cut(
        &self,
        recipe: &Recipe,
        windows: &Windows,
        added: &[usize],
    ) -> Result<Vec<(i64, i64)>, LayerError> {
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let axes = windows.kernel.len();
        let totals: Vec<i64> = match (&self.output_shape, windows.auto_pad) {
            (Some(shape), _) => {
                let meta = recipe.meta(X)?;
                let lens = meta.dims().iter().skip(meta.rank().saturating_sub(axes)).map(Dim::fixed);
                let Some(lens) = lens.collect::<Option<Vec<i64>>>().filter(|lens| lens.len() == axes) else {
                    return Err(LayerError::shape(
                        "the input",
                        "known lengths, for `output_shape` is given",
                        meta,
                    ));
                };
                let shape = shape.get(shape.len().saturating_sub(axes)..).unwrap_or_default();
                if shape.len() != axes {
                    let reason = format!("a length is needed for each of {axes} axes");
                    return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
                }
                let whole = |axis: usize| {
                    (lens[axis] - 1).saturating_mul(signed(windows.strides[axis]))
                        + signed((windows.kernel[axis] - 1) * windows.dilations[axis] + 1 + added[axis])
                };
                (0..axes).map(|axis| whole(axis).saturating_sub(shape[axis])).collect()
            }
            (None, AutoPad::SameUpper | AutoPad::SameLower) => {
                let reach = |axis: usize| (windows.kernel[axis] - 1) * windows.dilations[axis] + 1;
                let total = |axis: usize| signed(reach(axis) + added[axis]) - signed(windows.strides[axis]);
                (0..axes).map(total).collect()
            }
            (None, AutoPad::Valid) => vec![0; axes],
            (None, AutoPad::NotSet) => {
                let signed = |&(before, after): &(usize, usize)| (signed(before), signed(after));
                return Ok(windows.pads.iter().map(signed).collect());
            }
        };
        let halves = totals.into_iter().map(|total| match windows.auto_pad {
            AutoPad::SameUpper => (total / 2, total - total / 2),
            _ => (total - total / 2, total / 2),
        });
        Ok(halves.collect())
    }
}

impl Translate for ConvTranspose {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.b.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        let axes = windows.kernel.len();
        let added = match &self.output_padding {
            Some(added) => pads(Some(&[&vec![0; added.len()], added.as_slice()].concat()), axes)?,
            None => vec![(0, 0); axes],
        };
        let added: Vec<usize> = added.into_iter().map(|(_, added)| added).collect();
        let cut = self.cut(recipe, &windows, &added)?;
        let layer = TorchConvTranspose {
            in_channels: None,
            out_channels: None,
            kernel_size: None,
            stride: torch_axes(&windows.strides),
            padding: PerAxis::all(0),
            output_padding: torch_axes(&added),
            dilation: torch_axes(&windows.dilations),
            groups: self.group,
            weight: Weight::Input(1),
            bias: self.b.0.map(|_| Weight::Input(2)),
            output_size: None,
            epilogue: None,
            ready: Ready::default(),
        };
        let sources: Vec<Source> = [Some(X), Some(w), self.b.source()].into_iter().flatten().collect();
        let whole = recipe.then(layer, &sources)?;
        if cut.iter().all(|pair| *pair == (0, 0)) {
            return Ok(vec![whole]);
        }
        let pad = cut
            .iter()
            .rev()
            .flat_map(|(before, after)| [before.saturating_neg(), after.saturating_neg()])
            .collect();
        let pad = Pad { pad: Argument::Value(pad), mode: PaddingMode::Constant, value: None };
        Ok(vec![recipe.then(pad, &[whole])?])
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
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.x_zero_point.count() + self.w_zero_point.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(recipe, w)?)?;
        let x = centred(recipe, X, self.x_zero_point.source())?;
        let w = centred(recipe, w, self.w_zero_point.source())?;
        let sums = windows.conv(recipe, self.group, x, w, None)?;
        Ok(vec![recipe.cast(sums, DType::I32)?])
    }
}

impl Translate for QLinearConv {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

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
        let sums = windows.conv(recipe, self.group, x, w, b)?;
        let w_scale = super::quantization::along(recipe, w_scale, sums, 1, 0)?;
        let scale = super::quantization::ratio(recipe, [x_scale, w_scale, y_scale])?;
        let scaled = recipe.compute("mul(@0,@1)", &[sums, scale])?;
        Ok(vec![super::quantization::rounded(recipe, scaled, y_zero)?])
    }
}

/// The windows of a pooling, with what is added around the input.
fn pooled(recipe: &mut Recipe, windows: &Windows, x: Source) -> Result<Source, LayerError> {
    if windows.dilations.iter().any(|step| *step != 1) {
        let found = format!("{:?}", windows.dilations);
        return Err(LayerError::invalid("dilations", found, "for this pooling it must be 1"));
    }
    let (x, pads) = windows.padded(recipe, x)?;
    if pads.iter().all(|pair| *pair == (0, 0)) {
        return Ok(x);
    }
    let pad = pads.iter().rev().flat_map(|pair| [pair.0 as i64, pair.1 as i64]).collect();
    recipe.then(Pad { pad: Argument::Value(pad), mode: PaddingMode::Constant, value: None }, &[x])
}

/// The sums, or the means, of windows that lie within the input.
fn windowed(
    recipe: &mut Recipe,
    windows: &Windows,
    x: Source,
    ceil_mode: bool,
    divisor_override: Option<i64>,
) -> Result<Source, LayerError> {
    let (kernel_size, stride) = (torch_axes(&windows.kernel), Some(torch_axes(&windows.strides)));
    let (padding, count_include_pad, pooling) = (PerAxis::all(0), true, Default::default());
    macro_rules! pool {
        ($layer:ident) => {
            recipe.then(
                $layer {
                    kernel_size,
                    stride,
                    padding,
                    ceil_mode,
                    count_include_pad,
                    divisor_override,
                    pooling,
                },
                &[x],
            )
        };
    }
    match windows.kernel.len() {
        1 => pool!(AvgPool1d),
        2 => pool!(AvgPool2d),
        3 => pool!(AvgPool3d),
        _ => Err(LayerError::invalid(
            "kernel_shape",
            format!("{:?}", windows.kernel),
            "1 to 3 axes are pooled",
        )),
    }
}

/// The lengths of a pooling's window.
fn pool_kernel(found: Option<&[i64]>) -> Result<Vec<usize>, LayerError> {
    match found {
        Some(found) => per_axis("kernel_shape", Some(found), &vec![1; found.len()]),
        None => Err(LayerError::invalid("kernel_shape", "None", "the window's lengths are needed")),
    }
}

impl Translate for LpPool {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let x = pooled(recipe, &windows, X)?;
        let powers = recipe.compute(&format!("pow(abs(@0),{})", self.p), &[x])?;
        let sums = windowed(recipe, &windows, powers, self.ceil_mode.0, Some(1))?;
        Ok(vec![recipe.compute(&format!("pow(@0,{:?})", 1.0 / self.p as f64), &[sums])?])
    }
}

impl Translate for AveragePool {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let windows = self.windows(&pool_kernel(self.kernel_shape.as_deref())?)?;
        let x = pooled(recipe, &windows, X)?;
        if self.count_include_pad.0 {
            return Ok(vec![windowed(recipe, &windows, x, self.ceil_mode.0, None)?]);
        }
        let ones = recipe.then(OnesLike { dtype: None, memory_format: None }, &[X])?;
        let inside = pooled(recipe, &windows, ones)?;
        let sums = windowed(recipe, &windows, x, self.ceil_mode.0, Some(1))?;
        let counts = windowed(recipe, &windows, inside, self.ceil_mode.0, Some(1))?;
        Ok(vec![recipe.compute("div(@0,@1)", &[sums, counts])?])
    }
}

impl Translate for MaxUnpool {
    const NAMES: &'static [(&'static str, &'static str)] = NAMES;

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + super::fields::count(&self.output_shape);
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let given = self.kernel_shape.as_deref().unwrap_or_default();
        let windows = self.windows(&per_axis("kernel_shape", Some(given), &vec![1; given.len()])?)?;
        let (rank, axes) = (recipe.rank(X)?, windows.kernel.len());
        let Some(leading) = rank.checked_sub(axes) else {
            return Err(LayerError::shape("the input", format!("at least {axes} axes"), recipe.meta(X)?));
        };
        if windows.pads.iter().any(|(before, after)| before != after) {
            let found = format!("{:?}", self.pads);
            return Err(LayerError::invalid("pads", found, "it must be the same at both ends"));
        }
        // ONNX counts through all channels of the batch, PyTorch within each plane.
        let plane = (0..axes).fold("1".to_owned(), |plane, axis| {
            let more =
                windows.kernel[axis] as i64 - 2 * windows.pads[axis].0 as i64 - windows.strides[axis] as i64;
            format!("mul({plane},add(mul(size(@1,{}),{}),{more}))", leading + axis, windows.strides[axis])
        });
        let places = recipe.compute(&format!("remainder(@0,{plane})"), &[Source::Input(self.i.0), X])?;
        let (kernel_size, stride) = (torch_axes(&windows.kernel), Some(torch_axes(&windows.strides)));
        let padding = torch_axes(&windows.pads.iter().map(|pads| pads.0).collect::<Vec<_>>());
        let (indices, output_size) = (Operand(1), None);
        macro_rules! unpool {
            ($layer:ident) => {
                recipe.then($layer { kernel_size, stride, padding, indices, output_size }, &[X, places])?
            };
        }
        let output = match axes {
            1 => unpool!(MaxUnpool1d),
            2 => unpool!(MaxUnpool2d),
            3 => unpool!(MaxUnpool3d),
            _ => {
                return Err(LayerError::invalid(
                    "kernel_shape",
                    format!("{given:?}"),
                    "1 to 3 axes are pooled",
                ));
            }
        };
        let Some(shape) = numbers("output_shape", &self.output_shape, recipe.inputs())? else {
            return Ok(vec![output]);
        };
        let lens: Option<Vec<usize>> = shape.iter().map(|len| usize::try_from(*len).ok()).collect();
        let Some(lens) = lens.filter(|lens| lens.len() == rank) else {
            let reason = format!("{rank} lengths of at least 0 are needed");
            return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
        };
        let lens = lens.into_iter().enumerate().skip(leading).collect();
        Ok(vec![recipe.step(Fit { lens, is_centred: false }, &[output])?])
    }
}

impl Translate for Col2Im {
    const NAMES: &'static [(&'static str, &'static str)] = &[
        ("stride", "strides"),
        ("dilation", "dilations"),
        ("padding", "pads"),
        ("kernel_size", "block_shape"),
        ("output_size", "image_shape"),
    ];

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.image_shape.num_inputs() + self.block_shape.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let list = |key, list: &Argument<Vec<i64>>| numbers(key, &Some(list.clone()), recipe.inputs());
        let image = list("image_shape", &self.image_shape)?.unwrap_or_default();
        let block = list("block_shape", &self.block_shape)?.unwrap_or_default();
        if image.len() != 2 {
            return Err(LayerError::invalid(
                "image_shape",
                format!("{image:?}"),
                "blocks of two axes can be laid",
            ));
        }
        let (ones, cut) = ([1, 1], pads(self.pads.as_deref(), 2)?);
        let kernel = per_axis("block_shape", Some(&block), &ones)?;
        let stride = per_axis("strides", self.strides.as_deref(), &ones)?;
        let dilation = per_axis("dilations", self.dilations.as_deref(), &ones)?;
        // What is cut off may differ at both ends: laid out whole first.
        let whole =
            image.iter().zip(&cut).map(|(len, cut)| len.saturating_add((cut.0 + cut.1) as i64)).collect();
        let fold = Fold {
            output_size: Argument::Value(whole),
            kernel_size: torch_axes(&kernel),
            dilation: torch_axes(&dilation),
            padding: PerAxis::all(0),
            stride: torch_axes(&stride),
        };
        let laid = recipe.then(fold, &[X])?;
        let pad = cut.iter().rev().flat_map(|cut| [-(cut.0 as i64), -(cut.1 as i64)]).collect();
        let pad = Pad { pad: Argument::Value(pad), mode: PaddingMode::Constant, value: None };
        Ok(vec![recipe.then(pad, &[laid])?])
    }
}

/// Registers the operators of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    add::<Conv>(registry)?;
    add::<ConvTranspose>(registry)?;
    add::<ConvInteger>(registry)?;
    add::<QLinearConv>(registry)?;
    add::<LpPool>(registry)?;
    add::<AveragePool>(registry)?;
    add::<MaxUnpool>(registry)?;
    add::<Col2Im>(registry)
}
