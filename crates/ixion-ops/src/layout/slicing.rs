//! Slicing several axes, and writing to slices.

mod select;

use super::parts::clamped_index;
use crate::op::{
    CpuLayer, FromOperator, FromParameter, Io, Layer, LayerError, Result, RuntimeParameter, TensorMeta, View,
    exactly,
};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::broadcast::broadcasts;
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Layout, Shape, TensorError, TensorView, TensorViewMut};
pub use select::{Indices, RankStays, Select};
use std::ops::RangeInclusive;

/// An optional index.
type Bound = Option<ParamOrInput<i64>>;

/// Optional indices, one for each axis that is sliced.
type Bounds = Option<ParamOrInput<Vec<i64>>>;

/// The value that PNNX writes in `selects` for an axis that is sliced and not selected from.
const NOT_SELECTED: i64 = i32::MAX as i64;

macro_rules! slice_operators {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($op_type:literal),+ { $($fields:tt)* }
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                $($fields)*
                /// The axis to slice, if there is only one; a negative value counts from the end.
                dim: Option<i64> = None,
                /// The start of the slice; by default 0. Like all bounds, it may be negative, to count from the end, and is
                /// clamped to the axis.
                start: Bound = None,
                /// The end of the slice, exclusive; by default the length of the axis.
                end: Bound = None,
                /// The step of the slice; by default 1.
                step: Bound = None,
                /// The index to select from `dim`, which removes the axis; 2147483647 if the axis is sliced.
                select: Bound = None,
                /// Instead of `dim`: the axes of the input to slice or to select from.
                dims: Option<Vec<i64>> = None,
                /// The start of the slice of each of `dims`.
                starts: Bounds = None,
                /// The end of the slice of each of `dims`, exclusive.
                ends: Bounds = None,
                /// The step of the slice of each of `dims`.
                steps: Bounds = None,
                /// The index to select from each of `dims`, which removes the axis; 2147483647 if the axis is sliced.
                selects: Bounds = None,
            }
            validate |slice| { slice.region().check() }
        }

        impl $name {
            fn region(&self) -> Region<'_> {
                Region {
                    one: [&self.start, &self.end, &self.step, &self.select],
                    dim: self.dim,
                    dims: self.dims.as_deref(),
                    many: [&self.starts, &self.ends, &self.steps, &self.selects],
                }
            }
        }
    )*};
}

slice_operators! {
    /// `x[start:end:step, …, index]`: returns a slice of the input. A view, unless the graph computes indices.
    Slice for "Tensor.slice", "aten::slice" {}

    /// `x[…] = src` as a function: returns a copy of the input in which a slice is replaced by another tensor, broadcast to the
    /// slice. Without any of the other keys, the slice is the whole input.
    SliceCopy for "Tensor.slice_copy", "torch.slice_scatter", "Tensor.copy", "aten::copy" {
        /// The tensor that replaces the slice.
        src: InputIndex,
    }
}

/// The parameters of a slice, in either of two forms.
struct Region<'a> {
    one: [&'a Bound; 4],
    dim: Option<i64>,
    dims: Option<&'a [i64]>,
    many: [&'a Bounds; 4],
}

/// An operation on one axis.
enum Cut {
    /// Selects one index and removes the axis.
    Select { axis: usize, index: Dim },
    /// Takes every `step`-th element of `start..end`; both bounds are clamped to the axis.
    Slice { axis: usize, start: Dim, end: Dim, step: Dim },
}

impl Region<'_> {
    /// Returns true if a key of the form for one axis is given.
    fn has_one(&self) -> bool {
        self.dim.is_some() || self.one.iter().any(|bound| bound.is_some())
    }

    /// Refuses keys of the form that is not used, because they would be ignored.
    fn check(&self) -> Result<()> {
        let many = self.many.iter().any(|bounds| bounds.is_some());
        let reason = match self.dims {
            Some(_) if self.has_one() => {
                "with `dims`, the keys `dim`, `start`, `end`, `step` and `select` have no meaning"
            }
            None if many => {
                "without `dims`, the keys `starts`, `ends`, `steps` and `selects` have no meaning"
            }
            _ => return Ok(()),
        };
        Err(LayerError::Unsupported(reason.to_owned()))
    }

    /// The operations on the axes, given the inputs.
    fn cuts(&self, inputs: &[TensorMeta]) -> Result<Vec<Cut>> {
        let Some(dims) = self.dims else {
            if !self.has_one() {
                return Ok(Vec::new());
            }
            let axis = axis_of(self.dim.unwrap_or(0), &inputs[0])?;
            let [start, end, step, index] = self.one;
            if let Some(index) = value(index, inputs)?.filter(|index| *index != NOT_SELECTED) {
                return Ok(vec![select(&inputs[0], axis, index)?]);
            }
            let bounds = [value(start, inputs)?, value(end, inputs)?, value(step, inputs)?];
            return Ok(vec![slice(&inputs[0], axis, bounds)?]);
        };
        let [starts, ends, steps, selects] = self.many;
        let lists = [("starts", starts), ("ends", ends), ("steps", steps), ("selects", selects)];
        let [starts, ends, steps, selects] = lists.map(|(key, bounds)| list(key, bounds, inputs, dims.len()));
        let (starts, ends, steps, selects) = (starts?, ends?, steps?, selects?);
        let axes: Vec<usize> = dims.iter().map(|&dim| axis_of(dim, &inputs[0])).collect::<Result<_, _>>()?;
        if axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis)) {
            return Err(LayerError::invalid("dims", format!("{dims:?}"), "it names an axis twice"));
        }
        let mut cuts = Vec::with_capacity(dims.len());
        for (i, axis) in axes.into_iter().enumerate() {
            let at = |list: &Option<Vec<Dim>>| list.as_ref().map(|list| list[i].clone());
            cuts.push(match at(&selects).filter(|index| *index != NOT_SELECTED) {
                Some(index) => select(&inputs[0], axis, index)?,
                None => slice(&inputs[0], axis, [at(&starts), at(&ends), at(&steps)])?,
            });
        }
        Ok(cuts)
    }
}

