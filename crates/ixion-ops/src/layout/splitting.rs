//! Splitting a tensor along an axis into parts of given lengths, or at given indices. The parts are views if the file has these.

use super::parts::{
    Part, as_outputs, at_least_one, balanced_parts, check_count, equal_parts, layout_of, parts_between,
};
use super::stacking::Cuts;
use crate::op::{
    CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, View, exactly,
};
use crate::support::arguments::{OutputCount, ParamOrInput};
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Layout, Shape, Tensor, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.split`: splits an axis into parts of one length, of which the last may be shorter, or of given lengths. Views,
    /// unless the graph computes the lengths.
    pub struct Split for
        "torch.split", "Tensor.split", "aten::unsafe_split", "aten::unsafe_split_with_sizes"
    {
        /// The length of all parts, or a list of the length of each part. PNNX writes `None` for the equal parts of an ONNX
        /// model: one for each output.
        split_size_or_sections: ParamOrInput<Sections>,
        /// The axis; a negative value counts from the end. `None` is the first axis.
        dim: Option<i64> = Some(0),
        /// The number of outputs that the file lists, one for each part.
        outputs: OutputCount,
    }
}

/// The lengths of the parts of a [`Split`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sections {
    /// One length for all parts.
    Size(usize),
    /// The length of each part.
    Lengths(Vec<usize>),
    /// Equal parts, one for each output.
    Equal,
}

impl crate::op::FromParameter for Sections {
    const KIND: &'static str = "an integer of at least 0, or a list of them";

    fn from_parameter(parameter: &crate::op::RuntimeParameter) -> Option<Self> {
        if parameter.raw() == "None" {
            return Some(Self::Equal);
        }
        if let Some(size) = usize::from_parameter(parameter) {
            return Some(Self::Size(size));
        }
        let lengths = Vec::<i64>::from_parameter(parameter)?;
        lengths.into_iter().map(|len| usize::try_from(len).ok()).collect::<Option<_>>().map(Self::Lengths)
    }
}

/// The key of the lengths.
const SECTIONS: &str = "split_size_or_sections";

impl Split {
    /// The given lengths for an axis, and whether they are a list.
    fn lengths(&self, inputs: &[TensorMeta], axis: usize) -> Result<(Vec<Dim>, bool)> {
        match &self.split_size_or_sections {
            ParamOrInput::Value(Sections::Equal) => {
                let len = inputs[0].dims()[axis].clone();
                Ok((vec![len.ceil_div(self.outputs.0.max(1))], false))
            }
            ParamOrInput::Value(Sections::Size(size)) => Ok((vec![Dim::from(*size)], false)),
            ParamOrInput::Value(Sections::Lengths(lengths)) => {
                Ok((lengths.iter().copied().map(Dim::from).collect(), true))
            }
            ParamOrInput::Input(position) => {
                let lengths = ParamOrInput::<Vec<i64>>::Input(*position).dims(inputs)?;
                Ok((lengths, inputs.get(*position).is_some_and(|lengths| lengths.rank() == 1)))
            }
        }
    }

    fn parts(&self, inputs: &[TensorMeta], axis: usize) -> Result<Vec<Part>> {
        let len = &inputs[0].dims()[axis];
        match self.lengths(inputs, axis)? {
            (lengths, true) => self.listed_parts(len, lengths),
            (lengths, false) => {
                let size = lengths.into_iter().next().unwrap_or(Dim::Fixed(0));
                let count = match (len.fixed(), size.fixed()) {
                    (Some(0), _) => Some(1),
                    (Some(_), Some(..=0)) => {
                        let reason =
                            format!("an axis of length {len} cannot be split into parts of length {size}");
                        return Err(LayerError::invalid(SECTIONS, size, reason));
                    }
                    (Some(_), Some(size)) => len.clone().ceil_div(size).fixed(),
                    _ => None,
                };
                check_count(count, self.outputs)?;
                Ok(equal_parts(len, size, self.outputs.0))
            }
        }
    }

    fn listed_parts(&self, len: &Dim, lengths: Vec<Dim>) -> Result<Vec<Part>> {
        let negative = lengths.iter().any(|part| part.fixed().is_some_and(|part| part < 0));
        let total = lengths.iter().fold(Dim::Fixed(0), |total, part| total + part.clone());
        if negative || total.differs(len) {
            let reason = format!("the lengths must add up to {len}");
            return Err(LayerError::invalid(SECTIONS, format!("{lengths:?}"), reason));
        }
        check_count(i64::try_from(lengths.len()).ok(), self.outputs)?;
        let mut start = Dim::Fixed(0);
        let part = |len: Dim| {
            let next = start.clone() + len.clone();
            Part { start: std::mem::replace(&mut start, next), len }
        };
        Ok(lengths.into_iter().map(part).collect())
    }
}

impl Layer for Split {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = axis_of(self.dim.unwrap_or(0), &inputs[0])?;
        Ok(as_outputs(&inputs[0], axis, self.parts(inputs, axis)?))
    }

    fn view(&self, output: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        if self.field_inputs() > 0 {
            return Ok(None);
        }
        let input = TensorMeta::new(DType::Bool, inputs[0].shape().iter().copied());
        let axis = axis_of(self.dim.unwrap_or(0), &input)?;
        let layout = layout_of(output, &self.parts(&[input], axis)?, &inputs[0], axis)?;
        Ok(Some(View { input: 0, layout }))
    }
}

impl CpuLayer for Split {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let metas = TensorMeta::of_all(io.inputs);
        let axis = axis_of(self.dim.unwrap_or(0), &metas[0])?;
        let parts = self.parts(&metas, axis)?;
        for (position, output) in io.outputs.iter_mut().enumerate() {
            let part = layout_of(position, &parts, io.inputs[0].layout(), axis)?;
            output.copy_from(&io.inputs[0].with_layout(part)?)?;
        }
        Ok(())
    }
}

crate::operator! {
    /// `torch.tensor_split` of TorchScript, whose second argument has a meaning that depends on its type: splits an axis into a
    /// number of nearly equal parts, or at indices. Views, unless the graph computes the number or the indices.
    pub struct TensorSplitAt for "aten::tensor_split" {
        /// The number of parts, or a list of the indices at which one part ends and the next begins; negative indices count
        /// from the end. An input is an i64 tensor without axes for a number, or a vector of indices.
        cuts as "tensor_indices_or_sections": ParamOrInput<Cuts>,
        /// The axis; a negative value counts from the end.
        dim: i64 = 0,
        /// The number of outputs that the file lists, one for each part.
        outputs: OutputCount,
    }
}

/// The key of the number of parts or the indices between them.
const CUTS: &str = "tensor_indices_or_sections";

impl TensorSplitAt {
    /// The number of parts, or the indices, and whether they are indices; `None` if they are not known yet.
    fn numbers(&self, inputs: &[TensorMeta]) -> Result<Option<(Vec<Dim>, bool)>> {
        Ok(match &self.cuts {
            ParamOrInput::Value(Cuts::Parts(count)) => Some((vec![Dim::from(*count)], false)),
            ParamOrInput::Value(Cuts::Indices(indices)) => {
                Some((indices.iter().copied().map(Dim::Fixed).collect(), true))
            }
            ParamOrInput::Input(position) => {
                let Some(cuts) = inputs.get(*position) else {
                    return Err(LayerError::missing_input(*position, inputs.len()));
                };
                if cuts.dtype() != DType::I64 {
                    return Err(LayerError::dtype(format!("input {position}"), "i64", cuts.dtype()));
                }
                if cuts.rank() > 1 {
                    let wanted = "a number of parts, or a vector of indices";
                    return Err(LayerError::shape(format!("input {position}"), wanted, cuts));
                }
                cuts.values().map(|values| (values.to_vec(), cuts.rank() == 1))
            }
        })
    }

    /// The parts of an axis of this length; `None` if they are not known yet.
    fn parts(&self, inputs: &[TensorMeta], len: &Dim) -> Result<Option<Vec<Part>>> {
        let Some((numbers, are_indices)) = self.numbers(inputs)? else { return Ok(None) };
        if are_indices {
            check_count(i64::try_from(numbers.len()).ok().map(|indices| indices + 1), self.outputs)?;
            return Ok(Some(parts_between(len, &numbers)));
        }
        let Some(count) = numbers.first().and_then(Dim::fixed) else { return Ok(None) };
        at_least_one(CUTS, usize::try_from(count).unwrap_or(0))?;
        check_count(Some(count), self.outputs)?;
        Ok(Some(balanced_parts(len, self.outputs.0)))
    }

    /// The layouts of the parts, given the values of all inputs.
    fn layouts(&self, inputs: &[TensorView<'_>]) -> Result<Vec<Layout>> {
        let mut metas = TensorMeta::of_all(inputs);
        if let ParamOrInput::Input(position) = &self.cuts {
            // The metadata of long vectors lacks the values.
            let numbers = inputs[*position].to_vec::<i64>()?.into_iter().map(Dim::Fixed).collect();
            metas[*position] = metas[*position].clone().with_values(numbers);
        }
        let axis = axis_of(self.dim, &metas[0])?;
        let parts = self.parts(&metas, &metas[0].dims()[axis])?.unwrap_or_default();
        let layout = |position| layout_of(position, &parts, inputs[0].layout(), axis);
        (0..self.outputs.0).map(layout).collect()
    }
}

impl Layer for TensorSplitAt {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axis = axis_of(self.dim, &inputs[0])?;
        let unknown = || {
            let parts = (0..self.outputs.0).map(|_| Part { start: Dim::Fixed(0), len: Dim::fresh("part") });
            parts.collect()
        };
        let parts = self.parts(inputs, &inputs[0].dims()[axis])?.unwrap_or_else(unknown);
        Ok(as_outputs(&inputs[0], axis, parts))
    }

    fn view(&self, output: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        if self.field_inputs() > 0 {
            return Ok(None);
        }
        let input = TensorMeta::new(DType::Bool, inputs[0].shape().iter().copied());
        let axis = axis_of(self.dim, &input)?;
        let Some(parts) = self.parts(std::slice::from_ref(&input), &input.dims()[axis])? else {
            return Ok(None);
        };
        Ok(Some(View { input: 0, layout: layout_of(output, &parts, &inputs[0], axis)? }))
    }

    fn is_data_dependent(&self) -> bool {
        self.field_inputs() > 0
    }
}

impl CpuLayer for TensorSplitAt {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        for (layout, output) in self.layouts(io.inputs)?.into_iter().zip(io.outputs.iter_mut()) {
            output.copy_from(&io.inputs[0].with_layout(layout)?)?;
        }
        Ok(())
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let mut parts = Vec::with_capacity(self.outputs.0);
        for layout in self.layouts(inputs)? {
            let part = inputs[0].with_layout(layout)?;
            let bytes = (part.num_elements() as u64).saturating_mul(part.dtype().size() as u64);
            context.limits().check_tensor("a part of the input", bytes)?;
            parts.push(part.to_tensor()?);
        }
        Ok(parts)
    }
}

operators! { Split: moves(Divided), TensorSplitAt: moves(Divided) }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};

    #[test]
    fn lengths_may_be_computed() {
        let x = counting(DType::I32, &[5]);
        let split = operator("torch.split", &[("dim", "0")]).with_outputs(2);
        let split = split.with_names(&["tensor", "split_size_or_sections"]);
        let lengths = Tensor::from_vec(vec![2i64, 3], &[2]).unwrap();
        let parts = split.run(&[&x, &lengths]).unwrap();
        assert_eq!(parts[1].to_vec::<i32>().unwrap(), [2, 3, 4]);
        let parts = split.run(&[&x, &Tensor::scalar(4i64)]).unwrap();
        assert_eq!(parts[1].to_vec::<i32>().unwrap(), [4]);
        assert!(split.run(&[&x, &Tensor::from_vec(vec![2i64, 2], &[2]).unwrap()]).is_err());
        assert!(split.run(&[&x, &Tensor::scalar(-1i64)]).is_err());
    }

    /// PyTorch's results.
    #[test]
    fn parts_may_be_between_indices() {
        let x = counting(DType::I32, &[7]);
        let values = |parts: Vec<Tensor>| -> Vec<Vec<i32>> {
            parts.iter().map(|part| part.to_vec::<i32>().unwrap()).collect()
        };
        let given = |cuts, outputs| {
            let split = operator("aten::tensor_split", &[("tensor_indices_or_sections", cuts)]);
            split.with_outputs(outputs).run(&[&x]).map(values)
        };
        let equal: [&[i32]; 3] = [&[0, 1, 2], &[3, 4], &[5, 6]];
        let between: [&[i32]; 4] = [&[0], &[1, 2, 3, 4, 5], &[6], &[]];
        assert_eq!(given("3", 3).unwrap(), equal);
        assert_eq!(given("[1,-1,9]", 4).unwrap(), between);
        assert_eq!(given("None", 1).unwrap(), [[0, 1, 2, 3, 4, 5, 6]]);
        assert!(given("0", 1).is_err() && given("3", 2).is_err() && given("[1]", 3).is_err());
        let computed = |cuts: &Tensor, outputs| {
            operator("aten::tensor_split", &[]).with_outputs(outputs).run(&[&x, cuts]).map(values)
        };
        assert_eq!(computed(&Tensor::scalar(3i64), 3).unwrap(), equal);
        assert_eq!(computed(&tensor(&[3], &[1i64, -1, 9]), 4).unwrap(), between);
        let many = tensor(&[70], &[3i64; 70]);
        assert_eq!(computed(&many, 71).unwrap().concat(), [0, 1, 2, 3, 4, 5, 6]);
        let refused = |cuts: &Tensor| computed(cuts, 1).unwrap_err().to_string();
        let none = refused(&Tensor::scalar(0i64));
        assert_eq!(none, "parameter `tensor_indices_or_sections` is 0: it must be at least 1");
        assert_eq!(refused(&Tensor::scalar(1i32)), "input 1: expected i64, got i32");
        assert!(refused(&tensor(&[1, 1], &[1i64])).contains("a vector of indices"));
        assert!(matches!(computed(&Tensor::scalar(2i64), 1), Err(LayerError::OutputCount { .. })));
        operator("aten::tensor_split", &[("dim", "-1")]).with_outputs(2).survives(2);
    }

    #[test]
    fn lengths_between_computed_indices_are_symbols() {
        let split = operator("aten::tensor_split", &[("dim", "1")]).with_outputs(2);
        let x = TensorMeta::new(DType::F32, [Dim::Fixed(2), Dim::symbol("n")]);
        let half = TensorMeta::new(DType::I64, [1]).with_values(vec![Dim::symbol("n").floor_div(2)]);
        let parts = split.infer(&[x.clone(), half]).unwrap();
        let lens = [&parts[0], &parts[1]].map(|part| part.dims()[1].evaluate(&|_| Some(7)));
        assert_eq!(lens, [Some(3), Some(4)]);
        let parts = split.infer(&[x, TensorMeta::new(DType::I64, [1])]).unwrap();
        assert!(parts.iter().all(|part| part.dims()[1].fixed().is_none()));
    }
}
