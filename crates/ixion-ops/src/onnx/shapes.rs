//! Operators on shapes: permuting, broadcasting, slicing, padding and cropping, and tensors that depend on a shape
//! alone.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::edges::{Ends, Fit};
use super::fields::{ElementType, Flag, List, numbers};
use super::lowering::Source;
use crate::arithmetic::binary::Numel;
use crate::creation::filled::OnesLike;
use crate::indexing::selection::Where;
use crate::layout::axes::Permute;
use crate::layout::diagonals::{Tril, Triu};
use crate::layout::movement::ReverseAxes;
use crate::layout::padding::{Pad as TorchPad, PaddingMode};
use crate::layout::repetition::Flip;
use crate::layout::shuffling::PixelShuffle;
use crate::layout::slicing::Slice as TorchSlice;
use crate::op::{LayerError, Result};
use crate::support::arguments::{InputCount, ParamOrInput};
use crate::support::broadcast::{TensorOrScalar, broadcast};
use crate::support::choices::choices;
use ixion_tensor::{DType, Dim, resolve_axes};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `Size` (since 1): the number of elements.
    pub struct Size for "Size" {}
}

crate::operator! {
    /// `Transpose` (since 1): the axes permuted.
    pub struct Transpose for "Transpose" {
        /// The permutation; the axes are reversed if absent.
        perm: Option<Vec<i64>> = None,
    }
}

crate::operator! {
    /// `Expand` (since 8): the input broadcast against a shape; either may have axes of length 1.
    pub struct Expand for "Expand" {
        /// The shape, as a parameter or an input.
        shape: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `Slice` (since 10): a slice of a tensor along some axes, also with negative steps.
    pub struct Slice for "Slice" {
        /// Start indices. Negative ones count from the end; ones that are out of range are clamped.
        starts: List,
        /// End indices, exclusive.
        ends: List,
        /// Axes to slice; the first ones if absent. Negative ones count from the end.
        axes: List = None,
        /// Steps, backwards if negative; 1 if absent.
        steps: List = None,
    }
    validate |slice| {
        match (&slice.starts, &slice.ends) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err(LayerError::InvalidParameter {
                key: "starts",
                found: "None".to_owned(),
                reason: "`starts` and `ends` are required".to_owned(),
            }),
        }
    }
}

choices! {
    /// The values of the padding.
    pub enum PadMode {
        /// A constant.
        Constant = "constant",
        /// The tensor mirrored at its edge, without repeating the edge element.
        Reflect = "reflect",
        /// The edge element repeated.
        Edge = "edge",
        /// The tensor's opposite end.
        Wrap = "wrap",
    }
}

crate::operator! {
    /// `Pad` (since 2): padding at the start and the end of axes. A negative amount crops elements.
    pub struct Pad for "Pad" {
        /// The values of the padding.
        mode: PadMode = PadMode::Constant,
        /// Padding at the start of each axis, then at the end of each.
        pads: ParamOrInput<Vec<i64>>,
        /// The value of mode `constant`, if it is a parameter.
        value: Option<f64> = None,
        /// The axes, if they are a parameter; all if absent. Negative ones count from the end.
        axes: Option<Vec<i64>> = None,
        /// Number of inputs: the value and then the axes may follow the input and `pads`.
        inputs: InputCount,
    }
}

choices! {
    /// The order of the block elements among the channels.
    pub enum Shuffle {
        /// Depth, column, row: channels are split into block rows, block columns and output channels, in this order.
        DepthFirst = "DCR",
        /// Column, row, depth: channels are split into output channels, block rows and block columns, in this order.
        ColumnsFirst = "CRD",
    }
}

