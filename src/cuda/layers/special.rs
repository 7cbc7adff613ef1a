//! Functions of one or two operands that expressions do not have. Functions of one operand are computed in double, as on the
//! CPU.

use super::codegen::{compute_type, literal};
use super::kernel_builder::Pointwise;
use super::prelude::*;
use crate::ops::arithmetic::finite::{NanToNum, greatest};
use crate::ops::arithmetic::special::{IsClose, Logit, Pair, Question, Single};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Pointwise::<Single>(|layer, kernel, _| kernel.of_double(layer.code)),
    &Pointwise::<Question>(|layer, kernel, _| kernel.of_double(layer.code)),
    &Pointwise::<Logit>(|layer, kernel, _| {
        let mut x = kernel.input(0, DType::F64)?;
        if let Some(eps) = layer.eps.filter(|eps| *eps >= 0.0) {
            let [low, high] = [eps, 1.0 - eps].map(|it| kernel.constant(it, DType::F64));
            x = format!("f_clamp({x}, {}, {})", low?, high?);
        }
        Some(format!("d_logit({x})"))
    }),
    &Pointwise::<Pair>(|layer, kernel, dtype| {
        let [x, y] = layer.factors.map(|factor| kernel.operand(factor, dtype));
        Some(layer.code(dtype.is_float()).replace("$x", &x?).replace("$y", &y?))
    }),
    &Pointwise::<IsClose>(|layer, kernel, _| {
        // Computed as in PyTorch: a bound in f64 would differ by a rounding.
        let source = kernel.inputs().first()?.dtype();
        let wide = if source.is_float() && source != DType::F64 { DType::F32 } else { DType::F64 };
        let [x, y] = [0, layer.other.0].map(|position| kernel.input(position, wide));
        let [atol, rtol] = [layer.atol, layer.rtol].map(|it| kernel.constant(it, wide));
        let (x, y) = (x?, y?);
        let both_nan =
            if layer.equal_nan { format!(" || (isnan({x}) && isnan({y}))") } else { String::new() };
        let near = format!("fabs({x} - {y}) <= {} + fabs({} * {y})", atol?, rtol?);
        Some(format!("{x} == {y}{both_nan} || (isfinite({x} - {y}) && {near})"))
    }),
    &Pointwise::<NanToNum>(|layer, kernel, dtype| {
        let x = kernel.input(0, dtype)?;
        if !dtype.is_float() {
            return Some(x);
        }
        let (max, to) = (greatest(dtype), compute_type(dtype)?);
        let values = [layer.nan.unwrap_or(0.0), layer.posinf.unwrap_or(max), layer.neginf.unwrap_or(-max)];
        let [nan, above, below] = values.map(|value| literal(value, to));
        Some(format!("isnan({x}) ? {nan} : !isinf({x}) ? {x} : {x} > 0 ? {above} : {below}"))
    }),
];
