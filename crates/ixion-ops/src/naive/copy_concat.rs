//! A plugin with two inputs and two outputs.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorFormat, TensorMeta};
use ixion_tensor::{Bits, DType, Format};
use ndarray::{ArrayViewD, ArrayViewMutD, Axis};
use std::ops::RangeInclusive;

// ANCHOR: copy_concat
// ANCHOR: fields
crate::operator! {
    /// Copies one of two inputs, and concatenates both along an axis, like `torch.cat`.
    pub struct CopyConcat for "CopyConcat" {
        /// The input to copy: 0 or 1.
        copy: usize = 1,
        /// The axis along which the inputs are concatenated; a negative value counts from the end.
        axis: i64 = 1,
    }
    validate |this| {
        this.check()
    }
}
// ANCHOR_END: fields

impl CopyConcat {
    /// Checks what the types of the fields cannot express.
    fn check(&self) -> Result<()> {
        // ANCHOR: check_todo -- task 3: return an error for a `copy` that is neither 0 nor 1
        match self.copy {
            0 | 1 => Ok(()),
            _ => Err(LayerError::invalid("copy", self.copy, "there are two inputs: 0 and 1")),
        }
        // ANCHOR_END: check_todo
    }

    /// The position of the axis, for tensors of this rank.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if there is no such axis.
    pub fn position(&self, rank: usize) -> Result<usize> {
        // ANCHOR: position_todo -- task 3: resolve the axis, where -1 is the last; return an error if it is out of range
        let axis = if self.axis < 0 { self.axis.saturating_add_unsigned(rank as u64) } else { self.axis };
        let position = usize::try_from(axis).ok().filter(|&position| position < rank);
        position.ok_or_else(|| LayerError::invalid("axis", self.axis, format!("the inputs have {rank} axes")))
        // ANCHOR_END: position_todo
    }
}

impl Layer for CopyConcat {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: infer_todo -- task 3: return one output like the copied input, and one like the first, with the sum of both lengths along the axis
        let (first, second) = (&inputs[0], &inputs[1]);
        let axis = self.position(first.rank())?;
        if first.dtype() != second.dtype() {
            return Err(LayerError::dtype("input 1", first.dtype(), second.dtype()));
        }
        let unlike = || LayerError::shape("input 1", format!("{first}, except along axis {axis}"), second);
        let len = second.dims().get(axis).ok_or_else(unlike)?;
        let mut dims = first.dims().to_vec();
        dims[axis] = len.clone();
        if !second.may_have_dims(&dims) {
            return Err(unlike());
        }
        dims[axis] = first.dims()[axis].clone() + len.clone();
        Ok(vec![inputs[self.copy].clone(), first.with_dims(dims)])
        // ANCHOR_END: infer_todo
    }
}

impl CpuLayer for CopyConcat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        // ANCHOR: supports_todo -- task 4: f32 or f16 in row-major order for the first tensor, and its format for all others
        let own = formats[position];
        match position {
            0 => {
                matches!(own.dtype, DType::F32 | DType::F16)
                    && own.format == Format::Plain
                    && !own.is_quantized
            }
            _ => own == formats[0],
        }
        // ANCHOR_END: supports_todo
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[self.copy])?;
        let axis = Axis(self.position(io.inputs[0].shape().rank())?);
        // Elements are only moved, so their type does not matter, just their size: 4 bytes or 2.
        match io.inputs[0].dtype().size() {
            4 => {
                put_side_by_side::<u32>(
                    axis,
                    [io.inputs[0].bits()?, io.inputs[1].bits()?],
                    io.outputs[1].bits()?,
                );
            }
            _ => {
                put_side_by_side::<u16>(
                    axis,
                    [io.inputs[0].bits()?, io.inputs[1].bits()?],
                    io.outputs[1].bits()?,
                );
            }
        }
        Ok(())
    }
}

/// Writes both arrays to the output, the second after the first along the axis.
fn put_side_by_side<B: Bits>(
    axis: Axis,
    [first, second]: [ArrayViewD<'_, B>; 2],
    output: ArrayViewMutD<'_, B>,
) {
    // ANCHOR: side_todo -- task 3: split the output along the axis, and assign an array to each part
    let (mut before, mut after) = output.split_at(axis, first.len_of(axis));
    before.assign(&first);
    after.assign(&second);
    // ANCHOR_END: side_todo
}
// ANCHOR_END: copy_concat
