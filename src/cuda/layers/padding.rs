//! Padding with a constant, or with the tensor's own elements.

use super::prelude::*;
use super::support::{in_memory, int, is_real_in_any_order, kernel_shape, strides, typed};
use super::windows::mode;
use crate::ops::layout::padding::{
    CircularPad, ConstantPad, Pad, Padding, ReflectionPad, ReplicationPad, ZeroPad,
};
use crate::ops::support::arguments::ParamOrInput as Given;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<ConstantPad>::new(is_real_in_any_order, |layer, io| run(&layer.padding()?, io)),
    &Simple::<ZeroPad>::new(is_real_in_any_order, |layer, io| run(&layer.padding()?, io)),
    &Simple::<ReflectionPad>::new(is_real_in_any_order, |layer, io| run(&layer.padding()?, io)),
    &Simple::<ReplicationPad>::new(is_real_in_any_order, |layer, io| run(&layer.padding()?, io)),
    &Simple::<CircularPad>::new(is_real_in_any_order, |layer, io| run(&layer.padding()?, io)),
    &Own::<Pad>::ENTRY,
];

/// Pads a tensor; negative amounts crop it.
fn run(padding: &Padding, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
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
    let unit = typed(Unit::new("padding.cu", include_str!("../kernels/padding.cu")), x.dtype())?
        .define("MODE", mode(padding.mode.mirror()));
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
    io.context.run(&unit, "pad", Grid::over(y.num_elements()), &arguments)
}

impl CudaLayer for Pad {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats) && matches!(self.pad, Given::Value(_))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let Given::Value(pad) = &self.pad else {
            return Err(LayerError::Unsupported("padding must be a parameter, not an input".to_owned()));
        };
        run(&self.padding(pad)?, io)
    }
}
