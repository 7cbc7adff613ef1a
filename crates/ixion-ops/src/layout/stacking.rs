//! Stacking, splitting and broadcasting several tensors: hstack, atleast_1d, hsplit and similar, broadcast_tensors, meshgrid.

use super::concatenation::Cat;
use super::parts::TensorSplit;
use crate::op::{CpuLayer, FromParameter, Io, Layer, LayerError, Result, RuntimeParameter, TensorMeta, View};
use crate::support::arguments::{InputCount, OutputCount};
use crate::support::broadcast::broadcast;
use crate::support::choices::choices;
use crate::support::delegation::delegating;
use crate::support::views::view_layers;
use ixion_tensor::{Dim, Layout, Shape};
use std::ops::RangeInclusive;

/// Axes of length 1 that are inserted at the positions that follow from a tensor's rank.
struct NewAxes(fn(usize) -> &'static [usize]);

impl NewAxes {
    fn meta(&self, input: &TensorMeta) -> TensorMeta {
        let mut dims = input.dims().to_vec();
        (self.0)(input.rank()).iter().for_each(|&axis| dims.insert(axis, Dim::Fixed(1)));
        input.with_dims(dims)
    }

    fn layout(&self, input: &Layout) -> Result<Layout> {
        let axes = (self.0)(input.shape().rank());
        Ok(axes.iter().try_fold(*input, |layout, &axis| layout.unsqueeze(axis))?)
    }
}

macro_rules! stacks {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal: $new_axes:expr, along $axis:expr;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The number of inputs.
                inputs: InputCount,
            }
        }

        impl $name {
            /// The positions at which a tensor of this rank gets axes of length 1.
            pub fn new_axes(rank: usize) -> &'static [usize] {
                let new_axes: fn(usize) -> &'static [usize] = $new_axes;
                new_axes(rank)
            }

            /// The concatenation of tensors after their new axes are inserted, given the rank of the first one before.
            pub fn cat(rank: usize) -> Cat {
                let axis: fn(usize) -> i64 = $axis;
                Cat { dim: axis(rank) }
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                1..=usize::MAX
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                let parts = inputs.iter().map(|input| NewAxes(Self::new_axes).meta(input));
                Self::cat(inputs[0].rank()).infer(&parts.collect::<Vec<_>>())
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let mut parts = Vec::with_capacity(io.inputs.len());
                for input in io.inputs {
                    parts.push(input.with_layout(NewAxes(Self::new_axes).layout(input.layout())?)?);
                }
                Self::cat(io.inputs[0].shape().rank()).forward(&mut Io::new(&parts, io.outputs, &mut io.context))
            }
        }
    )*};
}

stacks! {
    /// `torch.hstack`: concatenates tensors horizontally: along axis 1, or vectors along their only axis.
    HStack for "aten::hstack": |rank| if rank == 0 { &[0] } else { &[] }, along |rank| i64::from(rank > 1);

    /// `torch.vstack`: concatenates tensors vertically, along axis 0; a vector is a row.
    VStack for "aten::vstack": |rank| match rank { 0 => &[0, 0], 1 => &[0], _ => &[] }, along |_| 0;

    /// `torch.dstack`: concatenates tensors depthwise, along axis 2; a vector is a row.
    DStack for "aten::dstack": |rank| match rank { 0 => &[0, 0, 0], 1 => &[0, 2], 2 => &[2], _ => &[] }, along |_| 2;

    /// `torch.column_stack`: concatenates tensors horizontally, along axis 1; a vector is a column.
    ColumnStack for "aten::column_stack": |rank| match rank { 0 => &[0, 0], 1 => &[1], _ => &[] }, along |_| 1;
}

macro_rules! ranks {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal, as $stack:ident;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The number of inputs and of outputs.
                inputs: InputCount,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                1..=usize::MAX
            }

            fn num_outputs(&self) -> usize {
                self.inputs.0
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                Ok(inputs.iter().map(|input| NewAxes($stack::new_axes).meta(input)).collect())
            }

            fn view(&self, output: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
                let layout = NewAxes($stack::new_axes).layout(&inputs[output])?;
                Ok(Some(View { input: output, layout }))
            }
        }

        view_layers!($name);
    )*};
}