fn value(bound: &Bound, inputs: &[TensorMeta]) -> Result<Option<Dim>> {
    bound.as_ref().map(|bound| bound.dim(inputs)).transpose()
}

fn list(key: &'static str, bounds: &Bounds, inputs: &[TensorMeta], count: usize) -> Result<Option<Vec<Dim>>> {
    let Some(bounds) = bounds else { return Ok(None) };
    let values = bounds.dims(inputs)?;
    if values.len() == count {
        return Ok(Some(values));
    }
    let found: Vec<String> = values.iter().map(Dim::to_string).collect();
    let reason = format!("expected one value for each of the {count} axes in `dims`");
    Err(LayerError::invalid(key, format!("({})", found.join(",")), reason))
}

fn select(input: &TensorMeta, axis: usize, index: Dim) -> Result<Cut> {
    let len = &input.dims()[axis];
    let position = if index.fixed().is_some_and(|index| index < 0) {
        len.clone() + index.clone()
    } else {
        index.clone()
    };
    let outside =
        position.fixed().zip(len.fixed()).is_some_and(|(position, len)| !(0..len).contains(&position));
    if outside || position.fixed().is_some_and(|position| position < 0) {
        let len = usize::try_from(len.fixed().unwrap_or(0)).unwrap_or(0);
        return Err(TensorError::OutOfRange { what: "index", index: index.fixed().unwrap_or(0), len }.into());
    }
    Ok(Cut::Select { axis, index: position })
}

fn slice(input: &TensorMeta, axis: usize, bounds: [Option<Dim>; 3]) -> Result<Cut> {
    let len = &input.dims()[axis];
    let [start, end, step] = bounds;
    let start = start.map_or(Dim::Fixed(0), |start| clamped_index(&start, len));
    let end = end.map_or(len.clone(), |end| clamped_index(&end, len));
    let step = step.unwrap_or(Dim::Fixed(1));
    if step.fixed().is_some_and(|step| step < 1) {
        return Err(LayerError::invalid("step", step, "it must be at least 1"));
    }
    Ok(Cut::Slice { axis, start, end, step })
}

/// The dimensions of the slice.
fn cut_dims(input: &TensorMeta, cuts: &[Cut]) -> Vec<Dim> {
    let mut dims: Vec<Option<Dim>> = input.dims().iter().cloned().map(Some).collect();
    for cut in cuts {
        match cut {
            Cut::Select { axis, .. } => dims[*axis] = None,
            Cut::Slice { axis, start, end, step } if *start == 0usize => {
                dims[*axis] = Some(end.clone().ceil_div(step.clone()));
            }
            Cut::Slice { axis, start, end, step } => {
                dims[*axis] = Some((end.clone() - start.clone()).max(0).ceil_div(step.clone()));
            }
        }
    }
    dims.into_iter().flatten().collect()
}

/// The values of the slice of a vector whose values are known.
fn cut_values(input: &TensorMeta, cuts: &[Cut]) -> Option<Vec<Dim>> {
    let values = input.values().filter(|_| input.rank() == 1)?;
    let number = |dim: &Dim| usize::try_from(dim.fixed()?).ok();
    match cuts {
        [Cut::Select { index, .. }] => Some(vec![values.get(number(index)?)?.clone()]),
        [Cut::Slice { start, end, step, .. }] => {
            let (start, end) = (number(start)?, number(end)?);
            let part = values.get(start.min(end)..end)?;
            Some(part.iter().step_by(number(step)?.max(1)).cloned().collect())
        }
        _ => None,
    }
}

