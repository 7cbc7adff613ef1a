//! The two-input, two-output example of TensorRT's guide: a copy of one input, and the concatenation of both.

use ixion::op::{CpuLayer, Io, Layer, LayerError, Result, TensorFormat, TensorMeta};
use ixion::tensor::{Bits, DType, Format, TensorView, TensorViewMut};
use ndarray::Axis;
use std::ops::RangeInclusive;

// ANCHOR: fields
ixion::operator! {
    /// A copy of one of two inputs, and the concatenation of both along an axis, as in `torch.cat`.
    pub struct CopyConcat for "CopyConcat" {
        /// The input that is copied: 0 or 1.
        copy: usize = 1,
        /// The axis of the concatenation; negative values count from the last axis.
        axis: i64 = 1,
    }
    validate |this| {
        if this.copy > 1 {
            return Err(LayerError::invalid("copy", this.copy, "there are two inputs: 0 and 1"));
        }
        Ok(())
    }
}
// ANCHOR_END: fields

impl CopyConcat {
    /// The axis as a non-negative index, for tensors of this rank.
    fn position(&self, rank: usize) -> Result<usize> {
        let axis = if self.axis < 0 { self.axis.saturating_add_unsigned(rank as u64) } else { self.axis };
        let position = usize::try_from(axis).ok().filter(|&position| position < rank);
        position.ok_or_else(|| LayerError::invalid("axis", self.axis, format!("the inputs have {rank} axes")))
    }
}

// ANCHOR: layer
impl Layer for CopyConcat {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let [first, second] = inputs else { return Err(LayerError::shape("inputs", 2, inputs.len())) };
        let axis = self.position(first.rank())?;
        if first.dtype() != second.dtype() {
            return Err(LayerError::dtype("input 1", first.dtype(), second.dtype()));
        }
        let mut wanted = first.dims().to_vec();
        if let (Some(sum), Some(len)) = (wanted.get_mut(axis), second.dims().get(axis)) {
            let own = std::mem::replace(sum, len.clone());
            if !second.may_have_dims(&wanted) {
                let what = format!("input 1 (any length along axis {axis})");
                return Err(LayerError::shape(what, first, second));
            }
            wanted[axis] = own + len.clone();
        }
        let copied = if self.copy == 0 { first } else { second };
        Ok(vec![copied.clone(), first.with_dims(wanted)])
    }
}
// ANCHOR_END: layer

// ANCHOR: forward
impl CpuLayer for CopyConcat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let Some(&TensorFormat { dtype, format, is_quantized, .. }) = formats.get(position) else {
            return false;
        };
        match position {
            0 => matches!(dtype, DType::F32 | DType::F16) && format == Format::Plain && !is_quantized,
            _ => formats.first() == formats.get(position),
        }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[self.copy])?;
        // Elements are only moved, so the copy is generic over their size: 4 or 2 bytes.
        match io.inputs[0].dtype().size() {
            4 => self.concat::<u32>(io.inputs, &mut io.outputs[1]),
            _ => self.concat::<u16>(io.inputs, &mut io.outputs[1]),
        }
    }
}
// ANCHOR_END: forward

impl CopyConcat {
    fn concat<B: Bits>(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>) -> Result<()> {
        let axis = Axis(self.position(inputs[0].shape().rank())?);
        let mut concatenated = output.bits::<B>()?;
        let (mut first, mut second) = concatenated.view_mut().split_at(axis, inputs[0].shape()[axis.0]);
        first.assign(&inputs[0].bits::<B>()?);
        second.assign(&inputs[1].bits::<B>()?);
        Ok(())
    }
}
