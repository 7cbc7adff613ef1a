//! Functions of one or two numbers that no expression has. Those of one are computed in double, as on the CPU.

use super::formula::number;
use super::recipe::{Recipe, pointwise};
use crate::cuda::CudaLayers;
use crate::ops::arithmetic::finite::{NanToNum, greatest};
use crate::ops::arithmetic::special::{IsClose, Logit, Pair, Question, Single};
use crate::tensor::DType;

/// A text in which `$x` is the input in double.
fn of_double(recipe: &mut Recipe<'_>, text: &str) -> Option<String> {
    let x = recipe.input(0, DType::F64)?;
    Some(text.replace("$x", &x))
}

/// A function of one number by the type of its operator.
fn single(name: &str) -> Option<&'static str> {
    Some(match name {
        "aten::digamma" => "d_digamma($x)",
        "aten::erfc" => "erfc($x)",
        "aten::erfinv" => "d_erfinv($x)",
        "aten::i0" => "d_i0($x)",
        "aten::special_entr" => "$x > 0 ? -$x * log($x) : $x < 0 ? -D_INFINITY : $x",
        "aten::special_ndtr" => "0.5 * erfc(-$x * 0.70710678118654752440)",
        "aten::log2" => "log2($x)",
        "aten::sinc" => "$x == 0 ? 1 : sin(D_PI * $x) / (D_PI * $x)",
        "aten::isneginf" => "$x == -D_INFINITY",
        "aten::isposinf" => "$x == D_INFINITY",
        "aten::signbit" => "__double_as_longlong($x) < 0",
        _ => return None,
    })
}

/// A function of two numbers, `$x` and `$y`, by the type of its operator.
fn pair(name: &str, is_float: bool) -> Option<&'static str> {
    Some(match name {
        "aten::copysign" => "copysign($x, $y)",
        "aten::fmax" if is_float => "fmax($x, $y)",
        "aten::fmin" if is_float => "fmin($x, $y)",
        "aten::fmax" => "f_max($x, $y)",
        "aten::fmin" => "f_min($x, $y)",
        "aten::gcd" => "i_gcd($x, $y)",
        "aten::lcm" => "i_lcm($x, $y)",
        "aten::heaviside" => "$x == 0 ? $y : $x > 0 ? 1 : 0",
        "aten::hypot" => "hypot($x, $y)",
        "aten::logaddexp2" => "f_logaddexp2($x, $y)",
        "aten::special_xlog1py" => "$x == 0 && !isnan($y) ? 0 : $x * log1p($y)",
        "aten::xlogy" => "$x == 0 && !isnan($y) ? 0 : $x * log($y)",
        _ => return None,
    })
}

pointwise! {
    Single |layer, recipe, dtype| of_double(recipe, single(layer.name)?)?;
    Question |layer, recipe, dtype| of_double(recipe, single(layer.name)?)?;
    Logit |layer, recipe, dtype| {
        let mut x = recipe.input(0, DType::F64)?;
        if let Some(eps) = layer.eps.filter(|eps| *eps >= 0.0) {
            let [low, high] = [eps, 1.0 - eps].map(|it| recipe.constant(it, DType::F64));
            x = format!("f_clamp({x}, {}, {})", low?, high?);
        }
        format!("d_logit({x})")
    };
    Pair |layer, recipe, dtype| {
        let [x, y] = layer.factors.map(|factor| recipe.factor(factor, dtype));
        pair(layer.name, dtype.is_float())?.replace("$x", &x?).replace("$y", &y?)
    };
    IsClose |layer, recipe, dtype| {
        // As PyTorch computes it: a bound of f64 would differ by a rounding.
        let source = recipe.inputs().first()?.dtype();
        let wide = if source.is_float() && source != DType::F64 { DType::F32 } else { DType::F64 };
        let [x, y] = [0, layer.other.0].map(|position| recipe.input(position, wide));
        let [atol, rtol] = [layer.atol, layer.rtol].map(|it| recipe.constant(it, wide));
        let (x, y) = (x?, y?);
        let both_nan = if layer.equal_nan { format!(" || (isnan({x}) && isnan({y}))") } else { String::new() };
        let near = format!("fabs({x} - {y}) <= {} + fabs({} * {y})", atol?, rtol?);
        format!("{x} == {y}{both_nan} || (isfinite({x} - {y}) && {near})")
    };
    NanToNum |layer, recipe, dtype| {
        let x = recipe.input(0, dtype)?;
        if dtype.is_float() {
            let (most, to) = (greatest(dtype), number(dtype)?);
            let values = [layer.nan.unwrap_or(0.0), layer.posinf.unwrap_or(most), layer.neginf.unwrap_or(-most)];
            let [nan, above, below] = values.map(|value| super::formula::literal(value, to));
            format!("isnan({x}) ? {nan} : !isinf({x}) ? {x} : {x} > 0 ? {above} : {below}")
        } else {
            x
        }
    };
}

fn register_others(_: &mut CudaLayers) {}
