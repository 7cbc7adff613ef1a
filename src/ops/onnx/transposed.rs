//! What lays windows over each other: the transpose of a convolution, and blocks that become a picture.

use super::edges::{Ends, Fit};
use super::fields::{Optional, numbers};
use super::recipe::{Recipe, Source};
use super::steps::InShape;
use super::translated::{Translate, entry};
use super::windows::{AutoPad, NAMES, Windows, kernel_of, pads, per_axis, torch_axes, windows};
use crate::op::{LayerError, Weight};
use crate::ops::convolution::ConvTranspose as TorchConvTranspose;
use crate::ops::layout::padding::{Pad, PaddingMode};
use crate::ops::pooling::Fold;
use crate::ops::support::arguments::{Argument, Operand};
use crate::ops::support::choices::PerAxis;
use crate::ops::support::ready::Ready;
use crate::tensor::Dim;
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

windows! {
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

impl ConvTranspose {
    /// The places cut off before and after each axis of the whole output; less than none are added.
    fn cut(&self, windows: &Windows, added: &[usize]) -> Vec<(i64, i64)> {
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let total = |axis: usize| {
            let whole = signed(windows.reach(axis).saturating_add(added[axis]));
            whole.saturating_sub(signed(windows.strides[axis]))
        };
        let halves = |axis: usize| match windows.auto_pad {
            AutoPad::Valid => (0, 0),
            AutoPad::NotSet => (signed(windows.pads[axis].0), signed(windows.pads[axis].1)),
            // What is missing is added at the end.
            _ if total(axis) < 0 => (0, total(axis)),
            AutoPad::SameUpper => (total(axis) / 2, total(axis) - total(axis) / 2),
            AutoPad::SameLower => (total(axis) - total(axis) / 2, total(axis) / 2),
        };
        (0..windows.kernel.len()).map(halves).collect()
    }

    /// The whole output cut to what the file says, or continued by zeros.
    fn fitted(
        &self,
        recipe: &mut Recipe,
        whole: Source,
        windows: &Windows,
        cut: &[(i64, i64)],
    ) -> Result<Source, LayerError> {
        let (axes, rank) = (windows.kernel.len(), recipe.rank(whole)?);
        if let Some(shape) = &self.output_shape {
            let given = shape.get(shape.len().saturating_sub(axes)..).unwrap_or_default();
            let lens: Option<Vec<usize>> = given.iter().map(|len| usize::try_from(*len).ok()).collect();
            let Some(lens) = lens.filter(|lens| lens.len() == axes) else {
                let reason = format!("a length is needed for each of {axes} axes");
                return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
            };
            let lens = (rank - axes..rank).zip(lens).collect();
            let ends = Ends::CutBoth { odd_at_end: windows.auto_pad == AutoPad::SameUpper };
            return recipe.step(Fit { lens, ends }, &[whole]);
        }
        let negated = |(before, after): &(i64, i64)| [before.saturating_neg(), after.saturating_neg()];
        let pad = Argument::Value(cut.iter().rev().flat_map(negated).collect());
        recipe.then(Pad { pad, mode: PaddingMode::Constant, value: None }, &[whole])
    }
}

impl Translate for ConvTranspose {
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
        let axes = windows.kernel.len();
        let added = match &self.output_padding {
            Some(added) => pads(Some(&[&vec![0; added.len()], added.as_slice()].concat()), axes)?,
            None => vec![(0, 0); axes],
        };
        let added: Vec<usize> = added.into_iter().map(|(_, added)| added).collect();
        let cut = self.cut(&windows, &added);
        // Places that are added to the output get the bias, too.
        let is_short = self.output_shape.is_some() || cut.iter().any(|(a, b)| *a < 0 || *b < 0);
        let bias = self.b.source().filter(|_| !is_short);
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
            bias: bias.map(|_| Weight::Input(2)),
            output_size: None,
            epilogue: None,
            ready: Ready::default(),
            on_device: Default::default(),
        };
        let sources: Vec<Source> = [Some(X), Some(w), bias].into_iter().flatten().collect();
        let whole = recipe.then(layer, &sources)?;
        if self.output_shape.is_none() && cut.iter().all(|pair| *pair == (0, 0)) {
            return Ok(vec![whole]);
        }
        let fitted = self.fitted(recipe, whole, &windows, &cut)?;
        let (Some(b), None) = (self.b.source(), bias) else { return Ok(vec![fitted]) };
        let mut dims = vec![Dim::Fixed(1); axes + 1];
        dims[0] = recipe.meta(b)?.num_elements();
        let b = recipe.step(InShape(dims), &[b])?;
        Ok(vec![recipe.compute("add(@0,@1)", &[fitted, b])?])
    }
}

impl Translate for Col2Im {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("stride", "strides"),
            ("dilation", "dilations"),
            ("padding", "pads"),
            ("kernel_size", "block_shape"),
            ("output_size", "image_shape"),
        ]
    }

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

operators! { entry => ConvTranspose, Col2Im }
