//! Comparisons, logical and bitwise operators, selection, and type conversion.

use super::kernel_builder::{KernelBuilder, Pointwise};
use super::prelude::*;
use super::support::{is_real_in_any_order, metas};
use crate::ops::arithmetic::binary::ByType;
use crate::ops::arithmetic::bitwise::{BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, LeftShift, RightShift};
use crate::ops::arithmetic::comparison::{
    Eq, Ge, Gt, IsFinite, IsInf, IsNan, IsReal, Le, LogicalAnd, LogicalNot, LogicalOr, LogicalXor, Lt, Ne,
};
use crate::ops::conversion::{To, TypeAs};
use crate::ops::indexing::selection::{Clamp, MaskedFill, Where};
use crate::ops::support::broadcast::{TensorOrScalar, common};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Pointwise::<Eq>(|layer, kernel, _| comparison(kernel, layer.other, "==")),
    &Pointwise::<Ne>(|layer, kernel, _| comparison(kernel, layer.other, "!=")),
    &Pointwise::<Lt>(|layer, kernel, _| comparison(kernel, layer.other, "<")),
    &Pointwise::<Le>(|layer, kernel, _| comparison(kernel, layer.other, "<=")),
    &Pointwise::<Gt>(|layer, kernel, _| comparison(kernel, layer.other, ">")),
    &Pointwise::<Ge>(|layer, kernel, _| comparison(kernel, layer.other, ">=")),
    &Pointwise::<LogicalAnd>(|layer, kernel, _| logical(kernel, layer.other.0, "&")),
    &Pointwise::<LogicalOr>(|layer, kernel, _| logical(kernel, layer.other.0, "|")),
    &Pointwise::<LogicalXor>(|layer, kernel, _| logical(kernel, layer.other.0, "^")),
    &Pointwise::<LogicalNot>(|_, kernel, _| kernel.of_double("$x == 0")),
    &Pointwise::<IsNan>(|_, kernel, _| kernel.of_double("$x != $x")),
    &Pointwise::<IsInf>(|_, kernel, _| kernel.of_double("isinf($x)")),
    &Pointwise::<IsFinite>(|_, kernel, _| kernel.of_double("!isinf($x) && $x == $x")),
    &Pointwise::<IsReal>(|_, kernel, _| kernel.of_double("1")),
    &Pointwise::<BitwiseAnd>(|layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a & $b")),
    &Pointwise::<BitwiseOr>(|layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a | $b")),
    &Pointwise::<BitwiseXor>(|layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "$a ^ $b")),
    &Pointwise::<LeftShift>(|layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "i_lshift($a, $b)")),
    &Pointwise::<RightShift>(|layer, kernel, dtype| bitwise(kernel, layer.other, dtype, "i_rshift($a, $b)")),
    &Pointwise::<BitwiseNot>(|_, kernel, dtype| {
        let x = kernel.input(0, dtype)?;
        Some(if dtype == DType::Bool { format!("{x} == 0") } else { format!("~{x}") })
    }),
    &Pointwise::<Where>(|layer, kernel, dtype| {
        let condition = kernel.input(0, DType::Bool)?;
        let [a, b] = [layer.input, layer.other].map(|factor| kernel.operand(factor, dtype));
        Some(format!("{condition} ? {} : {}", a?, b?))
    }),
    &Pointwise::<MaskedFill>(|layer, kernel, dtype| {
        let (x, mask) = (kernel.input(0, dtype)?, kernel.input(layer.mask.0, DType::Bool)?);
        Some(format!("{mask} ? {} : {x}", kernel.operand(layer.value, dtype)?))
    }),
    &Pointwise::<Clamp>(clamped),
    &Pointwise::<To>(|_, kernel, dtype| kernel.input(0, dtype)),
    &Pointwise::<TypeAs>(|_, kernel, dtype| kernel.input(0, dtype)),
    &Own::<ByType>::ENTRY,
];

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

impl CudaLayer for ByType {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        CudaLayer::configure(&mut self.of(inputs).clone(), inputs, outputs)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        CudaLayer::forward(&mut self.of(&metas(io.inputs)).clone(), io)
    }
}
