//! Shapes: what lies elsewhere, is repeated, cut off or added, and what is made from a shape alone.

use super::edges::{Ends, Fit};
use super::fields::{ElementType, Flag, List, count, numbers};
use super::recipe::{Recipe, Source};
use super::steps::{Broadcast, InShape};
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::arithmetic::binary::Numel;
use crate::ops::creation::filled::OnesLike;
use crate::ops::indexing::selection::Where;
use crate::ops::layout::axes::Permute;
use crate::ops::layout::diagonals::{Tril, Triu};
use crate::ops::layout::movement::ReverseAxes;
use crate::ops::layout::padding::{Pad as TorchPad, PaddingMode};
use crate::ops::layout::repetition::Flip;
use crate::ops::layout::shuffling::PixelShuffle;
use crate::ops::layout::slicing::Slice as TorchSlice;
use crate::ops::support::arguments::{Argument, InputCount};
use crate::ops::support::broadcast::{Factor, broadcast};
use crate::ops::support::choices::choices;
use crate::tensor::{DType, Dim, resolve_axes};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `Size` (since 1): the number of elements.
    pub struct Size for "Size" {}
}

crate::operator! {
    /// `Transpose` (since 1): the axes in another order.
    pub struct Transpose for "Transpose" {
        /// The order; the reverse where absent.
        perm: Option<Vec<i64>> = None,
    }
}

crate::operator! {
    /// `Expand` (since 8): the input broadcast against a shape, either of which may have axes of length 1.
    pub struct Expand for "Expand" {
        /// The shape, where the file says it; else an input.
        shape: Argument<Vec<i64>>,
    }
}

crate::operator! {
    /// `Slice` (since 10): a part of a tensor, also backwards.
    pub struct Slice for "Slice" {
        /// Where the slices begin. All indices may count from the end and lie outside.
        starts: List,
        /// Where they end.
        ends: List,
        /// The axes that are sliced; all from the first on where absent. They may count from the end.
        axes: List = None,
        /// Every how many elements one is taken, backwards where below 0; 1 where absent.
        steps: List = None,
    }
    validate |slice| {
        match (&slice.starts, &slice.ends) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err(LayerError::InvalidParameter {
                key: "starts",
                found: "None".to_owned(),
                reason: "`starts` and `ends` are needed".to_owned(),
            }),
        }
    }
}

choices! {
    /// What stands outside of a tensor that is padded.
    pub enum PadMode {
        /// One value.
        Constant = "constant",
        /// The tensor mirrored at its edge, the edge element once.
        Reflect = "reflect",
        /// The edge element repeated.
        Edge = "edge",
        /// The other end of the tensor.
        Wrap = "wrap",
    }
}

crate::operator! {
    /// `Pad` (since 2): places added before and after axes. A negative number cuts elements off.
    pub struct Pad for "Pad" {
        /// What stands there.
        mode: PadMode = PadMode::Constant,
        /// How many places go before each axis, then how many after each.
        pads: Argument<Vec<i64>>,
        /// The value of mode `constant`, where the file says it.
        value: Option<f64> = None,
        /// The axes, where the file says them; all where absent. They may count from the end.
        axes: Option<Vec<i64>> = None,
        /// How many inputs there are: behind the input and `pads` the value, then the axes.
        inputs: InputCount,
    }
}

choices! {
    /// How channels become places.
    pub enum Shuffle {
        /// The first of the parts of the channels are the rows, then come the columns.
        DepthFirst = "DCR",
        /// The last of the parts of the channels are the columns, before them come the rows.
        ColumnsFirst = "CRD",
    }
}

crate::operator! {
    /// `DepthToSpace` (since 1): N×C·b²×H×W with its channels spread over blocks of b×b places, N×C×bH×bW.
    pub struct DepthToSpace for "DepthToSpace" {
        /// b.
        blocksize: i64,
        /// Which channels come to which place.
        mode: Shuffle = Shuffle::DepthFirst,
    }
    validate |layer| {
        if (1..=1 << 20).contains(&layer.blocksize) {
            return Ok(());
        }
        Err(LayerError::invalid("blocksize", layer.blocksize, "it must be at least 1, and not absurdly large"))
    }
}

crate::operator! {
    /// `CenterCropPad` (since 18): the middle of a tensor, or a tensor in the middle of zeros.
    pub struct CenterCropPad for "CenterCropPad" {
        /// The axes; all where absent. They may count from the end.
        axes: Option<Vec<i64>> = None,
        /// The lengths of the axes in the output.
        shape: Argument<Vec<i64>>,
    }
}

