//! Padding with a constant, or with the tensor's own elements.

use super::convolution::mode;
use super::epilogue::kernel_shape;
use super::support::{computed_in, in_memory, int, is_real, row_major, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat};
use crate::ops::layout::padding::{
    CircularPad, ConstantPad, Pad, Padding, ReflectionPad, ReplicationPad, ZeroPad,
};
use crate::ops::support::arguments::ParamOrInput as Given;

/// Pads a tensor; negative amounts crop it.
fn run(
    padding: &Padding,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let rank = x.shape().len();
    let mut layout = *x.layout();
    let mut before = KernelShape { rank: int(rank)?, ..KernelShape::default() };
    let positive = |amount: i64| usize::try_from(amount).unwrap_or(0);
    for (pair, axis) in padding.pairs.iter().zip((0..rank).rev()) {
        let (crop_before, crop_after) = (positive(-pair.0), positive(-pair.1));
        let len = layout.shape().get(axis).copied().unwrap_or(0);
        layout = layout.narrow(
            axis,
            crop_before.min(len),
            len.saturating_sub(crop_before).saturating_sub(crop_after),
        )?;
        if let Some(dim) = before.dims.get_mut(axis) {
            *dim = int(positive(pair.0))?;
        }
    }
    // Adjacent threads write adjacent elements.
    let order = in_memory(y.layout());
    let mut permuted = before;
    for (to, &axis) in permuted.dims.iter_mut().zip(&order) {
        *to = before.dims.get(axis).copied().unwrap_or(0);
    }
    let (x, y) = (x.with_layout(layout.permute(&order)?)?, y.with_layout(y.layout().permute(&order)?)?);
    let unit = Unit::new("padding.cu", include_str!("../kernels/padding.cu"))
        .define("T", x.dtype().name())
        .define("C", computed_in(x.dtype())?)
        .define("MODE", mode(padding.mode.mirror()));
    let kernel = context.kernel(&unit, "pad")?;
    let arguments = [
        Argument::Read(x),
        Argument::Strides(strides(x.layout())),
        Argument::Write(y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Shape(kernel_shape(x.shape())),
        Argument::Shape(permuted),
        Argument::Long(y.num_elements() as i64),
        Argument::Double(padding.value),
    ];
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

macro_rules! pads {
    ($($layer:ident |$this:ident| $padding:expr;)*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, &row_major(formats))
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let $this = &*self;
                run(&$padding, &inputs[0], &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
            layers.register::<Pad>();
        }
    };
}

pads! {
    ConstantPad |layer| layer.padding()?;
    ZeroPad |layer| layer.padding()?;
    ReflectionPad |layer| layer.padding()?;
    ReplicationPad |layer| layer.padding()?;
    CircularPad |layer| layer.padding()?;
}

impl CudaLayer for Pad {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, &row_major(formats)) && matches!(self.pad, Given::Value(_))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let Given::Value(pad) = &self.pad else {
            return Err(LayerError::Unsupported("padding must be a parameter, not an input".to_owned()));
        };
        run(&self.padding(pad)?, &inputs[0], &outputs[0], context)
    }
}