ranks! {
    /// `torch.atleast_1d` of one or several tensors: a 0-D tensor becomes a vector of one element. Views.
    AtLeast1d for "aten::atleast_1d", as HStack;

    /// `torch.atleast_2d` of one or several tensors: a vector of N elements becomes a row, 1×N. Views.
    AtLeast2d for "aten::atleast_2d", as VStack;

    /// `torch.atleast_3d` of one or several tensors: a vector of N elements becomes 1×N×1, and a matrix M×N becomes M×N×1.
    /// Views.
    AtLeast3d for "aten::atleast_3d", as DStack;
}

delegating! {
    {
        /// The number of equal parts, or a list of the indices at which one part ends and the next begins.
        sections: Cuts,
    }

    /// `torch.hsplit`: splits a tensor horizontally: along axis 1, or a vector along its only axis. Views.
    HSplit for "aten::hsplit" |layer, rank| layer.sections.split(i64::from(rank > 1));

    /// `torch.vsplit`: splits a tensor vertically, along axis 0. Views.
    VSplit for "aten::vsplit" |layer| layer.sections.split(0);

    /// `torch.dsplit`: splits a tensor depthwise, along axis 2. Views.
    DSplit for "aten::dsplit" |layer| layer.sections.split(2);
}

/// A number of parts, or the indices between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cuts {
    /// The number of parts.
    Parts(usize),
    /// The indices at which one part ends and the next begins.
    Indices(Vec<i64>),
}

impl Cuts {
    /// The layer that splits the axis `dim`.
    fn split(&self, dim: i64) -> TensorSplit {
        let (sections, indices, count) = match self {
            Self::Parts(count) => (Some(*count), None, *count),
            Self::Indices(indices) => (None, Some(indices.clone()), indices.len() + 1),
        };
        TensorSplit { sections, indices, dim, outputs: OutputCount(count) }
    }
}

impl FromParameter for Cuts {
    const KIND: &'static str = "an integer from 1 to 65536, or a list of integers";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        if let Some(count) = usize::from_parameter(parameter) {
            return (1..=1 << 16).contains(&count).then_some(Self::Parts(count));
        }
        Vec::<i64>::from_parameter(parameter).map(Self::Indices)
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        match self {
            Self::Parts(count) => count.to_parameter(),
            Self::Indices(indices) => indices.to_parameter(),
        }
    }
}

crate::operator! {
    /// `torch.broadcast_tensors`: broadcasts all inputs to a common shape. Views.
    pub struct BroadcastTensors for "aten::broadcast_tensors" {
        /// The number of inputs and of outputs.
        inputs: InputCount,
    }
}

crate::operator! {
    /// `torch.meshgrid`: creates grids of coordinates from vectors. Each output is one vector along an axis of its own,
    /// repeated along the axes of the others. Views.
    pub struct Meshgrid for "aten::meshgrid" {
        /// `ij`: vector i runs along axis i; `xy`: the axes of the first two vectors are swapped.
        indexing: Indexing = Indexing::Matrix,
        /// The number of inputs and of outputs.
        inputs: InputCount,
    }
}

choices! {
    /// The axes of the first two vectors of a grid.
    pub enum Indexing {
        /// Matrix indexing: the first vector runs along axis 0, the second along axis 1.
        Matrix = "ij",
        /// Cartesian indexing: the first vector runs along axis 1, the second along axis 0.
        Cartesian = "xy",
    }
}

impl Meshgrid {
    /// The axis of a vector.
    fn axis(&self, position: usize) -> usize {
        match (self.indexing, self.inputs.0) {
            (Indexing::Cartesian, 2..) if position < 2 => 1 - position,
            _ => position,
        }
    }
}

impl Layer for BroadcastTensors {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn num_outputs(&self) -> usize {
        self.inputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut dims = Vec::new();
        for input in inputs {
            dims = broadcast(&dims, input.dims())?;
        }
        Ok(inputs.iter().map(|input| input.with_dims(dims.clone())).collect())
    }

    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: output, layout: inputs[output].expand(shape)? }))
    }
}

impl Layer for Meshgrid {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn num_outputs(&self) -> usize {
        self.inputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut dims = vec![Dim::Fixed(1); inputs.len()];
        for (position, input) in inputs.iter().enumerate() {
            if input.rank() > 1 {
                return Err(LayerError::shape(format!("input {position}"), "a vector", input));
            }
            dims[self.axis(position)] = input.num_elements();
        }
        Ok(inputs.iter().map(|input| input.with_dims(dims.clone())).collect())
    }

    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let mut layout = inputs[output];
        for _ in self.axis(output) + layout.shape().rank()..shape.rank() {
            layout = layout.unsqueeze(layout.shape().rank())?;
        }
        Ok(Some(View { input: output, layout: layout.expand(shape)? }))
    }
}

