//! The two-input, two-output example of TensorRT's guide: a copy of one input, and both inputs side by side.

use ixion::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorFormat, TensorMeta};
use ixion::tensor::{Bits, DType, Format, TensorView, TensorViewMut};
use ndarray::Axis;
use std::ops::RangeInclusive;

// ANCHOR: fields
ixion::operator! {
    /// A copy of one of two inputs, and the two put side by side along an axis, as `torch.cat` does.
    pub struct CopyConcat for "CopyConcat" {
        /// The input that is copied: 0 or 1.
        copy: usize = 1,
        /// The axis along which the inputs are put side by side; negative ones count from the last axis.
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
    /// The axis as a position, for tensors of so many axes.
    fn position(&self, rank: usize) -> Result<usize, LayerError> {
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

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let [first, second] = inputs else { return Err(LayerError::shape("inputs", 2, inputs.len())) };
        let axis = self.position(first.rank())?;
        if first.dtype() != second.dtype() {
            return Err(LayerError::dtype("input 1", first.dtype(), second.dtype()));
        }
        let mut wanted = first.dims().to_vec();
        if let (Some(sum), Some(len)) = (wanted.get_mut(axis), second.dims().get(axis)) {
            let own = std::mem::replace(sum, len.clone());
            if !second.may_have_dims(&wanted) {
                let what = format!("input 1, but for axis {axis} as input 0,");
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

    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        outputs[0].copy_from(&inputs[self.copy])?;
        // Elements are moved and not looked at: 4 bytes or 2.
        match inputs[0].dtype().size() {
            4 => self.put_side_by_side::<u32>(inputs, &mut outputs[1]),
            _ => self.put_side_by_side::<u16>(inputs, &mut outputs[1]),
        }
    }
}
// ANCHOR_END: forward

impl CopyConcat {
    fn put_side_by_side<B: Bits>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        let axis = Axis(self.position(inputs[0].shape().rank())?);
        let mut whole = output.bits::<B>()?;
        let (mut first, mut second) = whole.view_mut().split_at(axis, inputs[0].shape()[axis.0]);
        first.assign(&inputs[0].bits::<B>()?);
        second.assign(&inputs[1].bits::<B>()?);
        Ok(())
    }
}
