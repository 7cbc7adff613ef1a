//! Operators that add overlapping windows: transposed convolution, and `Col2Im`.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::edges::{Ends, Fit};
use super::fields::{Optional, numbers};
use super::lowering::Source;
use super::windows::{AutoPad, NAMES, Windows, kernel_of, pads, per_axis, torch_axes, windows};
use crate::convolution::ConvTranspose as TorchConvTranspose;
use crate::creation::matrices::Eye;
use crate::layout::padding::{Pad, PaddingMode};
use crate::layout::repetition::Repeat;
use crate::op::{LayerError, Result, Weight};
use crate::pooling::Fold;
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::choices::PerAxis;
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::{DType, Dim};

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
    /// `Col2Im` (since 18): blocks N×(C·k₁·k₂)×L placed on an image N×C×H×W, with overlapping values added; or on one of one
    /// or three axes.
    pub struct Col2Im for "Col2Im" {
        /// Distance between adjacent elements of a block; 1 if absent.
        dilations: Option<Vec<i64>> = None,
        /// Elements cropped at the start of each output axis, then at the end of each; none if absent.
        pads: Option<Vec<i64>> = None,
        /// Distance between adjacent blocks; 1 if absent.
        strides: Option<Vec<i64>> = None,
        /// H and W of the output, or its other lengths after the channels.
        image_shape: ParamOrInput<Vec<i64>>,
        /// k₁ and k₂, the size of a block along each axis.
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
        let axes = image.len();
        if block.len() != axes || !(1..=3).contains(&axes) {
            let reason = "expected 1 to 3 lengths, as many as `block_shape` has";
            return Err(LayerError::invalid("image_shape", format!("{image:?}"), reason));
        }
        let (ones, cut) = (vec![1; axes], pads(self.pads.as_deref(), axes)?);
        let kernel = per_axis("block_shape", Some(&block), &ones)?;
        let strides = per_axis("strides", self.strides.as_deref(), &ones)?;
        let dilations = per_axis("dilations", self.dilations.as_deref(), &ones)?;
        let blocks = Blocks { image, cut, kernel, strides, dilations };
        Ok(vec![if axes == 2 { blocks.folded(decomposition)? } else { blocks.transposed(decomposition)? }])
    }
}

/// Blocks that are placed on an image.
struct Blocks {
    image: Vec<i64>,
    /// The elements cropped before and after each axis.
    cut: Vec<(usize, usize)>,
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
}

impl Blocks {
    /// Places blocks on an image of two axes, as PyTorch does.
    fn folded(&self, decomposition: &mut Decomposition) -> Result<Source> {
        // The crop may differ at both ends, so compute the full image first.
        let cut = self.cut.iter().map(|cut| (cut.0 + cut.1) as i64);
        let whole = self.image.iter().zip(cut).map(|(len, cut)| len.saturating_add(cut)).collect();
        let fold = Fold {
            output_size: ParamOrInput::Value(whole),
            kernel_size: torch_axes(&self.kernel),
            dilation: torch_axes(&self.dilations),
            padding: PerAxis::all(0),
            stride: torch_axes(&self.strides),
        };
        let laid = decomposition.then(fold, &[X])?;
        let pad = self.cut.iter().rev().flat_map(|cut| [-(cut.0 as i64), -(cut.1 as i64)]).collect();
        padded(decomposition, laid, pad)
    }

    /// Places blocks on an image of any number of axes: a transposed convolution, whose weights place every element of a block
    /// in its position.
    fn transposed(&self, decomposition: &mut Decomposition) -> Result<Source> {
        let signed = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
        let meta = decomposition.meta(X)?.clone();
        let taps = self.kernel.iter().fold(1usize, |taps, len| taps.saturating_mul(*len));
        let rows = match meta.dims() {
            [_, rows, _] => rows.fixed().and_then(|rows| usize::try_from(rows).ok()),
            _ => None,
        };
        let Some(rows) = rows.filter(|rows| rows % taps == 0) else {
            let wanted = format!("N×(C·{taps})×L, with a known C");
            return Err(LayerError::shape("the input", wanted, meta));
        };
        // The positions of blocks along each axis, and the lengths that they cover.
        let (mut dims, mut pad) = (vec![meta.dims()[0].clone(), Dim::from(rows)], Vec::new());
        for (axis, &len) in self.image.iter().enumerate() {
            let (before, after) = self.cut[axis];
            let reach = (self.kernel[axis] - 1).saturating_mul(self.dilations[axis]).saturating_add(1);
            let room = len.saturating_add(signed(before + after)).saturating_sub(signed(reach));
            if len < 0 || room < 0 {
                let found = format!("{:?}", self.image);
                return Err(LayerError::invalid("image_shape", found, "it must have room for a block"));
            }
            let steps = room / signed(self.strides[axis]);
            dims.push(Dim::Fixed(steps + 1));
            let covered = steps.saturating_mul(signed(self.strides[axis])).saturating_add(signed(reach));
            pad.push([-signed(before), len.saturating_add(signed(before)).saturating_sub(covered)]);
        }
        let x = decomposition.reshape(dims, X)?;
        let w = self.places(decomposition, rows, taps, meta.dtype())?;
        let layer = TorchConvTranspose {
            in_channels: None,
            out_channels: None,
            kernel_size: None,
            stride: torch_axes(&self.strides),
            padding: PerAxis::all(0),
            output_padding: PerAxis::all(0),
            dilation: torch_axes(&self.dilations),
            groups: rows / taps,
            weight: Weight::Input(1),
            bias: None,
            output_size: None,
            epilogue: None,
            ready: ShapeCache::default(),
            on_device: Default::default(),
        };
        let laid =
            decomposition.then_as(format!("F.conv_transpose{}d", self.kernel.len()), layer, &[x, w])?;
        padded(decomposition, laid, pad.into_iter().rev().flatten().collect())
    }

    /// The weights that place every element of a block: a one in its position, for each channel.
    fn places(
        &self,
        decomposition: &mut Decomposition,
        rows: usize,
        taps: usize,
        dtype: DType,
    ) -> Result<Source> {
        let ones = decomposition.call::<Eye>(&[("n", &taps.to_string())], &[], 1)?;
        let ones = decomposition.cast(ones, dtype)?;
        let dims = [taps, 1].iter().chain(&self.kernel).map(|&len| Dim::from(len)).collect();
        let ones = decomposition.reshape(dims, ones)?;
        let mut sizes = vec![1; self.kernel.len() + 2];
        sizes[0] = i64::try_from(rows / taps).unwrap_or(i64::MAX);
        decomposition.then(Repeat { sizes: ParamOrInput::Value(sizes) }, &[ones])
    }
}

/// Zeros added around a source; negative numbers crop it.
fn padded(decomposition: &mut Decomposition, x: Source, pad: Vec<i64>) -> Result<Source> {
    let pad = Pad { pad: ParamOrInput::Value(pad), mode: PaddingMode::Constant, value: None };
    decomposition.then(pad, &[x])
}

operators! { entry => ConvTranspose, Col2Im; category Weighted }
