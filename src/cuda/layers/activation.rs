//! Activation functions.

use super::elementwise::Map;
use super::kernel_builder::{KernelBuilder, no_kernel, pointwise};
use super::support::{Weights, along, computed_in, is_float, row_major, stored};
use crate::cuda::device::DeviceTensor;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat};
use crate::ops::activation::elementwise::{
    CELU, ELU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, Lgamma, LogSigmoid, Mish, RReLU,
    ReLU, ReLU6, SELU, SiLU, Sigmoid, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
use crate::ops::activation::gating::{Glu, PRelu};
use crate::ops::activation::gelu::{Approximate, GELU};
use crate::tensor::{DType, Tensor};

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

pointwise! {
    ReLU |_layer, kernel, dtype| of(kernel, dtype, "f_relu($x)", &[])?;
    ReLU6 |_layer, kernel, dtype| of(kernel, dtype, "f_relu6($x)", &[])?;
    Sigmoid |_layer, kernel, dtype| of(kernel, dtype, "f_sigmoid($x)", &[])?;
    SiLU |_layer, kernel, dtype| of(kernel, dtype, "f_silu($x)", &[])?;
    Tanh |_layer, kernel, dtype| of(kernel, dtype, "tanh($x)", &[])?;
    Hardsigmoid |_layer, kernel, dtype| of(kernel, dtype, "f_hardsigmoid($x)", &[])?;
    Hardswish |_layer, kernel, dtype| of(kernel, dtype, "f_hardswish($x)", &[])?;
    LeakyReLU |layer, kernel, dtype| of(kernel, dtype, "f_leaky_relu($x, $0)", &[layer.negative_slope])?;
    RReLU |layer, kernel, dtype| of(kernel, dtype, "f_leaky_relu($x, $0)", &[(layer.lower + layer.upper) / 2.0])?;
    Threshold |layer, kernel, dtype| of(kernel, dtype, "$x <= $0 ? $1 : $x", &[layer.threshold, layer.value])?;
    ELU |layer, kernel, dtype| of(kernel, dtype, "f_elu($x, $0)", &[layer.alpha])?;
    CELU |layer, kernel, dtype| of(kernel, dtype, "$x > 0 ? $x : $0 * expm1($x / $0)", &[layer.alpha])?;
    SELU |_layer, kernel, dtype| of(
        kernel,
        dtype,
        "$1 * ($x > 0 ? $x : $0 * expm1($x))",
        &[1.673_263_242_354_377_3, 1.050_700_987_355_480_5],
    )?;
    Softplus |layer, kernel, dtype| of(
        kernel,
        dtype,
        "$x * $0 > $1 ? $x : log1p(exp($x * $0)) / $0",
        &[layer.beta, layer.threshold],
    )?;
    Lgamma |_layer, kernel, dtype| of(kernel, dtype, "lgamma($x)", &[])?;
    Softsign |_layer, kernel, dtype| of(kernel, dtype, "$x / (1 + fabs($x))", &[])?;
    Softshrink |layer, kernel, dtype| of(
        kernel,
        dtype,
        "$x > $0 ? $x - $0 : $x < -$0 ? $x + $0 : $x * 0",
        &[layer.lambd],
    )?;
    Hardshrink |layer, kernel, dtype| of(kernel, dtype, "fabs($x) <= $0 ? 0 : $x", &[layer.lambd])?;
    Tanhshrink |_layer, kernel, dtype| of(kernel, dtype, "$x - tanh($x)", &[])?;
    Hardtanh |layer, kernel, dtype| of(kernel, dtype, "f_clamp($x, $0, $1)", &[layer.min_val, layer.max_val])?;
    Mish |_layer, kernel, dtype| of(kernel, dtype, "f_mish($x)", &[])?;
    LogSigmoid |_layer, kernel, dtype| of(
        kernel,
        dtype,
        "($x < 0 ? $x : 0) - log1p(exp(-fabs($x)))",
        &[],
    )?;
    GELU |layer, kernel, dtype| {
        let text = if layer.approximate == Approximate::Tanh { "f_gelu_tanh($x)" } else { "f_gelu($x)" };
        of(kernel, dtype, text, &[])?
    };
}

impl CudaLayer for PRelu {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_float(position, &row_major(formats))
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        stored([Some(&self.weight)])
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (x, rank) = (inputs[0], inputs[0].shape().len());
        let mut slopes = Weights::default().must(&self.weight, inputs, context)?;
        if slopes.num_elements() > 1 {
            slopes = along(&slopes, 1.min(rank.saturating_sub(1)), rank)?;
        }
        let read = vec![(0, x.dtype()), (1, slopes.dtype())];
        let compute_type = computed_in(x.dtype())?;
        let value = format!("f_leaky_relu(in0, ({compute_type})in1)");
        let map = Map::new(read, x.dtype(), "", &value).ok_or_else(no_kernel)?;
        map.run(&[x, slopes], &outputs[0], context)
    }
}

impl CudaLayer for Glu {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_float(position, &row_major(formats))
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let x = inputs[0];
        let axis = x.shape().axis(self.dim)?;
        let half = outputs[0].shape().get(axis).copied().unwrap_or(0);
        let part = |first: usize| -> Result<DeviceTensor<'_>, LayerError> {
            Ok(x.with_layout(x.layout().narrow(axis, first, half)?)?)
        };
        let read = vec![(0, x.dtype()), (1, x.dtype())];
        let map = Map::new(read, x.dtype(), "", "in0 * f_sigmoid(in1)").ok_or_else(no_kernel)?;
        map.run(&[part(0)?, part(half)?], &outputs[0], context)
    }
}

fn register_others(layers: &mut CudaLayers) {
    layers.register::<PRelu>();
    layers.register::<Glu>();
}
