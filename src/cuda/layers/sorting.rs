//! Sorting along an axis, and the first elements in sorted order.

use super::axes::collapsed;
use super::rows::without_axis;
use super::support::{computed_in, int, is_real};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelStrides, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::reduction::extremes::Topk;
use crate::ops::sorting::{Argsort, Kthvalue, Sort};
use crate::tensor::{Layout, resolve_axis};

/// The maximum length of rows that a block sorts.
const MAX_LENGTH: usize = 2048;

/// The axis and the order of a sort, and the sorted elements that are kept.
struct Order {
    axis: usize,
    is_descending: bool,
    first: usize,
    count: usize,
}

/// Returns an error if rows are too long.
fn check(dim: i64, input: Option<&TensorMeta>) -> Result<(), LayerError> {
    let len = |meta: &TensorMeta| {
        let axis = resolve_axis(dim, meta.rank()).ok()?;
        meta.dims().get(axis).map_or(Some(1), |len| usize::try_from(len.fixed()?).ok())
    };
    match input.and_then(len) {
        Some(len) if len <= MAX_LENGTH => Ok(()),
        _ => {
            Err(LayerError::Unsupported(format!("rows of more than {MAX_LENGTH} elements are not supported")))
        }
    }
}

impl Order {
    fn run(
        &self,
        x: &DeviceTensor<'_>,
        [y, indices]: [Option<&DeviceTensor<'_>>; 2],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let length = x.shape().get(self.axis).copied().unwrap_or(1);
        let padded_length = length.next_power_of_two().max(2);
        let unit = Unit::new("sort.cu", include_str!("../kernels/sort.cu"))
            .define("T", x.dtype().name())
            .define("C", computed_in(x.dtype())?)
            .define("CAPACITY", padded_length)
            .define("DESCENDING", self.is_descending);
        let kernel = context.kernel(&unit, "sort")?;
        let (x_outer, x_by) = without_axis(x.layout(), self.axis)?;
        let rank = x.shape().len();
        let of = |tensor: Option<&DeviceTensor<'_>>| -> Result<(Layout, i64), LayerError> {
            match tensor {
                // If one element of a row is kept, its axis may be absent.
                Some(tensor) if tensor.shape().len() < rank => Ok((*tensor.layout(), 0)),
                Some(tensor) => without_axis(tensor.layout(), self.axis),
                None => Ok((x_outer, 0)),
            }
        };
        let ((y_outer, y_by), (indices_outer, indices_by)) = (of(y)?, of(indices)?);
        let (outer, strides) = collapsed(&[x_outer, y_outer, indices_outer]);
        let by =
            |at: usize| Argument::Strides(strides.get(at).copied().unwrap_or_else(KernelStrides::default));
        let rows = x_outer.shape().num_elements();
        let arguments = [
            Argument::Read(*x),
            by(0),
            Argument::Long(x_by),
            y.map_or(Argument::None, |y| Argument::Write(*y)),
            by(1),
            Argument::Long(y_by),
            indices.map_or(Argument::None, |indices| Argument::Write(*indices)),
            by(2),
            Argument::Long(indices_by),
            Argument::Shape(outer),
            Argument::Long(rows as i64),
            Argument::Int(int(length)?),
            Argument::Int(int(self.first)?),
            Argument::Int(int(self.count)?),
        ];
        let threads = (padded_length / 2).clamp(32, 256) as u32;
        context.launch(&kernel, Grid::of(rows, threads), &arguments)
    }
}

macro_rules! sorting {
    ($($layer:ident |$this:ident, $x:ident, $outputs:ident| $is_descending:expr, $first:expr, $count:expr, $targets:expr;)*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, formats)
            }

            fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
                check(self.dim, inputs.first())
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                $outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let ($this, $x) = (&*self, &inputs[0]);
                let axis = resolve_axis($this.dim, $x.shape().len())?;
                let len = $x.shape().get(axis).copied().unwrap_or(1);
                let (first, count): (usize, Option<usize>) = ($first, $count);
                let order = Order { axis, is_descending: $is_descending, first, count: count.unwrap_or(len) };
                order.run($x, $targets, context)
            }
        }
    )*};
}

sorting! {
    Sort |layer, x, outputs| layer.descending, 0, None, [outputs.first(), outputs.get(1)];
    Argsort |layer, x, outputs| layer.descending, 0, None, [None, outputs.first()];
    Kthvalue |layer, x, outputs| false, layer.k.saturating_sub(1), Some(1), [outputs.first(), outputs.get(1)];
}

impl CudaLayer for Topk {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        if !self.sorted {
            return Err(LayerError::Unsupported(
                "`sorted=False` is not supported: PyTorch does not specify its order".to_owned(),
            ));
        }
        check(self.dim, inputs.first())
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let x = &inputs[0];
        let axis = resolve_axis(self.dim, x.shape().len())?;
        let order = Order { axis, is_descending: self.largest, first: 0, count: self.k };
        order.run(x, [outputs.first(), outputs.get(1)], context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Sort>();
    layers.register::<Argsort>();
    layers.register::<Kthvalue>();
    layers.register::<Topk>();
}