crate::operator! {
    /// `DepthToSpace` (since 1): N×C·b²×H×W with the channels rearranged into blocks of b×b pixels, N×C×bH×bW.
    pub struct DepthToSpace for "DepthToSpace" {
        /// b, the length of a block.
        blocksize: i64,
        /// The order of the block elements among the channels.
        mode: Shuffle = Shuffle::DepthFirst,
    }
    validate |layer| {
        if (1..=1 << 20).contains(&layer.blocksize) {
            return Ok(());
        }
        Err(LayerError::invalid("blocksize", layer.blocksize, "it must be between 1 and 1048576"))
    }
}

crate::operator! {
    /// `CenterCropPad` (since 18): axes cropped around the middle of the tensor, or padded with zeros on both sides.
    pub struct CenterCropPad for "CenterCropPad" {
        /// The axes; all if absent. Negative ones count from the end.
        axes: Option<Vec<i64>> = None,
        /// Output lengths of the axes.
        shape: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `Trilu` (since 14): the upper or the lower triangle of each matrix, with zeros elsewhere.
    pub struct Trilu for "Trilu" {
        /// Whether the upper triangle is kept, instead of the lower.
        upper: Flag = Flag::of(1),
        /// The diagonal that bounds the triangle, relative to the main one; 0 if absent.
        k: List = None,
    }
}

crate::operator! {
    /// `EyeLike` (since 9): ones on a diagonal of a matrix and zeros elsewhere, in the shape of the input.
    pub struct EyeLike for "EyeLike" {
        /// Element type of the output, as its ONNX number; that of the input if absent.
        dtype: Option<ElementType> = None,
        /// The diagonal, relative to the main one.
        k: i64 = 0,
    }
}

impl Decompose for Size {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        Ok(vec![decomposition.then(Numel {}, &[X])?])
    }
}

impl Decompose for Transpose {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dims", "perm")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        Ok(vec![match &self.perm {
            Some(perm) => decomposition.then(Permute { dims: perm.clone() }, &[X])?,
            None => decomposition.then(ReverseAxes {}, &[X])?,
        }])
    }
}

impl Decompose for Expand {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let shape = self.shape.dims(decomposition.inputs())?;
        let dims = broadcast(decomposition.meta(X)?.dims(), &shape)?;
        Ok(vec![decomposition.broadcast(dims, X)?])
    }
}

impl Decompose for Slice {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dims", "axes"), ("step", "steps")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let inputs = decomposition.inputs();
        let bounds = self.starts.as_ref().map(|starts| starts.dims(inputs)).transpose()?.unwrap_or_default();
        let count = bounds.len();
        let axes = numbers("axes", &self.axes, inputs)?;
        let axes = axes.unwrap_or_else(|| (0..i64::try_from(count).unwrap_or(0)).collect());
        let steps = numbers("steps", &self.steps, inputs)?.unwrap_or_else(|| vec![1; axes.len()]);
        let turned: Vec<i64> =
            axes.iter().zip(&steps).filter(|(_, step)| **step < 0).map(|(axis, _)| *axis).collect();
        if turned.is_empty() {
            let sources: Vec<Source> = (0..inputs.len()).map(Source::Input).collect();
            let (dims, steps) = (Some(axes), Some(ParamOrInput::Value(steps)));
            // A slice with known bounds is a view.
            let known = |list: &List| {
                let numbers = numbers("starts", list, inputs).ok().flatten();
                numbers.map(ParamOrInput::Value).or_else(|| list.clone())
            };
            let slice = part(dims, known(&self.starts), known(&self.ends), steps);
            // The slice reads only the bounds that are inputs.
            let (slice, sources) = with_bounds(slice, &sources);
            return Ok(vec![decomposition.then(slice, &sources)?]);
        }
        // Axes with negative steps are flipped: index i becomes −1 − i.
        let [starts, ends] = [("starts", &self.starts), ("ends", &self.ends)].map(|(key, list)| {
            let mut numbers = numbers(key, list, decomposition.inputs())?.unwrap_or_default();
            for (number, step) in numbers.iter_mut().zip(&steps) {
                *number = if *step < 0 { !*number } else { *number };
            }
            Ok::<_, LayerError>(Some(ParamOrInput::Value(numbers)))
        });
        let steps = steps.iter().map(|step| step.saturating_abs()).collect();
        let flipped = decomposition.then(Flip { dims: turned }, &[X])?;
        let slice = part(Some(axes), starts?, ends?, Some(ParamOrInput::Value(steps)));
        Ok(vec![decomposition.then(slice, &[flipped])?])
    }
}