crate::operator! {
    /// `Trilu` (since 14): the upper or the lower triangle of each matrix, and zeros elsewhere.
    pub struct Trilu for "Trilu" {
        /// Whether it is the upper triangle.
        upper: Flag = Flag::of(1),
        /// The diagonal where it ends, counted from the main one; 0 where absent.
        k: List = None,
    }
}

crate::operator! {
    /// `EyeLike` (since 9): ones on a diagonal of a matrix, and zeros elsewhere, in the shape of the input.
    pub struct EyeLike for "EyeLike" {
        /// The element type of the output, by its number; that of the input where absent.
        dtype: Option<ElementType> = None,
        /// The diagonal, counted from the main one.
        k: i64 = 0,
    }
}

impl Translate for Size {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        Ok(vec![recipe.then(Numel {}, &[X])?])
    }
}

impl Translate for Transpose {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dims", "perm")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        Ok(vec![match &self.perm {
            Some(perm) => recipe.then(Permute { dims: perm.clone() }, &[X])?,
            None => recipe.then(ReverseAxes {}, &[X])?,
        }])
    }
}

impl Translate for Expand {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.shape.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let shape = self.shape.dims(recipe.inputs())?;
        let dims = broadcast(recipe.meta(X)?.dims(), &shape)?;
        Ok(vec![recipe.step(Broadcast(dims), &[X])?])
    }
}

impl Translate for Slice {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dims", "axes"), ("step", "steps")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let lists = [&self.starts, &self.ends, &self.axes, &self.steps];
        let count = 1 + lists.into_iter().map(count).sum::<usize>();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let inputs = recipe.inputs();
        let bounds = self.starts.as_ref().map(|starts| starts.dims(inputs)).transpose()?.unwrap_or_default();
        let count = bounds.len();
        let axes = numbers("axes", &self.axes, inputs)?;
        let axes = axes.unwrap_or_else(|| (0..i64::try_from(count).unwrap_or(0)).collect());
        let steps = numbers("steps", &self.steps, inputs)?.unwrap_or_else(|| vec![1; axes.len()]);
        let turned: Vec<i64> =
            axes.iter().zip(&steps).filter(|(_, step)| **step < 0).map(|(axis, _)| *axis).collect();
        if turned.is_empty() {
            let sources: Vec<Source> = (0..inputs.len()).map(Source::Input).collect();
            let (dims, steps) = (Some(axes), Some(Argument::Value(steps)));
            let slice = part(dims, self.starts.clone(), self.ends.clone(), steps);
            // The slice reads only those bounds that are inputs.
            let (slice, sources) = with_bounds(slice, &sources);
            return Ok(vec![recipe.then(slice, &sources)?]);
        }
        // Along axes that are sliced backwards, the input is turned: index i is there −1 − i.
        let [starts, ends] = [("starts", &self.starts), ("ends", &self.ends)].map(|(key, list)| {
            let mut numbers = numbers(key, list, recipe.inputs())?.unwrap_or_default();
            for (number, step) in numbers.iter_mut().zip(&steps) {
                *number = if *step < 0 { !*number } else { *number };
            }
            Ok::<_, LayerError>(Some(Argument::Value(numbers)))
        });
        let steps = steps.iter().map(|step| step.saturating_abs()).collect();
        let flipped = recipe.then(Flip { dims: turned }, &[X])?;
        let slice = part(Some(axes), starts?, ends?, Some(Argument::Value(steps)));
        Ok(vec![recipe.then(slice, &[flipped])?])
    }
}

/// A slice of several axes.
fn part(dims: Option<Vec<i64>>, starts: List, ends: List, steps: List) -> TorchSlice {
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

/// A slice whose bounds are inputs 1 and 2 where they are inputs, and these inputs.
fn with_bounds(mut slice: TorchSlice, sources: &[Source]) -> (TorchSlice, Vec<Source>) {
    let mut used = vec![X];
    for bounds in [&mut slice.starts, &mut slice.ends] {
        if let Some(Argument::Input(position)) = bounds {
            used.extend(sources.get(*position));
            *position = used.len() - 1;
        }
    }
    (slice, used)
}

/// The numbers before and after some axes as PyTorch has them: two for each axis, the last axis first.
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
    /// The value and the axes: constants are left out, so one input may be either.
    fn beside(&self, recipe: &Recipe) -> Result<(Option<Source>, List), LayerError> {
        let first = 1 + self.pads.num_inputs();
        let axes = |position| {
            self.axes.clone().map_or(Some(Argument::Input(position)), |axes| Some(Argument::Value(axes)))
        };
        match self.inputs.0.saturating_sub(first) {
            0 => Ok((None, self.axes.clone().map(Argument::Value))),
            1 => {
                let source = Source::Input(first);
                let is_value = self.value.is_none() && recipe.dtype(source)? == recipe.dtype(X)?;
                Ok(match is_value {
                    true => (Some(source), self.axes.clone().map(Argument::Value)),
                    false => (None, axes(first)),
                })
            }
            _ => Ok((Some(Source::Input(first)), axes(first + 1))),
        }
    }
}

