//! Tensors filled with one value.

use super::kernel_builder::{KernelBuilder, Pointwise};
use super::prelude::*;
use crate::ops::creation::filled::{
    Empty, EmptyLike, Fill, Full, FullLike, NewEmpty, NewFull, NewOnes, NewZeros, NumberArgument, Ones,
    OnesLike, Zeros, ZerosLike,
};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Pointwise::<Zeros>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<ZerosLike>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<NewZeros>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<Empty>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<EmptyLike>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<NewEmpty>(|_, kernel, dtype| kernel.constant(0.0, dtype)),
    &Pointwise::<Ones>(|_, kernel, dtype| kernel.constant(1.0, dtype)),
    &Pointwise::<OnesLike>(|_, kernel, dtype| kernel.constant(1.0, dtype)),
    &Pointwise::<NewOnes>(|_, kernel, dtype| kernel.constant(1.0, dtype)),
    &Pointwise::<Full>(|layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)),
    &Pointwise::<FullLike>(|layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)),
    &Pointwise::<NewFull>(|layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)),
    &Pointwise::<Fill>(|layer, kernel, dtype| fill_value(kernel, layer.value, dtype)),
];

/// A number of the file, or the only element of an input. Half-precision values are rounded from f32, as in PyTorch.
fn fill_value(kernel: &mut KernelBuilder<'_>, number: NumberArgument, dtype: DType) -> Option<String> {
    match number.factor() {
        Some(factor) => kernel.operand(factor, dtype),
        None => kernel.constant(0.0, dtype),
    }
}
