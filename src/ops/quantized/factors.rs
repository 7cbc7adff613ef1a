//! Scales and zero points that operators are given: one of each, or one for each slice along an axis.

use crate::op::{LayerError, TensorMeta};
use crate::ops::support::arguments::Argument;
use crate::tensor::{DType, Shape, TensorView, resolve_axis};
use std::ops::RangeInclusive;

/// Where an operator finds the scale and the zero point of a whole tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfTensor<'a> {
    /// What one step of the whole numbers stands for.
    pub(super) scale: &'a Argument<f64>,
    /// The whole number that stands for zero.
    pub(super) zero_point: &'a Argument<i64>,
}

impl OfTensor<'_> {
    /// How many inputs an operator of one tensor has with them.
    pub(super) fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.scale.num_inputs() + self.zero_point.num_inputs();
        count..=count
    }

    /// Checks that those that are inputs are one number each.
    pub(super) fn check(&self, inputs: &[TensorMeta]) -> Result<(), LayerError> {
        for position in [position(self.scale), position(self.zero_point)].into_iter().flatten() {
            let found =
                inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
            if found.num_elements().differs(&1usize.into()) || found.dtype().is_complex() {
                return Err(LayerError::shape("scale and zero point", "one number", found));
            }
        }
        Ok(())
    }

    /// Both, where the file has them.
    pub(super) fn constants(&self) -> Option<(f64, i64)> {
        match (self.scale, self.zero_point) {
            (Argument::Value(scale), Argument::Value(zero_point)) => Some((*scale, *zero_point)),
            _ => None,
        }
    }

    /// Both, given the inputs of this run.
    pub(super) fn numbers(&self, inputs: &[TensorView<'_>]) -> Result<(f64, f64), LayerError> {
        let first = |position| {
            let found = numbers(inputs, position)?;
            found.first().copied().ok_or_else(|| LayerError::shape("scale and zero point", "one number", 0))
        };
        let scale = match self.scale {
            Argument::Value(scale) => *scale,
            Argument::Input(position) => first(*position)?,
        };
        let zero_point = match self.zero_point {
            Argument::Value(zero_point) => *zero_point as f64,
            Argument::Input(position) => first(*position)?,
        };
        Ok((scale, zero_point))
    }
}

/// The input that an argument is.
pub(super) fn position<T>(argument: &Argument<T>) -> Option<usize> {
    match argument {
        Argument::Value(_) => None,
        Argument::Input(position) => Some(*position),
    }
}

/// The inputs with a scale and a zero point for each slice along an axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfSlices {
    pub(super) scale: usize,
    pub(super) zero_point: usize,
    /// The axis; may count from the end.
    pub(super) axis: i64,
}

impl OfSlices {
    /// Checks that every slice has its own.
    pub(super) fn check(&self, inputs: &[TensorMeta]) -> Result<(), LayerError> {
        let axis = resolve_axis(self.axis, inputs[0].rank())?;
        let wanted = inputs[0].dims().get(axis);
        let wanted = wanted.ok_or_else(|| LayerError::shape("the input", "at least one axis", &inputs[0]))?;
        for (position, what) in [(self.scale, "the scales"), (self.zero_point, "the zero points")] {
            let found =
                inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
            match found.dims() {
                [len] if !len.differs(wanted) && !found.dtype().is_complex() => {}
                _ => {
                    return Err(LayerError::shape(what, format!("{wanted} numbers"), found));
                }
            }
        }
        Ok(())
    }

    /// Scale and zero point of each slice.
    pub(super) fn numbers(&self, inputs: &[TensorView<'_>]) -> Result<Vec<(f64, f64)>, LayerError> {
        let (scales, zero_points) = (numbers(inputs, self.scale)?, numbers(inputs, self.zero_point)?);
        Ok(scales.into_iter().zip(zero_points).collect())
    }

    /// How many elements of a row-major tensor have the same index along the axis, one after the other.
    pub(super) fn run(&self, shape: &Shape) -> Result<usize, LayerError> {
        let axis = resolve_axis(self.axis, shape.rank())?;
        Ok(shape.iter().skip(axis + 1).product())
    }
}

/// All numbers of an input.
fn numbers(inputs: &[TensorView<'_>], position: usize) -> Result<Vec<f64>, LayerError> {
    let input = inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
    Ok(input.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?)
}

/// Makes outputs of inputs, run by run, each with the next of these, over and over.
#[inline(always)]
pub(super) fn by_runs<X: Copy, Y, H>(
    values: &[X],
    output: &mut [Y],
    (hows, run): (&[H], usize),
    of: impl Fn(&H, X) -> Y,
) {
    let run = run.max(1);
    for ((values, output), how) in values.chunks(run).zip(output.chunks_mut(run)).zip(hows.iter().cycle()) {
        output.iter_mut().zip(values).for_each(|(y, &x)| *y = of(how, x));
    }
}
