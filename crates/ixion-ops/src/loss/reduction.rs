//! How the losses of single elements or samples are combined.

use crate::op::{CpuLayer, ForwardContext, Io, Result, TensorMeta};
use crate::reduction::along_axes::{Mean, Sum, workspace};
use crate::support::arguments::Accumulator;
use crate::support::choices::choices;
use ixion_kernels::reduce;
use ixion_tensor::{Layout, Limits, Tensor, TensorView, TensorViewMut};

choices! {
    /// How losses are combined: PyTorch's `reduction`, which TorchScript writes as a number.
    pub enum Reduction {
        /// They are not: the output holds all of them.
        Each = "none" | "0",
        /// Their mean.
        Mean = "mean" | "1",
        /// Their sum.
        Sum = "sum" | "2",
    }
}

/// Writes the losses, given the inputs.
type Compute<'a> =
    dyn FnMut(&[TensorView<'_>], &mut TensorViewMut<'_>, &mut ForwardContext<'_>) -> Result<()> + 'a;

impl Reduction {
    /// The layer that combines losses; `None` if they are not combined.
    fn layer(self) -> Option<Box<dyn CpuLayer>> {
        let dtype = Accumulator(None);
        match self {
            Self::Each => None,
            Self::Mean => Some(Box::new(Mean { dtype, dim: None, keepdim: false })),
            Self::Sum => Some(Box::new(Sum { dtype, dim: None, keepdim: false })),
        }
    }

    /// The output, given the losses.
    ///
    /// # Errors
    /// [`LayerError::DType`](crate::op::LayerError::DType) for the mean of integers.
    pub(super) fn infer(self, losses: TensorMeta) -> Result<Vec<TensorMeta>> {
        match self.layer() {
            None => Ok(vec![losses]),
            Some(layer) => layer.infer(&[losses]),
        }
    }

    /// Lets `compute` write the losses, and combines them in the only output.
    ///
    /// # Errors
    /// The error of `compute`; [`LayerError::Limit`](crate::op::LayerError::Limit) if the losses are too large.
    pub(super) fn write(
        self,
        losses: &TensorMeta,
        io: &mut Io<'_, '_>,
        compute: &mut Compute<'_>,
    ) -> Result<()> {
        let Some(mut layer) = self.layer() else {
            return compute(io.inputs, &mut io.outputs[0], &mut io.context);
        };
        let mut each = room_for(losses, io.context.limits())?;
        compute(io.inputs, &mut each.view_mut()?, &mut io.context)?;
        layer.forward(&mut Io::new(&[each.view()], io.outputs, &mut io.context))
    }

    /// Combines losses in an output. Their sum is divided by `divisor` for the mean.
    ///
    /// # Errors
    /// [`LayerError::Tensor`](crate::op::LayerError::Tensor) if the output has another number of elements.
    pub(super) fn write_numbers(
        self,
        losses: Vec<f64>,
        divisor: f64,
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let values = match self {
            Self::Each => losses,
            Self::Mean => vec![reduce::sum(&losses) / divisor],
            Self::Sum => vec![reduce::sum(&losses)],
        };
        let layout = Layout::contiguous(*output.shape());
        Ok(output.cast_from(&TensorView::from_slice(&values, layout)?)?)
    }

    /// The scratch memory, in bytes, that [`write`](Self::write) needs for these outputs.
    pub(super) fn workspace(outputs: &[TensorMeta]) -> usize {
        workspace(outputs)
    }
}

/// A tensor for losses.
///
/// # Errors
/// [`LayerError::Limit`](crate::op::LayerError::Limit) if it is too large.
pub(super) fn room_for(losses: &TensorMeta, limits: &Limits) -> Result<Tensor> {
    limits.check_tensor("the losses", losses.byte_len().unwrap_or(u64::MAX))?;
    Ok(Tensor::zeros(losses.dtype(), &losses.shape()?)?)
}