view_layers!(BroadcastTensors, Meshgrid);

operators! {
    HStack, VStack, DStack, ColumnStack, AtLeast1d, AtLeast2d, AtLeast3d, HSplit, VSplit, DSplit, BroadcastTensors,
    Meshgrid;
    lists "aten::hstack", "aten::vstack", "aten::dstack", "aten::column_stack", "aten::broadcast_tensors", "aten::meshgrid",
        "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

    fn shape_of(op_type: &str, shapes: [&[usize]; 2]) -> Result<Vec<usize>> {
        let [x, y] = shapes.map(|shape| counting(DType::I64, shape));
        Ok(operator(op_type, &[]).run_one(&[&x, &y])?.shape().to_vec())
    }

    #[test]
    fn axes_that_are_missing_are_added() {
        assert_eq!(shape_of("aten::hstack", [&[2], &[3]]).unwrap(), [5]);
        assert_eq!(shape_of("aten::hstack", [&[2, 2], &[2, 3]]).unwrap(), [2, 5]);
        assert_eq!(shape_of("aten::vstack", [&[2], &[3, 2]]).unwrap(), [4, 2]);
        assert_eq!(shape_of("aten::dstack", [&[2], &[1, 2, 3]]).unwrap(), [1, 2, 4]);
        assert_eq!(shape_of("aten::column_stack", [&[2], &[2, 3]]).unwrap(), [2, 4]);
        assert!(shape_of("aten::vstack", [&[2], &[3, 3]]).is_err());
        for op_type in ["aten::hstack", "aten::vstack", "aten::dstack", "aten::column_stack"] {
            operator(op_type, &[]).survives(2);
        }
    }

    #[test]
    fn parts_are_views() {
        let x = counting(DType::I64, &[2, 3]);
        let parts = operator("aten::hsplit", &[("sections", "3")]).with_outputs(3).run(&[&x]).unwrap();
        assert_eq!(parts[2].to_vec::<i64>().unwrap(), [2, 5]);
        let parts = operator("aten::vsplit", &[("sections", "[1]")]).with_outputs(2).run(&[&x]).unwrap();
        assert_eq!(parts[1].to_vec::<i64>().unwrap(), [3, 4, 5]);
        operator("aten::dsplit", &[("sections", "2")]).with_outputs(2).survives(1);
        assert_eq!(operator("aten::atleast_3d", &[]).run_one(&[&x]).unwrap().shape().dims(), [2, 3, 1]);
        operator("aten::atleast_2d", &[]).survives(1);
        let (number, vector) = (Tensor::scalar(7i64), counting(DType::I32, &[2]));
        let both = operator("aten::atleast_2d", &[]).run(&[&number, &vector]).unwrap();
        assert_eq!([&both[0], &both[1]].map(|part| part.shape().to_vec()), [[1, 1], [1, 2]]);
        assert!(both[0].shares_storage(&number) && both[1].shares_storage(&vector));
        operator("aten::atleast_3d", &[]).survives(2);
    }

    #[test]
    fn grids_and_broadcasting_are_views() {
        let (x, y) = (counting(DType::I64, &[2]), Tensor::scalar(7i64));
        let grid = |indexing, inputs: [&Tensor; 2]| {
            let grid = operator("aten::meshgrid", &[("indexing", indexing)]).with_outputs(2);
            grid.run(&inputs)
                .unwrap()
                .into_iter()
                .map(|part| part.to_vec::<i64>().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(grid("ij", [&x, &y]), [[0, 1], [7, 7]]);
        let z = counting(DType::I64, &[3]);
        assert_eq!(grid("ij", [&x, &z]), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]);
        assert_eq!(grid("xy", [&x, &z]), [[0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]]);
        let both = operator("aten::broadcast_tensors", &[]).with_outputs(2).run(&[&x, &y]).unwrap();
        assert!(both[1].shares_storage(&y) && both[1].shape().dims() == [2]);
        operator("aten::broadcast_tensors", &[]).with_outputs(2).survives(2);
        operator("aten::meshgrid", &[]).with_outputs(2).survives(2);
    }
}
