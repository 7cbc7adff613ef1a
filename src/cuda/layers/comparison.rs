//! Comparisons, logical and bitwise operators, selection, and type conversion.

use super::kernel_builder::{KernelBuilder, pointwise};
use super::product::metas;
use super::support::{is_real, row_major};
use crate::cuda::device::DeviceTensor;
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::arithmetic::binary::ByType;
use crate::ops::arithmetic::bitwise::{BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, LeftShift, RightShift};
use crate::ops::arithmetic::comparison::{
    Eq, Ge, Gt, IsFinite, IsInf, IsNan, IsReal, Le, LogicalAnd, LogicalNot, LogicalOr, LogicalXor, Lt, Ne,
};
use crate::ops::conversion::{To, TypeAs};
use crate::ops::indexing::selection::{Clamp, MaskedFill, Where};
use crate::ops::support::broadcast::{TensorOrScalar, common};
use crate::tensor::DType;

/// A comparison of two operands in their common type.
fn comparison(kernel: &mut KernelBuilder<'_>, other: TensorOrScalar, sign: &str) -> Option<String> {
    let dtype = common(kernel.inputs(), &[TensorOrScalar::Input(0), other]);
    let [a, b] = [TensorOrScalar::Input(0), other].map(|factor| kernel.operand(factor, dtype));
    Some(format!("{} {sign} {}", a?, b?))
}

/// A logical operator on two truth values.
fn logical(kernel: &mut KernelBuilder<'_>, other: usize, sign: &str) -> Option<String> {
    let [a, b] = [0, other].map(|position| kernel.input(position, DType::Bool));
    Some(format!("{} {sign} {}", a?, b?))
}

/// A predicate of the input, `$x`.
fn predicate(kernel: &mut KernelBuilder<'_>, text: &str) -> Option<String> {
    let x = kernel.input(0, DType::F64)?;
    Some(text.replace("$x", &x))
}

/// A bitwise operator on two integers, `$a` and `$b`.
fn bitwise(
    kernel: &mut KernelBuilder<'_>,
    other: TensorOrScalar,
    dtype: DType,
    text: &str,
) -> Option<String> {
    let [a, b] = [TensorOrScalar::Input(0), other].map(|factor| kernel.operand(factor, dtype));
    Some(text.replace("$a", &a?).replace("$b", &b?))
}

/// Clamps a value. For integers, bounds are i64, so that a bound beyond the range of the input's type has no effect.
fn clamped(clamp: &Clamp, kernel: &mut KernelBuilder<'_>, dtype: DType) -> Option<String> {
    let mut value = kernel.input(0, dtype)?;
    for (bound, function) in [(clamp.min, "f_max"), (clamp.max, "f_min")] {
        if let Some(bound) = bound {
            let number_dtype = if dtype.is_float() { dtype } else { DType::I64 };
            let is_input = matches!(bound, TensorOrScalar::Input(_));
            let bound = kernel.operand(bound, if is_input { dtype } else { number_dtype })?;
            value = format!("{function}({value}, {bound})");
        }
    }
    Some(value)
}

pointwise! {
    Eq |layer, kernel, dtype| comparison(kernel, layer.other, "==")?;
    Ne |layer, kernel, dtype| comparison(kernel, layer.other, "!=")?;
    Lt |layer, kernel, dtype| comparison(kernel, layer.other, "<")?;
    Le |layer, kernel, dtype| comparison(kernel, layer.other, "<=")?;
    Gt |layer, kernel, dtype| comparison(kernel, layer.other, ">")?;
    Ge |layer, kernel, dtype| comparison(kernel, layer.other, ">=")?;
    LogicalAnd |layer, kernel, dtype| logical(kernel, layer.other.0, "&")?;
    LogicalOr |layer, kernel, dtype| logical(kernel, layer.other.0, "|")?;
    LogicalXor |layer, kernel, dtype| logical(kernel, layer.other.0, "^")?;
    LogicalNot |_layer, kernel, dtype| predicate(kernel, "$x == 0")?;
    IsNan |_layer, kernel, dtype| predicate(kernel, "$x != $x")?;
    IsInf |_layer, kernel, dtype| predicate(kernel, "isinf($x)")?;
    IsFinite |_layer, kernel, dtype| predicate(kernel, "!isinf($x) && $x == $x")?;
    IsReal |_layer, kernel, dtype| predicate(kernel, "1")?;
    BitwiseAnd |layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a & $b")?;
    BitwiseOr |layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a | $b")?;
    BitwiseXor |layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a ^ $b")?;
    LeftShift |layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "i_lshift($a, $b)")?;
    RightShift |layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "i_rshift($a, $b)")?;
    BitwiseNot |_layer, kernel, dtype| {
        let x = kernel.input(0, dtype)?;
        if dtype == DType::Bool { format!("{x} == 0") } else { format!("~{x}") }
    };
    Where |layer, kernel, dtype| {
        let condition = kernel.input(0, DType::Bool)?;
        let [a, b] = [layer.input, layer.other].map(|factor| kernel.operand(factor, dtype));
        format!("{condition} ? {} : {}", a?, b?)
    };
    MaskedFill |layer, kernel, dtype| {
        let (x, mask) = (kernel.input(0, dtype)?, kernel.input(layer.mask.0, DType::Bool)?);
        format!("{mask} ? {} : {x}", kernel.operand(layer.value, dtype)?)
    };
    Clamp |layer, kernel, dtype| clamped(layer, kernel, dtype)?;
    To |_layer, kernel, dtype| kernel.input(0, dtype)?;
    TypeAs |_layer, kernel, dtype| kernel.input(0, dtype)?;
}

impl CudaLayer for ByType {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real(position, &row_major(formats))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        CudaLayer::configure(&mut self.of(inputs).clone(), inputs, outputs)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        CudaLayer::forward(&mut self.of(&metas(inputs)).clone(), inputs, outputs, context)
    }
}

fn register_others(layers: &mut CudaLayers) {
    layers.register::<ByType>();
}