/// The layout of the slice, for a tensor of known sizes.
fn cut_layout(mut layout: Layout, cuts: &[Cut]) -> Result<Layout> {
    let number = |dim: &Dim| {
        let number = dim.fixed().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| TensorError::InvalidArgument(format!("{dim} is not a valid index")))
    };
    let mut selected = Vec::new();
    for cut in cuts {
        match cut {
            Cut::Select { axis, index } => {
                layout = layout.narrow(*axis, number(index)?, 1)?;
                selected.push(*axis);
            }
            Cut::Slice { axis, start, end, step } => {
                let (start, end) = (number(start)?, number(end)?);
                layout = layout.slice(*axis, start.min(end), end, number(step)?)?;
            }
        }
    }
    selected.sort_unstable();
    for axis in selected.into_iter().rev() {
        layout = layout.squeeze(axis)?;
    }
    Ok(layout)
}

impl Layer for Slice {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let cuts = self.region().cuts(inputs)?;
        let part = inputs[0].with_dims(cut_dims(&inputs[0], &cuts));
        Ok(vec![match cut_values(&inputs[0], &cuts) {
            Some(values) => part.with_values(values),
            None => part,
        }])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        if self.field_inputs() > 0 {
            return Ok(None);
        }
        let input = TensorMeta::new(DType::U8, inputs[0].shape().iter().copied());
        let layout = cut_layout(inputs[0], &self.region().cuts(&[input])?)?;
        Ok(Some(View { input: 0, layout }))
    }
}

impl CpuLayer for Slice {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let part = cut_layout(*io.inputs[0].layout(), &self.region().cuts(&TensorMeta::of_all(io.inputs))?)?;
        Ok(io.outputs[0].copy_from(&io.inputs[0].with_layout(part)?)?)
    }
}

impl SliceCopy {
    /// Returns true if all bounds are in the file.
    pub fn is_of_file(&self) -> bool {
        // The source is the only input that is not a bound.
        self.field_inputs() == 1
    }

    /// The slice of an output that the source replaces.
    ///
    /// # Errors
    /// Returns an error if the bounds do not fit the inputs.
    pub fn part(&self, inputs: &[TensorMeta], output: Layout) -> Result<Layout> {
        cut_layout(output, &self.region().cuts(inputs)?)
    }

    /// Writes the source to its slice of `output`.
    fn write(&self, cuts: &[Cut], source: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let part = cut_layout(*output.layout(), cuts)?;
        let source = source.with_layout(source.layout().expand(part.shape())?)?;
        let mut part = output.reborrow().with_layout(part)?;
        if source.dtype() == part.dtype() {
            return Ok(part.copy_from(&source)?);
        }
        Ok(part.copy_from(&source.cast(part.dtype())?.view())?)
    }
}

impl Layer for SliceCopy {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let part = cut_dims(&inputs[0], &self.region().cuts(inputs)?);
        let source = &inputs[self.src.0];
        if !broadcasts(source.dims(), &part) {
            let wanted = format!("a shape that broadcasts to {}", inputs[0].with_dims(part));
            return Err(LayerError::shape("the source", wanted, source));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for SliceCopy {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[0])?;
        let cuts = self.region().cuts(&TensorMeta::of_all(io.inputs))?;
        self.write(&cuts, &io.inputs[self.src.0], &mut io.outputs[0])
    }
}

crate::operator! {
    /// `pnnx.SliceIndexes`: collects the indices for a slice of several axes, some of which the graph computes, in a vector of
    /// i64.
    pub struct SliceIndexes for "pnnx.SliceIndexes" {
        /// The indices; `@0` is the value of the first input, and so on.
        indexes: Indexes,
    }
}

/// The indices of [`SliceIndexes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexes(Vec<ParamOrInput<i64>>);

impl FromParameter for Indexes {
    const KIND: &'static str = "a list of integers and inputs such as @0";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let list = parameter.raw().strip_prefix(['(', '[']).and_then(|rest| rest.strip_suffix([')', ']']));
        let index = |text: &str| match text.strip_prefix('@') {
            Some(position) => position.parse().ok().map(ParamOrInput::Input),
            None => text.parse().ok().map(ParamOrInput::Value),
        };
        list.unwrap_or(parameter.raw()).split(',').map(index).collect::<Option<_>>().map(Self)
    }
}

impl SliceIndexes {
    fn values(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
        self.indexes.0.iter().map(|index| index.dim(inputs)).collect()
    }
}

impl Layer for SliceIndexes {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let most = self.indexes.0.iter().map(|index| match index {
            ParamOrInput::Input(position) => position.saturating_add(1),
            ParamOrInput::Value(_) => 0,
        });
        exactly(most.max().unwrap_or(0))
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![TensorMeta::new(DType::I64, [self.indexes.0.len()]).with_values(self.values(inputs)?)])
    }
}

impl CpuLayer for SliceIndexes {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let values = self.values(&TensorMeta::of_all(io.inputs))?;
        let mut output = io.outputs[0].array::<i64>()?;
        output.iter_mut().zip(&values).for_each(|(output, value)| *output = value.fixed().unwrap_or(0));
        Ok(())
    }
}

operators! {
    Select: moves(Selected), Slice: moves(Sliced), SliceCopy, SliceIndexes;
    overload "aten::copy"(self, src, non_blocking)
}

#[cfg(test)]
mod tests;