/// A slice along several axes.
pub(super) fn part(dims: Option<Vec<i64>>, starts: List, ends: List, steps: List) -> TorchSlice {
    TorchSlice {
        dim: None,
        start: None,
        end: None,
        step: None,
        select: None,
        dims,
        starts,
        ends,
        steps,
        selects: None,
    }
}

/// The slice with its input bounds renumbered from 1, and the sources that it reads.
fn with_bounds(mut slice: TorchSlice, sources: &[Source]) -> (TorchSlice, Vec<Source>) {
    let mut used = vec![X];
    for bounds in [&mut slice.starts, &mut slice.ends] {
        if let Some(ParamOrInput::Input(position)) = bounds {
            used.extend(sources.get(*position));
            *position = used.len() - 1;
        }
    }
    (slice, used)
}

/// The padding of some axes in PyTorch's form: two values per axis, the last axis first.
fn torch_pads(axes: &[usize], rank: usize, before: &[i64], after: &[i64]) -> Vec<i64> {
    let mut pads = vec![0; 2 * rank];
    for (axis, (before, after)) in axes.iter().zip(before.iter().zip(after)) {
        let place = 2 * (rank - 1 - axis);
        pads[place] = *before;
        pads[place + 1] = *after;
    }
    while pads.len() > 2 && pads.ends_with(&[0, 0]) {
        pads.truncate(pads.len() - 2);
    }
    pads
}

impl Pad {
    /// The value and the axes. Constants are not inputs, so that a single further input may be either.
    fn value_and_axes(&self, decomposition: &Decomposition) -> Result<(Option<Source>, List)> {
        let first = 1 + self.pads.num_inputs();
        let axes = |position| {
            self.axes
                .clone()
                .map_or(Some(ParamOrInput::Input(position)), |axes| Some(ParamOrInput::Value(axes)))
        };
        match self.inputs.0.saturating_sub(first) {
            0 => Ok((None, self.axes.clone().map(ParamOrInput::Value))),
            1 => {
                let source = Source::Input(first);
                let is_value =
                    self.value.is_none() && decomposition.dtype(source)? == decomposition.dtype(X)?;
                Ok(match is_value {
                    true => (Some(source), self.axes.clone().map(ParamOrInput::Value)),
                    false => (None, axes(first)),
                })
            }
            _ => Ok((Some(Source::Input(first)), axes(first + 1))),
        }
    }
}

impl Decompose for Pad {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("pad", "pads")]
    }

    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        let least = 1 + self.pads.num_inputs();
        Some(least..=least + 2)
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let rank = decomposition.rank(X)?;
        let pads = numbers("pads", &Some(self.pads.clone()), decomposition.inputs())?.unwrap_or_default();
        let (value, axes) = self.value_and_axes(decomposition)?;
        let axes = match numbers("axes", &axes, decomposition.inputs())? {
            Some(axes) => resolve_axes(&axes, rank)?,
            None => (0..rank).collect(),
        };
        if pads.len() != 2 * axes.len() || axes.iter().any(|axis| *axis >= rank) {
            let reason = format!("expected two values for each of {} axes", axes.len());
            return Err(LayerError::invalid("pads", format!("{pads:?}"), reason));
        }
        let (before, after) = pads.split_at(axes.len());
        let pads = torch_pads(&axes, rank, before, after);
        let mode = match self.mode {
            PadMode::Constant => PaddingMode::Constant,
            PadMode::Reflect => PaddingMode::Reflect,
            PadMode::Edge => PaddingMode::Replicate,
            PadMode::Wrap => PaddingMode::Circular,
        };
        let layer = |value| TorchPad { pad: ParamOrInput::Value(pads.clone()), mode, value };
        let padded = decomposition.then(layer(self.value), &[X])?;
        let (Some(value), PadMode::Constant) = (value, self.mode) else {
            return Ok(vec![padded]);
        };
        let inside = OnesLike { dtype: Some(DType::Bool), memory_format: None };
        let inside = decomposition.then(inside, &[X])?;
        let inside = decomposition.then(layer(Some(0.0)), &[inside])?;
        let dtype = decomposition.dtype(X)?;
        let value = decomposition.reshape(Vec::new(), value)?;
        let value = decomposition.cast(value, dtype)?;
        let choose = Where { input: TensorOrScalar::Input(1), other: TensorOrScalar::Input(2) };
        Ok(vec![decomposition.then(choose, &[inside, padded, value])?])
    }
}

