//! Tensors filled with one value.

use super::kernel_builder::{KernelBuilder, pointwise};
use crate::cuda::CudaLayers;
use crate::ops::creation::filled::{
    Empty, EmptyLike, Fill, Full, FullLike, NewEmpty, NewFull, NewOnes, NewZeros, NumberArgument, Ones,
    OnesLike, Zeros, ZerosLike,
};
use crate::tensor::DType;

/// A number of the file, or the only element of an input. Half-precision values are rounded from f32, as in PyTorch.
fn fill_value(kernel: &mut KernelBuilder<'_>, number: NumberArgument, dtype: DType) -> Option<String> {
    match number.factor() {
        Some(factor) => kernel.operand(factor, dtype),
        None => kernel.constant(0.0, dtype),
    }
}

pointwise! {
    Zeros |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    ZerosLike |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    NewZeros |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    Empty |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    EmptyLike |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    NewEmpty |_layer, kernel, dtype| kernel.constant(0.0, dtype)?;
    Ones |_layer, kernel, dtype| kernel.constant(1.0, dtype)?;
    OnesLike |_layer, kernel, dtype| kernel.constant(1.0, dtype)?;
    NewOnes |_layer, kernel, dtype| kernel.constant(1.0, dtype)?;
    Full |layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)?;
    FullLike |layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)?;
    NewFull |layer, kernel, dtype| fill_value(kernel, layer.fill_value, dtype)?;
    Fill |layer, kernel, dtype| fill_value(kernel, layer.value, dtype)?;
}

fn register_others(_: &mut CudaLayers) {}
