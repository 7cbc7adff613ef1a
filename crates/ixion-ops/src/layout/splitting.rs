//! Splitting a tensor along an axis into parts of given lengths. The parts are views if the lengths are in the file.

use super::parts::{Part, as_outputs, check_count, equal_parts, layout_of};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::arguments::{OutputCount, ParamOrInput};
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Layout, Shape};
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

operators! { Split: moves(Divided) }

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

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
}
