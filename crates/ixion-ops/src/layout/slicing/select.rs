//! Selecting one index of an axis, or a list of indices.

use super::{Cut, cut_dims, cut_layout, select};
use crate::op::{
    CpuLayer, FieldValue, FromOperator, FromParameter, Io, Layer, NO_KEY, OperatorReader, Result,
    RuntimeParameter, TensorMeta, View, Written, exactly,
};
use crate::support::arguments::ParamOrInput;
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Layout, Shape};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.select`: returns the slice at one index of an axis and removes the axis. A view, unless the graph computes the
    /// index. With a list of indices, which PNNX writes for ONNX's `Gather`, the axis is kept.
    pub struct Select for "Tensor.select", "aten::select", "torch.select" {
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The index, or a list of indices; negative values count from the end.
        index: ParamOrInput<Indices>,
        /// Whether a single index means a list of one index, so that the axis is kept.
        stays: RankStays,
    }
}

/// One index, or a list of indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indices {
    /// One index; the axis is removed.
    One(i64),
    /// A list of indices; the axis is kept.
    Many(Vec<i64>),
}

impl FromParameter for Indices {
    const KIND: &'static str = "an integer, or a list of integers";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let one = i64::from_parameter(parameter).map(Self::One);
        one.or_else(|| Vec::<i64>::from_parameter(parameter).map(Self::Many))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        match self {
            Self::One(index) => index.to_parameter(),
            Self::Many(indices) => indices.to_parameter(),
        }
    }
}

/// True if the file records the same number of axes for the output as for the input: PNNX writes a list of one index as a
/// single index. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankStays(pub bool);

impl FieldValue for RankStays {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let ranks = [reader.input_shape(0), reader.output_shape(0)].map(|shape| shape.map(<[_]>::len));
        Ok(Some(Self(ranks[0].is_some() && ranks[0] == ranks[1])))
    }

    fn written(&self) -> Written {
        if self.0 { Written::Unwritable } else { Written::Nothing }
    }
}

impl Select {
    fn cut(&self, inputs: &[TensorMeta], index: Dim) -> Result<Cut> {
        select(&inputs[0], axis_of(self.dim, &inputs[0])?, index)
    }

    /// The single index, given the inputs; `None` for a list.
    fn index(&self, inputs: &[TensorMeta]) -> Result<Option<Dim>> {
        match &self.index {
            ParamOrInput::Value(Indices::One(index)) => Ok(Some(Dim::Fixed(*index))),
            ParamOrInput::Value(Indices::Many(_)) => Ok(None),
            ParamOrInput::Input(position) => ParamOrInput::<i64>::Input(*position).dim(inputs).map(Some),
        }
    }

    /// The layout of the slice at one index.
    fn layout(&self, whole: Layout, cut: Cut) -> Result<Layout> {
        let axis = if let Cut::Select { axis, .. } = cut { axis } else { 0 };
        let part = cut_layout(whole, &[cut])?;
        let is_one = !matches!(self.index, ParamOrInput::Value(Indices::Many(_)));
        Ok(if is_one && self.stays.0 { part.unsqueeze(axis)? } else { part })
    }

    fn list(&self) -> &[i64] {
        match &self.index {
            ParamOrInput::Value(Indices::Many(list)) => list,
            _ => &[],
        }
    }
}

impl Layer for Select {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if let Some(index) = self.index(inputs)? {
            let mut dims = cut_dims(&inputs[0], &[self.cut(inputs, index)?]);
            if self.stays.0 {
                dims.insert(axis_of(self.dim, &inputs[0])?, Dim::Fixed(1));
            }
            return Ok(vec![inputs[0].with_dims(dims)]);
        }
        let (list, axis) = (self.list(), axis_of(self.dim, &inputs[0])?);
        list.iter().try_for_each(|index| self.cut(inputs, Dim::Fixed(*index)).map(drop))?;
        let mut dims = inputs[0].dims().to_vec();
        dims[axis] = Dim::from(list.len());
        Ok(vec![inputs[0].with_dims(dims)])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        let ParamOrInput::Value(Indices::One(index)) = self.index else { return Ok(None) };
        let input = TensorMeta::new(DType::U8, inputs[0].shape().iter().copied());
        let cut = self.cut(&[input], Dim::Fixed(index))?;
        Ok(Some(View { input: 0, layout: self.layout(inputs[0], cut)? }))
    }
}

impl CpuLayer for Select {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let metas = TensorMeta::of_all(io.inputs);
        let part = |index: Dim| self.layout(*io.inputs[0].layout(), self.cut(&metas, index)?);
        if let Some(index) = self.index(&metas)? {
            return Ok(io.outputs[0].copy_from(&io.inputs[0].with_layout(part(index)?)?)?);
        }
        let axis = axis_of(self.dim, &metas[0])?;
        for (position, index) in self.list().iter().enumerate() {
            let layout = io.outputs[0].layout().select(axis, position)?;
            let taken = io.inputs[0].with_layout(part(Dim::Fixed(*index))?)?;
            io.outputs[0].reborrow().with_layout(layout)?.copy_from(&taken)?;
        }
        Ok(())
    }
}
