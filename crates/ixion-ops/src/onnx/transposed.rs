//! Operators that add overlapping windows: transposed convolution, and `Col2Im`.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::edges::{Ends, Fit};
use super::fields::{Optional, numbers};
use super::lowering::Source;
use super::windows::{AutoPad, NAMES, Windows, kernel_of, pads, per_axis, torch_axes, windows};
use crate::convolution::ConvTranspose as TorchConvTranspose;
use crate::layout::padding::{Pad, PaddingMode};
use crate::op::{LayerError, Result, Weight};
use crate::pooling::Fold;
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::choices::PerAxis;
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::Dim;

const X: Source = Source::Input(0);

windows! {
    /// `ConvTranspose` (since 1): transposed convolution of N×C×… with weights C×(O/group)×….
    ConvTranspose for "ConvTranspose" {
        /// Number of groups into which the channels are split.
        group: usize = 1,
        /// Elements added at the end of each output axis; none if absent.
        output_padding: Option<Vec<i64>> = None,
        /// Lengths of the output axes after the channels; as `pads` determines if absent.
        output_shape: Option<Vec<i64>> = None,
        /// The weights.
        w as "W": InputIndex,
        /// The bias, one value per output channel.
        b as "B": Optional = Optional(None),
    }
}

crate::operator! {
    /// `Col2Im` (since 18): blocks N×(C·k₁·k₂)×L placed on an image N×C×H×W, with overlapping values added.
    pub struct Col2Im for "Col2Im" {
        /// Distance between adjacent elements of a block; 1 if absent.
        dilations: Option<Vec<i64>> = None,
        /// Elements cropped at the start of each output axis, then at the end of each; none if absent.
        pads: Option<Vec<i64>> = None,
        /// Distance between adjacent blocks; 1 if absent.
        strides: Option<Vec<i64>> = None,
        /// H and W of the output.
        image_shape: ParamOrInput<Vec<i64>>,
        /// k₁ and k₂, the size of a block.
        block_shape: ParamOrInput<Vec<i64>>,
    }
}

impl ConvTranspose {
    /// The elements cropped before and after each axis of the full output; negative numbers are added.
    fn cut(&self, windows: &Windows, added: &[usize]) -> Vec<(i64, i64)> {
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let total = |axis: usize| {
            let whole = signed(windows.reach(axis).saturating_add(added[axis]));
            whole.saturating_sub(signed(windows.strides[axis]))
        };
        let halves = |axis: usize| match windows.auto_pad {
            AutoPad::Valid => (0, 0),
            AutoPad::NotSet => (signed(windows.pads[axis].0), signed(windows.pads[axis].1)),
            // Missing elements are added at the end.
            _ if total(axis) < 0 => (0, total(axis)),
            AutoPad::SameUpper => (total(axis) / 2, total(axis) - total(axis) / 2),
            AutoPad::SameLower => (total(axis) - total(axis) / 2, total(axis) / 2),
        };
        (0..windows.kernel.len()).map(halves).collect()
    }

    /// The full output cropped to the lengths that the file gives, or padded with zeros.
    fn fitted(
        &self,
        decomposition: &mut Decomposition,
        whole: Source,
        windows: &Windows,
        cut: &[(i64, i64)],
    ) -> Result<Source> {
        let (axes, rank) = (windows.kernel.len(), decomposition.rank(whole)?);
        if let Some(shape) = &self.output_shape {
            let given = shape.get(shape.len().saturating_sub(axes)..).unwrap_or_default();
            let lens: Option<Vec<usize>> = given.iter().map(|len| usize::try_from(*len).ok()).collect();
            let Some(lens) = lens.filter(|lens| lens.len() == axes) else {
                let reason = format!("expected a length for each of {axes} axes");
                return Err(LayerError::invalid("output_shape", format!("{shape:?}"), reason));
            };
            let lens = (rank - axes..rank).zip(lens).collect();
            let ends = Ends::CutBoth { odd_at_end: windows.auto_pad == AutoPad::SameUpper };
            return decomposition.step(Fit { lens, ends }, &[whole]);
        }
        let negated = |(before, after): &(i64, i64)| [before.saturating_neg(), after.saturating_neg()];
        let pad = ParamOrInput::Value(cut.iter().rev().flat_map(negated).collect());
        decomposition.then(Pad { pad, mode: PaddingMode::Constant, value: None }, &[whole])
    }
}