impl Decompose for DepthToSpace {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("upscale_factor", "blocksize")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if self.mode == Shuffle::ColumnsFirst {
            let upscale_factor = usize::try_from(self.blocksize).unwrap_or(1);
            return Ok(vec![decomposition.then(PixelShuffle { upscale_factor }, &[X])?]);
        }
        let (meta, block) = (decomposition.meta(X)?, Dim::Fixed(self.blocksize));
        let [count, channels, rows, columns] = meta.dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", meta));
        };
        let (count, rows, columns) = (count.clone(), rows.clone(), columns.clone());
        let channels = channels.clone().floor_div(block.clone() * block.clone());
        let (b, c) = (block.clone(), channels.clone());
        let parts = vec![count.clone(), b.clone(), b, c, rows.clone(), columns.clone()];
        let parts = decomposition.reshape(parts, X)?;
        let turned = decomposition.then(Permute { dims: vec![0, 3, 4, 1, 5, 2] }, &[parts])?;
        let dims = vec![count, channels, rows * block.clone(), columns * block];
        Ok(vec![decomposition.reshape(dims, turned)?])
    }
}

impl Decompose for CenterCropPad {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let rank = decomposition.rank(X)?;
        let wanted = numbers("shape", &Some(self.shape.clone()), decomposition.inputs())?.unwrap_or_default();
        let axes = match &self.axes {
            Some(axes) => resolve_axes(axes, rank)?,
            None => (0..rank).collect(),
        };
        let lens: Option<Vec<usize>> = wanted.iter().map(|len| usize::try_from(*len).ok()).collect();
        let Some(lens) = lens.filter(|lens| lens.len() == axes.len()) else {
            let reason = format!("expected {} lengths of at least 0", axes.len());
            return Err(LayerError::invalid("shape", format!("{wanted:?}"), reason));
        };
        let lens = axes.into_iter().zip(lens).collect();
        Ok(vec![decomposition.step(Fit { lens, ends: Ends::Both }, &[X])?])
    }
}

impl Decompose for Trilu {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("diagonal", "k")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let k = numbers("k", &self.k, decomposition.inputs())?.unwrap_or_default();
        let diagonal = k.first().copied().unwrap_or(0);
        Ok(vec![match self.upper.0 {
            true => decomposition.then(Triu { diagonal }, &[X])?,
            false => decomposition.then(Tril { diagonal }, &[X])?,
        }])
    }
}

impl Decompose for EyeLike {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let dtype = self.dtype.map_or(decomposition.dtype(X)?, |dtype| dtype.0);
        let ones = decomposition.then(OnesLike { dtype: Some(dtype), memory_format: None }, &[X])?;
        let upper = decomposition.then(Triu { diagonal: self.k }, &[ones])?;
        Ok(vec![decomposition.then(Tril { diagonal: self.k }, &[upper])?])
    }
}

operators! {
    entry => Size, Transpose, Expand, Slice, Pad, DepthToSpace, CenterCropPad, Trilu, EyeLike; category Shape
}
