//! Activation functions.

use super::elementwise::Map;
use super::kernel_builder::{KernelBuilder, Pointwise, no_kernel};
use super::prelude::*;
use super::support::{Weights, along, computed_in, is_float_in_any_order, stored};
use crate::ops::activation::elementwise::{
    CELU, ELU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, Lgamma, LogSigmoid, Mish, RReLU,
    ReLU, ReLU6, SELU, SiLU, Sigmoid, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
use crate::ops::activation::gating::{Glu, PRelu};
use crate::ops::activation::gelu::{Approximate, GELU};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Pointwise::<ReLU>(|_, kernel, dtype| of(kernel, dtype, "f_relu($x)", &[])),
    &Pointwise::<ReLU6>(|_, kernel, dtype| of(kernel, dtype, "f_relu6($x)", &[])),
    &Pointwise::<Sigmoid>(|_, kernel, dtype| of(kernel, dtype, "f_sigmoid($x)", &[])),
    &Pointwise::<SiLU>(|_, kernel, dtype| of(kernel, dtype, "f_silu($x)", &[])),
    &Pointwise::<Tanh>(|_, kernel, dtype| of(kernel, dtype, "tanh($x)", &[])),
    &Pointwise::<Hardsigmoid>(|_, kernel, dtype| of(kernel, dtype, "f_hardsigmoid($x)", &[])),
    &Pointwise::<Hardswish>(|_, kernel, dtype| of(kernel, dtype, "f_hardswish($x)", &[])),
    &Pointwise::<LeakyReLU>(|layer, kernel, dtype| {
        of(kernel, dtype, "f_leaky_relu($x, $0)", &[layer.negative_slope])
    }),
    &Pointwise::<RReLU>(|layer, kernel, dtype| {
        of(kernel, dtype, "f_leaky_relu($x, $0)", &[(layer.lower + layer.upper) / 2.0])
    }),
    &Pointwise::<Threshold>(|layer, kernel, dtype| {
        of(kernel, dtype, "$x <= $0 ? $1 : $x", &[layer.threshold, layer.value])
    }),
    &Pointwise::<ELU>(|layer, kernel, dtype| of(kernel, dtype, "f_elu($x, $0)", &[layer.alpha])),
    &Pointwise::<CELU>(|layer, kernel, dtype| {
        of(kernel, dtype, "$x > 0 ? $x : $0 * expm1($x / $0)", &[layer.alpha])
    }),
    &Pointwise::<SELU>(|_, kernel, dtype| {
        let constants = [1.673_263_242_354_377_3, 1.050_700_987_355_480_5];
        of(kernel, dtype, "$1 * ($x > 0 ? $x : $0 * expm1($x))", &constants)
    }),
    &Pointwise::<Softplus>(|layer, kernel, dtype| {
        of(kernel, dtype, "$x * $0 > $1 ? $x : log1p(exp($x * $0)) / $0", &[layer.beta, layer.threshold])
    }),
    &Pointwise::<Lgamma>(|_, kernel, dtype| of(kernel, dtype, "lgamma($x)", &[])),
    &Pointwise::<Softsign>(|_, kernel, dtype| of(kernel, dtype, "$x / (1 + fabs($x))", &[])),
    &Pointwise::<Softshrink>(|layer, kernel, dtype| {
        of(kernel, dtype, "$x > $0 ? $x - $0 : $x < -$0 ? $x + $0 : $x * 0", &[layer.lambd])
    }),
    &Pointwise::<Hardshrink>(|layer, kernel, dtype| {
        of(kernel, dtype, "fabs($x) <= $0 ? 0 : $x", &[layer.lambd])
    }),
    &Pointwise::<Tanhshrink>(|_, kernel, dtype| of(kernel, dtype, "$x - tanh($x)", &[])),
    &Pointwise::<Hardtanh>(|layer, kernel, dtype| {
        of(kernel, dtype, "f_clamp($x, $0, $1)", &[layer.min_val, layer.max_val])
    }),
    &Pointwise::<Mish>(|_, kernel, dtype| of(kernel, dtype, "f_mish($x)", &[])),
    &Pointwise::<LogSigmoid>(|_, kernel, dtype| {
        of(kernel, dtype, "($x < 0 ? $x : 0) - log1p(exp(-fabs($x)))", &[])
    }),
    &Pointwise::<GELU>(|layer, kernel, dtype| {
        let text = if layer.approximate == Approximate::Tanh { "f_gelu_tanh($x)" } else { "f_gelu($x)" };
        of(kernel, dtype, text, &[])
    }),
    &Simple::<PRelu>::new(is_float_in_any_order, prelu).with_weights(|layer| stored([Some(&layer.weight)])),
    &Simple::<Glu>::new(is_float_in_any_order, glu),
];

/// Kernel code with the input in place of `$x`, and constants in place of `$0`, `$1`, ….
fn of(kernel: &mut KernelBuilder<'_>, dtype: DType, text: &str, constants: &[f64]) -> Option<String> {
    let x = kernel.input(0, dtype)?;
    let mut text = text.replace("$x", &x);
    for (position, value) in constants.iter().enumerate() {
        text = text.replace(&format!("${position}"), &kernel.constant(*value, wide(dtype))?);
    }
    Some(text)
}

/// The type of the computation.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        DType::F32 | DType::F64 => dtype,
        _ => DType::I64,
    }
}

fn prelu(layer: &PRelu, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, rank) = (io.inputs[0], io.inputs[0].shape().len());
    let mut slopes = Weights::default().must(&layer.weight, io)?;
    if slopes.num_elements() > 1 {
        slopes = along(&slopes, 1.min(rank.saturating_sub(1)), rank)?;
    }
    let read = vec![(0, x.dtype()), (1, slopes.dtype())];
    let compute_type = computed_in(x.dtype())?;
    let value = format!("f_leaky_relu(in0, ({compute_type})in1)");
    let map = Map::new(read, x.dtype(), "", &value).ok_or_else(no_kernel)?;
    map.run(&[x, slopes], &io.outputs[0], io.context)
}

fn glu(layer: &Glu, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let x = io.inputs[0];
    let axis = x.shape().axis(layer.dim)?;
    let half = io.outputs[0].shape().get(axis).copied().unwrap_or(0);
    let parts = [x.narrow(axis, 0, half)?, x.narrow(axis, half, half)?];
    let read = vec![(0, x.dtype()), (1, x.dtype())];
    let map = Map::new(read, x.dtype(), "", "in0 * f_sigmoid(in1)").ok_or_else(no_kernel)?;
    map.run(&parts, &io.outputs[0], io.context)
}
