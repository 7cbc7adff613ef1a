//! Softmax and its variants.

use super::rows::Rows;
use super::support::{computed_in, is_real, row_major};
use crate::cuda::device::{DeviceTensor, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat};
use crate::ops::activation::softmax::{LogSoftmax, Softmax, Softmax2d, Softmin};

/// The variant of softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Softmax,
    LogSoftmax,
    Softmin,
}

/// Computes softmax along an axis.
fn run(
    kind: Kind,
    axis: usize,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let rows = Rows::along(&[axis], &[*x.layout(), *y.layout()])?;
    let schedule = rows.schedule(&[x, y], |_| true);
    let unit = Unit::new("softmax.cu", include_str!("../kernels/softmax.cu"))
        .define("X", x.dtype().name())
        .define("T", y.dtype().name())
        .define("C", computed_in(y.dtype())?)
        .define("SIGN", if kind == Kind::Softmin { "(C)-1" } else { "(C)1" })
        .define("LOGARITHM", u8::from(kind == Kind::LogSoftmax));
    let kernel = context.kernel(&schedule.define(unit), "softmax")?;
    context.launch(&kernel, schedule.grid, &rows.arguments(x, y))
}

macro_rules! softmaxes {
    ($($layer:ident is $kind:ident |$this:ident, $x:ident| $axis:expr;)*) => {$(
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
                let ($this, $x) = (&*self, inputs[0].shape());
                let _ = $this;
                run(Kind::$kind, $axis, &inputs[0], &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
        }
    };
}

softmaxes! {
    Softmax is Softmax |layer, x| layer.axis(x.rank())?;
    LogSoftmax is LogSoftmax |layer, x| layer.axis(x.rank())?;
    Softmin is Softmin |layer, x| layer.axis(x.rank())?;
    Softmax2d is Softmax |_layer, x| x.axis(-3)?;
}
