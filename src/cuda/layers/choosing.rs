//! Comparisons, logic, bits, choices between elements, and other element types.

use super::product::metas;
use super::recipe::{Recipe, pointwise};
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
use crate::ops::support::broadcast::{Factor, common};
use crate::tensor::DType;

/// Two operands of their common type, compared.
fn compared(recipe: &mut Recipe<'_>, other: Factor, sign: &str) -> Option<String> {
    let dtype = common(recipe.inputs(), &[Factor::Input(0), other]);
    let [a, b] = [Factor::Input(0), other].map(|factor| recipe.factor(factor, dtype));
    Some(format!("{} {sign} {}", a?, b?))
}

/// Two truth values.
fn connected(recipe: &mut Recipe<'_>, other: usize, sign: &str) -> Option<String> {
    let [a, b] = [0, other].map(|position| recipe.input(position, DType::Bool));
    Some(format!("{} {sign} {}", a?, b?))
}

/// A question about a number, which is `$x`.
fn asked(recipe: &mut Recipe<'_>, question: &str) -> Option<String> {
    let x = recipe.input(0, DType::F64)?;
    Some(question.replace("$x", &x))
}

/// Two integers, which are `$a` and `$b`.
fn of_bits(recipe: &mut Recipe<'_>, other: Factor, dtype: DType, text: &str) -> Option<String> {
    let [a, b] = [Factor::Input(0), other].map(|factor| recipe.factor(factor, dtype));
    Some(text.replace("$a", &a?).replace("$b", &b?))
}

/// A number within bounds. In integers of 64 bits, a bound beyond the input's type bounds nothing.
fn clamped(clamp: &Clamp, recipe: &mut Recipe<'_>, dtype: DType) -> Option<String> {
    let mut value = recipe.input(0, dtype)?;
    for (bound, function) in [(clamp.min, "f_max"), (clamp.max, "f_min")] {
        if let Some(bound) = bound {
            let of_number = if dtype.is_float() { dtype } else { DType::I64 };
            let is_input = matches!(bound, Factor::Input(_));
            let bound = recipe.factor(bound, if is_input { dtype } else { of_number })?;
            value = format!("{function}({value}, {bound})");
        }
    }
    Some(value)
}

pointwise! {
    Eq |layer, recipe, dtype| compared(recipe, layer.other, "==")?;
    Ne |layer, recipe, dtype| compared(recipe, layer.other, "!=")?;
    Lt |layer, recipe, dtype| compared(recipe, layer.other, "<")?;
    Le |layer, recipe, dtype| compared(recipe, layer.other, "<=")?;
    Gt |layer, recipe, dtype| compared(recipe, layer.other, ">")?;
    Ge |layer, recipe, dtype| compared(recipe, layer.other, ">=")?;
    LogicalAnd |layer, recipe, dtype| connected(recipe, layer.other.0, "&")?;
    LogicalOr |layer, recipe, dtype| connected(recipe, layer.other.0, "|")?;
    LogicalXor |layer, recipe, dtype| connected(recipe, layer.other.0, "^")?;
    LogicalNot |_layer, recipe, dtype| asked(recipe, "$x == 0")?;
    IsNan |_layer, recipe, dtype| asked(recipe, "$x != $x")?;
    IsInf |_layer, recipe, dtype| asked(recipe, "isinf($x)")?;
    IsFinite |_layer, recipe, dtype| asked(recipe, "!isinf($x) && $x == $x")?;
    IsReal |_layer, recipe, dtype| asked(recipe, "1")?;
    BitwiseAnd |layer, recipe, dtype| of_bits(recipe, layer.other, dtype, "$a & $b")?;
    BitwiseOr |layer, recipe, dtype| of_bits(recipe, layer.other, dtype, "$a | $b")?;
    BitwiseXor |layer, recipe, dtype| of_bits(recipe, layer.other, dtype, "$a ^ $b")?;
    LeftShift |layer, recipe, dtype| of_bits(recipe, layer.other, dtype, "i_lshift($a, $b)")?;
    RightShift |layer, recipe, dtype| of_bits(recipe, layer.other, dtype, "i_rshift($a, $b)")?;
    BitwiseNot |_layer, recipe, dtype| {
        let x = recipe.input(0, dtype)?;
        if dtype == DType::Bool { format!("{x} == 0") } else { format!("~{x}") }
    };
    Where |layer, recipe, dtype| {
        let condition = recipe.input(0, DType::Bool)?;
        let [a, b] = [layer.input, layer.other].map(|factor| recipe.factor(factor, dtype));
        format!("{condition} ? {} : {}", a?, b?)
    };
    MaskedFill |layer, recipe, dtype| {
        let (x, mask) = (recipe.input(0, dtype)?, recipe.input(layer.mask.0, DType::Bool)?);
        format!("{mask} ? {} : {x}", recipe.factor(layer.value, dtype)?)
    };
    Clamp |layer, recipe, dtype| clamped(layer, recipe, dtype)?;
    To |_layer, recipe, dtype| recipe.input(0, dtype)?;
    TypeAs |_layer, recipe, dtype| recipe.input(0, dtype)?;
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