impl Translate for Pad {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("pad", "pads")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let least = 1 + self.pads.num_inputs();
        least..=least + 2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let rank = recipe.rank(X)?;
        let pads = numbers("pads", &Some(self.pads.clone()), recipe.inputs())?.unwrap_or_default();
        let (value, axes) = self.beside(recipe)?;
        let axes = match numbers("axes", &axes, recipe.inputs())? {
            Some(axes) => resolve_axes(&axes, rank)?,
            None => (0..rank).collect(),
        };
        if pads.len() != 2 * axes.len() || axes.iter().any(|axis| *axis >= rank) {
            let reason = format!("two numbers for each of {} axes are needed", axes.len());
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
        let layer = |value| TorchPad { pad: Argument::Value(pads.clone()), mode, value };
        let padded = recipe.then(layer(self.value), &[X])?;
        let (Some(value), PadMode::Constant) = (value, self.mode) else {
            return Ok(vec![padded]);
        };
        let inside = OnesLike { dtype: Some(DType::Bool), memory_format: None };
        let inside = recipe.then(inside, &[X])?;
        let inside = recipe.then(layer(Some(0.0)), &[inside])?;
        let dtype = recipe.dtype(X)?;
        let value = recipe.step(InShape(Vec::new()), &[value])?;
        let value = recipe.cast(value, dtype)?;
        let choose = Where { input: Factor::Input(1), other: Factor::Input(2) };
        Ok(vec![recipe.then(choose, &[inside, padded, value])?])
    }
}

impl Translate for DepthToSpace {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("upscale_factor", "blocksize")]
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        if self.mode == Shuffle::ColumnsFirst {
            let upscale_factor = usize::try_from(self.blocksize).unwrap_or(1);
            return Ok(vec![recipe.then(PixelShuffle { upscale_factor }, &[X])?]);
        }
        let (meta, block) = (recipe.meta(X)?, Dim::Fixed(self.blocksize));
        let [count, channels, rows, columns] = meta.dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", meta));
        };
        let (count, rows, columns) = (count.clone(), rows.clone(), columns.clone());
        let channels = channels.clone().floor_div(block.clone() * block.clone());
        let (b, c) = (block.clone(), channels.clone());
        let parts = vec![count.clone(), b.clone(), b, c, rows.clone(), columns.clone()];
        let parts = recipe.step(InShape(parts), &[X])?;
        let turned = recipe.then(Permute { dims: vec![0, 3, 4, 1, 5, 2] }, &[parts])?;
        let dims = vec![count, channels, rows * block.clone(), columns * block];
        Ok(vec![recipe.step(InShape(dims), &[turned])?])
    }
}

impl Translate for CenterCropPad {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.shape.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let rank = recipe.rank(X)?;
        let wanted = numbers("shape", &Some(self.shape.clone()), recipe.inputs())?.unwrap_or_default();
        let axes = match &self.axes {
            Some(axes) => resolve_axes(axes, rank)?,
            None => (0..rank).collect(),
        };
        let lens: Option<Vec<usize>> = wanted.iter().map(|len| usize::try_from(*len).ok()).collect();
        let Some(lens) = lens.filter(|lens| lens.len() == axes.len()) else {
            let reason = format!("{} lengths of at least 0 are needed", axes.len());
            return Err(LayerError::invalid("shape", format!("{wanted:?}"), reason));
        };
        let lens = axes.into_iter().zip(lens).collect();
        Ok(vec![recipe.step(Fit { lens, ends: Ends::Both }, &[X])?])
    }
}

impl Translate for Trilu {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("diagonal", "k")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + count(&self.k);
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let k = numbers("k", &self.k, recipe.inputs())?.unwrap_or_default();
        let diagonal = k.first().copied().unwrap_or(0);
        Ok(vec![match self.upper.0 {
            true => recipe.then(Triu { diagonal }, &[X])?,
            false => recipe.then(Tril { diagonal }, &[X])?,
        }])
    }
}

impl Translate for EyeLike {
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let dtype = self.dtype.map_or(recipe.dtype(X)?, |dtype| dtype.0);
        let ones = recipe.then(OnesLike { dtype: Some(dtype), memory_format: None }, &[X])?;
        let upper = recipe.then(Triu { diagonal: self.k }, &[ones])?;
        Ok(vec![recipe.then(Tril { diagonal: self.k }, &[upper])?])
    }
}

operators! {
    entry => Size, Transpose, Expand, Slice, Pad, DepthToSpace, CenterCropPad, Trilu, EyeLike
}