impl Decompose for ConvTranspose {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        NAMES
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let w = Source::Input(self.w.0);
        let windows = self.windows(&kernel_of(decomposition, w)?)?;
        let axes = windows.kernel.len();
        let added = match &self.output_padding {
            Some(added) => pads(Some(&[&vec![0; added.len()], added.as_slice()].concat()), axes)?,
            None => vec![(0, 0); axes],
        };
        let added: Vec<usize> = added.into_iter().map(|(_, added)| added).collect();
        let cut = self.cut(&windows, &added);
        // Elements that are added to the output get the bias, too.
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
            ready: ShapeCache::default(),
            on_device: Default::default(),
        };
        let sources: Vec<Source> = [Some(X), Some(w), bias].into_iter().flatten().collect();
        let op_type = format!("F.conv_transpose{}d", windows.kernel.len());
        let whole = decomposition.then_as(op_type, layer, &sources)?;
        if self.output_shape.is_none() && cut.iter().all(|pair| *pair == (0, 0)) {
            return Ok(vec![whole]);
        }
        let fitted = self.fitted(decomposition, whole, &windows, &cut)?;
        let (Some(b), None) = (self.b.source(), bias) else { return Ok(vec![fitted]) };
        let mut dims = vec![Dim::Fixed(1); axes + 1];
        dims[0] = decomposition.meta(b)?.num_elements();
        let b = decomposition.reshape(dims, b)?;
        Ok(vec![decomposition.compute("add(@0,@1)", &[fitted, b])?])
    }
}

impl Decompose for Col2Im {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("stride", "strides"),
            ("dilation", "dilations"),
            ("padding", "pads"),
            ("kernel_size", "block_shape"),
            ("output_size", "image_shape"),
        ]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let list =
            |key, list: &ParamOrInput<Vec<i64>>| numbers(key, &Some(list.clone()), decomposition.inputs());
        let image = list("image_shape", &self.image_shape)?.unwrap_or_default();
        let block = list("block_shape", &self.block_shape)?.unwrap_or_default();
        if image.len() != 2 {
            return Err(LayerError::invalid(
                "image_shape",
                format!("{image:?}"),
                "only two axes are supported",
            ));
        }
        let (ones, cut) = ([1, 1], pads(self.pads.as_deref(), 2)?);
        let kernel = per_axis("block_shape", Some(&block), &ones)?;
        let stride = per_axis("strides", self.strides.as_deref(), &ones)?;
        let dilation = per_axis("dilations", self.dilations.as_deref(), &ones)?;
        // The crop may differ at both ends, so compute the full image first.
        let whole =
            image.iter().zip(&cut).map(|(len, cut)| len.saturating_add((cut.0 + cut.1) as i64)).collect();
        let fold = Fold {
            output_size: ParamOrInput::Value(whole),
            kernel_size: torch_axes(&kernel),
            dilation: torch_axes(&dilation),
            padding: PerAxis::all(0),
            stride: torch_axes(&stride),
        };
        let laid = decomposition.then(fold, &[X])?;
        let pad = cut.iter().rev().flat_map(|cut| [-(cut.0 as i64), -(cut.1 as i64)]).collect();
        let pad = Pad { pad: ParamOrInput::Value(pad), mode: PaddingMode::Constant, value: None };
        Ok(vec![decomposition.then(pad, &[laid])?])
    }
}

operators! { entry => ConvTranspose, Col2Im; category Weighted }
