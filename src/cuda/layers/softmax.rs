//! Softmax and its variants.

use super::prelude::*;
use super::rows::Rows;
use super::support::{is_real_in_any_order, typed};
use crate::ops::activation::softmax::{LogSoftmax, Softmax, Softmax2d, Softmin};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Simple::<Softmax>::new(is_real_in_any_order, |layer, io| {
        run(Kind::Softmax, layer.axis(io.inputs[0].shape().rank())?, io)
    }),
    &Simple::<LogSoftmax>::new(is_real_in_any_order, |layer, io| {
        run(Kind::LogSoftmax, layer.axis(io.inputs[0].shape().rank())?, io)
    }),
    &Simple::<Softmin>::new(is_real_in_any_order, |layer, io| {
        run(Kind::Softmin, layer.axis(io.inputs[0].shape().rank())?, io)
    }),
    &Simple::<Softmax2d>::new(is_real_in_any_order, |_, io| {
        run(Kind::Softmax, io.inputs[0].shape().axis(-3)?, io)
    }),
];

/// The variant of softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Softmax,
    LogSoftmax,
    Softmin,
}

/// Computes softmax along an axis.
fn run(kind: Kind, axis: usize, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let rows = Rows::along(&[axis], &[*x.layout(), *y.layout()])?;
    let schedule = rows.schedule(&[x, y], |_| true);
    let unit = Unit::new("softmax.cu", include_str!("../kernels/softmax.cu"));
    let unit = typed(unit.define("X", x.dtype().name()), y.dtype())?
        .define("SIGN", if kind == Kind::Softmin { "(C)-1" } else { "(C)1" })
        .define("LOGARITHM", u8::from(kind == Kind::LogSoftmax));
    io.context.run(&schedule.define(unit), "softmax", schedule.grid, &rows.arguments(x, y))
}
