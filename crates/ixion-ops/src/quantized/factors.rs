//! Scales and zero points of operators: one of each per tensor, or per slice along an axis.

use crate::op::{LayerError, Result, TensorMeta};
use crate::support::arguments::ParamOrInput;
use ixion_tensor::{DType, Shape, TensorView, resolve_axis};

/// The scale and the zero point of a whole tensor, as parameters or inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfTensor<'a> {
    /// The scale.
    pub(super) scale: &'a ParamOrInput<f64>,
    /// The zero point.
    pub(super) zero_point: &'a ParamOrInput<i64>,
}

impl OfTensor<'_> {
    /// Checks that inputs among them have one element each.
    pub(super) fn check(&self, inputs: &[TensorMeta]) -> Result<()> {
        for position in [position(self.scale), position(self.zero_point)].into_iter().flatten() {
            let found =
                inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
            if found.num_elements().differs(&1usize.into()) || found.dtype().is_complex() {
                return Err(LayerError::shape("scale and zero point", "one element", found));
            }
        }
        Ok(())
    }

    /// Both values, if the file has them.
    pub(super) fn constants(&self) -> Option<(f64, i64)> {
        match (self.scale, self.zero_point) {
            (ParamOrInput::Value(scale), ParamOrInput::Value(zero_point)) => Some((*scale, *zero_point)),
            _ => None,
        }
    }

    /// Both values, given the inputs of a run.
    pub(super) fn numbers(&self, inputs: &[TensorView<'_>]) -> Result<(f64, f64)> {
        let first = |position| {
            let found = numbers(inputs, position)?;
            found.first().copied().ok_or_else(|| LayerError::shape("scale and zero point", "one element", 0))
        };
        let scale = match self.scale {
            ParamOrInput::Value(scale) => *scale,
            ParamOrInput::Input(position) => first(*position)?,
        };
        let zero_point = match self.zero_point {
            ParamOrInput::Value(zero_point) => *zero_point as f64,
            ParamOrInput::Input(position) => first(*position)?,
        };
        Ok((scale, zero_point))
    }
}

/// The input position of an argument, if it is an input.
pub(super) fn position<T>(argument: &ParamOrInput<T>) -> Option<usize> {
    match argument {
        ParamOrInput::Value(_) => None,
        ParamOrInput::Input(position) => Some(*position),
    }
}

/// The inputs with a scale and a zero point for each slice along an axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfSlices {
    pub(super) scale: usize,
    pub(super) zero_point: usize,
    /// The axis; may be negative, counting from the end.
    pub(super) axis: i64,
}

impl OfSlices {
    /// Checks that every slice has a scale and a zero point.
    pub(super) fn check(&self, inputs: &[TensorMeta]) -> Result<()> {
        let axis = resolve_axis(self.axis, inputs[0].rank())?;
        let wanted = inputs[0].dims().get(axis);
        let wanted = wanted.ok_or_else(|| LayerError::shape("the input", "at least one axis", &inputs[0]))?;
        for (position, what) in [(self.scale, "the scales"), (self.zero_point, "the zero points")] {
            let found =
                inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
            match found.dims() {
                [len] if !len.differs(wanted) && !found.dtype().is_complex() => {}
                _ => {
                    return Err(LayerError::shape(what, format!("{wanted} elements"), found));
                }
            }
        }
        Ok(())
    }

    /// The scale and zero point of each slice.
    pub(super) fn numbers(&self, inputs: &[TensorView<'_>]) -> Result<Vec<(f64, f64)>> {
        let (scales, zero_points) = (numbers(inputs, self.scale)?, numbers(inputs, self.zero_point)?);
        Ok(scales.into_iter().zip(zero_points).collect())
    }

    /// The number of consecutive elements of a row-major tensor that have the same index along the axis.
    pub(super) fn run(&self, shape: &Shape) -> Result<usize> {
        let axis = resolve_axis(self.axis, shape.rank())?;
        Ok(shape.iter().skip(axis + 1).product())
    }
}

/// All values of an input.
fn numbers(inputs: &[TensorView<'_>], position: usize) -> Result<Vec<f64>> {
    let input = inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
    Ok(input.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?)
}

/// Converts runs of `run` elements, cycling through `params` from run to run.
#[inline(always)]
pub(super) fn by_runs<X: Copy, Y, H>(
    values: &[X],
    output: &mut [Y],
    (params, run): (&[H], usize),
    of: impl Fn(&H, X) -> Y,
) {
    let run = run.max(1);
    for ((values, output), param) in values.chunks(run).zip(output.chunks_mut(run)).zip(params.iter().cycle())
    {
        for (y, &x) in output.iter_mut().zip(values) {
            *y = of(param, x);
        }
    }
}
